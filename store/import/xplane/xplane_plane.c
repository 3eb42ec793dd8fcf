/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of an XPlane: its events and statistics by id, and the statistics of one event.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/xplane/xplane_private.h"

#define TEXT_LOOKED 4096 /* bytes */

/* Numbers of the fields of the messages (xplane.proto). */
enum { PLANE_NAME = 2, PLANE_EVENT_METADATA = 4, PLANE_STAT_METADATA = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { METADATA_NAME = 2, METADATA_DISPLAY_NAME = 4, METADATA_STATS = 5 };
enum { STAT_ID = 1, STAT_DOUBLE, STAT_UINT64, STAT_INT64, STAT_TEXT, STAT_BYTES, STAT_REFERENCE };

static enum xla_stat stat_of_name(struct pb_span name)
{
    static const char *const names[] = {[XLA_STAT_OTHER] = "",
#define XLA_STAT_TEXT(key, text) [XLA_STAT_##key] = text,
                                        XLA_STAT_MAP(XLA_STAT_TEXT)
#undef XLA_STAT_TEXT
    };
    for (size_t i = 1; i < XLA_STAT_COUNT; i++)
        if (xla_equals(name, names[i]))
            return (enum xla_stat)i;
    return XLA_STAT_OTHER;
}

/* Splits an entry of a map from ids to messages. */
static bool map_entry(struct pb_span entry, int64_t *id, struct pb_span *message)
{
    struct pb pb = pb_of(entry);
    struct pb_field field;
    *id = 0;
    *message = (struct pb_span){NULL, 0};
    while (pb_next(&pb, &field)) {
        if (field.number == ENTRY_KEY && field.wire == PB_VARINT)
            *id = (int64_t)field.value;
        if (field.number == ENTRY_VALUE && field.wire == PB_BYTES)
            *message = field.span;
    }
    return !pb.bad;
}

/* Keeps the names of an event, and whether it has statistics, which are read with each event. */
static int add_event_metadata(struct xplane *plane, struct pb_span entry, bool *bad)
{
    struct xplane_event_metadata metadata = {0};
    struct pb_field field;
    *bad |= !map_entry(entry, &metadata.id, &metadata.message);
    struct pb pb = pb_of(metadata.message);
    while (pb_next(&pb, &field)) {
        if (field.wire != PB_BYTES)
            continue;
        if (field.number == METADATA_NAME)
            metadata.name = field.span;
        else if (field.number == METADATA_DISPLAY_NAME)
            metadata.display_name = field.span;
        else if (field.number == METADATA_STATS)
            metadata.has_stats = true;
    }
    *bad |= pb.bad;
    int rc = imp_list_room((void **)&plane->event, &plane->event_room, plane->event_count,
                           sizeof metadata);
    if (!rc)
        rc = imp_map_put(&plane->events, metadata.id, 0, (int64_t)plane->event_count);
    if (!rc)
        plane->event[plane->event_count++] = metadata;
    return rc;
}

static int add_stat_metadata(struct xplane *plane, struct pb_span entry, bool *bad)
{
    struct xplane_stat_metadata metadata = {0};
    struct pb_span message;
    struct pb_field field;
    *bad |= !map_entry(entry, &metadata.id, &message);
    struct pb pb = pb_of(message);
    while (pb_next(&pb, &field))
        if (field.number == METADATA_NAME && field.wire == PB_BYTES)
            metadata.name = field.span;
    *bad |= pb.bad;
    metadata.stat = stat_of_name(metadata.name);
    int rc =
        imp_list_room((void **)&plane->stat, &plane->stat_room, plane->stat_count, sizeof metadata);
    if (!rc)
        rc = imp_map_put(&plane->stats, metadata.id, 0, (int64_t)plane->stat_count);
    if (!rc)
        plane->stat[plane->stat_count++] = metadata;
    return rc;
}

int xplane_open(struct xplane *plane, struct pb_span message, bool *bad)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    int rc = 0;
    *plane = (struct xplane){.message = message};
    while (!rc && pb_next(&pb, &field)) {
        if (field.wire != PB_BYTES)
            continue;
        if (field.number == PLANE_NAME)
            plane->name = field.span;
        else if (field.number == PLANE_EVENT_METADATA)
            rc = add_event_metadata(plane, field.span, bad);
        else if (field.number == PLANE_STAT_METADATA)
            rc = add_stat_metadata(plane, field.span, bad);
    }
    *bad |= pb.bad;
    plane->kind = xla_plane_kind_of(plane->name, &plane->device);
    return rc;
}

void xplane_close(struct xplane *plane)
{
    for (size_t i = 0; i < plane->event_count; i++)
        free(plane->event[i].stat);
    free(plane->event);
    free(plane->stat);
    imp_map_free(&plane->events);
    imp_map_free(&plane->stats);
}

struct pb_span xplane_looked(struct pb_span text)
{
    return (struct pb_span){text.data, text.bytes < TEXT_LOOKED ? text.bytes : TEXT_LOOKED};
}

/* Keeps one statistic if it is one that tacho reads. Returns which one it is. */
static enum xla_stat keep_stat(const struct xplane *plane, struct pb_span message,
                               struct xla_stats *stats)
{
    struct pb pb = pb_of(message);
    struct pb_field field, value = {0};
    int64_t id = 0;
    while (pb_next(&pb, &field)) {
        if (field.number == STAT_ID)
            id = (int64_t)field.value;
        else
            value = field;
    }
    const int64_t *index = imp_map_find(&plane->stats, id, 0);
    enum xla_stat stat = index ? plane->stat[*index].stat : XLA_STAT_OTHER;
    if (stat == XLA_STAT_OTHER || pb.bad)
        return XLA_STAT_OTHER;
    stats->has[stat] = true;
    stats->number[stat] = 0;
    stats->text[stat] = (struct pb_span){NULL, 0};
    if (value.number == STAT_DOUBLE && value.wire == PB_FIXED64) {
        double real = pb_double(&value);
        stats->number[stat] = real > -9e18 && real < 9e18 ? (int64_t)real : 0;
    } else if (value.number == STAT_UINT64 || value.number == STAT_INT64) {
        stats->number[stat] = (int64_t)value.value;
    } else if (value.number == STAT_TEXT && value.wire == PB_BYTES) {
        stats->text[stat] = xplane_looked(value.span);
    } else if (value.number == STAT_REFERENCE) {
        const int64_t *text = imp_map_find(&plane->stats, (int64_t)value.value, 0);
        if (text)
            stats->text[stat] = xplane_looked(plane->stat[*text].name);
    }
    return stat;
}

void xplane_stats(const struct xplane *plane, struct pb_span message, uint32_t number,
                  struct xla_stats *stats)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    while (pb_next(&pb, &field))
        if (field.number == number && field.wire == PB_BYTES)
            keep_stat(plane, field.span, stats);
}

int xplane_metadata_stats(const struct xplane *plane, struct xplane_event_metadata *metadata,
                          struct xla_stats *stats)
{
    struct pb_span last[XLA_STAT_COUNT] = {{NULL, 0}};
    struct pb pb = pb_of(metadata->message);
    struct pb_field field;
    if (!metadata->has_stats)
        return 0;
    if (metadata->stat) {
        for (size_t i = 0; i < metadata->stat_count; i++)
            keep_stat(plane, metadata->stat[i], stats);
        return 0;
    }
    while (pb_next(&pb, &field))
        if (field.number == METADATA_STATS && field.wire == PB_BYTES)
            last[keep_stat(plane, field.span, stats)] = field.span;
    size_t count = 0;
    for (size_t i = XLA_STAT_OTHER + 1; i < XLA_STAT_COUNT; i++)
        if (last[i].data)
            last[count++] = last[i];
    metadata->stat = malloc((count + 1) * sizeof *last);
    if (!metadata->stat)
        return TACHO_ENOMEM;
    memcpy(metadata->stat, last, count * sizeof *last);
    metadata->stat_count = count;
    return 0;
}

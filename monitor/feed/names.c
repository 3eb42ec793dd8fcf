/* SPDX-License-Identifier: Apache-2.0
 *
 * The small tables: processes, tracks, payloads, names, keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "monitor/feed/feed_private.h"

#define COLLECTIVES_MOST 256
#define DEVICES_MOST     4096 /* counters of devices whose rank is looked for */
#define IDS_FREE         65536
#define IDS_A_ROW        16

/* Can a row have this id? Rows are numbered one after the other, so tables by id have the size of
 * the table; an id that is far ahead would make one of any size. */
static bool is_next(struct mon_feed *feed, int64_t id, int64_t *rows)
{
    ++*rows;
    if (id <= IDS_FREE || (id - IDS_FREE) / IDS_A_ROW <= *rows)
        return true;
    feed->rc = TACHO_ECORRUPT;
    return false;
}

int feed_room(struct mon_feed *feed, void *array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return 0;
    return feed->rc = an_grow(array, room, count + 1, size);
}

struct feed_process *feed_process_of(const struct mon_feed *feed, int64_t id)
{
    return feed->process_count ? bsearch(&id, feed->process, feed->process_count,
                                         sizeof *feed->process, store_id_order)
                               : NULL;
}

struct feed_track *feed_track_of(const struct mon_feed *feed, int64_t id)
{
    return feed->track_count
               ? bsearch(&id, feed->track, feed->track_count, sizeof *feed->track, store_id_order)
               : NULL;
}

int feed_phase_of(const struct mon_feed *feed, int64_t name, int64_t detail)
{
    if (name >= 0 && (size_t)name < feed->string_count && feed->collects[name])
        return MON_PHASE_COLLECTION;
    if (detail < 0 || (size_t)detail >= feed->detail_count)
        return FEED_NOTHING;
    return feed->detail[detail].phase;
}

bool feed_has_ended(const struct feed_process *process, int64_t time)
{
    return process->end != STORE_ABSENT && process->end <= time;
}

/* The place of a process among those of its time is its rank, where it names none. Of very many
 * processes each is one of its own: they would all be compared with each other. */
int64_t feed_rank_of(const struct mon_feed *feed, const struct feed_process *process)
{
    int64_t place = 0;
    if (process->rank != STORE_ABSENT)
        return process->rank;
    if (process - feed->process >= FEED_PLACES)
        return process - feed->process;
    for (const struct feed_process *other = feed->process; other != process; other++)
        place += other->steps > 0 && !feed_has_ended(other, process->start);
    return place;
}

static int on_process(void *ctx, const struct store_process *row)
{
    struct mon_feed *feed = ctx;
    if (feed->process_count && row->id <= feed->process[feed->process_count - 1].id) {
        struct feed_process *known = feed_process_of(feed, row->id);
        if (known)
            known->end = row->end;
        return 0;
    }
    if (feed_room(feed, &feed->process, &feed->process_room, feed->process_count,
                  sizeof *feed->process))
        return feed->rc;
    struct feed_process *process = &feed->process[feed->process_count];
    *process = (struct feed_process){.id = row->id,
                                     .rank = row->rank,
                                     .pid = row->pid,
                                     .start = row->start,
                                     .end = row->end,
                                     .last_index = -1,
                                     .step_track = STORE_ABSENT,
                                     .host = strdup(row->host ? row->host : "")};
    if (!process->host)
        return feed->rc = TACHO_ENOMEM;
    feed->process_count++;
    return 0;
}

static int on_track(void *ctx, const struct store_track *row)
{
    struct mon_feed *feed = ctx;
    if (feed_room(feed, &feed->track, &feed->track_room, feed->track_count, sizeof *feed->track))
        return feed->rc;
    struct feed_track *track = &feed->track[feed->track_count++];
    feed->keys_resolved = 0;
    bool is_counter = !strcmp(row->kind, "counter") && row->name;
    *track = (struct feed_track){.id = row->id,
                                 .process = row->process,
                                 .is_counter = is_counter,
                                 .rank = -1,
                                 .planned = is_counter && !strcmp(row->name, "steps_planned"),
                                 .name = is_counter ? strdup(row->name) : NULL,
                                 .device = row->device ? strdup(row->device) : NULL};
    feed->next_track = row->id + 1;
    return is_counter && !track->name ? (feed->rc = TACHO_ENOMEM) : 0;
}

static bool is_text(const char *text, const char *word)
{
    return text && !strcmp(text, word);
}

/* The one copy of a name of a collective; NULL: no memory. There are a dozen of them. */
static const char *collective_name(struct mon_feed *feed, const char *name)
{
    for (size_t i = 0; i < feed->collective_count; i++)
        if (!strcmp(feed->collective[i], name))
            return feed->collective[i];
    if (feed->collective_count == COLLECTIVES_MOST)
        return "collective";
    if (feed_room(feed, &feed->collective, &feed->collective_room, feed->collective_count,
                  sizeof *feed->collective) ||
        !(feed->collective[feed->collective_count] = strdup(name)))
        return NULL;
    return feed->collective[feed->collective_count++];
}

/* What time with such a payload is spent on. */
static struct feed_detail classify(struct mon_feed *feed, const struct store_detail *row)
{
    struct feed_detail detail = {.phase = FEED_NOTHING, .communicator = STORE_ABSENT};
    if (is_text(row->schema, "tacho.step"))
        detail.phase = FEED_STEP_MARK;
    else if (is_text(row->schema, "tacho.work"))
        detail.phase = MON_PHASE_COMPUTE;
    else if (is_text(row->schema, "tacho.comm") || row->collective)
        detail.phase = MON_PHASE_COMMUNICATION;
    else if (is_text(row->kind, "input_wait"))
        detail.phase = MON_PHASE_DATA_WAIT;
    else if (is_text(row->kind, "checkpoint"))
        detail.phase = MON_PHASE_CHECKPOINT;
    else if (is_text(row->kind, "evaluation"))
        detail.phase = MON_PHASE_EVALUATION;
    detail.range = detail.phase == MON_PHASE_CHECKPOINT || detail.phase == MON_PHASE_EVALUATION;
    detail.flops = row->model_flops == STORE_ABSENT ? 0 : (double)row->model_flops;
    if (detail.phase == MON_PHASE_COMMUNICATION)
        detail.collective =
            collective_name(feed, row->collective ? row->collective : "a collective");
    if (detail.collective)
        detail.communicator = row->communicator;
    return detail;
}

static int on_detail(void *ctx, const struct store_detail *row)
{
    struct mon_feed *feed = ctx;
    if (row->id < (int64_t)feed->detail_count)
        return 0;
    if (!is_next(feed, row->id, &feed->detail_rows))
        return feed->rc;
    while ((int64_t)feed->detail_count <= row->id) {
        if (feed_room(feed, &feed->detail, &feed->detail_room, feed->detail_count,
                      sizeof *feed->detail))
            return feed->rc;
        feed->detail[feed->detail_count++] =
            (struct feed_detail){.phase = FEED_NOTHING, .communicator = STORE_ABSENT};
    }
    feed->detail[row->id] = classify(feed, row);
    return 0;
}

static int on_string(void *ctx, int64_t id, const char *text)
{
    struct mon_feed *feed = ctx;
    if (id < 0 || !is_next(feed, id, &feed->string_rows))
        return feed->rc = TACHO_ECORRUPT;
    while ((int64_t)feed->string_count <= id) {
        if (feed_room(feed, &feed->collects, &feed->string_room, feed->string_count,
                      sizeof *feed->collects))
            return feed->rc;
        feed->collects[feed->string_count++] = false;
    }
    feed->collects[id] = !strcmp(text, "gc") || !strncmp(text, "gc.", 3);
    return 0;
}

static void free_keys(struct mon_feed *feed)
{
    for (size_t i = 0; i < feed->key_count; i++) {
        free(feed->key[i].key);
        free(feed->key[i].value);
    }
    feed->key_count = 0;
}

static int on_key(void *ctx, const char *key, const char *value)
{
    struct mon_feed *feed = ctx;
    if (feed_room(feed, &feed->key, &feed->key_room, feed->key_count, sizeof *feed->key))
        return feed->rc;
    struct feed_key *row = &feed->key[feed->key_count++];
    *row = (struct feed_key){strdup(key), strdup(value ? value : "")};
    return row->key && row->value ? 0 : (feed->rc = TACHO_ENOMEM);
}

static int on_ceiling(void *ctx, const struct store_ceiling *row)
{
    struct mon_feed *feed = ctx;
    if (!strcmp(row->resource, "flops") && is_text(row->dtype, "fp32") && row->value > 0)
        feed->peak_flops = row->value;
    return 0;
}

int feed_read_names(struct mon_feed *feed, store_reader *reader)
{
    int rc;
    free_keys(feed);
    if ((rc = store_run_each(reader, on_key, feed)) ||
        (rc = store_process_each(reader, on_process, feed)) ||
        (rc = store_track_each(reader, feed->next_track, on_track, feed)) ||
        (rc = store_detail_each(reader, (int64_t)feed->detail_count, on_detail, feed)) ||
        (rc = store_string_each(reader, (int64_t)feed->string_count, on_string, feed)))
        return rc;
    return feed->peak_flops > 0 ? 0 : store_ceiling_each(reader, on_ceiling, feed);
}

void feed_free_names(struct mon_feed *feed)
{
    for (size_t i = 0; i < feed->process_count; i++)
        free(feed->process[i].host);
    for (size_t i = 0; i < feed->track_count; i++) {
        free(feed->track[i].name);
        free(feed->track[i].device);
    }
    for (size_t i = 0; i < feed->collective_count; i++)
        free(feed->collective[i]);
    free(feed->collective);
    free_keys(feed);
    free(feed->process);
    free(feed->track);
    free(feed->detail);
    free(feed->collects);
    free(feed->key);
}

const char *mon_feed_key(const struct mon_feed *feed, const char *key)
{
    for (size_t i = 0; i < feed->key_count; i++)
        if (!strcmp(feed->key[i].key, key))
            return feed->key[i].value;
    return NULL;
}

/* The process whose device has a uuid, by "device.P.gpu:M.uuid"; NULL: none says so. */
static const struct feed_process *owner_of(const struct mon_feed *feed, const char *uuid)
{
    for (size_t i = 0; i < feed->key_count; i++) {
        const char *key = feed->key[i].key;
        if (!strncmp(key, "device.", 7) && strstr(key, ".uuid") &&
            !strcmp(feed->key[i].value, uuid))
            return feed_process_of(feed, strtoll(key + 7, NULL, 10));
    }
    return NULL;
}

/* The number that NVML gives to a device "gpu:N", or to one on the bus ("pci:0000:3b:00.0"); -1:
 * none. */
static int64_t nvml_number(const struct mon_feed *feed, const char *device)
{
    if (!strncmp(device, "gpu:", 4))
        return strtoll(device + 4, NULL, 10);
    for (size_t i = 0; i < feed->key_count && !strncmp(device, "pci:", 4); i++) {
        const char *key = feed->key[i].key, *end = strstr(key, ".pci");
        if (!strncmp(key, "nvml.", 5) && end && !end[4] && !strcmp(feed->key[i].value, device + 4))
            return strtoll(key + 5, NULL, 10);
    }
    return -1;
}

void feed_resolve_devices(struct mon_feed *feed)
{
    int looked = 0; /* each look goes over all keys */
    if (feed->keys_resolved == feed->key_count)
        return;
    feed->keys_resolved = feed->key_count;
    for (size_t i = 0; i < feed->track_count && looked < DEVICES_MOST; i++) {
        struct feed_track *track = &feed->track[i];
        char key[48];
        if (!track->is_counter || !track->device || track->rank >= 0 ||
            feed_process_of(feed, track->process))
            continue;
        looked++;
        snprintf(key, sizeof key, "nvml.%lld.uuid", (long long)nvml_number(feed, track->device));
        const char *uuid = mon_feed_key(feed, key);
        const struct feed_process *owner = uuid ? owner_of(feed, uuid) : NULL;
        track->rank = owner ? feed_rank_of(feed, owner) : -1;
    }
}

/* The least of the memories that the run names for its devices. */
static double device_memory(const struct mon_feed *feed)
{
    double least = 0;
    for (size_t i = 0; i < feed->key_count; i++) {
        const char *key = feed->key[i].key, *end = strstr(key, ".memory_bytes");
        double bytes = strtod(feed->key[i].value, NULL);
        if (!strncmp(key, "device.", 7) && end && !end[strlen(".memory_bytes")] && bytes > 0 &&
            (least <= 0 || bytes < least))
            least = bytes;
    }
    return least;
}

struct mon_machine mon_feed_machine(const struct mon_feed *feed)
{
    const char *memory = mon_feed_key(feed, "memory.bytes");
    return (struct mon_machine){.memory_bytes = memory ? strtod(memory, NULL) : 0,
                                .device_memory_bytes = device_memory(feed),
                                .peak_flops = feed->peak_flops,
                                .planned_steps = feed->planned};
}

int mon_feed_each_process(const struct mon_feed *feed,
                          int (*visit)(void *ctx, int64_t rank, int64_t pid, const char *host),
                          void *ctx)
{
    int rc = 0;
    for (size_t i = 0; i < feed->process_count && !rc; i++)
        if (feed->process[i].steps)
            rc = visit(ctx, feed->process[i].rank, feed->process[i].pid, feed->process[i].host);
    return rc;
}

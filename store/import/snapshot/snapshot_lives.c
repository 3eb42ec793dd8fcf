/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of what lives at which address, and the rows that blocks and segments become.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/import/input/list.h"
#include "store/import/snapshot/snapshot_private.h"

/* ---- lists ------------------------------------------------------------------------------------------------------------------ */

/* What lives at an address; NULL: nothing. */
struct snapshot_live *snapshot_lives_find(const struct snapshot_lives *lives, int64_t address,
                                          int64_t device)
{
    const int64_t *index = imp_map_find(&lives->at, address, device);
    return index && *index >= 0 ? &lives->live[*index] : NULL;
}

int snapshot_lives_add(struct snapshot_lives *lives, int64_t address, int64_t device,
                       struct snapshot_live live)
{
    size_t index = lives->count;
    int rc = 0;
    if (lives->unused_count)
        index = lives->unused[--lives->unused_count];
    else if (!(rc = imp_list_room((void **)&lives->live, &lives->room, lives->count, sizeof live)))
        lives->count++;
    if (rc)
        return rc;
    lives->live[index] = live;
    return imp_map_put(&lives->at, address, device, (int64_t)index);
}

/* Forgets what lives at a place of the map. */
int snapshot_lives_remove(struct snapshot_lives *lives, int64_t *index)
{
    int rc = imp_list_room((void **)&lives->unused, &lives->unused_room, lives->unused_count,
                           sizeof *lives->unused);
    if (rc || !index || *index < 0)
        return rc;
    lives->unused[lives->unused_count++] = (size_t)*index;
    *index = -1;
    return 0;
}

void snapshot_lives_clear(struct snapshot_lives *lives)
{
    imp_map_free(&lives->at);
    free(lives->live);
    free(lives->unused);
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

/* The track of the blocks or of the segments of a device. */
static int life_track(struct snapshot *snapshot, int64_t device, bool segment, int64_t *track)
{
    int64_t *known = &snapshot->device[device].track[segment];
    char gpu[32], name[48];
    int rc = 0;
    if (!*known) {
        snprintf(gpu, sizeof gpu, "gpu:%" PRId64, device);
        snprintf(name, sizeof name, segment ? "segments gpu:%" PRId64 : "blocks gpu:%" PRId64,
                 device);
        rc = imp_rows_range(&snapshot->rows, 2 * device + segment, gpu, name, known);
    }
    *track = *known;
    return rc;
}

static int make_detail(struct snapshot *snapshot, bool segment, const struct snapshot_live *live,
                       int64_t *id)
{
    struct store_detail detail = STORE_DETAIL_NONE;
    char payload[256];
    int length = snprintf(payload, sizeof payload, "{\"stream\":%" PRId64, live->stream);
    if (segment)
        length += snprintf(payload + length, sizeof payload - (size_t)length,
                           ",\"large\":%s,\"expandable\":%s", live->large ? "true" : "false",
                           live->expandable ? "true" : "false");
    if (live->block != STORE_ABSENT)
        length += snprintf(payload + length, sizeof payload - (size_t)length, ",\"block\":%" PRId64,
                           live->block);
    if (live->stack.id != STORE_ABSENT)
        length += snprintf(payload + length, sizeof payload - (size_t)length, ",\"stack\":%" PRId64,
                           live->stack.id);
    if (live->pool[0] || live->pool[1])
        length += snprintf(payload + length, sizeof payload - (size_t)length,
                           ",\"pool\":[%" PRId64 ",%" PRId64 "]", live->pool[0], live->pool[1]);
    snprintf(payload + length, sizeof payload - (size_t)length,
             live->begun ? ",\"begun\":true}" : "}");
    detail.schema = segment ? "torch.segment" : "torch.block";
    detail.bytes = live->bytes;
    detail.payload = payload;
    return store_detail_intern(snapshot->rows.run->db, &detail, id);
}

/* What is said of a block or segment. Few of them differ: sizes and stacks come again. */
static int life_detail(struct snapshot *snapshot, bool segment, const struct snapshot_live *live,
                       int64_t *id)
{
    struct snapshot_key key = SNAPSHOT_KEY_BEGIN;
    const int64_t numbers[] = {
        live->bytes,    live->block,
        live->stack.id, live->stream,
        live->pool[0],  live->pool[1],
        live->begun,    segment ? 1 + 2 * live->large + 4 * live->expandable : 0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        snapshot_key_add(&key, (uint64_t)numbers[i]);
    const int64_t *known = imp_map_find(&snapshot->details, key.first, key.second);
    if (known) {
        *id = *known;
        return 0;
    }
    int rc = make_detail(snapshot, segment, live, id);
    return rc ? rc : imp_map_put(&snapshot->details, key.first, key.second, *id);
}

/* Writes the life of a block or segment. */
int snapshot_put_life(struct snapshot *snapshot, int64_t device, int64_t address, bool segment,
                      const struct snapshot_live *live, int64_t end)
{
    struct imp_slice slice = {.start = live->start,
                              .dur = end == STORE_ABSENT ? STORE_ABSENT : end - live->start,
                              .name = live->stack.name,
                              .category = segment ? "memory.segment" : "memory.block",
                              .correlation = address};
    int rc = life_track(snapshot, device, segment, &slice.track);
    if (!rc && !snapshot->rows.run->salvage_only)
        rc = life_detail(snapshot, segment, live, &slice.known_detail);
    return rc ? rc : imp_rows_slice(&snapshot->rows, &slice);
}

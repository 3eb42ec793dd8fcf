/* SPDX-License-Identifier: Apache-2.0
 *
 * Expandable segments of PyTorch's allocator, which are mapped and unmapped part by part.
 */
#include <stdlib.h>
#include <string.h>

#include "store/import/input/list.h"
#include "store/import/snapshot/snapshot_private.h"

#define SLOTS_MOST (1ll << 30) /* of the map, looked at for parts, all unmaps together */

/* The part of an expandable segment that holds an address; NULL: none that the history mapped.
 * *begin: its address; without one that of the next part, or `end`. */
static struct snapshot_live *part_at(struct snapshot *snapshot, int64_t device, int64_t address,
                                     int64_t end, int64_t *begin)
{
    const struct snapshot_lives *segments = &snapshot->segments;
    struct snapshot_live *part = snapshot_lives_find(segments, address, device);
    *begin = address;
    if (part && part->expandable)
        return part;
    *begin = end;
    snapshot->slots_seen += (int64_t)segments->at.cap;
    for (size_t i = 0; i < segments->at.cap && snapshot->slots_seen < SLOTS_MOST; i++) {
        const struct imp_map_slot *slot = &segments->at.slot[i];
        if (!slot->used || slot->value < 0 || slot->second != device)
            continue;
        part = &segments->live[slot->value];
        if (!part->expandable)
            continue;
        if (slot->first <= address && address - slot->first < part->bytes) {
            *begin = slot->first;
            return part;
        }
        if (slot->first > address && slot->first < *begin)
            *begin = slot->first;
    }
    return NULL;
}

/* A part of an expandable segment goes back to the driver, from *at on: that, or what is left of a
 * part that was mapped at once. *at moves behind it. */
static int unmap_part(struct snapshot *snapshot, int64_t device, struct snapshot_live live,
                      int64_t *at, int64_t end)
{
    int64_t begin, time = live.start, rest;
    struct snapshot_live *part = part_at(snapshot, device, *at, end, &begin), gone;
    if (!part) { /* mapped before the history */
        live.bytes = begin - *at;
        live.start = snapshot->device[device].first;
        live.begun = false;
        live.stack = (struct snapshot_stack){STORE_ABSENT, snapshot->no_stack};
        int rc = snapshot_put_life(snapshot, device, *at, true, &live, time);
        *at = begin;
        return rc;
    }
    gone = *part;
    rest = begin + gone.bytes - end;
    part->bytes = *at - begin;
    gone.bytes -= part->bytes + (rest > 0 ? rest : 0);
    int rc = snapshot_put_life(snapshot, device, *at, true, &gone, time);
    if (!rc && !part->bytes)
        rc = snapshot_lives_remove(&snapshot->segments,
                                   imp_map_find(&snapshot->segments.at, begin, device));
    *at += gone.bytes;
    if (rc || rest <= 0)
        return rc;
    gone.bytes = rest;
    return snapshot_lives_add(&snapshot->segments, end, device, gone);
}

/* A range of an expandable segment goes back to the driver. */
int snapshot_unmap(struct snapshot *snapshot, int64_t device, int64_t address,
                   struct snapshot_live live)
{
    int64_t at = address, end;
    int rc = 0;
    live.expandable = true;
    if (address < 0 || __builtin_add_overflow(address, live.bytes, &end))
        return 0;
    while (at < end && !rc)
        rc = unmap_part(snapshot, device, live, &at, end);
    return rc;
}

/* A part of an expandable segment that was mapped in the history and is still there; or a segment
 * of a private pool. */
struct part {
    int64_t device, address, bytes;
    int64_t number; /* of a segment */
};

static int part_order(const void *left, const void *right)
{
    const struct part *first = left, *second = right;
    if (first->device != second->device)
        return first->device < second->device ? -1 : 1;
    return (first->address > second->address) - (first->address < second->address);
}

/* Lists these parts in order; NULL: no memory. */
static struct part *list_parts(const struct snapshot *snapshot, size_t *count)
{
    const struct snapshot_lives *segments = &snapshot->segments;
    struct part *parts = calloc(segments->count + 1, sizeof *parts);
    *count = 0;
    for (size_t i = 0; parts && i < segments->at.cap; i++) {
        const struct imp_map_slot *slot = &segments->at.slot[i];
        if (!slot->used || slot->value < 0 || !segments->live[slot->value].expandable)
            continue;
        parts[(*count)++] =
            (struct part){slot->second, slot->first, segments->live[slot->value].bytes, 0};
    }
    if (parts && *count)
        qsort(parts, *count, sizeof *parts, part_order);
    return parts;
}

/* How many parts begin below an address of a device, or lie on a device before it. */
static size_t count_below(const struct part *parts, size_t count, int64_t device, int64_t address)
{
    size_t low = 0, high = count;
    const struct part key = {.device = device, .address = address};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (part_order(&parts[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives the parts of the history the pools of the segments of the snapshot that they lie in. */
static int name_pools(struct snapshot *snapshot)
{
    struct snapshot_lives *segments = &snapshot->segments;
    struct part *pools = calloc(snapshot->final_count + 1, sizeof *pools);
    size_t count = 0;
    for (size_t i = 0; pools && i < snapshot->final_count; i++) {
        const struct snapshot_final *final = &snapshot->final[i];
        if (final->segment && final->live.expandable && final->address >= 0 &&
            (final->live.pool[0] || final->live.pool[1]))
            pools[count++] =
                (struct part){final->device, final->address, final->live.bytes, (int64_t)i};
    }
    if (count)
        qsort(pools, count, sizeof *pools, part_order);
    for (size_t i = 0; count && i < segments->at.cap; i++) {
        const struct imp_map_slot *slot = &segments->at.slot[i];
        if (!slot->used || slot->value < 0 || !segments->live[slot->value].expandable)
            continue;
        size_t at = count_below(pools, count, slot->second, slot->first);
        bool begins =
            at < count && pools[at].device == slot->second && pools[at].address == slot->first;
        if (!begins && !at)
            continue;
        const struct part *pool = &pools[at - !begins];
        if (pool->device == slot->second && slot->first - pool->address < pool->bytes)
            memcpy(segments->live[slot->value].pool, snapshot->final[pool->number].live.pool,
                   sizeof snapshot->final->live.pool);
    }
    free(pools);
    return pools ? 0 : TACHO_ENOMEM;
}

int snapshot_final_add(struct snapshot *snapshot, struct snapshot_final final)
{
    int rc = imp_list_room((void **)&snapshot->final, &snapshot->final_room, snapshot->final_count,
                           sizeof final);
    if (!rc)
        snapshot->final[snapshot->final_count++] = final;
    return rc;
}

/* Cuts what the history mapped out of an expandable segment of the snapshot: what is left before,
 * between and behind these parts was there before the history. */
static int cut_parts(struct snapshot *snapshot, size_t index, const struct part *parts,
                     size_t count)
{
    struct snapshot_final left = snapshot->final[index];
    int64_t at = left.address, end;
    int rc = 0;
    if (__builtin_add_overflow(at, left.live.bytes, &end))
        return 0;
    snapshot->final[index].in_history = true;
    for (size_t i = count_below(parts, count, left.device, at); at < end && !rc; i++) {
        bool inside = i < count && parts[i].device == left.device && parts[i].address < end;
        int64_t begin = inside ? parts[i].address : end;
        left.address = at;
        left.live.bytes = begin - at;
        if (left.live.bytes > 0)
            rc = snapshot_final_add(snapshot, left);
        if (!inside || __builtin_add_overflow(begin, parts[i].bytes, &at))
            at = end;
    }
    return rc;
}

/* Of the expandable segments of the snapshot what was there before the history: the rest is in the
 * history, part by part. */
int snapshot_without_parts(struct snapshot *snapshot)
{
    size_t count, finals = snapshot->final_count;
    struct part *parts = name_pools(snapshot) ? NULL : list_parts(snapshot, &count);
    int rc = parts ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < finals && !rc; i++)
        if (snapshot->final[i].segment && snapshot->final[i].live.expandable)
            rc = cut_parts(snapshot, i, parts, count);
    free(parts);
    return rc;
}

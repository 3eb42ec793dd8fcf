/* SPDX-License-Identifier: Apache-2.0
 *
 * Start/end ranges. The two ends may come from two threads and be read in either order. Open ranges
 * are kept in a hash table by their NVTX id, with linear probing; an END that is read first waits
 * there for its START.
 */
#include "profiler/collector/drain/decode_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t range_home(const struct col_pool *pool, uint64_t id)
{
    return (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 32) & (pool->range_slots - 1);
}

static bool range_used(const struct col_range *range)
{
    return range->start != STORE_ABSENT || range->end != STORE_ABSENT;
}

/* The entry of an id, NULL: none is open. */
static struct col_range *range_find(struct col_pool *pool, uint64_t id)
{
    if (!pool->range_slots)
        return NULL;
    for (uint32_t i = range_home(pool, id); range_used(&pool->range[i]);
         i = (i + 1) & (pool->range_slots - 1))
        if (pool->range[i].id == id)
            return &pool->range[i];
    return NULL;
}

/* Doubles the table and puts every entry where it belongs in the new one. */
static int range_grow(struct col_pool *pool)
{
    uint32_t old_slots = pool->range_slots;
    struct col_range *old = pool->range;
    uint32_t slots = old_slots ? old_slots * 2 : 64;
    struct col_range *table = malloc(slots * sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < slots; i++)
        table[i] = (struct col_range){.start = STORE_ABSENT, .end = STORE_ABSENT};
    pool->range = table;
    pool->range_slots = slots;
    for (uint32_t i = 0; i < old_slots; i++)
        if (range_used(&old[i])) {
            uint32_t slot = range_home(pool, old[i].id);
            while (range_used(&table[slot]))
                slot = (slot + 1) & (slots - 1);
            table[slot] = old[i];
        }
    free(old);
    return 0;
}

int col_range_put(struct col_pool *pool, const struct col_range *range)
{
    if ((pool->range_count + 1) * 2 > pool->range_slots) {
        int rc = range_grow(pool);
        if (rc)
            return rc;
    }
    uint32_t slot = range_home(pool, range->id);
    while (range_used(&pool->range[slot]))
        slot = (slot + 1) & (pool->range_slots - 1);
    pool->range[slot] = *range;
    pool->range_count++;
    return 0;
}

/* Removes an entry. Entries after the hole move into it unless they would leave their probe
 * sequence. */
static void range_remove(struct col_pool *pool, struct col_range *range)
{
    uint32_t mask = pool->range_slots - 1, hole = (uint32_t)(range - pool->range);
    for (uint32_t i = (hole + 1) & mask; range_used(&pool->range[i]); i = (i + 1) & mask) {
        uint32_t home = range_home(pool, pool->range[i].id);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            pool->range[hole] = pool->range[i];
            hole = i;
        }
    }
    pool->range[hole] = (struct col_range){.start = STORE_ABSENT, .end = STORE_ABSENT};
    pool->range_count--;
}

/* Is it the domain of the collectives that NCCL's profiler interface reports (agent/gpu/nccl.c)? */
static bool domain_is_nccl(struct col_pool *pool, uint8_t domain)
{
    static const char name[] = "NCCL profiler";
    uint32_t bytes;
    if (pool->is_nccl[domain])
        return pool->is_nccl[domain] > 0;
    const char *text = col_domain_text(pool, domain, &bytes);
    bool is_nccl = text && bytes == sizeof name - 1 && memcmp(text, name, bytes) == 0;
    if (text)
        pool->is_nccl[domain] = is_nccl ? 1 : -1;
    return is_nccl;
}

static int64_t track_of(const struct col_pool *pool, const struct col_range *range)
{
    return range->comm ? pool->comm_track : pool->range_track;
}

/* Adds the track of start/end ranges, or of collectives, when the first one appears. */
static int range_track(struct col_drain *drain, struct col_pool *pool, bool comm)
{
    int64_t *track = comm ? &pool->comm_track : &pool->range_track;
    if (*track)
        return 0;
    struct store_track added = {.process = pool->process->id,
                                .tid = STORE_ABSENT,
                                .kind = "range",
                                .name = "start/end ranges"};
    if (comm) {
        added.kind = "comm";
        added.name = "NCCL";
    }
    int rc = store_track_add(drain->db, &added);
    *track = added.id;
    pool->dirty = true;
    return rc;
}

int col_range_forget(struct col_drain *drain, struct col_pool *pool, uint64_t id)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "r:%s:%llu", pool->name, (unsigned long long)id);
    return store_live_set(drain->db, key, NULL, 0);
}

/* If its END was read first, the range is complete now. If the id is still open, the agent has
 * reused it and the END of the earlier use was lost. */
int col_on_start(struct col_drain *drain, struct col_pool *pool, const struct col_event *event)
{
    struct col_extra extra;
    int rc = col_event_extra(drain, pool, event, &extra);
    bool comm = domain_is_nccl(pool, event->record->domain);
    if (rc == 0)
        rc = range_track(drain, pool, comm);
    if (rc)
        return rc;
    struct col_range range = {.start = event->time,
                              .end = STORE_ABSENT,
                              .detail = extra.detail,
                              .step = STORE_ABSENT,
                              .correlation = comm ? extra.correlation : (int64_t)event->range,
                              .id = event->range,
                              .domain = event->record->domain,
                              .comm = comm,
                              .dirty = true};
    range.name = col_pool_string(drain, pool, event->record->name, &rc);
    range.category = col_event_category(drain, pool, event, &rc);
    if (rc)
        return rc;
    pool->range_dirty = true;
    struct col_range *other = range_find(pool, event->range);
    if (!other)
        return col_range_put(pool, &range);
    if (other->start != STORE_ABSENT) /* the id is reused: the END of the first use was lost */
        rc = col_lose_end(drain, pool, track_of(pool, other), other, event->time);
    else
        rc = col_end_range(drain, pool, track_of(pool, &range), &range, other->end);
    bool ended = other->start == STORE_ABSENT, saved = other->saved;
    if (rc == 0 && saved)
        rc = col_range_forget(drain, pool, event->range);
    if (ended) {
        range_remove(pool, other);
        return rc;
    }
    *other = range;
    return rc;
}

int col_on_end(struct col_drain *drain, struct col_pool *pool, const struct col_event *event)
{
    struct col_range *range = range_find(pool, event->range);
    pool->range_dirty = true;
    if (!range) {
        struct col_range pending = {.start = STORE_ABSENT,
                                    .end = event->time,
                                    .id = event->range,
                                    .round = drain->round,
                                    .dirty = true,
                                    .step = STORE_ABSENT};
        return col_range_put(pool, &pending);
    }
    if (range->start == STORE_ABSENT) { /* a second END */
        drain->stats.ends_without_start++;
        return 0;
    }
    int rc = col_end_range(drain, pool, track_of(pool, range), range, event->time);
    if (rc == 0 && range->saved)
        rc = col_range_forget(drain, pool, event->range);
    range_remove(pool, range);
    return rc;
}

int col_decode_materialise_ranges(struct col_drain *drain, struct col_pool *pool)
{
    for (uint32_t i = 0; i < pool->range_slots; i++) {
        struct col_range *range = &pool->range[i];
        if (range->start == STORE_ABSENT || range->slice || !range->dirty ||
            !col_keeps_detail(drain, STORE_ABSENT, NULL))
            continue;
        int rc = col_add_slice(drain, track_of(pool, range), range, STORE_ABSENT, &range->slice);
        if (rc)
            return rc;
    }
    return 0;
}

/* Ends that still wait after two rounds lost their START: both would have been read by then. */
int col_range_expire(struct col_drain *drain, struct col_pool *pool)
{
    for (uint32_t i = 0; i < pool->range_slots; i++) {
        struct col_range *range = &pool->range[i];
        if (range->end == STORE_ABSENT || range->round + 2 >= drain->round)
            continue;
        drain->stats.ends_without_start++;
        int rc = range->saved ? col_range_forget(drain, pool, range->id) : 0;
        if (rc)
            return rc;
        range_remove(pool, range);
        i--; /* another entry may have moved here */
    }
    return 0;
}

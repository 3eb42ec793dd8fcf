/* SPDX-License-Identifier: Apache-2.0
 *
 * Start/end ranges. The two ends may come from two threads and be read in either order; open ones
 * are hashed by their NVTX id.
 */
#include "profiler/collector/drain/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t range_home(const struct col_pool *p, uint64_t id)
{
    return (uint32_t)((id * 0x9e3779b97f4a7c15ull) >> 32) & (p->range_slots - 1);
}

static bool range_used(const struct col_range *r)
{
    return r->start != STORE_ABSENT || r->end != STORE_ABSENT;
}

static struct col_range *range_find(struct col_pool *p, uint64_t id)
{
    if (!p->range_slots)
        return NULL;
    for (uint32_t i = range_home(p, id); range_used(&p->range[i]);
         i = (i + 1) & (p->range_slots - 1))
        if (p->range[i].id == id)
            return &p->range[i];
    return NULL;
}

static int range_grow(struct col_pool *p)
{
    uint32_t old_slots = p->range_slots;
    struct col_range *old = p->range;
    uint32_t slots = old_slots ? old_slots * 2 : 64;
    struct col_range *table = malloc(slots * sizeof *table);
    if (!table)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < slots; i++)
        table[i] = (struct col_range){.start = STORE_ABSENT, .end = STORE_ABSENT};
    p->range = table;
    p->range_slots = slots;
    for (uint32_t i = 0; i < old_slots; i++)
        if (range_used(&old[i])) {
            uint32_t at = range_home(p, old[i].id);
            while (range_used(&table[at]))
                at = (at + 1) & (slots - 1);
            table[at] = old[i];
        }
    free(old);
    return 0;
}

int col_range_put(struct col_pool *p, const struct col_range *r)
{
    if ((p->range_count + 1) * 2 > p->range_slots) {
        int rc = range_grow(p);
        if (rc)
            return rc;
    }
    uint32_t at = range_home(p, r->id);
    while (range_used(&p->range[at]))
        at = (at + 1) & (p->range_slots - 1);
    p->range[at] = *r;
    p->range_count++;
    return 0;
}

/* Linear probing: what follows the hole moves up if its home allows it. */
static void range_remove(struct col_pool *p, struct col_range *r)
{
    uint32_t mask = p->range_slots - 1, hole = (uint32_t)(r - p->range);
    for (uint32_t i = (hole + 1) & mask; range_used(&p->range[i]); i = (i + 1) & mask) {
        uint32_t home = range_home(p, p->range[i].id);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            p->range[hole] = p->range[i];
            hole = i;
        }
    }
    p->range[hole] = (struct col_range){.start = STORE_ABSENT, .end = STORE_ABSENT};
    p->range_count--;
}

/* Collectives that NCCL's profiler interface told of are ranges of this domain (agent/nccl.c). */
static bool domain_is_nccl(const struct col_pool *p, uint8_t domain)
{
    static const char name[] = "NCCL profiler";
    uint32_t bytes = 0,
             arena = atomic_load_explicit(&p->map.head->domain_name[domain], memory_order_acquire);
    const char *text = arena ? col_map_text(&p->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    return text && bytes == sizeof name - 1 && memcmp(text, name, bytes) == 0;
}

static int64_t track_of(const struct col_pool *p, const struct col_range *r)
{
    return r->comm ? p->comm_track : p->range_track;
}

static int range_track(struct col_drain *d, struct col_pool *p, bool comm)
{
    int64_t *track = comm ? &p->comm_track : &p->range_track;
    if (*track)
        return 0;
    struct store_track t = {.process = p->process->id,
                            .tid = STORE_ABSENT,
                            .kind = comm ? "comm" : "range",
                            .name = comm ? "NCCL" : "start/end ranges"};
    int rc = store_track_add(d->db, &t);
    *track = t.id;
    p->dirty = true;
    return rc;
}

int col_range_forget(struct col_drain *d, struct col_pool *p, uint64_t id)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "r:%s:%llu", p->name, (unsigned long long)id);
    return store_live_set(d->db, key, NULL, 0);
}

int col_on_start(struct col_drain *d, struct col_pool *p, const struct col_event *e)
{
    struct col_extra x;
    int rc = col_event_extra(d, p, e, &x);
    bool comm = domain_is_nccl(p, e->record->domain);
    if (rc == 0)
        rc = range_track(d, p, comm);
    if (rc)
        return rc;
    struct col_range r = {.start = e->time,
                          .end = STORE_ABSENT,
                          .detail = x.detail,
                          .step = STORE_ABSENT,
                          .correlation = comm ? x.correlation : (int64_t)e->range,
                          .id = e->range,
                          .domain = e->record->domain,
                          .comm = comm,
                          .dirty = true};
    r.name = col_pool_string(d, p, e->record->name, &rc);
    r.category = col_event_category(d, p, e, &rc);
    if (rc)
        return rc;
    p->range_dirty = true;
    struct col_range *other = range_find(p, e->range);
    if (!other)
        return col_range_put(p, &r);
    if (other->start != STORE_ABSENT) /* the id was used again: its END was lost */
        rc = col_lose_end(d, p, track_of(p, other), other, e->time);
    else
        rc = col_end_range(d, p, track_of(p, &r), &r, other->end);
    bool ended = other->start == STORE_ABSENT, saved = other->saved;
    if (rc == 0 && saved)
        rc = col_range_forget(d, p, e->range);
    if (ended) {
        range_remove(p, other);
        return rc;
    }
    *other = r;
    return rc;
}

int col_on_end(struct col_drain *d, struct col_pool *p, const struct col_event *e)
{
    struct col_range *r = range_find(p, e->range);
    p->range_dirty = true;
    if (!r) {
        struct col_range pending = {.start = STORE_ABSENT,
                                    .end = e->time,
                                    .id = e->range,
                                    .round = d->round,
                                    .dirty = true,
                                    .step = STORE_ABSENT};
        return col_range_put(p, &pending);
    }
    if (r->start == STORE_ABSENT) { /* a second END */
        d->stats.ends_without_start++;
        return 0;
    }
    int rc = col_end_range(d, p, track_of(p, r), r, e->time);
    if (rc == 0 && r->saved)
        rc = col_range_forget(d, p, e->range);
    range_remove(p, r);
    return rc;
}

int col_decode_materialise_ranges(struct col_drain *d, struct col_pool *p)
{
    for (uint32_t i = 0; i < p->range_slots; i++) {
        struct col_range *r = &p->range[i];
        enum col_cut why;
        if (r->start == STORE_ABSENT || r->slice || !r->dirty ||
            !col_decode_keeps(d, STORE_ABSENT, &why))
            continue;
        int rc = col_add_slice(d, track_of(p, r), r, STORE_ABSENT, &r->slice);
        if (rc)
            return rc;
    }
    return 0;
}

int col_range_expire(struct col_drain *d, struct col_pool *p)
{
    for (uint32_t i = 0; i < p->range_slots; i++) {
        struct col_range *r = &p->range[i];
        if (r->end == STORE_ABSENT || r->round + 2 >= d->round)
            continue;
        d->stats.ends_without_start++;
        int rc = r->saved ? col_range_forget(d, p, r->id) : 0;
        if (rc)
            return rc;
        range_remove(p, r);
        i--; /* something else may have moved here */
    }
    return 0;
}

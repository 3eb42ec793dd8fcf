/* SPDX-License-Identifier: Apache-2.0
 *
 * The chains of segments in which threads record: finding the next segment of each, reading it,
 * giving it back.
 */
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/drain/gpu.h"

/* ---- threads and segments -------------------------------------------------------------------------------------------------- */

int col_drain_thread(struct col_drain *d, struct col_pool *p, uint32_t ordinal,
                     struct col_thread **out)
{
    if (ordinal >= p->thread_cap) {
        uint32_t cap = p->thread_cap ? p->thread_cap : 16;
        while (cap <= ordinal)
            cap *= 2;
        struct col_thread **list = realloc(p->thread, cap * sizeof *list);
        if (!list)
            return TACHO_ENOMEM;
        memset(list + p->thread_cap, 0, (cap - p->thread_cap) * sizeof *list);
        p->thread = list;
        p->thread_cap = cap;
    }
    struct col_thread *t = calloc(1, sizeof *t);
    if (!t)
        return TACHO_ENOMEM;
    t->ordinal = ordinal;
    t->segment = -1;
    p->thread[ordinal] = t;
    *out = t;
    (void)d;
    return 0;
}

static int thread_new(struct col_drain *d, struct col_pool *p, const struct wire_segment *line,
                      struct col_thread **out)
{
    if (line->thread > (1u << 22)) /* more threads than a process can have had: a damaged line */
        return 0;
    int rc = col_drain_thread(d, p, line->thread, out);
    if (rc)
        return rc;
    struct col_thread *t = *out;
    t->tid = line->tid;
    bool main_thread = line->tid == p->map.head->pid;
    struct store_track track = {.process = p->process->id,
                                .tid = line->tid,
                                .kind = "thread",
                                .name = main_thread ? "main" : NULL};
    t->track =
        col_gpu_thread_track(p, line->tid); /* calls of CUDA may have come before its first range */
    if (!t->track)
        rc = store_track_add(d->db, &track);
    t->track = t->track ? t->track : track.id;
    t->dirty = true;
    d->stats.threads++;
    return rc;
}

static int give_back(struct col_drain *d, struct col_pool *p, uint32_t segment)
{
    if (d->release_count == d->release_cap) {
        uint32_t cap = d->release_cap ? d->release_cap * 2 : 64;
        void *list = realloc(d->release, cap * sizeof *d->release);
        if (!list)
            return TACHO_ENOMEM;
        d->release = list;
        d->release_cap = cap;
    }
    d->release[d->release_count].pool = p;
    d->release[d->release_count++].segment = segment;
    p->segment[segment].done = true;
    return 0;
}

int col_chains_note(struct col_drain *d, struct col_pool *p)
{
    p->peak = col_map_peak(&p->map);
    for (uint32_t i = 0; i < p->peak; i++) {
        struct wire_segment *line = &p->map.directory[i];
        struct col_segment *s = &p->segment[i];
        s->state = atomic_load_explicit(&line->state, memory_order_acquire);
        if (s->state != WIRE_ACTIVE && s->state != WIRE_FULL)
            continue;
        s->last = atomic_load_explicit(&line->last, memory_order_acquire);
        s->committed = atomic_load_explicit(&line->committed, memory_order_acquire);
        if (s->committed > p->map.segment_bytes)
            s->committed = p->map.segment_bytes;
        if (s->generation != line->generation) {
            s->generation = line->generation;
            s->position = s->saved = 0;
            s->done = false;
        }
        if (s->done)
            continue;
        struct col_thread *t = line->thread < p->thread_cap ? p->thread[line->thread] : NULL;
        int rc = 0;
        if (s->state == WIRE_FULL && s->position == s->committed &&
            (!t || line->chain_seq < t->chain))
            rc = give_back(d, p, i); /* read by a collector that died between its COMMIT and this */
        else if (!t && (rc = thread_new(d, p, line, &t)) == 0 && !t)
            continue;
        if (rc)
            return rc;
        if (t && !s->done && t->segment < 0 && line->chain_seq == t->chain)
            t->segment = (int32_t)i;
    }
    return 0;
}

static int32_t segment_of(const struct col_pool *p, const struct col_thread *t)
{
    for (uint32_t i = 0; i < p->peak; i++) {
        const struct wire_segment *line = &p->map.directory[i];
        const struct col_segment *s = &p->segment[i];
        if ((s->state == WIRE_ACTIVE || s->state == WIRE_FULL) && !s->done &&
            s->generation == line->generation && line->thread == t->ordinal &&
            line->chain_seq == t->chain)
            return (int32_t)i;
    }
    return -1;
}

static int thread_end(struct col_drain *d, struct col_pool *p, struct col_thread *t)
{
    int rc = col_decode_materialise(d, p, t);
    if (rc == 0)
        rc = col_save_thread(d, p, t, true);
    if (rc == 0)
        rc = col_gpu_thread_ended(p, t->tid, t->track);
    p->thread[t->ordinal] = NULL;
    col_thread_free(t);
    return rc;
}

/* Reads a thread's chain up to what was noted. */
static int read_chain(struct col_drain *d, struct col_pool *p, struct col_thread *t)
{
    while (t->segment >= 0) {
        uint32_t i = (uint32_t)t->segment;
        struct col_segment *s = &p->segment[i];
        const uint8_t *base = p->map.segments + (uint64_t)i * p->map.segment_bytes;
        if (s->position < s->committed && !t->damaged) {
            int rc = col_decode(d, p, t, base + s->position, base + s->committed);
            if (rc)
                return rc;
            t->dirty = true;
            d->bytes_since_commit += s->committed - s->position;
        }
        if (s->saved == s->position && s->position != s->committed)
            p->touched[p->touched_count++] = i;
        s->position = s->committed;
        if (s->state != WIRE_FULL)
            break;
        int rc = give_back(d, p, i);
        if (rc)
            return rc;
        t->dirty = true;
        t->chain++;
        if (s->last)
            return thread_end(d, p, t);
        t->segment = segment_of(p, t);
        if (d->bytes_since_commit >= COL_COMMIT_BYTES) {
            d->unfinished = true;
            break;
        }
    }
    return 0;
}

int col_chains_read(struct col_drain *d, struct col_pool *p, bool with_steps)
{
    for (uint32_t i = 0; i < p->thread_cap && !d->unfinished; i++) {
        struct col_thread *t = p->thread[i];
        if (!t || t->has_step != with_steps || t->segment < 0)
            continue;
        int rc = read_chain(d, p, t);
        if (rc)
            return rc;
    }
    return 0;
}

/* A chain whose next segment never came into being: the process died in between. Goes on behind the
 * hole if there is anything.
 */
static int skip_hole(struct col_drain *d, struct col_pool *p, struct col_thread *t, bool *found)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < p->peak; i++) {
        const struct wire_segment *line = &p->map.directory[i];
        const struct col_segment *s = &p->segment[i];
        if ((s->state == WIRE_ACTIVE || s->state == WIRE_FULL) && !s->done &&
            line->thread == t->ordinal && line->chain_seq > t->chain && line->chain_seq < best)
            best = line->chain_seq;
    }
    if (best == UINT64_MAX)
        return 0;
    *found = true;
    t->chain = best;
    t->segment = segment_of(p, t);
    return col_drain_loss(d, "collector", "segment of a thread missing", STORE_ABSENT, STORE_ABSENT,
                          STORE_ABSENT);
}

int col_chains_finish(struct col_drain *d, struct col_pool *p)
{
    int rc = 0;
    for (bool found = true; found && rc == 0;) {
        found = false;
        for (uint32_t i = 0; i < p->thread_cap && rc == 0; i++)
            if (p->thread[i] &&
                (p->thread[i]->segment < 0 || p->segment[p->thread[i]->segment].done) &&
                (rc = skip_hole(d, p, p->thread[i], &found)) == 0 && found)
                rc = read_chain(d, p, p->thread[i]);
    }
    for (uint32_t i = 0; i < p->thread_cap && rc == 0; i++)
        if (p->thread[i])
            rc = thread_end(d, p, p->thread[i]);
    if (rc == 0)
        rc = col_decode_materialise_ranges(d, p);
    if (rc == 0)
        rc = col_steps_write(&p->steps, d->db, p->process->id, UINT64_MAX);
    if (p->process->gone && p->process->end == STORE_ABSENT && p->last_event) {
        p->process->end = p->last_event;
        p->process->dirty = true;
    }
    p->drained = rc == 0;
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The chains of segments in which threads record: finding the next segment of each thread, reading
 * it, and giving it back after the commit. The agent fills a segment and goes on in a free one,
 * which has the next number of the thread's chain; the reader follows these numbers.
 */
#include <stdlib.h>

#include "profiler/collector/drain/gpu_private.h"

/* ---- threads and segments -------------------------------------------------------------------------------------------------- */

/* Adds a thread that began to record, with its track. Its device calls may have made one already.
 */
static int thread_new(struct col_drain *drain, struct col_pool *pool,
                      const struct wire_segment *line, struct col_thread **out)
{
    if (line->thread > (1u << 22)) /* more threads than a process can have: a damaged line */
        return 0;
    int rc = col_add_thread(pool, line->thread, out);
    if (rc)
        return rc;
    struct col_thread *thread = *out;
    thread->tid = line->tid;
    bool main_thread = line->tid == pool->map.head->pid;
    struct store_track track = {.process = pool->process->id,
                                .tid = line->tid,
                                .kind = "thread",
                                .name = main_thread ? "main" : NULL};
    thread->track = col_gpu_thread_track(pool, line->tid);
    if (!thread->track)
        rc = store_track_add(drain->db, &track);
    thread->track = thread->track ? thread->track : track.id;
    thread->dirty = true;
    drain->stats.threads++;
    return rc;
}

/* Marks a segment as read; the commit of these records returns it to the agent. */
static int give_back(struct col_drain *drain, struct col_pool *pool, uint32_t segment)
{
    if (drain->release_count == drain->release_cap) {
        uint32_t cap = drain->release_cap ? drain->release_cap * 2 : 64;
        void *list = realloc(drain->release, cap * sizeof *drain->release);
        if (!list)
            return TACHO_ENOMEM;
        drain->release = list;
        drain->release_cap = cap;
    }
    drain->release[drain->release_count].pool = pool;
    drain->release[drain->release_count++].segment = segment;
    pool->segment[segment].done = true;
    return 0;
}

/* The state of a segment is read before its length: a segment that is seen as full has its final
 * length. Threads are added when their first segment appears. */
int col_chains_note(struct col_drain *drain, struct col_pool *pool)
{
    pool->peak = col_map_peak(&pool->map);
    for (uint32_t i = 0; i < pool->peak; i++) {
        struct wire_segment *line = &pool->map.directory[i];
        struct col_segment *segment = &pool->segment[i];
        segment->state = atomic_load_explicit(&line->state, memory_order_acquire);
        if (segment->state != WIRE_ACTIVE && segment->state != WIRE_FULL)
            continue;
        segment->last = atomic_load_explicit(&line->last, memory_order_acquire);
        segment->committed = atomic_load_explicit(&line->committed, memory_order_acquire);
        if (segment->committed > pool->map.segment_bytes)
            segment->committed = pool->map.segment_bytes;
        if (segment->generation != line->generation) {
            segment->generation = line->generation;
            segment->position = segment->saved = 0;
            segment->done = false;
        }
        if (segment->done)
            continue;
        struct col_thread *thread =
            line->thread < pool->thread_cap ? pool->thread[line->thread] : NULL;
        int rc = 0;
        if (segment->state == WIRE_FULL && segment->position == segment->committed &&
            (!thread || line->chain_seq < thread->chain))
            rc = give_back(drain, pool, i); /* read by a collector that died after its COMMIT */
        else if (!thread && (rc = thread_new(drain, pool, line, &thread)) == 0 && !thread)
            continue;
        if (rc)
            return rc;
        if (thread && !segment->done && thread->segment < 0 && line->chain_seq == thread->chain)
            thread->segment = (int32_t)i;
    }
    return 0;
}

/* The segment in which a thread's chain continues, -1: not there yet. */
static int32_t segment_of(const struct col_pool *pool, const struct col_thread *thread)
{
    for (uint32_t i = 0; i < pool->peak; i++) {
        const struct wire_segment *line = &pool->map.directory[i];
        const struct col_segment *segment = &pool->segment[i];
        if ((segment->state == WIRE_ACTIVE || segment->state == WIRE_FULL) && !segment->done &&
            segment->generation == line->generation && line->thread == thread->ordinal &&
            line->chain_seq == thread->chain)
            return (int32_t)i;
    }
    return -1;
}

static int thread_end(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread)
{
    int rc = col_decode_materialise(drain, pool, thread);
    if (rc == 0)
        rc = col_save_thread(drain, pool, thread, true);
    if (rc == 0)
        rc = col_gpu_thread_ended(pool, thread->tid, thread->track);
    pool->thread[thread->ordinal] = NULL;
    col_thread_free(thread);
    return rc;
}

/* Reads a thread's chain up to what was noted, or until the transaction is full. */
static int read_chain(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread)
{
    while (thread->segment >= 0) {
        uint32_t i = (uint32_t)thread->segment;
        struct col_segment *segment = &pool->segment[i];
        const uint8_t *base = pool->map.segments + (uint64_t)i * pool->map.segment_bytes;
        if (segment->position < segment->committed && !thread->damaged) {
            int rc = col_decode(drain, pool, thread, base + segment->position,
                                base + segment->committed);
            if (rc)
                return rc;
            thread->dirty = true;
            drain->bytes_since_commit += segment->committed - segment->position;
        }
        if (segment->saved == segment->position && segment->position != segment->committed)
            pool->touched[pool->touched_count++] = i;
        segment->position = segment->committed;
        if (segment->state != WIRE_FULL)
            break;
        int rc = give_back(drain, pool, i);
        if (rc)
            return rc;
        thread->dirty = true;
        thread->chain++;
        if (segment->last)
            return thread_end(drain, pool, thread);
        thread->segment = segment_of(pool, thread);
        if (drain->bytes_since_commit >= COL_COMMIT_BYTES) {
            drain->unfinished = true;
            break;
        }
    }
    return 0;
}

int col_chains_read(struct col_drain *drain, struct col_pool *pool, bool with_steps)
{
    for (uint32_t i = 0; i < pool->thread_cap && !drain->unfinished; i++) {
        struct col_thread *thread = pool->thread[i];
        if (!thread || thread->has_step != with_steps || thread->segment < 0)
            continue;
        int rc = read_chain(drain, pool, thread);
        if (rc)
            return rc;
    }
    return 0;
}

/* Continues a chain whose next segment is missing, because the process died before it was linked,
 * with the next one that exists. *found: there is one. */
static int skip_hole(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                     bool *found)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < pool->peak; i++) {
        const struct wire_segment *line = &pool->map.directory[i];
        const struct col_segment *segment = &pool->segment[i];
        if ((segment->state == WIRE_ACTIVE || segment->state == WIRE_FULL) && !segment->done &&
            line->thread == thread->ordinal && line->chain_seq > thread->chain &&
            line->chain_seq < best)
            best = line->chain_seq;
    }
    if (best == UINT64_MAX)
        return 0;
    *found = true;
    thread->chain = best;
    thread->segment = segment_of(pool, thread);
    return col_drain_loss_uncounted(drain, "collector", "segment of a thread missing");
}

/* After the last segment the open ranges of each thread get their rows without an end, and all
 * steps are written. */
int col_chains_finish(struct col_drain *drain, struct col_pool *pool)
{
    int rc = 0;
    for (bool found = true; found && rc == 0;) {
        found = false;
        for (uint32_t i = 0; i < pool->thread_cap && rc == 0; i++)
            if (pool->thread[i] &&
                (pool->thread[i]->segment < 0 || pool->segment[pool->thread[i]->segment].done) &&
                (rc = skip_hole(drain, pool, pool->thread[i], &found)) == 0 && found)
                rc = read_chain(drain, pool, pool->thread[i]);
    }
    for (uint32_t i = 0; i < pool->thread_cap && rc == 0; i++)
        if (pool->thread[i])
            rc = thread_end(drain, pool, pool->thread[i]);
    if (rc == 0)
        rc = col_decode_materialise_ranges(drain, pool);
    if (rc == 0)
        rc = col_steps_write(&pool->steps, drain->db, pool->process->id, UINT64_MAX);
    if (pool->process->gone && pool->process->end == STORE_ABSENT && pool->last_event) {
        pool->process->end = pool->last_event;
        pool->process->dirty = true;
    }
    pool->drained = rc == 0;
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The chains of segments in which threads record: finding the next segment of each thread, reading
 * it, and giving it back after the commit. The agent fills a segment and goes on in a free one,
 * which has the next number of the thread's chain; the reader follows these numbers.
 */
#include <stdlib.h>

#include "profiler/collector/drain/gpu_private.h"

#define SLACK_NS 1000000000 /* a time may be so much too late: clocks are compared */

/* ---- threads and segments -------------------------------------------------------------------------------------------------- */

/* Adds a thread that began to record, with its track. Its device calls may have made one already.
 */
static int thread_new(struct col_drain *drain, struct col_pool *pool,
                      const struct col_segment *segment, struct col_thread **out)
{
    int rc = col_add_thread(pool, segment->thread, out);
    if (rc)
        return rc;
    struct col_thread *thread = *out;
    thread->tid = segment->tid;
    struct store_track track = {.process = pool->process->id,
                                .tid = thread->tid,
                                .kind = "thread",
                                .name = thread->tid == pool->map.layout.pid ? "main" : NULL};
    thread->track = col_gpu_thread_track(pool, thread->tid);
    if (!thread->track)
        rc = store_track_add(drain->db, &track);
    thread->track = thread->track ? thread->track : track.id;
    thread->dirty = true;
    drain->stats.threads++;
    return rc;
}

/* Marks a segment as read; the commit of these records returns it to the agent. One without records
 * is saved too: the next use is known by its generation. */
static int give_back(struct col_drain *drain, struct col_pool *pool, uint32_t segment)
{
    if (!pool->segment[segment].position)
        pool->touched[pool->touched_count++] = segment;
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

/* Once for each use of a segment. */
static int report_overwritten(struct col_drain *drain, struct col_segment *segment,
                              const char *reason)
{
    if (segment->reported)
        return 0;
    segment->reported = true;
    return col_drain_lose(drain, reason);
}

static int report_place(struct col_drain *drain, struct col_segment *segment)
{
    return report_overwritten(drain, segment,
                              "segment of a thread not read: its place was overwritten");
}

static struct col_thread *thread_of(const struct col_pool *pool, uint32_t ordinal)
{
    return ordinal < pool->thread_cap ? pool->thread[ordinal] : NULL;
}

/* Can the line be right? It names a thread that the process had, and a place in its chain that is
 * not behind what was read, nor further ahead than the pool has segments. */
static bool place_ok(const struct col_pool *pool, const struct wire_segment *line)
{
    const struct col_thread *thread = thread_of(pool, line->thread);
    uint64_t chain = thread ? thread->chain : 0, threads = pool->map.head.threads;
    if (line->thread >= COL_THREADS || (threads && line->thread >= threads))
        return false;
    return line->chain_seq >= chain && line->chain_seq - chain <= pool->map.layout.segment_cap;
}

/* Begins to read another use of a segment. A use between it and the last one that was read had a
 * line that said it was free, so its records are gone. */
static int take_use(struct col_drain *drain, struct col_segment *segment, uint64_t generation)
{
    bool is_next = generation == segment->generation + 1;
    segment->generation = generation;
    segment->position = segment->saved = 0;
    segment->done = segment->reported = false;
    return is_next ? 0 : report_place(drain, segment);
}

/* Takes over what the line of a segment says that the agent has begun to use. */
static int take_line(struct col_drain *drain, struct col_pool *pool, uint32_t index)
{
    const struct wire_segment *line = &pool->map.line[index];
    struct col_segment *segment = &pool->segment[index];
    const struct col_thread *thread = thread_of(pool, line->thread);
    bool is_same = segment->generation == line->generation && !segment->done;
    int rc = 0;
    segment->held = true;
    segment->thread = line->thread;
    segment->tid = line->tid;
    segment->chain = line->chain_seq;
    /* read by a collector that died after its COMMIT */
    if (is_same && segment->state == WIRE_FULL && segment->position == line->committed &&
        (!thread || line->chain_seq < thread->chain))
        return give_back(drain, pool, index);
    /* A use that is read in part is held, unless another recorder has read it: that one may have
     * taken the thread for ended, because it was told to stop. Any other that looks like it is
     * another one. */
    bool goes_on = is_same && segment->restored && !thread;
    if (!is_same || (segment->position && !goes_on))
        rc = take_use(drain, segment, line->generation);
    segment->restored = false;
    if (rc || place_ok(pool, line))
        return rc;
    segment->done = true;
    return report_place(drain, segment);
}

/* Notes how far a segment is written. A length that cannot be is as good as none: while the thread
 * records, its next record corrects it. A thread leaves a segment only when it ends, or when its
 * next record does not fit: a shorter length was overwritten too. */
static int note_length(struct col_drain *drain, const struct col_pool *pool,
                       struct col_segment *segment, const struct wire_segment *line)
{
    uint32_t committed = line->committed, whole = pool->map.layout.segment_bytes;
    bool is_length = committed >= segment->position && committed <= whole && committed % 8 == 0;
    segment->committed = is_length ? committed : segment->position;
    segment->last = line->last == 1;
    bool is_short =
        line->state == WIRE_FULL && !segment->last && committed + WIRE_RECORD_MAX <= whole;
    if (is_length && !is_short)
        return 0;
    return report_overwritten(drain, segment,
                              "records of a segment not read: its length was overwritten");
}

/* A segment that was used becomes free only when it was read. One that is free and was not has lost
 * its state. It may just have been taken: in the next round it would be seen. */
static int check_free(struct col_drain *drain, struct col_pool *pool, uint32_t index)
{
    const struct wire_segment *line = &pool->map.line[index];
    struct col_segment *segment = &pool->segment[index];
    bool was_used = line->generation || index < pool->map.used;
    bool is_unread = line->generation != segment->generation || !line->generation;
    bool confirmed = segment->suspect || pool->gone;
    segment->suspect = was_used && is_unread;
    if (!segment->suspect || !confirmed)
        return 0;
    segment->generation = line->generation;
    return report_place(drain, segment);
}

/* Notes a segment, and the thread that continues in it. Threads are added when their first segment
 * appears. */
static int note_segment(struct col_drain *drain, struct col_pool *pool, uint32_t index)
{
    const struct wire_segment *line = &pool->map.line[index];
    struct col_segment *segment = &pool->segment[index];
    int rc = 0;
    segment->state = line->state;
    if (segment->state != WIRE_ACTIVE && segment->state != WIRE_FULL) {
        if (!segment->held)
            return check_free(drain, pool, index);
        segment->state = pool->gone ? WIRE_FULL : WIRE_ACTIVE; /* it was overwritten */
    }
    if (!segment->held)
        rc = take_line(drain, pool, index);
    if (rc || segment->done)
        return rc;
    segment->generation = line->generation;
    rc = note_length(drain, pool, segment, line);
    struct col_thread *thread = thread_of(pool, segment->thread);
    if (rc == 0 && !thread) {
        rc = thread_new(drain, pool, segment, &thread);
        if (rc == 0 && segment->position) /* what is before it was read, too */
            thread->chain = segment->chain;
    }
    if (rc)
        return rc;
    if (segment->chain < thread->chain) { /* another one had its place in the chain */
        segment->done = true;
        return report_place(drain, segment);
    }
    if (thread->segment < 0 && segment->chain == thread->chain) {
        thread->segment = (int32_t)index;
        thread->waits = false;
    }
    return 0;
}

/* The segment in which a thread's chain continues, -1: not there yet. */
static int32_t segment_of(const struct col_pool *pool, const struct col_thread *thread)
{
    for (uint32_t i = 0; i < pool->map.peak; i++) {
        const struct col_segment *segment = &pool->segment[i];
        if (segment->held && !segment->done && segment->thread == thread->ordinal &&
            segment->chain == thread->chain)
            return (int32_t)i;
    }
    return -1;
}

/* Continues a chain whose next segment is missing, because the process died before it was linked or
 * overwrote its line, with the next one that exists. *found: there is one. */
static int skip_hole(struct col_drain *drain, const struct col_pool *pool,
                     struct col_thread *thread, bool *found)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < pool->map.peak; i++) {
        const struct col_segment *segment = &pool->segment[i];
        if (segment->held && !segment->done && segment->thread == thread->ordinal &&
            segment->chain > thread->chain && segment->chain < best)
            best = segment->chain;
    }
    *found = best != UINT64_MAX;
    if (!*found || (!thread->waits && !pool->gone)) {
        thread->waits = *found;
        return 0;
    }
    thread->waits = false;
    thread->chain = best;
    thread->segment = segment_of(pool, thread);
    return col_drain_lose(drain, "segment of a thread missing");
}

static bool lacks_segment(const struct col_pool *pool, const struct col_thread *thread)
{
    return thread->segment < 0 || pool->segment[thread->segment].done;
}

/* A file that was cut short is not looked at again. */
static int lose_pool(struct col_drain *drain, struct col_pool *pool)
{
    int rc = col_drain_lose(drain, "rest of a pool not read: its file was cut short");
    pool->map.peak = 0;
    return rc ? rc : col_chains_finish(drain, pool);
}

/* Looks at a pool, and notes when. The clock is read on both sides of the look, which may take
 * seconds: where other programs have the processor, or this one is stopped. */
static bool look(struct col_pool *pool)
{
    int64_t began = col_clock_now();
    bool is_whole = col_map_look(&pool->map, pool->gone);
    pool->look_began = began;
    pool->look_ended = col_clock_now();
    pool->latest = pool->look_ended + SLACK_NS;
    return is_whole;
}

/* A segment that is missing while a later one is there may just have been taken; in the next round
 * it would be seen. */
int col_chains_note(struct col_drain *drain, struct col_pool *pool)
{
    int rc = 0;
    bool found;
    if (!look(pool))
        return lose_pool(drain, pool);
    for (uint32_t i = 0; i < pool->map.peak && rc == 0; i++)
        rc = note_segment(drain, pool, i);
    for (uint32_t i = 0; i < pool->thread_cap && rc == 0; i++)
        if (pool->thread[i] && lacks_segment(pool, pool->thread[i]))
            rc = skip_hole(drain, pool, pool->thread[i], &found);
    return rc;
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

/* Reads what was noted of a segment into memory of the collector, and decodes it. */
static int read_segment(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                        uint32_t index)
{
    struct col_segment *segment = &pool->segment[index];
    uint32_t bytes = segment->committed - segment->position;
    struct col_buffer *piece = &drain->piece;
    int rc = 0;
    if (!bytes)
        return 0;
    if (!col_buffer_room(piece, bytes))
        return TACHO_ENOMEM;
    if (col_map_read(&pool->map, index, segment->position, piece->bytes, bytes))
        rc = col_decode(drain, pool, thread, piece->bytes, piece->bytes + bytes);
    else
        rc = col_drain_lose(drain, "records of a segment not read: the pool was cut short");
    thread->dirty = true;
    drain->bytes_since_commit += bytes;
    if (segment->saved == segment->position)
        pool->touched[pool->touched_count++] = index;
    segment->position = segment->committed;
    return rc;
}

/* Reads a thread's chain up to what was noted, or until the transaction is full. */
static int read_chain(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread)
{
    while (thread->segment >= 0) {
        uint32_t i = (uint32_t)thread->segment;
        struct col_segment *segment = &pool->segment[i];
        int rc = read_segment(drain, pool, thread, i);
        if (rc || segment->state != WIRE_FULL)
            return rc;
        if ((rc = give_back(drain, pool, i)) != 0)
            return rc;
        thread->dirty = true;
        thread->chain++;
        if (segment->last)
            return thread_end(drain, pool, thread);
        thread->segment = segment_of(pool, thread);
        if (drain->bytes_since_commit >= col_commit_bytes(drain)) {
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

/* Reports the segments of which something is left that no thread's chain leads to. Of a process
 * that goes on, lines beyond its highest one are looked at too: that number may be overwritten. */
static int report_unread(struct col_drain *drain, struct col_pool *pool)
{
    uint32_t known = pool->map.peak;
    int rc = 0;
    if (!pool->gone && known)
        col_map_look(&pool->map, true);
    for (uint32_t i = 0; i < pool->map.peak && rc == 0; i++) {
        struct col_segment *segment = &pool->segment[i];
        bool is_left = segment->held && !segment->done && segment->position < segment->committed;
        bool is_unknown = i >= known && i >= pool->map.used && pool->map.line[i].generation;
        if (is_left || is_unknown || (segment->suspect && i < known))
            rc = report_place(drain, segment);
    }
    return rc;
}

/* After the last segment the open ranges of each thread get their rows without an end, and all
 * steps are written. */
int col_chains_finish(struct col_drain *drain, struct col_pool *pool)
{
    int rc = 0;
    for (bool found = true; found && rc == 0;) {
        found = false;
        for (uint32_t i = 0; i < pool->thread_cap && rc == 0; i++)
            if (pool->thread[i] && lacks_segment(pool, pool->thread[i]) &&
                (rc = skip_hole(drain, pool, pool->thread[i], &found)) == 0 && found)
                rc = read_chain(drain, pool, pool->thread[i]);
    }
    if (rc == 0)
        rc = report_unread(drain, pool);
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
    pool->dirty = true;
    return rc;
}

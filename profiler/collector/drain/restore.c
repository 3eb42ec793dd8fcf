/* SPDX-License-Identifier: Apache-2.0
 *
 * The live state: what a collector that takes over must know beyond the rows themselves. Keys:
 *   d            totals of the run so far
 *   clock        the last two anchors in the file
 *   x:ROW        a process
 *   p:POOL       a pool: its process, tracks, losses counted, steps that are not written yet
 *   t:POOL:N     thread N of a pool: its chain and its open push/pop ranges
 *   r:POOL:ID    an open start/end range
 *   g:POOL:      device work of a pool: its tracks, and what has been reported about it
 * Values are structs of this program; a program of another build recognises them by size and
 * refuses them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/drain/gpu_private.h"
#include "profiler/collector/drain/open.h"

struct saved_thread {
    uint64_t chain;
    int64_t track;
    uint32_t ordinal, tid, depth, bytes_of_range;
    int32_t segment;     /* as in col_thread, */
    uint64_t generation; /* of its use */
    col_flag has_step;
};

struct saved_pool {
    struct col_layout layout;
    int64_t process, range_track, comm_track, last_event;
    uint64_t loss[WIRE_LOSS_COUNT];
    uint32_t counters, bytes_of_step;
    col_flag drained;
};

struct saved_drain {
    struct col_stats stats;
    int64_t last_commit;
};

/* Stores what was collected in the scratch buffer. */
static int put(struct col_drain *drain, const char *key)
{
    if (drain->scratch.failed)
        return TACHO_ENOMEM;
    return store_live_set(drain->db, key, drain->scratch.bytes, drain->scratch.used);
}

int col_save_thread(struct col_drain *drain, struct col_pool *pool, struct col_thread *thread,
                    bool ended)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "t:%s:%" PRIu32, pool->name, thread->ordinal);
    if (ended)
        return thread->saved ? store_live_set(drain->db, key, NULL, 0) : 0;
    struct saved_thread saved = {
        .chain = thread->chain,
        .track = thread->track,
        .ordinal = thread->ordinal,
        .tid = thread->tid,
        .depth = thread->depth,
        .bytes_of_range = sizeof *thread->stack,
        .segment = thread->segment,
        .generation = thread->segment < 0 ? 0 : pool->segment[thread->segment].generation,
        .has_step = thread->has_step};
    drain->scratch.used = 0;
    col_buffer_put(&drain->scratch, &saved, sizeof saved);
    col_buffer_put(&drain->scratch, thread->stack, thread->depth * sizeof *thread->stack);
    thread->saved = true;
    return put(drain, key);
}

int col_save_pool(struct col_drain *drain, struct col_pool *pool)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "p:%s", pool->name);
    struct saved_pool saved = {.layout = pool->map.layout,
                               .process = pool->process->id,
                               .range_track = pool->range_track,
                               .comm_track = pool->comm_track,
                               .last_event = pool->last_event,
                               .counters = pool->counter_count,
                               .bytes_of_step = sizeof(struct col_step),
                               .drained = pool->drained};
    memcpy(saved.loss, pool->loss, sizeof saved.loss);
    drain->scratch.used = 0;
    col_buffer_put(&drain->scratch, &saved, sizeof saved);
    col_buffer_put(&drain->scratch, pool->counter, pool->counter_count * sizeof *pool->counter);
    col_steps_save(&pool->steps, &drain->scratch);
    pool->dirty = pool->steps.dirty = false;
    return put(drain, key);
}

/* Only ranges that have changed since the last commit are saved. */
int col_save_ranges(struct col_drain *drain, struct col_pool *pool)
{
    int rc = 0;
    for (uint32_t i = 0; i < pool->range_slots && rc == 0; i++) {
        struct col_range *range = &pool->range[i];
        if (!range->dirty || (range->start == STORE_ABSENT && range->end == STORE_ABSENT))
            continue;
        char key[COL_POOL_NAME + 32];
        snprintf(key, sizeof key, "r:%s:%" PRIu64, pool->name, range->id);
        range->dirty = false;
        range->saved = true;
        rc = store_live_set(drain->db, key, range, sizeof *range);
    }
    pool->range_dirty = false;
    return rc;
}

int col_save_process(struct col_drain *drain, struct col_process *process)
{
    char key[48];
    snprintf(key, sizeof key, "x:%" PRId64, process->id);
    return store_live_set(drain->db, key, process, sizeof *process);
}

int col_save_totals(struct col_drain *drain)
{
    struct saved_drain saved = {.stats = drain->stats, .last_commit = col_clock_now()};
    int rc = store_live_set(drain->db, "d", &saved, sizeof saved);
    if (rc || !drain->room.dirty)
        return rc;
    drain->room.dirty = false;
    return store_live_set(drain->db, "volume", &drain->room, sizeof drain->room);
}

int col_save_anchors(struct col_drain *drain)
{
    return store_live_set(drain->db, "clock", drain->stored, sizeof drain->stored);
}

/* Removes the saved state and the positions of a pool that is read to its end. Those of its threads
 * have gone with the threads. */
int col_forget_pool(struct col_drain *drain, struct col_pool *pool)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "p:%s", pool->name);
    int rc = store_live_set(drain->db, key, NULL, 0);
    for (uint32_t i = 0; i < pool->range_slots && rc == 0; i++)
        if (pool->range[i].saved &&
            (pool->range[i].start != STORE_ABSENT || pool->range[i].end != STORE_ABSENT))
            rc = col_range_forget(drain, pool, pool->range[i].id);
    return rc ? rc : store_position_clear(drain->db, pool->name, -1);
}

/* ---- loading --------------------------------------------------------------------------------------------------------------- */

/* A value as it is in the file: one at a time is in memory. */
struct item {
    const char *key;
    const uint8_t *value;
    size_t bytes;
};

/* Copies a value; TACHO_EVERSION where it has another size. */
static int take(const struct item *item, void *to, size_t bytes)
{
    if (item->bytes != bytes)
        return TACHO_EVERSION;
    memcpy(to, item->value, bytes);
    return 0;
}

static int load_process(struct col_drain *drain, const struct item *item)
{
    struct col_process saved = {0}, *process;
    int rc = take(item, &saved, sizeof saved);
    saved.program[sizeof saved.program - 1] = saved.ended[sizeof saved.ended - 1] = 0;
    saved.resumed = 0;
    return rc ? rc : col_process_append(drain, &saved, &process);
}

static int process_order(const void *left, const void *right)
{
    const struct col_process *const *first = left, *const *second = right;
    return ((*first)->id > (*second)->id) - ((*first)->id < (*second)->id);
}

/* Keys come in the order of their texts; a process is looked up by its row. */
static void sort_processes(struct col_drain *drain)
{
    if (drain->process_count)
        qsort(drain->process, drain->process_count, sizeof *drain->process, process_order);
}

static struct col_process *process_of(const struct col_drain *drain, int64_t row)
{
    const struct col_process wanted = {.id = row}, *key = &wanted;
    struct col_process **found = NULL;
    if (drain->process_count)
        found = bsearch(&key, drain->process, drain->process_count, sizeof *drain->process,
                        process_order);
    return found ? *found : NULL;
}

/* Settles a pool that cannot be read any more: its file is gone (the machine was restarted,
 * it was removed by hand, or the last collector had read it to its end) or is no file of the
 * agent's. The steps that were saved for it are written, and its process counts as ended. */
static int settle_missing_pool(struct col_drain *drain, const char *name,
                               struct col_process *process, struct col_cursor *cursor,
                               bool was_drained)
{
    struct col_pool pool = {.process = process};
    snprintf(pool.name, sizeof pool.name, "%s", name);
    int rc = col_steps_load(&pool.steps, cursor);
    if (rc == 0 && (rc = col_drain_begin(drain)) == 0)
        rc = col_steps_write(&pool.steps, drain->db, process->id, UINT64_MAX);
    drain->stats.steps += pool.steps.rows;
    if (rc == 0)
        rc = col_forget_pool(drain, &pool);
    if (!was_drained)
        drain->stats.uncounted++;
    if (rc == 0 && !was_drained)
        rc = col_drain_loss(drain, "collector",
                            drain->other_boot
                                ? "recording in memory lost: the machine was rebooted"
                                : "rest of a pool not read: its file was removed or replaced",
                            STORE_ABSENT, drain->last_commit, STORE_ABSENT);
    if (!process->gone)
        col_process_ended(process, STORE_ABSENT, STORE_ABSENT,
                          drain->other_boot ? "unknown: the machine was rebooted"
                                            : "unknown: its pool is gone");
    col_steps_free(&pool.steps);
    return rc;
}

/* Opens a pool again and restores its tracks, counters, counted losses and unwritten steps. A
 * process has one pool: after exec it is another row. */
static int load_pool(struct col_drain *drain, const struct item *item)
{
    const char *name = item->key + 2;
    struct col_cursor cursor = {.at = item->value, .end = item->value + item->bytes};
    struct saved_pool saved;
    col_cursor_get(&cursor, &saved, sizeof saved);
    struct col_process *process = process_of(drain, saved.process);
    if (cursor.bad || saved.bytes_of_step != sizeof(struct col_step) || !process)
        return TACHO_EVERSION;
    if (process->resumed || !col_cursor_holds(&cursor, saved.counters, sizeof(struct col_counter)))
        return TACHO_ECORRUPT;
    process->resumed = 1;
    struct col_counter *counter = saved.counters ? calloc(saved.counters, sizeof *counter) : NULL;
    if (saved.counters && !counter)
        return TACHO_ENOMEM;
    col_cursor_get(&cursor, counter, saved.counters * sizeof *counter);
    struct col_pool *pool = NULL;
    int rc =
        drain->folder < 0 ? TACHO_ENOTFOUND : col_drain_pool(drain, name, &saved.layout, &pool);
    if (rc) {
        free(counter);
        return rc == TACHO_ENOTFOUND || rc == TACHO_ECORRUPT || rc == TACHO_EFORMAT
                   ? settle_missing_pool(drain, name, process, &cursor, saved.drained)
                   : rc;
    }
    pool->process = process;
    pool->counter = counter;
    pool->counter_count = saved.counters;
    pool->range_track = saved.range_track;
    pool->comm_track = saved.comm_track;
    pool->last_event = saved.last_event;
    pool->dirty = false;
    memcpy(pool->loss, saved.loss, sizeof pool->loss);
    rc = col_steps_load(&pool->steps, &cursor);
    return rc == 0 && cursor.at != cursor.end ? TACHO_ECORRUPT : rc;
}

/* The pool of a key "?:POOL:REST"; NULL if its file is gone. */
static struct col_pool *pool_of(const struct col_drain *drain, const char *key)
{
    const char *name = key + 2, *end = strrchr(name, ':');
    for (uint32_t i = 0; end && i < drain->pool_count; i++)
        if (strncmp(drain->pool[i]->name, name, (size_t)(end - name)) == 0 &&
            !drain->pool[i]->name[end - name])
            return drain->pool[i];
    return NULL;
}

/* Restores the segment that a thread has not read to its end: whatever its line and the count of
 * used segments say now, it is that one. */
static void hold_segment(struct col_pool *pool, struct col_thread *thread, int32_t index,
                         uint64_t generation)
{
    if (index < 0 || (uint32_t)index >= pool->map.layout.segment_cap)
        return;
    struct col_segment *segment = &pool->segment[index];
    segment->held = true;
    segment->thread = thread->ordinal;
    segment->tid = thread->tid;
    segment->chain = thread->chain;
    segment->generation = generation;
    thread->segment = index;
    if ((uint32_t)index >= pool->map.used)
        pool->map.used = (uint32_t)index + 1;
}

/* Restores a thread of a pool: its place in the chain, and its open ranges. */
static int load_thread(struct col_drain *drain, const struct item *item)
{
    struct col_pool *pool = pool_of(drain, item->key);
    if (!pool)
        return store_live_set(drain->db, item->key, NULL, 0);
    struct col_cursor cursor = {.at = item->value, .end = item->value + item->bytes};
    struct saved_thread saved;
    col_cursor_get(&cursor, &saved, sizeof saved);
    if (cursor.bad || saved.bytes_of_range != sizeof(struct col_range) ||
        (size_t)(cursor.end - cursor.at) != saved.depth * sizeof(struct col_range))
        return TACHO_EVERSION;
    if (saved.ordinal >= COL_THREADS ||
        (saved.ordinal < pool->thread_cap && pool->thread[saved.ordinal]))
        return TACHO_ECORRUPT;
    struct col_thread *thread = NULL;
    int rc = col_add_thread(pool, saved.ordinal, &thread);
    if (rc)
        return rc;
    thread->tid = saved.tid;
    thread->track = saved.track;
    thread->chain = saved.chain;
    hold_segment(pool, thread, saved.segment, saved.generation);
    thread->has_step = saved.has_step;
    thread->saved = true;
    if (saved.depth && !(thread->stack = malloc(saved.depth * sizeof *thread->stack)))
        return TACHO_ENOMEM;
    thread->depth = thread->cap = saved.depth;
    col_cursor_get(&cursor, thread->stack, saved.depth * sizeof *thread->stack);
    return 0;
}

/* Restores an open start/end range. */
static int load_range(struct col_drain *drain, const struct item *item)
{
    struct col_pool *pool = pool_of(drain, item->key);
    struct col_range range;
    if (!pool)
        return store_live_set(drain->db, item->key, NULL, 0);
    int rc = take(item, &range, sizeof range);
    range.round = 0;
    range.saved = true;
    return rc ? rc : col_range_put(pool, &range);
}

static int load_gpu(struct col_drain *drain, const struct item *item)
{
    struct col_pool *pool = pool_of(drain, item->key);
    return pool ? col_gpu_load(drain, pool, item->value, item->bytes)
                : store_live_set(drain->db, item->key, NULL, 0);
}

static int load_totals(struct col_drain *drain, const struct item *item)
{
    struct saved_drain saved = {.last_commit = drain->last_commit};
    int rc = take(item, &saved, sizeof saved);
    drain->stats = saved.stats;
    drain->last_commit = saved.last_commit;
    return rc;
}

/* Restores the windows of detail. */
static int load_room(struct col_drain *drain, const struct item *item)
{
    int rc = take(item, &drain->room, sizeof drain->room);
    if (rc == 0 && (drain->room.windows > COL_WINDOWS || drain->room.level > COL_LEVEL_MOST))
        rc = TACHO_ECORRUPT;
    return rc;
}

/* An anchor that lies ahead of the clocks was not taken on this machine since its last boot, and no
 * later one would ever be accepted after it. */
static bool anchor_possible(const struct col_drain *drain, const struct col_anchor *anchor)
{
    struct col_anchor now = {.tsc = UINT64_MAX, .monotonic = INT64_MAX};
    if (!drain->other_boot)
        now = col_clock_anchor();
    return anchor->monotonic > 0 && anchor->monotonic <= now.monotonic && anchor->tsc <= now.tsc;
}

static int load_anchors(struct col_drain *drain, const struct item *item)
{
    int rc = take(item, drain->stored, sizeof drain->stored);
    if (rc)
        return rc;
    for (int which = 0; which < 2; which++) {
        struct col_anchor *anchor = &drain->stored[which];
        if (anchor_possible(drain, anchor))
            col_clock_add(&drain->clock, anchor);
        else
            *anchor = (struct col_anchor){0};
    }
    drain->last_anchor = drain->stored[1].monotonic;
    return 0;
}

/* Restores how far a segment, or a device buffer, had been read. */
static int load_position(void *ctx, const char *pool, int64_t segment, int64_t generation,
                         int64_t bytes)
{
    struct col_drain *drain = ctx;
    if (col_gpu_load_position(drain, pool, segment, generation))
        return 0;
    for (uint32_t i = 0; i < drain->pool_count; i++) {
        struct col_pool *found = drain->pool[i];
        if (strcmp(found->name, pool) != 0 || segment < 0 ||
            segment >= found->map.layout.segment_cap || bytes < 0 ||
            bytes > found->map.layout.segment_bytes)
            continue;
        struct col_segment *at = &found->segment[segment];
        if (at->held && at->generation != (uint64_t)generation)
            continue; /* nothing is read yet of its present use */
        at->generation = (uint64_t)generation;
        at->position = at->saved = at->committed = (uint32_t)bytes;
        at->restored = bytes > 0;
    }
    return 0;
}

struct loading {
    struct col_drain *drain;
    int (*load)(struct col_drain *drain, const struct item *item);
};

static int load_item(void *ctx, const char *key, const void *value, size_t bytes)
{
    const struct loading *loading = ctx;
    const struct item item = {.key = key, .value = value, .bytes = bytes};
    return loading->load(loading->drain, &item);
}

/* Items are loaded kind by kind, because pools refer to processes, and threads and ranges to pools.
 */
static int load_all(struct col_drain *drain)
{
    static const struct {
        const char *prefix;
        int (*load)(struct col_drain *drain, const struct item *item);
    } passes[] = {{"d", load_totals},   {"clock", load_anchors}, {"volume", load_room},
                  {"x:", load_process}, {"p:", load_pool},       {"t:", load_thread},
                  {"r:", load_range},   {"g:", load_gpu}};
    int rc = col_drain_begin(drain);
    for (size_t pass = 0; pass < sizeof passes / sizeof *passes && rc == 0; pass++) {
        struct loading loading = {.drain = drain, .load = passes[pass].load};
        rc = store_live_each(drain->db, passes[pass].prefix, load_item, &loading);
        sort_processes(drain);
    }
    return rc ? rc : store_position_each(drain->db, load_position, drain);
}

int col_drain_load(struct col_drain *drain, const char *run, struct tacho_error *err)
{
    static const char damaged[] = "sqlite3 opens run.db in it, which has what is stored already";
    drain->taken_over = true;
    int rc = load_all(drain);
    /* What goes wrong before the next round must not make ended processes look alive. */
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++)
        col_pool_check_gone(drain, drain->pool[i]);
    if (rc == TACHO_EVERSION)
        return tacho_fail(err, rc, "use the tacho that recorded it",
                          "%s: its state was written by another build of tacho", run);
    if (rc == TACHO_EBUSY)
        return tacho_fail(err, rc, "raise the limits (ulimit -n, ulimit -v), and try again",
                          "%s: a pool cannot be opened now: too many open files, or no memory",
                          run);
    if (rc)
        return tacho_fail(err, rc, rc == TACHO_ENOMEM ? NULL : damaged, "%s: its state: %s", run,
                          tacho_error_text(rc));
    return 0;
}

/* ---- what is open, for those who only read --------------------------------------------------- */

struct looking {
    int (*visit)(void *ctx, const struct col_open *open);
    void *ctx;
};

/* The saved state of a thread: its open ranges, outermost first. */
static int on_thread(void *ctx, int columns, const struct store_cell *cells)
{
    const struct looking *looking = ctx;
    struct saved_thread saved;
    if (columns != 1 || cells->type != STORE_CELL_BLOB)
        return 0;
    struct col_cursor cursor = {.at = (const uint8_t *)cells->text,
                                .end = (const uint8_t *)cells->text + cells->bytes};
    col_cursor_get(&cursor, &saved, sizeof saved);
    if (cursor.bad || saved.bytes_of_range != sizeof(struct col_range))
        return 0;
    for (uint32_t i = 0; i < saved.depth; i++) {
        struct col_range range;
        col_cursor_get(&cursor, &range, sizeof range);
        if (cursor.bad)
            return 0;
        struct col_open open = {.track = saved.track,
                                .start = range.start,
                                .name = range.name,
                                .detail = range.detail,
                                .correlation = range.correlation,
                                .innermost = i + 1 == saved.depth};
        int rc = looking->visit(looking->ctx, &open);
        if (rc)
            return rc;
    }
    return 0;
}

int col_open_each(store_reader *reader, int (*visit)(void *ctx, const struct col_open *open),
                  void *ctx)
{
    struct looking looking = {.visit = visit, .ctx = ctx};
    int rc = store_query(reader, "SELECT value FROM live_state WHERE key GLOB 't:*'", NULL,
                         on_thread, &looking);
    return rc == TACHO_EUSAGE ? 0 : rc; /* a finished run has no such table */
}

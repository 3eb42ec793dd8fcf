/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/drain/drain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/collector/drain/gpu.h"
#include "profiler/collector/os/proc.h"

int col_drain_open(struct col_drain *drain, store *db, int folder, struct tacho_error *err)
{
    memset(drain, 0, sizeof *drain);
    drain->db = db;
    drain->folder = -1;
    drain->volume.from = -1;
    col_clock_init(&drain->clock);
    if (gethostname(drain->host, sizeof drain->host - 1) != 0)
        drain->host[0] = 0;
    if (col_decode_open(drain) != 0)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "collector: out of memory");
    if (folder >= 0) {
        drain->folder = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (drain->folder < 0)
            return tacho_fail(err, TACHO_EIO, NULL, "the folder of the pools: %s", strerror(errno));
    }
    drain->last_commit = col_clock_now();
    return 0;
}

void col_thread_free(struct col_thread *thread)
{
    if (thread)
        free(thread->stack);
    free(thread);
}

void col_pool_free(struct col_pool *pool)
{
    for (uint32_t i = 0; i < pool->thread_cap; i++)
        col_thread_free(pool->thread[i]);
    for (uint32_t i = 0; i < pool->schema_count; i++)
        free(pool->schema[i]);
    free(pool->thread);
    free(pool->schema);
    free(pool->schema_arena);
    free(pool->segment);
    free(pool->touched);
    free(pool->string);
    free(pool->counter);
    free(pool->range);
    col_steps_free(&pool->steps);
    col_gpu_free(pool->gpu);
    col_map_close(&pool->map);
    free(pool);
}

void col_drain_close(struct col_drain *drain)
{
    for (uint32_t i = 0; i < drain->pool_count; i++)
        col_pool_free(drain->pool[i]);
    for (uint32_t i = 0; i < drain->process_count; i++)
        free(drain->process[i]);
    free(drain->pool);
    free(drain->process);
    free(drain->cache);
    free(drain->release);
    free(drain->scratch.bytes);
    if (drain->folder >= 0)
        close(drain->folder);
    memset(drain, 0, sizeof *drain);
    drain->folder = -1;
}

int col_drain_begin(struct col_drain *drain)
{
    if (drain->in_transaction)
        return 0;
    int rc = store_begin(drain->db);
    drain->in_transaction = rc == 0;
    return rc;
}

int col_drain_loss(struct col_drain *drain, const char *source, const char *reason, int64_t count,
                   int64_t t0, int64_t t1)
{
    struct store_loss loss = {
        .source = source, .reason = reason, .count = count, .t0 = t0, .t1 = t1};
    int rc = col_drain_begin(drain);
    return rc ? rc : store_loss_add(drain->db, &loss);
}

/* ---- losses ---------------------------------------------------------------------------------------------------------------- */

static const char *const loss_text[] = {
#define LOSS_TEXT(name, event_lost, text) text,
    WIRE_LOSS_MAP(LOSS_TEXT)
#undef LOSS_TEXT
};

static const bool event_lost[] = {
#define LOSS_EVENT(name, event_lost, text) event_lost,
    WIRE_LOSS_MAP(LOSS_EVENT)
#undef LOSS_EVENT
};

static int read_losses(struct col_drain *drain, struct col_pool *pool)
{
    for (unsigned i = 0; i < WIRE_LOSS_COUNT; i++) {
        struct wire_loss *loss = &pool->map.head->loss[i];
        uint64_t count = atomic_load_explicit(&loss->count, memory_order_acquire);
        if (count <= pool->loss[i])
            continue;
        uint64_t first = atomic_load_explicit(&loss->first, memory_order_acquire);
        uint64_t last = atomic_load_explicit(&loss->last, memory_order_acquire);
        int rc = col_drain_loss(drain, "agent", loss_text[i], (int64_t)(count - pool->loss[i]),
                                first ? col_pool_time(drain, pool, first) : STORE_ABSENT,
                                last ? col_pool_time(drain, pool, last) : STORE_ABSENT);
        if (rc)
            return rc;
        if (event_lost[i])
            drain->stats.lost += (int64_t)(count - pool->loss[i]);
        pool->loss[i] = count;
        pool->dirty = true;
    }
    return 0;
}

static const char *const cut_text[] = {
#define CUT_TEXT(name, text) text,
    COL_CUT_MAP(CUT_TEXT)
#undef CUT_TEXT
};

static int write_cuts(struct col_drain *drain)
{
    for (int i = 0; i < COL_CUT_COUNT; i++) {
        if (!drain->cut[i].count)
            continue;
        int rc = col_drain_loss(drain, "collector", cut_text[i], drain->cut[i].count,
                                drain->cut[i].first, drain->cut[i].last);
        if (rc)
            return rc;
        drain->cut[i].count = 0;
    }
    return 0;
}

/* ---- rounds and commits ---------------------------------------------------------------------------------------------------- */

static int save_pool(struct col_drain *drain, struct col_pool *pool)
{
    int rc = 0;
    for (uint32_t i = 0; i < pool->touched_count && rc == 0; i++) {
        struct col_segment *segment = &pool->segment[pool->touched[i]];
        rc = store_position_set(drain->db, pool->name, pool->touched[i],
                                (int64_t)segment->generation, segment->position);
        segment->saved = segment->position;
    }
    pool->touched_count = 0;
    for (uint32_t i = 0; i < pool->thread_cap && rc == 0; i++) {
        struct col_thread *thread = pool->thread[i];
        if (!thread || !thread->dirty)
            continue;
        rc = col_decode_materialise(drain, pool, thread);
        if (rc == 0)
            rc = col_save_thread(drain, pool, thread, false);
        thread->dirty = false;
    }
    if (rc == 0 && pool->range_dirty && (rc = col_decode_materialise_ranges(drain, pool)) == 0)
        rc = col_save_ranges(drain, pool);
    if (rc == 0 && (pool->dirty || pool->steps.dirty))
        rc = col_save_pool(drain, pool);
    return rc ? rc : col_gpu_save(drain, pool);
}

static int save_all(struct col_drain *drain)
{
    int rc = 0;
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++) {
        struct col_pool *pool = drain->pool[i];
        if (pool->drained && pool->saved_drained && !pool->dirty && !pool->touched_count)
            continue;
        rc = save_pool(
            drain,
            pool); /* of one that was read to its end, too: what it held back has been written */
        pool->saved_drained = pool->drained && rc == 0;
    }
    for (uint32_t i = 0; i < drain->process_count && rc == 0; i++) {
        struct col_process *process = drain->process[i];
        if (!process->dirty)
            continue;
        struct store_process row;
        col_process_row(drain, process, &row);
        rc = store_process_update(drain->db, &row);
        if (rc == 0)
            rc = col_save_process(drain, process);
        process->dirty = false;
    }
    if (rc == 0)
        rc = write_cuts(drain);
    return rc ? rc : col_save_totals(drain);
}

int col_drain_commit(struct col_drain *drain)
{
    if (!drain->in_transaction)
        return 0;
    int rc = save_all(drain);
    int committed = store_commit(drain->db); /* after a failure it takes everything back */
    drain->in_transaction = false;
    if (rc || committed)
        return rc ? rc : committed;
    for (uint32_t i = 0; i < drain->release_count; i++)
        atomic_store_explicit(
            &drain->release[i].pool->map.directory[drain->release[i].segment].state, WIRE_FREE,
            memory_order_release);
    drain->release_count = 0;
    for (uint32_t i = 0; i < drain->pool_count; i++)
        col_gpu_release(drain->pool[i]);
    drain->last_commit = col_clock_now();
    if (drain->volume.max_bytes > 0) {
        int64_t bytes = store_bytes(drain->db);
        drain->volume.full |= bytes >= drain->volume.max_bytes;
        drain->volume.no_detail |= bytes >= drain->volume.max_bytes + drain->volume.max_bytes / 4;
    }
    return 0;
}

static int take_anchor(struct col_drain *drain)
{
    if (drain->other_boot)
        return 0;
    struct col_anchor a = col_clock_anchor();
    /* at the very start there must be a second one before anything can be converted */
    while (drain->clock.count < 2) {
        if (!col_clock_add(&drain->clock, &a))
            usleep(500);
        a = col_clock_anchor();
    }
    col_clock_add(&drain->clock, &a);
    if (drain->last_anchor && a.monotonic - drain->last_anchor < 1000000000)
        return 0;
    drain->last_anchor = a.monotonic;
    struct store_anchor s = {.tsc = a.tsc ? (int64_t)a.tsc : STORE_ABSENT,
                             .monotonic = a.monotonic,
                             .realtime = a.realtime};
    drain->stored[0] = drain->stored[1];
    drain->stored[1] = a;
    int rc = col_drain_begin(drain);
    if (rc == 0)
        rc = store_anchor_add(drain->db, &s);
    return rc ? rc : col_save_anchors(drain);
}

/* What is there to read: new pools, how far their segments are written. */
static int note_all(struct col_drain *drain)
{
    drain->round++;
    int rc = drain->clock.count < 2 ? take_anchor(drain) : 0;
    if (rc == 0)
        rc = col_pools_scan(drain);
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++) {
        struct col_pool *pool = drain->pool[i];
        if (pool->drained)
            continue;
        col_pool_check_gone(drain, pool);
        rc = col_drain_begin(drain);
        if (rc == 0)
            rc = col_chains_note(drain, pool);
        if (rc == 0)
            rc = col_gpu_note(drain, pool);
    }
    return rc ? rc : take_anchor(drain);
}

/* All that was noted has been read. */
static int conclude(struct col_drain *drain)
{
    int rc = 0;
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++) {
        struct col_pool *pool = drain->pool[i];
        if (pool->drained)
            continue;
        rc = read_losses(drain, pool);
        if (pool->last_event > drain->stats.last_event)
            drain->stats.last_event = pool->last_event;
        if (rc == 0 && pool->range_count)
            rc = col_range_expire(drain, pool);
        if (rc == 0 && pool->gone)
            rc = col_gpu_finish(drain, pool);
        if (rc == 0)
            rc = pool->gone
                     ? col_chains_finish(drain, pool)
                     : col_steps_write(&pool->steps, drain->db, pool->process->id, drain->round);
    }
    return rc;
}

int col_drain_round(struct col_drain *drain, bool *more)
{
    int rc = 0;
    drain->bytes_since_commit = 0;
    if (!drain->unfinished)
        rc = note_all(drain);
    drain->unfinished = false;
    if (rc == 0)
        rc = col_drain_begin(drain);
    /* threads with steps first: the others' ranges are counted to the step they end in */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < drain->pool_count && rc == 0 && !drain->unfinished; i++)
            if (!drain->pool[i]->drained)
                rc = col_chains_read(drain, drain->pool[i], pass == 0);
    for (uint32_t i = 0; i < drain->pool_count && rc == 0 && !drain->unfinished; i++)
        if (!drain->pool[i]->drained)
            rc = col_gpu_read(drain, drain->pool[i]);
    if (rc == 0 && !drain->unfinished)
        rc = conclude(drain);
    *more = drain->unfinished || drain->bytes_since_commit >= COL_COMMIT_BYTES / 2;
    return rc;
}

/* Processes that never got a pool leave an empty file that says how many events that cost. The row
 * is set, not added to: a collector that takes over finds the same files again. */
static int count_processes_without_pool(struct col_drain *drain)
{
    int64_t processes = 0, events = 0;
    bool known = true;
    int fd = drain->folder >= 0 ? dup(drain->folder) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        unsigned pid;
        long long lost;
        int fields = strncmp(entry->d_name, WIRE_NONE, strlen(WIRE_NONE)) == 0
                         ? sscanf(entry->d_name + strlen(WIRE_NONE), "%u.%lld", &pid, &lost)
                         : 0;
        processes += fields >= 1;
        events += fields == 2 ? lost : 0;
        known &= fields != 1; /* it died before it could say */
    }
    closedir(dir);
    if (!processes)
        return 0;
    struct store_loss loss = {.source = "agent",
                              .reason = "event dropped: no space for the pool of a process",
                              .count = known ? events : STORE_ABSENT,
                              .t0 = STORE_ABSENT,
                              .t1 = STORE_ABSENT};
    drain->stats.lost += events;
    return store_loss_set(drain->db, &loss);
}

int col_drain_end(struct col_drain *drain)
{
    int rc = col_drain_begin(drain);
    if (rc == 0)
        rc = count_processes_without_pool(drain);
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++)
        if (!drain->pool[i]->drained && (rc = col_gpu_stop(drain, drain->pool[i])) == 0)
            rc = col_chains_finish(drain, drain->pool[i]);
    for (uint32_t i = 0; i < drain->pool_count; i++)
        drain->stats.steps += drain->pool[i]->steps.rows;
    return rc ? rc : col_drain_commit(drain);
}

int col_drain_reap(struct col_drain *drain)
{
    uint32_t kept = 0;
    int rc = 0;
    for (uint32_t i = 0; i < drain->pool_count; i++) {
        struct col_pool *pool = drain->pool[i];
        if (!pool->drained || !pool->gone || rc != 0) {
            drain->pool[kept++] = pool;
            continue;
        }
        /* first the file, then the state: a collector that dies in between finds nothing to read
         * twice */
        if (drain->folder >= 0)
            unlinkat(drain->folder, pool->name, 0);
        rc = col_drain_begin(drain);
        if (rc == 0)
            rc = col_forget_pool(drain, pool);
        if (rc == 0)
            rc = col_gpu_forget(drain, pool);
        drain->stats.steps += pool->steps.rows;
        col_pool_free(pool);
    }
    drain->pool_count = kept;
    return rc;
}

int col_drain_alive(const struct col_drain *drain)
{
    int alive = 0;
    for (uint32_t i = 0; i < drain->pool_count; i++)
        alive += !drain->pool[i]->gone;
    return alive;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The rounds and commits of the drain. A round notes how far everything is written before it reads
 * any of it, so that records of different threads and processes are decoded up to the same moment:
 * that is what lets a range be counted to the step it ends in.
 */
#include "profiler/collector/drain/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/drain/gpu_private.h"
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
        drain->folder = store_folder_open(folder, ".");
        if (drain->folder < 0)
            return tacho_fail(err, TACHO_EIO, NULL, "the folder of the pools: %s", strerror(errno));
    }
    drain->last_commit = col_clock_now();
    return 0;
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
    free(drain->piece.bytes);
    if (drain->folder >= 0)
        close(drain->folder);
    memset(drain, 0, sizeof *drain);
    drain->folder = -1;
}

/* ---- losses ---------------------------------------------------------------------------------------------------------------- */

/* The agent's losses: text of the row, and whether what was lost is an event. */
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

static const char loss_overwritten[] = "count of lost events overwritten by the process";

/* A time that the agent wrote; absent where it cannot be. */
static int64_t time_of(const struct col_drain *drain, const struct col_pool *pool, uint64_t time)
{
    int64_t ns = time ? col_pool_time(drain, pool, time) : STORE_ABSENT;
    return ns >= pool->earliest && ns <= pool->latest ? ns : STORE_ABSENT;
}

/* Notes, once a pool, that its loss counts are less than the sum that the agent keeps of them. */
static int check_loss_sum(struct col_drain *drain, struct col_pool *pool)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WIRE_LOSS_COUNT; i++)
        sum += pool->map.head.loss[i].count;
    if (pool->losses_damaged || sum >= pool->map.head.losses)
        return 0;
    pool->losses_damaged = true;
    return col_drain_lose(drain, loss_overwritten);
}

/* Writes what the agent's loss counts of a pool have grown by since the last round. A count cannot
 * become less, nor grow by more than one a nanosecond between the two looks at it: such a one was
 * overwritten. */
static int read_losses(struct col_drain *drain, struct col_pool *pool)
{
    uint64_t most = (uint64_t)(pool->look_ended - pool->losses_read);
    int rc = 0;
    for (unsigned i = 0; i < WIRE_LOSS_COUNT && rc == 0; i++) {
        const struct wire_loss *loss = &pool->map.head.loss[i];
        uint64_t grown = loss->count - pool->loss[i];
        if (!grown)
            continue;
        if (grown > most)
            rc = col_drain_lose(drain, loss_overwritten);
        else
            rc =
                col_drain_loss(drain, "agent", loss_text[i], (int64_t)grown,
                               time_of(drain, pool, loss->first), time_of(drain, pool, loss->last));
        if (event_lost[i] && grown <= most) {
            drain->stats.lost += (int64_t)grown;
            pool->process->lost += (int64_t)grown;
            pool->process->dirty = true;
        }
        pool->loss[i] = loss->count;
        pool->dirty = true;
    }
    pool->losses_read = pool->look_began;
    return rc ? rc : check_loss_sum(drain, pool);
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

/* Saves the live state of a pool: positions of the segments that were read, threads, open ranges,
 * steps, device work. Open ranges get their rows now, so that a file that is read during the run,
 * or after a crash, shows them. */
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
    if (rc == 0)
        rc = col_steps_spill(&pool->steps, drain->db, pool->process->id);
    if (rc == 0 && (pool->dirty || pool->steps.dirty))
        rc = col_save_pool(drain, pool);
    return rc ? rc : col_gpu_save(drain, pool);
}

/* Saves everything that changed since the last commit. */
static int save_all(struct col_drain *drain)
{
    int rc = 0;
    for (uint32_t i = 0; i < drain->pool_count && rc == 0; i++) {
        struct col_pool *pool = drain->pool[i];
        if (pool->drained && pool->saved_drained && !pool->dirty && !pool->touched_count)
            continue;
        rc = save_pool(drain, pool);
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

static void give_back(struct col_pool *pool, uint32_t segment)
{
    pool->segment[segment].held = false;
    col_map_free_segment(&pool->map, segment);
}

/* Only after the commit do segments and buffers go back to the agents: what they held is safe then.
 */
int col_drain_commit(struct col_drain *drain)
{
    if (!drain->in_transaction)
        return 0;
    int rc = save_all(drain);
    int committed = store_commit(drain->db); /* after a failure it rolls back */
    drain->in_transaction = false;
    if (rc || committed)
        return rc ? rc : committed;
    for (uint32_t i = 0; i < drain->release_count; i++)
        give_back(drain->release[i].pool, drain->release[i].segment);
    drain->release_count = 0;
    for (uint32_t i = 0; i < drain->pool_count; i++)
        col_gpu_release(drain->pool[i]);
    drain->last_commit = col_clock_now();
    return 0;
}

/* Reads the clocks, and stores the anchor if the last one is a second old. At the very start it
 * takes two, because nothing can be converted with fewer. */
static int take_anchor(struct col_drain *drain)
{
    if (drain->other_boot)
        return 0;
    struct col_anchor anchor = col_clock_anchor();
    while (drain->clock.count < 2) {
        if (!col_clock_add(&drain->clock, &anchor))
            usleep(500);
        anchor = col_clock_anchor();
    }
    col_clock_add(&drain->clock, &anchor);
    if (drain->last_anchor && anchor.monotonic - drain->last_anchor < 1000000000)
        return 0;
    drain->last_anchor = anchor.monotonic;
    struct store_anchor row = {.tsc = anchor.tsc ? (int64_t)anchor.tsc : STORE_ABSENT,
                               .monotonic = anchor.monotonic,
                               .realtime = anchor.realtime};
    drain->stored[0] = drain->stored[1];
    drain->stored[1] = anchor;
    int rc = col_drain_begin(drain);
    if (rc == 0)
        rc = store_anchor_add(drain->db, &row);
    return rc ? rc : col_save_anchors(drain);
}

/* Notes what there is to read: new pools, and how far their segments are written. The anchor comes
 * last, so that every noted record lies before it. */
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

/* Ends a round whose records have all been read: losses, expired ranges, steps that can be written,
 * and pools whose process has ended. */
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
        bool ended = pool->gone && !pool->postponed;
        drain->waiting += pool->postponed;
        if (rc == 0 && ended)
            rc = col_gpu_finish(drain, pool);
        if (rc == 0 && ended)
            rc = col_chains_finish(drain, pool);
        else if (rc == 0)
            rc = col_steps_write(&pool->steps, drain->db, pool->process->id, drain->round);
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
    /* Threads with steps come first: ranges of the others are counted to the step they end in. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < drain->pool_count && rc == 0 && !drain->unfinished; i++)
            if (!drain->pool[i]->drained)
                rc = col_chains_read(drain, drain->pool[i], pass == 0);
    for (uint32_t i = 0; i < drain->pool_count && rc == 0 && !drain->unfinished; i++)
        if (!drain->pool[i]->drained)
            rc = col_gpu_read(drain, drain->pool[i]);
    if (rc == 0 && !drain->unfinished)
        rc = conclude(drain);
    if (rc == 0)
        rc = col_volume_turn(drain, !drain->unfinished);
    *more = drain->unfinished || drain->bytes_since_commit >= col_commit_bytes(drain) / 2;
    return rc;
}

struct without_pool {
    int64_t processes, events;
    bool known;
};

static bool count_without_pool(void *ctx, int folder, const char *name)
{
    struct without_pool *count = ctx;
    (void)folder;
    if (strncmp(name, WIRE_NONE, strlen(WIRE_NONE)) != 0 || !col_pool_is_name(name))
        return true;
    const char *dot = strchr(name + strlen(WIRE_NONE), '.');
    uint64_t lost = dot ? strtoull(dot + 1, NULL, 10) : 0;
    bool is_known = dot && lost <= (uint64_t)(INT64_MAX - count->events);
    if (is_known)
        count->events += (int64_t)lost;
    count->processes++;
    count->known &= is_known; /* without a number it died before it could write it */
    return true;
}

/* Counts the events of processes that got no pool: each leaves an empty file whose name has the
 * number. The row is set, not added to: a collector that takes over finds the same files again. */
static int count_processes_without_pool(struct col_drain *drain)
{
    struct without_pool count = {.known = true};
    if (drain->folder >= 0 && !store_folder_each(drain->folder, count_without_pool, &count))
        return TACHO_EBUSY;
    if (!count.processes)
        return 0;
    struct store_loss loss = {.source = "agent",
                              .reason =
                                  "event dropped: no space or memory for the pool of a process",
                              .count = count.known ? count.events : STORE_ABSENT,
                              .t0 = STORE_ABSENT,
                              .t1 = STORE_ABSENT};
    drain->stats.lost += count.events;
    return store_loss_set(drain->db, &loss);
}

/* Writes how many events each process lost. */
static int write_lost(struct col_drain *drain)
{
    int rc = 0;
    for (uint32_t i = 0; i < drain->process_count && rc == 0; i++) {
        char name[48];
        const struct col_process *process = drain->process[i];
        struct store_metric row = {.name = name, .unit = "events", .value = (double)process->lost};
        snprintf(name, sizeof name, STORE_METRIC_LOST "%" PRId64, process->id);
        if (process->lost)
            rc = store_metric_set(drain->db, &row);
    }
    return rc;
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
    if (rc == 0)
        rc = write_lost(drain);
    return rc ? rc : col_drain_commit(drain);
}

/* Pools that are read to their end are forgotten, so that a run of many short processes does not
 * keep all their files. */
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
        /* The file goes before the state: a collector that dies in between reads nothing twice. */
        if (drain->folder >= 0)
            store_file_remove(drain->folder, pool->name);
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

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

int col_drain_open(struct col_drain *d, store *db, int folder, struct tacho_error *err)
{
    memset(d, 0, sizeof *d);
    d->db = db;
    d->folder = -1;
    d->volume.from = -1;
    col_clock_init(&d->clock);
    if (gethostname(d->host, sizeof d->host - 1) != 0)
        d->host[0] = 0;
    if (col_decode_open(d) != 0)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "collector: out of memory");
    if (folder >= 0) {
        d->folder = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (d->folder < 0)
            return tacho_fail(err, TACHO_EIO, NULL, "the folder of the pools: %s", strerror(errno));
    }
    d->last_commit = col_clock_now();
    return 0;
}

void col_thread_free(struct col_thread *t)
{
    if (t)
        free(t->stack);
    free(t);
}

void col_pool_free(struct col_pool *p)
{
    for (uint32_t i = 0; i < p->thread_cap; i++)
        col_thread_free(p->thread[i]);
    for (uint32_t i = 0; i < p->schema_count; i++)
        free(p->schema[i]);
    free(p->thread);
    free(p->schema);
    free(p->schema_arena);
    free(p->segment);
    free(p->touched);
    free(p->string);
    free(p->counter);
    free(p->range);
    col_steps_free(&p->steps);
    col_gpu_free(p->gpu);
    col_map_close(&p->map);
    free(p);
}

void col_drain_close(struct col_drain *d)
{
    for (uint32_t i = 0; i < d->pool_count; i++)
        col_pool_free(d->pool[i]);
    for (uint32_t i = 0; i < d->process_count; i++)
        free(d->process[i]);
    free(d->pool);
    free(d->process);
    free(d->cache);
    free(d->release);
    free(d->scratch.bytes);
    if (d->folder >= 0)
        close(d->folder);
    memset(d, 0, sizeof *d);
    d->folder = -1;
}

int col_drain_begin(struct col_drain *d)
{
    if (d->in_transaction)
        return 0;
    int rc = store_begin(d->db);
    d->in_transaction = rc == 0;
    return rc;
}

int col_drain_loss(struct col_drain *d, const char *source, const char *reason, int64_t count,
                   int64_t t0, int64_t t1)
{
    struct store_loss l = {.source = source, .reason = reason, .count = count, .t0 = t0, .t1 = t1};
    int rc = col_drain_begin(d);
    return rc ? rc : store_loss_add(d->db, &l);
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

static int read_losses(struct col_drain *d, struct col_pool *p)
{
    for (unsigned i = 0; i < WIRE_LOSS_COUNT; i++) {
        struct wire_loss *l = &p->map.head->loss[i];
        uint64_t count = atomic_load_explicit(&l->count, memory_order_acquire);
        if (count <= p->loss[i])
            continue;
        uint64_t first = atomic_load_explicit(&l->first, memory_order_acquire);
        uint64_t last = atomic_load_explicit(&l->last, memory_order_acquire);
        int rc = col_drain_loss(d, "agent", loss_text[i], (int64_t)(count - p->loss[i]),
                                first ? col_pool_time(d, p, first) : STORE_ABSENT,
                                last ? col_pool_time(d, p, last) : STORE_ABSENT);
        if (rc)
            return rc;
        if (event_lost[i])
            d->stats.lost += (int64_t)(count - p->loss[i]);
        p->loss[i] = count;
        p->dirty = true;
    }
    return 0;
}

static const char *const cut_text[] = {
#define CUT_TEXT(name, text) text,
    COL_CUT_MAP(CUT_TEXT)
#undef CUT_TEXT
};

static int write_cuts(struct col_drain *d)
{
    for (int i = 0; i < COL_CUT_COUNT; i++) {
        if (!d->cut[i].count)
            continue;
        int rc = col_drain_loss(d, "collector", cut_text[i], d->cut[i].count, d->cut[i].first,
                                d->cut[i].last);
        if (rc)
            return rc;
        d->cut[i].count = 0;
    }
    return 0;
}

/* ---- rounds and commits ---------------------------------------------------------------------------------------------------- */

static int save_pool(struct col_drain *d, struct col_pool *p)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->touched_count && rc == 0; i++) {
        struct col_segment *s = &p->segment[p->touched[i]];
        rc = store_position_set(d->db, p->name, p->touched[i], (int64_t)s->generation, s->position);
        s->saved = s->position;
    }
    p->touched_count = 0;
    for (uint32_t i = 0; i < p->thread_cap && rc == 0; i++) {
        struct col_thread *t = p->thread[i];
        if (!t || !t->dirty)
            continue;
        rc = col_decode_materialise(d, p, t);
        if (rc == 0)
            rc = col_save_thread(d, p, t, false);
        t->dirty = false;
    }
    if (rc == 0 && p->range_dirty && (rc = col_decode_materialise_ranges(d, p)) == 0)
        rc = col_save_ranges(d, p);
    if (rc == 0 && (p->dirty || p->steps.dirty))
        rc = col_save_pool(d, p);
    return rc ? rc : col_gpu_save(d, p);
}

static int save_all(struct col_drain *d)
{
    int rc = 0;
    for (uint32_t i = 0; i < d->pool_count && rc == 0; i++) {
        struct col_pool *p = d->pool[i];
        if (p->drained && p->saved_drained && !p->dirty && !p->touched_count)
            continue;
        rc = save_pool(
            d, p); /* of one that was read to its end, too: what it held back has been written */
        p->saved_drained = p->drained && rc == 0;
    }
    for (uint32_t i = 0; i < d->process_count && rc == 0; i++) {
        struct col_process *x = d->process[i];
        if (!x->dirty)
            continue;
        struct store_process row;
        col_process_row(d, x, &row);
        rc = store_process_update(d->db, &row);
        if (rc == 0)
            rc = col_save_process(d, x);
        x->dirty = false;
    }
    if (rc == 0)
        rc = write_cuts(d);
    return rc ? rc : col_save_totals(d);
}

int col_drain_commit(struct col_drain *d)
{
    if (!d->in_transaction)
        return 0;
    int rc = save_all(d);
    int committed = store_commit(d->db); /* after a failure it takes everything back */
    d->in_transaction = false;
    if (rc || committed)
        return rc ? rc : committed;
    for (uint32_t i = 0; i < d->release_count; i++)
        atomic_store_explicit(&d->release[i].pool->map.directory[d->release[i].segment].state,
                              WIRE_FREE, memory_order_release);
    d->release_count = 0;
    for (uint32_t i = 0; i < d->pool_count; i++)
        col_gpu_release(d->pool[i]);
    d->last_commit = col_clock_now();
    if (d->volume.max_bytes > 0) {
        int64_t bytes = store_bytes(d->db);
        d->volume.full |= bytes >= d->volume.max_bytes;
        d->volume.no_detail |= bytes >= d->volume.max_bytes + d->volume.max_bytes / 4;
    }
    return 0;
}

static int take_anchor(struct col_drain *d)
{
    if (d->other_boot)
        return 0;
    struct col_anchor a = col_clock_anchor();
    /* at the very start there must be a second one before anything can be converted */
    while (d->clock.count < 2) {
        if (!col_clock_add(&d->clock, &a))
            usleep(500);
        a = col_clock_anchor();
    }
    col_clock_add(&d->clock, &a);
    if (d->last_anchor && a.monotonic - d->last_anchor < 1000000000)
        return 0;
    d->last_anchor = a.monotonic;
    struct store_anchor s = {.tsc = a.tsc ? (int64_t)a.tsc : STORE_ABSENT,
                             .monotonic = a.monotonic,
                             .realtime = a.realtime};
    d->stored[0] = d->stored[1];
    d->stored[1] = a;
    int rc = col_drain_begin(d);
    if (rc == 0)
        rc = store_anchor_add(d->db, &s);
    return rc ? rc : col_save_anchors(d);
}

/* What is there to read: new pools, how far their segments are written. */
static int note_all(struct col_drain *d)
{
    d->round++;
    int rc = d->clock.count < 2 ? take_anchor(d) : 0;
    if (rc == 0)
        rc = col_pools_scan(d);
    for (uint32_t i = 0; i < d->pool_count && rc == 0; i++) {
        struct col_pool *p = d->pool[i];
        if (p->drained)
            continue;
        col_pool_check_gone(d, p);
        rc = col_drain_begin(d);
        if (rc == 0)
            rc = col_chains_note(d, p);
        if (rc == 0)
            rc = col_gpu_note(d, p);
    }
    return rc ? rc : take_anchor(d);
}

/* All that was noted has been read. */
static int conclude(struct col_drain *d)
{
    int rc = 0;
    for (uint32_t i = 0; i < d->pool_count && rc == 0; i++) {
        struct col_pool *p = d->pool[i];
        if (p->drained)
            continue;
        rc = read_losses(d, p);
        if (p->last_event > d->stats.last_event)
            d->stats.last_event = p->last_event;
        if (rc == 0 && p->range_count)
            rc = col_range_expire(d, p);
        if (rc == 0 && p->gone)
            rc = col_gpu_finish(d, p);
        if (rc == 0)
            rc = p->gone ? col_chains_finish(d, p)
                         : col_steps_write(&p->steps, d->db, p->process->id, d->round);
    }
    return rc;
}

int col_drain_round(struct col_drain *d, bool *more)
{
    int rc = 0;
    d->bytes_since_commit = 0;
    if (!d->unfinished)
        rc = note_all(d);
    d->unfinished = false;
    if (rc == 0)
        rc = col_drain_begin(d);
    /* threads with steps first: the others' ranges are counted to the step they end in */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < d->pool_count && rc == 0 && !d->unfinished; i++)
            if (!d->pool[i]->drained)
                rc = col_chains_read(d, d->pool[i], pass == 0);
    for (uint32_t i = 0; i < d->pool_count && rc == 0 && !d->unfinished; i++)
        if (!d->pool[i]->drained)
            rc = col_gpu_read(d, d->pool[i]);
    if (rc == 0 && !d->unfinished)
        rc = conclude(d);
    *more = d->unfinished || d->bytes_since_commit >= COL_COMMIT_BYTES / 2;
    return rc;
}

/* Processes that never got a pool leave an empty file that says how many events that cost. The row
 * is set, not added to: a collector that takes over finds the same files again. */
static int count_processes_without_pool(struct col_drain *d)
{
    int64_t processes = 0, events = 0;
    bool known = true;
    int fd = d->folder >= 0 ? dup(d->folder) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    rewinddir(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        unsigned pid;
        long long lost;
        int fields = strncmp(e->d_name, WIRE_NONE, strlen(WIRE_NONE)) == 0
                         ? sscanf(e->d_name + strlen(WIRE_NONE), "%u.%lld", &pid, &lost)
                         : 0;
        processes += fields >= 1;
        events += fields == 2 ? lost : 0;
        known &= fields != 1; /* it died before it could say */
    }
    closedir(dir);
    if (!processes)
        return 0;
    struct store_loss l = {.source = "agent",
                           .reason = "event dropped: no space for the pool of a process",
                           .count = known ? events : STORE_ABSENT,
                           .t0 = STORE_ABSENT,
                           .t1 = STORE_ABSENT};
    d->stats.lost += events;
    return store_loss_set(d->db, &l);
}

int col_drain_end(struct col_drain *d)
{
    int rc = col_drain_begin(d);
    if (rc == 0)
        rc = count_processes_without_pool(d);
    for (uint32_t i = 0; i < d->pool_count && rc == 0; i++)
        if (!d->pool[i]->drained && (rc = col_gpu_stop(d, d->pool[i])) == 0)
            rc = col_chains_finish(d, d->pool[i]);
    for (uint32_t i = 0; i < d->pool_count; i++)
        d->stats.steps += d->pool[i]->steps.rows;
    return rc ? rc : col_drain_commit(d);
}

int col_drain_reap(struct col_drain *d)
{
    uint32_t kept = 0;
    int rc = 0;
    for (uint32_t i = 0; i < d->pool_count; i++) {
        struct col_pool *p = d->pool[i];
        if (!p->drained || !p->gone || rc != 0) {
            d->pool[kept++] = p;
            continue;
        }
        /* first the file, then the state: a collector that dies in between finds nothing to read
         * twice */
        if (d->folder >= 0)
            unlinkat(d->folder, p->name, 0);
        rc = col_drain_begin(d);
        if (rc == 0)
            rc = col_forget_pool(d, p);
        if (rc == 0)
            rc = col_gpu_forget(d, p);
        d->stats.steps += p->steps.rows;
        col_pool_free(p);
    }
    d->pool_count = kept;
    return rc;
}

int col_drain_alive(const struct col_drain *d)
{
    int alive = 0;
    for (uint32_t i = 0; i < d->pool_count; i++)
        alive += !d->pool[i]->gone;
    return alive;
}

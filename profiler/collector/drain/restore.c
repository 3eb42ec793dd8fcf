/* SPDX-License-Identifier: Apache-2.0
 *
 * The live state: what a collector that takes over must know beyond the rows themselves. Keys:
 *   d            totals of the run so far
 *   clock        the last two anchors in the file
 *   x:ROW        a process
 *   p:POOL       a pool: its process, tracks, losses counted, steps that are not written yet
 *   t:POOL:N     thread N of a pool: its chain and its open push/pop ranges
 *   r:POOL:ID    an open start/end range
 *   g:POOL:      device work of a pool: its tracks, what has been told about it
 * Values are structs of this program; a program of another build recognises them by size and
 * refuses them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/collector/drain/drain.h"
#include "profiler/collector/drain/gpu.h"

struct saved_thread {
    uint64_t chain;
    int64_t track;
    uint32_t ordinal, tid, depth, bytes_of_range;
    bool damaged, has_step;
};

struct saved_pool {
    int64_t process, range_track, comm_track, last_event;
    uint64_t loss[WIRE_LOSS_COUNT];
    uint32_t counters, bytes_of_step;
};

struct saved_drain {
    struct col_stats stats;
    int64_t last_commit;
};

static int put(struct col_drain *d, const char *key)
{
    if (d->scratch.failed)
        return TACHO_ENOMEM;
    return store_live_set(d->db, key, d->scratch.bytes, d->scratch.used);
}

int col_save_thread(struct col_drain *d, struct col_pool *p, struct col_thread *t, bool ended)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "t:%s:%" PRIu32, p->name, t->ordinal);
    if (ended)
        return t->saved ? store_live_set(d->db, key, NULL, 0) : 0;
    struct saved_thread s = {.chain = t->chain,
                             .track = t->track,
                             .ordinal = t->ordinal,
                             .tid = t->tid,
                             .depth = t->depth,
                             .bytes_of_range = sizeof *t->stack,
                             .damaged = t->damaged,
                             .has_step = t->has_step};
    d->scratch.used = 0;
    col_buffer_put(&d->scratch, &s, sizeof s);
    col_buffer_put(&d->scratch, t->stack, t->depth * sizeof *t->stack);
    t->saved = true;
    return put(d, key);
}

int col_save_pool(struct col_drain *d, struct col_pool *p)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "p:%s", p->name);
    struct saved_pool s = {.process = p->process->id,
                           .range_track = p->range_track,
                           .comm_track = p->comm_track,
                           .last_event = p->last_event,
                           .counters = p->counter_count,
                           .bytes_of_step = sizeof(struct col_step)};
    memcpy(s.loss, p->loss, sizeof s.loss);
    d->scratch.used = 0;
    col_buffer_put(&d->scratch, &s, sizeof s);
    col_buffer_put(&d->scratch, p->counter, p->counter_count * sizeof *p->counter);
    col_steps_save(&p->steps, &d->scratch);
    p->dirty = p->steps.dirty = false;
    return put(d, key);
}

int col_save_ranges(struct col_drain *d, struct col_pool *p)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->range_slots && rc == 0; i++) {
        struct col_range *r = &p->range[i];
        if (!r->dirty || (r->start == STORE_ABSENT && r->end == STORE_ABSENT))
            continue;
        char key[COL_POOL_NAME + 32];
        snprintf(key, sizeof key, "r:%s:%" PRIu64, p->name, r->id);
        r->dirty = false;
        r->saved = true;
        rc = store_live_set(d->db, key, r, sizeof *r);
    }
    p->range_dirty = false;
    return rc;
}

int col_save_process(struct col_drain *d, struct col_process *x)
{
    char key[48];
    snprintf(key, sizeof key, "x:%" PRId64, x->id);
    return store_live_set(d->db, key, x, sizeof *x);
}

int col_save_totals(struct col_drain *d)
{
    struct saved_drain s = {.stats = d->stats, .last_commit = col_clock_now()};
    return store_live_set(d->db, "d", &s, sizeof s);
}

int col_save_anchors(struct col_drain *d)
{
    return store_live_set(d->db, "clock", d->stored, sizeof d->stored);
}

int col_forget_pool(struct col_drain *d, struct col_pool *p)
{
    char key[COL_POOL_NAME + 32];
    snprintf(key, sizeof key, "p:%s", p->name);
    int rc = store_live_set(d->db, key, NULL, 0);
    for (uint32_t i = 0; i < p->range_slots && rc == 0; i++)
        if (p->range[i].saved &&
            (p->range[i].start != STORE_ABSENT || p->range[i].end != STORE_ABSENT))
            rc = col_range_forget(d, p, p->range[i].id);
    return rc ? rc : store_position_clear(d->db, p->name, -1);
}

/* ---- loading --------------------------------------------------------------------------------------------------------------- */

struct item {
    char *key;
    uint8_t *value;
    size_t bytes;
};

struct loading {
    struct col_drain *drain;
    struct item *item;
    size_t count;
    int rc;
};

static int collect(void *ctx, const char *key, const void *value, size_t bytes)
{
    struct loading *l = ctx;
    struct item *list = realloc(l->item, (l->count + 1) * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    l->item = list;
    struct item *i = &l->item[l->count];
    i->key = strdup(key);
    i->value = malloc(bytes ? bytes : 1);
    i->bytes = bytes;
    l->count++;
    if (!i->key || !i->value)
        return TACHO_ENOMEM;
    memcpy(i->value, value, bytes);
    return 0;
}

static int load_process(struct col_drain *d, const struct item *i)
{
    struct col_process **list = realloc(d->process, (d->process_count + 1) * sizeof *list);
    if (list)
        d->process = list;
    struct col_process *x = list && i->bytes == sizeof *x ? malloc(sizeof *x) : NULL;
    if (!x)
        return list ? TACHO_EVERSION : TACHO_ENOMEM;
    memcpy(x, i->value, sizeof *x);
    d->process[d->process_count++] = x;
    return 0;
}

static struct col_process *process_of(const struct col_drain *d, int64_t row)
{
    for (uint32_t i = 0; i < d->process_count; i++)
        if (d->process[i]->id == row)
            return d->process[i];
    return NULL;
}

/* A pool that cannot be read: its file is gone (the machine was started again, or the last
 * collector had read it to its end), or its process wrote over the header. */
static int settle_missing_pool(struct col_drain *d, const char *name, struct col_process *x,
                               struct col_cursor *c, bool damaged)
{
    struct col_pool p = {.process = x};
    snprintf(p.name, sizeof p.name, "%s", name);
    int rc = col_steps_load(&p.steps, c);
    if (rc == 0 && (rc = col_drain_begin(d)) == 0)
        rc = col_steps_write(&p.steps, d->db, x->id, UINT64_MAX);
    d->stats.steps += p.steps.rows;
    if (rc == 0)
        rc = col_forget_pool(d, &p);
    if (rc == 0 && !damaged && !x->gone) /* of a damaged one the next scan of the folder says it */
        rc = col_drain_loss(d, "collector",
                            "recording in memory lost: the machine was started again", STORE_ABSENT,
                            d->last_commit, STORE_ABSENT);
    if (!x->gone)
        col_process_ended(x, STORE_ABSENT, STORE_ABSENT,
                          damaged ? "unknown: its pool is damaged"
                                  : "unknown: the machine was started again");
    col_steps_free(&p.steps);
    return rc;
}

static int load_pool(struct col_drain *d, const struct item *i)
{
    const char *name = i->key + 2;
    struct col_cursor c = {.at = i->value, .end = i->value + i->bytes};
    struct saved_pool s;
    col_cursor_get(&c, &s, sizeof s);
    struct col_process *x = process_of(d, s.process);
    if (c.bad || s.bytes_of_step != sizeof(struct col_step) || !x)
        return TACHO_EVERSION;
    struct col_counter *counter = s.counters ? calloc(s.counters, sizeof *counter) : NULL;
    if (s.counters && !counter)
        return TACHO_ENOMEM;
    col_cursor_get(&c, counter, s.counters * sizeof *counter);
    struct col_pool *p = NULL;
    if (c.bad) {
        free(counter);
        return TACHO_ECORRUPT;
    }
    int rc = d->folder < 0 ? TACHO_ENOTFOUND : col_drain_pool(d, name, &p);
    if (rc) {
        bool damaged = rc == TACHO_ECORRUPT || rc == TACHO_EFORMAT;
        free(counter);
        return damaged || rc == TACHO_ENOTFOUND ? settle_missing_pool(d, name, x, &c, damaged) : rc;
    }
    p->process = x;
    p->counter = counter;
    p->counter_count = s.counters;
    p->range_track = s.range_track;
    p->comm_track = s.comm_track;
    p->last_event = s.last_event;
    p->dirty = false;
    memcpy(p->loss, s.loss, sizeof p->loss);
    return col_steps_load(&p->steps, &c);
}

/* The pool that a key "?:POOL:REST" is about; NULL if its file is gone. */
static struct col_pool *pool_of(const struct col_drain *d, const char *key)
{
    const char *name = key + 2, *end = strrchr(name, ':');
    for (uint32_t i = 0; end && i < d->pool_count; i++)
        if (strncmp(d->pool[i]->name, name, (size_t)(end - name)) == 0 &&
            !d->pool[i]->name[end - name])
            return d->pool[i];
    return NULL;
}

static int load_thread(struct col_drain *d, const struct item *i)
{
    struct col_pool *p = pool_of(d, i->key);
    if (!p)
        return store_live_set(d->db, i->key, NULL, 0);
    struct col_cursor c = {.at = i->value, .end = i->value + i->bytes};
    struct saved_thread s;
    col_cursor_get(&c, &s, sizeof s);
    if (c.bad || s.bytes_of_range != sizeof(struct col_range) ||
        (size_t)(c.end - c.at) != s.depth * sizeof(struct col_range))
        return TACHO_EVERSION;
    struct col_thread *t = NULL;
    int rc = col_drain_thread(d, p, s.ordinal, &t);
    if (rc)
        return rc;
    t->tid = s.tid;
    t->track = s.track;
    t->chain = s.chain;
    t->damaged = s.damaged;
    t->has_step = s.has_step;
    t->saved = true;
    if (s.depth && !(t->stack = malloc(s.depth * sizeof *t->stack)))
        return TACHO_ENOMEM;
    t->depth = t->cap = s.depth;
    col_cursor_get(&c, t->stack, s.depth * sizeof *t->stack);
    return 0;
}

static int load_range(struct col_drain *d, const struct item *i)
{
    struct col_pool *p = pool_of(d, i->key);
    struct col_range r;
    if (!p)
        return store_live_set(d->db, i->key, NULL, 0);
    if (i->bytes != sizeof r)
        return TACHO_EVERSION;
    memcpy(&r, i->value, sizeof r);
    r.round = 0;
    r.saved = true;
    return col_range_put(p, &r);
}

static int load_gpu(struct col_drain *d, const struct item *i)
{
    struct col_pool *p = pool_of(d, i->key);
    return p ? col_gpu_load(d, p, i->value, i->bytes) : store_live_set(d->db, i->key, NULL, 0);
}

static int load_totals(struct col_drain *d, const struct item *i)
{
    struct saved_drain s;
    if (i->bytes != sizeof s)
        return TACHO_EVERSION;
    memcpy(&s, i->value, sizeof s);
    d->stats = s.stats;
    d->last_commit = s.last_commit;
    return 0;
}

static int load_anchors(struct col_drain *d, const struct item *i)
{
    if (i->bytes != sizeof d->stored)
        return TACHO_EVERSION;
    memcpy(d->stored, i->value, sizeof d->stored);
    for (int k = 0; k < 2; k++)
        if (d->stored[k].monotonic)
            col_clock_add(&d->clock, &d->stored[k]);
    d->last_anchor = d->stored[1].monotonic;
    return 0;
}

static int load_position(void *ctx, const char *pool, int64_t segment, int64_t generation,
                         int64_t bytes)
{
    struct col_drain *d = ctx;
    if (col_gpu_load_position(d, pool, segment, generation))
        return 0;
    for (uint32_t i = 0; i < d->pool_count; i++) {
        struct col_pool *p = d->pool[i];
        if (strcmp(p->name, pool) != 0 || segment < 0 || segment >= p->map.segment_cap ||
            bytes < 0 || bytes > p->map.segment_bytes)
            continue;
        p->segment[segment].generation = (uint64_t)generation;
        p->segment[segment].position = p->segment[segment].saved = (uint32_t)bytes;
    }
    return 0;
}

int col_drain_load(struct col_drain *d, struct tacho_error *err)
{
    static const struct {
        const char *prefix;
        int (*load)(struct col_drain *d, const struct item *i);
    } passes[] = {{"d", load_totals}, {"clock", load_anchors}, {"x:", load_process},
                  {"p:", load_pool},  {"t:", load_thread},     {"r:", load_range},
                  {"g:", load_gpu}};
    struct loading l = {.drain = d};
    d->taken_over = true;
    int rc = store_live_each(d->db, collect, &l);
    if (rc == 0)
        rc = col_drain_begin(d);
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
        for (size_t i = 0; i < l.count && rc == 0; i++)
            if (strncmp(l.item[i].key, passes[k].prefix, strlen(passes[k].prefix)) == 0)
                rc = passes[k].load(d, &l.item[i]);
    if (rc == 0)
        rc = store_position_each(d->db, load_position, d);
    for (size_t i = 0; i < l.count; i++) {
        free(l.item[i].key);
        free(l.item[i].value);
    }
    free(l.item);
    if (rc == TACHO_EVERSION)
        return tacho_fail(err, rc, "use the tacho that recorded it",
                          "live run: its state was written by another build of tacho");
    if (rc)
        return tacho_fail(err, rc, NULL, "live run: %s", tacho_error_text(rc));
    return 0;
}

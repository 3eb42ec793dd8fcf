/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/merge/merge_private.h"

#define IDS_MAX \
    (1ll << 31) /* more rows of names and tracks than any run has: the file is damaged */

/* ---- ids ------------------------------------------------------------------------------------------------------------------- */

static int put(struct merge_ids *ids, int64_t old, int64_t new)
{
    if (old < 0 || old >= IDS_MAX)
        return TACHO_ECORRUPT;
    if ((size_t)old >= ids->cap) {
        size_t cap = ids->cap ? ids->cap : 1024;
        while (cap <= (size_t)old)
            cap *= 2;
        int64_t *p = realloc(ids->id, cap * sizeof *p);
        if (!p)
            return TACHO_ENOMEM;
        memset(p + ids->cap, 0, (cap - ids->cap) * sizeof *p);
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[old] = new;
    return 0;
}

int64_t merge_id(const struct merge_ids *ids, int64_t old, int *rc)
{
    if (old == STORE_ABSENT)
        return STORE_ABSENT;
    if (old >= 0 && (size_t)old < ids->cap && ids->id[old])
        return ids->id[old];
    *rc = TACHO_ECORRUPT;
    return STORE_ABSENT;
}

int64_t merge_time(const struct merge_source *s, int64_t t)
{
    return t == STORE_ABSENT ? t : store_merge_time(&s->clock, t);
}

/* ---- one table after the other --------------------------------------------------------------------------------------------- */

struct copy {
    struct merge *m;
    struct merge_source *s;
    int64_t rows;
};

static int copy_string(void *ctx, int64_t id, const char *text)
{
    struct copy *c = ctx;
    int64_t new;
    int rc = store_string(c->m->out, text, strlen(text), &new);
    return rc ? rc : put(&c->s->strings, id, new);
}

static int copy_detail(void *ctx, const struct store_detail *d)
{
    struct copy *c = ctx;
    int64_t new;
    int rc = store_detail_intern(c->m->out, d, &new);
    return rc ? rc : put(&c->s->details, d->id, new);
}

static int copy_process(void *ctx, const struct store_process *p)
{
    struct copy *c = ctx;
    struct store_process new = *p;
    new.start = merge_time(c->s, p->start);
    new.end = merge_time(c->s, p->end);
    if (!new.host && c->s->host[0])
        new.host = c->s->host;
    int rc = store_process_add(c->m->out, &new);
    return rc ? rc : put(&c->s->processes, p->id, new.id);
}

/* Tracks of the machine say which one; GPUs as NVML numbers them count on over machines. */
static int copy_track(void *ctx, const struct store_track *t)
{
    struct copy *c = ctx;
    struct store_track new = *t;
    char device[64];
    long long gpu;
    int rc = 0, end = 0;
    new.process = merge_id(&c->s->processes, t->process, &rc);
    if (rc)
        return rc;
    if (t->process == STORE_ABSENT && t->device &&
        sscanf(t->device, "gpu:%lld%n", &gpu, &end) == 1 && !t->device[end]) {
        snprintf(device, sizeof device, "gpu:%lld", gpu + (long long)c->s->nvml);
        new.device = device;
    } else if (t->process == STORE_ABSENT && !t->device && c->m->machines > 1 && c->s->host[0]) {
        new.device = c->s->host;
    }
    rc = store_track_add(c->m->out, &new);
    return rc ? rc : put(&c->s->tracks, t->id, new.id);
}

static int copy_slice(void *ctx, const struct store_slice *x)
{
    struct copy *c = ctx;
    struct merge *m = c->m;
    int rc = 0;
    struct store_slice new = {.track = merge_id(&c->s->tracks, x->track, &rc),
                              .start = merge_time(c->s, x->start),
                              .dur = x->dur,
                              .name = merge_id(&c->s->strings, x->name, &rc),
                              .category = merge_id(&c->s->strings, x->category, &rc),
                              .detail = merge_id(&c->s->details, x->detail, &rc),
                              .correlation = x->correlation};
    if (x->dur != STORE_ABSENT &&
        c->s->clock.drift != 0) /* both ends, so that what is nested stays nested */
        new.dur = merge_time(c->s, (int64_t)((uint64_t)x->start + (uint64_t)x->dur)) - new.start;
    if (rc)
        return rc;
    if ((++m->done & 0xffff) == 0 && m->o->progress && m->o->progress(m->o->ctx, m->done, m->total))
        return TACHO_EINTERRUPTED;
    m->r->slices++;
    return store_slice_add(m->out, &new);
}

static int copy_counter(void *ctx, const struct store_counter *x)
{
    struct copy *c = ctx;
    int rc = 0;
    struct store_counter new = {.track = merge_id(&c->s->tracks, x->track, &rc),
                                .time = merge_time(c->s, x->time),
                                .value = x->value};
    return rc ? rc : store_counter_add(c->m->out, &new);
}

static int copy_step(void *ctx, const struct store_step *x)
{
    struct copy *c = ctx;
    struct store_step new = *x;
    int rc = 0;
    new.process = merge_id(&c->s->processes, x->process, &rc);
    new.start = merge_time(c->s, x->start);
    new.end = merge_time(c->s, x->end);
    return rc ? rc : store_step_add(c->m->out, &new);
}

/* A total of ns is as much longer as its slices are. */
static int64_t scaled(const struct merge_source *s, int64_t ns)
{
    double more = (double)ns * s->clock.drift;
    return ns + (int64_t)(more < 0 ? more - 0.5 : more + 0.5);
}

static int copy_aggregate(void *ctx, const struct store_step_aggregate *x)
{
    struct copy *c = ctx;
    struct store_step_aggregate new = *x;
    int rc = 0;
    new.process = merge_id(&c->s->processes, x->process, &rc);
    new.track = merge_id(&c->s->tracks, x->track, &rc);
    new.name = merge_id(&c->s->strings, x->name, &rc);
    new.category = merge_id(&c->s->strings, x->category, &rc);
    new.detail = merge_id(&c->s->details, x->detail, &rc);
    new.total = scaled(c->s, x->total);
    new.self = scaled(c->s, x->self);
    return rc ? rc : store_step_aggregate_add(c->m->out, &new);
}

static int copy_stack(void *ctx, const struct store_stack *x)
{
    struct copy *c = ctx;
    int rc = 0;
    int64_t new, parent = merge_id(&c->s->stacks, x->parent, &rc),
                 frame = merge_id(&c->s->strings, x->frame, &rc);
    rc = rc ? rc : store_stack(c->m->out, parent, frame, &new);
    return rc ? rc : put(&c->s->stacks, x->id, new);
}

static int copy_sample(void *ctx, const struct store_sample *x)
{
    struct copy *c = ctx;
    int rc = 0;
    struct store_sample new = {.track = merge_id(&c->s->tracks, x->track, &rc),
                               .time = merge_time(c->s, x->time),
                               .stack = merge_id(&c->s->stacks, x->stack, &rc)};
    return rc ? rc : store_sample_add(c->m->out, &new);
}

/* Tables that nothing fills yet: a later version's rows are counted, not forgotten. */
static int count_others(struct merge *m, struct merge_source *s)
{
    static const char *const table[] = {"edge"};
    int rc = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table && rc == 0; i++) {
        int64_t n = 0;
        char reason[96];
        snprintf(reason, sizeof reason, "rows of the table %s: not merged", table[i]);
        rc = store_count(s->r, table[i], &n);
        if (rc == 0 && n)
            rc = store_loss_add(
                m->out, &(struct store_loss){"merge", reason, n, STORE_ABSENT, STORE_ABSENT});
    }
    return rc;
}

int merge_rows(struct merge *m, struct merge_source *s)
{
    struct copy c = {.m = m, .s = s};
    int rc = store_string_each(s->r, 1, copy_string, &c);
    rc = rc ? rc : store_detail_each(s->r, 1, copy_detail, &c);
    rc = rc ? rc : store_process_each(s->r, copy_process, &c);
    rc = rc ? rc : store_track_each(s->r, 1, copy_track, &c);
    rc = rc ? rc : store_slice_each(s->r, 0, copy_slice, &c);
    rc = rc ? rc : store_counter_each(s->r, 0, copy_counter, &c);
    rc = rc ? rc : store_step_each(s->r, copy_step, &c);
    rc = rc ? rc : store_step_aggregate_each(s->r, copy_aggregate, &c);
    rc = rc ? rc : store_stack_each(s->r, 1, copy_stack, &c);
    rc = rc ? rc : store_sample_each(s->r, 0, copy_sample, &c);
    rc = rc ? rc : count_others(m, s);
    if (rc && rc == store_reader_error(s->r)->code)
        m->why = *store_reader_error(s->r);
    else if (rc == TACHO_ECORRUPT)
        tacho_fail(&m->why, rc, NULL, "%s: damaged: a row names another one that is not there",
                   s->path);
    return rc;
}

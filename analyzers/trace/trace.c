/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/trace/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/trace/trace_part.h"
#include "analyzers/trace/trace_rows.h"

/* The ids in a column become indexes. */
static void id_resolve(uint32_t *column, size_t n, const struct an_id_map *m)
{
    for (size_t i = 0; i < n; i++)
        if (column[i] != AN_NONE)
            column[i] = an_id_find(m, column[i]);
}

/* ---- loading ------------------------------------------------------------------------------------------------------------ */

#define PART_ROOM (1u << 20) /* slices that room is made for before they are seen */

/* Rows of a table for sizing; a table that cannot be counted grows as it is read. */
static size_t rows_of(store_reader *r, const char *table)
{
    int64_t n = 0;
    return store_count(r, table, &n) == 0 && n > 0 && n < (int64_t)AN_NONE ? (size_t)n : 0;
}

static int load_slices(store_reader *r, struct an_trace_loader *l)
{
    const struct an_trace_part *p = l->part;
    /* of a part only ids are known, and those of a damaged file may be anything: the rest grows as
     * it is read */
    int rc = an_trace_row_slice_room(l, !p                      ? rows_of(r, "slice")
                                        : p->slices < PART_ROOM ? (size_t)p->slices
                                                                : PART_ROOM);
    if (rc)
        return rc;
    return p ? store_slice_between(r, p->slice, p->t0, p->t1, an_trace_row_slice, l)
             : store_slice_each(r, 0, an_trace_row_slice, l);
}

/* Values from the head of the table, and those of the part. */
static int on_head(void *ctx, const struct store_counter *x)
{
    struct an_trace_loader *l = ctx;
    return x->id > AN_PART_COUNTER_HEAD || x->id >= l->part->counter ? 1
                                                                     : an_trace_row_counter(ctx, x);
}

static int load_counters(store_reader *r, struct an_trace_loader *l)
{
    if (!l->part) {
        int rc = an_trace_row_counter_room(l, rows_of(r, "counter"));
        return rc ? rc : store_counter_each(r, 0, an_trace_row_counter, l);
    }
    int rc = store_counter_each(r, 0, on_head, l);
    return l->rc || rc < 0 ? rc : store_counter_each(r, l->part->counter, an_trace_row_counter, l);
}

static int load_stacks(store_reader *r, struct an_trace_loader *l)
{
    if (l->part)
        return 0;
    int rc = store_stack_each(r, 1, an_trace_row_stack, l);
    l->room = 0;
    return rc ? rc : store_sample_each(r, 0, an_trace_row_sample, l);
}

static int load_big(store_reader *r, struct an_trace_loader *l, uint32_t **slice_track,
                    uint32_t **counter_track)
{
    int rc = load_slices(r, l);
    *slice_track = l->track;
    l->track = NULL;
    l->room = 0;
    rc = rc ? rc : load_counters(r, l);
    *counter_track = l->track;
    l->track = NULL;
    l->room = 0;
    rc = rc ? rc : load_stacks(r, l);
    rc = rc || l->part ? rc : an_trace_row_aggregate_room(l, rows_of(r, "step_aggregate"));
    return rc ? rc
              : store_step_aggregate_from(r, l->part ? l->part->aggregate : 0,
                                          an_trace_row_aggregate, l);
}

/* ---- of a part, only the names and payloads that it refers to ------------------------------------------------------------- */

static int wanted_order(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

static int want(struct an_trace_loader *l, const uint32_t *column, size_t count)
{
    int64_t last = -1; /* neighbours often refer to the same */
    for (size_t i = 0; i < count; i++) {
        if (column[i] == AN_NONE || column[i] == last)
            continue;
        last = column[i];
        if (an_id_add(&l->wanted, last))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void want_sort(struct an_id_map *m)
{
    size_t n = 0;
    if (m->count)
        qsort(m->id, m->count, sizeof *m->id, wanted_order);
    for (size_t i = 0; i < m->count; i++)
        if (!n || m->id[i] != m->id[n - 1])
            m->id[n++] = m->id[i];
    m->count = n;
}

static int on_one_string(void *ctx, int64_t id, const char *text)
{
    int rc = an_trace_row_string(ctx, id, text);
    return rc ? rc : 1;
}

static int on_one_detail(void *ctx, const struct store_detail *d)
{
    int rc = an_trace_row_detail(ctx, d);
    return rc ? rc : 1;
}

/* A look for each id costs about as much as a hundred rows of a scan. */
static int load_wanted(store_reader *r, struct an_trace_loader *l, bool strings)
{
    int64_t last;
    int rc = store_last_id(r, strings ? "string" : "detail", &last);
    want_sort(&l->wanted);
    if (rc)
        return rc;
    if ((int64_t)l->wanted.count > last / 100)
        return strings ? store_string_each(r, 0, an_trace_row_string, l)
                       : store_detail_each(r, 0, an_trace_row_detail, l);
    for (size_t i = 0; i < l->wanted.count && rc >= 0 && !l->rc; i++)
        rc = strings ? store_string_each(r, l->wanted.id[i], on_one_string, l)
                     : store_detail_each(r, l->wanted.id[i], on_one_detail, l);
    return rc > 0 ? 0 : rc;
}

static int load_names(store_reader *r, struct an_trace_loader *l)
{
    const struct an_slices *s = &l->t->slice;
    const struct an_aggregates *g = &l->t->aggregate;
    int rc;
    if (!l->part) {
        rc = store_detail_each(r, 0, an_trace_row_detail, l);
        return rc ? rc : store_string_each(r, 0, an_trace_row_string, l);
    }
    if ((rc = want(l, s->detail, s->count)) || (rc = want(l, g->detail, g->count)) ||
        (rc = load_wanted(r, l, false)))
        return rc;
    l->wanted.count = 0;
    if ((rc = want(l, s->name, s->count)) || (rc = want(l, s->category, s->count)) ||
        (rc = want(l, g->name, g->count)) || (rc = want(l, g->category, g->count)))
        return rc;
    return load_wanted(r, l, true);
}

static int load_small(store_reader *r, struct an_trace_loader *l)
{
    int rc = store_step_from(r, l->part ? l->part->step : INT64_MIN, an_trace_row_step, l);
    rc = rc ? rc : store_track_each(r, 0, an_trace_row_track, l);
    rc = rc ? rc : store_process_each(r, an_trace_row_process, l);
    rc = rc ? rc : load_names(r, l);
    rc = rc ? rc : store_loss_each(r, an_trace_row_loss, l);
    rc = rc ? rc : store_ceiling_each(r, an_trace_row_ceiling, l);
    l->t->ended = (struct an_ended){NAN, NAN, NAN, NAN, NAN};
    rc = rc ? rc : store_metric_each(r, an_trace_row_metric, l);
    return rc ? rc : store_run_each(r, an_trace_row_key, l);
}

int an_trace_key_order(const void *a, const void *b)
{
    return strcmp(((const struct an_run_key *)a)->key, ((const struct an_run_key *)b)->key);
}

static void resolve(struct an_trace_loader *l, uint32_t *slice_track, uint32_t *counter_track)
{
    struct an_trace *t = l->t;
    id_resolve(t->slice.name, t->slice.count, &l->strings);
    id_resolve(t->slice.category, t->slice.count, &l->strings);
    id_resolve(t->slice.detail, t->slice.count, &l->details);
    id_resolve(slice_track, t->slice.count, &l->tracks);
    id_resolve(counter_track, t->counter.count, &l->tracks);
    id_resolve(t->stack.frame, t->stack.count, &l->strings);
    struct an_aggregates *g = &t->aggregate;
    id_resolve(g->process, g->count, &l->processes);
    id_resolve(g->track, g->count, &l->tracks);
    id_resolve(g->name, g->count, &l->strings);
    id_resolve(g->category, g->count, &l->strings);
    id_resolve(g->detail, g->count, &l->details);
    for (size_t i = 0; i < t->step_count; i++)
        t->step[i].process = an_id_find(&l->processes, t->step[i].process);
    for (size_t i = 0; i < t->track_count; i++)
        t->track[i].process = an_id_find(&l->processes, t->track[i].process);
    if (t->key_count)
        qsort(t->key, t->key_count, sizeof *t->key, an_trace_key_order);
}

int an_trace_load_part(store_reader *r, const struct an_trace_part *part, struct an_trace **out,
                       struct tacho_error *err)
{
    struct an_trace_loader l = {.part = part && !part->whole ? part : NULL};
    uint32_t *slice_track = NULL, *counter_track = NULL;
    int rc = TACHO_ENOMEM;
    *out = NULL;
    if (!(l.t = calloc(1, sizeof *l.t)) || !(l.t->arena = an_arena_new()))
        goto out;
    l.t->t1 = -1;
    if ((rc = load_big(r, &l, &slice_track, &counter_track)) || (rc = load_small(r, &l)))
        goto out;
    resolve(&l, slice_track, counter_track);
    if ((rc = an_trace_order(l.t, slice_track)) ||
        (rc = an_trace_order_counters(l.t, counter_track)) || (rc = an_trace_name_roles(l.t)) ||
        (rc = an_trace_waits(l.t)))
        goto out;
    rc = an_arena_failed(l.t->arena) ? TACHO_ENOMEM : 0;
out:
    free(slice_track);
    free(counter_track);
    free(l.track);
    free(l.strings.id);
    free(l.details.id);
    free(l.processes.id);
    free(l.tracks.id);
    free(l.wanted.id);
    if (!rc) {
        *out = l.t;
        return 0;
    }
    const struct tacho_error *e = store_reader_error(r);
    if (e && e->code && !l.rc)
        tacho_fail(err, rc, e->hint, "%s", e->what);
    else
        tacho_fail(err, rc, NULL, "reading the run: %s", tacho_error_text(rc));
    an_trace_free(l.t);
    return rc;
}

int an_trace_load(store_reader *r, struct an_trace **out, struct tacho_error *err)
{
    return an_trace_load_part(r, NULL, out, err);
}

void an_trace_free(struct an_trace *t)
{
    if (!t)
        return;
    void *all[] = {t->string,
                   t->detail,
                   t->process,
                   t->track,
                   t->slice.start,
                   t->slice.dur,
                   t->slice.name,
                   t->slice.category,
                   t->slice.detail,
                   t->slice.parent,
                   t->slice.correlation,
                   t->counter.time,
                   t->counter.value,
                   t->step,
                   t->loss,
                   t->ceiling,
                   t->key,
                   t->aggregate.process,
                   t->aggregate.track,
                   t->aggregate.name,
                   t->aggregate.step,
                   t->aggregate.detail,
                   t->aggregate.calls,
                   t->aggregate.total,
                   t->aggregate.self,
                   t->aggregate.category,
                   t->stack.frame,
                   t->stack.parent,
                   t->stack.samples,
                   t->name_role,
                   t->name_api};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    an_arena_free(t->arena);
    free(t);
}

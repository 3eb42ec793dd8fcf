/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/trace/trace_part.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"

#define BLOCK  2048 /* rows: how far back it is looked whether the order of ids holds */
#define PROBES 2048 /* slices that are looked at where ids tell nothing of time */

enum table { SLICE, COUNTER, STEP };

/* Rows `from` to `stop` of a table; where there are none, the first one behind. */
struct look {
    int64_t stop;
    int64_t start, end, newest; /* of the last one; latest end of all */
    bool found;
};

static int see(struct look *l, int64_t id, int64_t start, int64_t end)
{
    if (l->found && id > l->stop)
        return 1;
    l->newest = l->found && l->newest > end ? l->newest : end;
    l->start = start;
    l->end = end;
    l->found = true;
    return id >= l->stop;
}

static int see_slice(void *ctx, const struct store_slice *x)
{
    return see(ctx, x->id, x->start,
               x->dur == STORE_ABSENT ? x->start : an_time_add(x->start, x->dur));
}

static int see_counter(void *ctx, const struct store_counter *x)
{
    return see(ctx, x->id, x->time, x->time);
}

static int see_step(void *ctx, const struct store_step *x)
{
    return see(ctx, x->id, x->start, x->end == STORE_ABSENT ? x->start : x->end);
}

static int look(store_reader *r, enum table table, int64_t from, int64_t stop, struct look *l)
{
    *l = (struct look){.stop = stop};
    int rc = table == SLICE     ? store_slice_each(r, from, see_slice, l)
             : table == COUNTER ? store_counter_each(r, from, see_counter, l)
                                : store_step_from(r, from, see_step, l);
    return rc < 0 ? rc : 0;
}

/* About the first id whose row ends at or after `time`, as if ids grew with the ends of rows. */
static int bisect(store_reader *r, enum table table, int64_t last, int64_t time, int64_t *id)
{
    struct look l;
    int64_t low = 1, high = last + 1;
    int rc;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((rc = look(r, table, middle, middle, &l)))
            return rc;
        if (l.found && l.end < time)
            low = middle + 1;
        else
            high = middle;
    }
    *id = low;
    return 0;
}

/* The first id from which rows may end at or after `time`: from there back until a whole block lies
 * before it. */
static int first_id(store_reader *r, enum table table, int64_t last, int64_t time, int64_t *id)
{
    struct look l;
    int64_t low;
    int rc = bisect(r, table, last, time, &low);
    if (rc)
        return rc;
    while (low > 1) {
        int64_t from = low > BLOCK ? low - BLOCK : 1;
        if ((rc = look(r, table, from, low - 1, &l)))
            return rc;
        if (l.newest < time)
            break;
        low = from;
    }
    *id = low;
    return 0;
}

/* ---- runs whose rows stand in any order --------------------------------------------------------------------------------------- */

static int order(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* The time at which `slices` slices have not ended yet, from ends of slices that are looked at here
 * and there. */
static int time_by_sample(store_reader *r, int64_t last, int64_t slices, int64_t until,
                          int64_t *time)
{
    static const int64_t none = 0;
    int64_t *end = malloc(PROBES * sizeof *end), step = last / PROBES + 1;
    size_t n = 0;
    int rc = end ? 0 : TACHO_ENOMEM;
    for (int64_t id = 1; !rc && id <= last && n < PROBES; id += step) {
        struct look l;
        rc = look(r, SLICE, id, id, &l);
        if (!rc && l.found && l.end <= until)
            end[n++] = l.end;
    }
    if (!rc && n) {
        qsort(end, n, sizeof *end, order);
        size_t keep = (size_t)(slices / step) + 1;
        *time = end[n > keep ? n - keep : 0];
    } else if (!rc) {
        *time = none;
    }
    free(end);
    return rc;
}

static int on_key(void *ctx, const char *key, const char *value)
{
    bool *ordered = ctx;
    if (value && (!strcmp(key, "source") || !strcmp(key, "merge.files")))
        *ordered = false;
    return 0;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

/* The newest rows of `step` before `until`, in a ring; of each process AN_PART_STEPS_LEAST shall
 * lie in the part. */
#define RING 512
struct steps {
    struct store_step ring[RING];
    size_t count;
    int64_t until, t0;
    struct an_trace_part *part;
};

static int keep_step(void *ctx, const struct store_step *x)
{
    struct steps *s = ctx;
    if (x->end != STORE_ABSENT && x->end <= s->until)
        s->ring[s->count++ % RING] = *x;
    return 0;
}

/* Start of the part, so that enough steps of each process lie in it: the earliest of their starts;
 * INT64_MAX: there are none.
 */
static int64_t start_of_least(const struct steps *s)
{
    size_t n = s->count < RING ? s->count : RING;
    int64_t t0 = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct store_step *x = &s->ring[(s->count - 1 - i) % RING];
        int newer = 0;
        for (size_t k = 0; k < i; k++)
            newer += s->ring[(s->count - 1 - k) % RING].process == x->process;
        if (newer < AN_PART_STEPS_LEAST)
            t0 = x->start < t0 ? x->start : t0;
    }
    return t0;
}

/* From the first step that begins in the part on. */
static int first_step(void *ctx, const struct store_step *x)
{
    struct steps *s = ctx;
    if (x->start >= s->part->t0 && x->start < s->t0)
        s->t0 = x->start;
    return 0;
}

static int count_step(void *ctx, const struct store_step *x)
{
    struct an_trace_part *p = ctx;
    if (x->start < p->t0 || x->start > p->t1)
        return 0;
    p->first_index = !p->steps || x->index < p->first_index ? x->index : p->first_index;
    p->last_index = !p->steps || x->index > p->last_index ? x->index : p->last_index;
    p->steps++;
    return 0;
}

static int fit_steps(store_reader *r, int64_t slices, int64_t last, int64_t high,
                     struct an_trace_part *p)
{
    struct steps s = {.until = p->t1, .part = p};
    int64_t from = 1, least_slice, steps_end;
    int rc = 0;
    if (p->ordered) {
        if ((rc = first_id(r, STEP, p->last_step_row, p->t1, &steps_end)))
            return rc;
        from = steps_end > RING ? steps_end - RING : 1;
    }
    if ((rc = store_step_from(r, from, keep_step, &s)))
        return rc;
    int64_t least = start_of_least(&s);
    if (least < p->t0 && p->ordered) {
        if ((rc = first_id(r, SLICE, last, least, &least_slice)))
            return rc;
        if (high - least_slice <= AN_PART_STRETCH * slices)
            p->t0 = least;
    } else if (least < p->t0) {
        p->t0 = least; /* steps of an import are few and large */
    }
    p->step = 1;
    if (p->ordered && (rc = first_id(r, STEP, p->last_step_row, p->t0, &p->step)))
        return rc;
    s.t0 = INT64_MAX;
    if ((rc = store_step_from(r, p->step, first_step, &s)))
        return rc;
    if (s.t0 != INT64_MAX)
        p->t0 = s.t0;
    p->last_index = -1;
    return store_step_from(r, p->step, count_step, p);
}

/* Rows of step_aggregate follow the rows of their steps: so many of all as of the steps, and some
 * more for safety. */
static int first_aggregate(store_reader *r, struct an_trace_part *p)
{
    int64_t last;
    int rc = store_last_id(r, "step_aggregate", &last);
    p->aggregate = 1;
    if (rc || !p->ordered || !p->last_step_row)
        return rc;
    double share = (double)(p->last_step_row - p->step + 2) / (double)p->last_step_row;
    int64_t rows = (int64_t)(share * (double)last * 1.5) + BLOCK;
    p->aggregate = rows < last ? last - rows : 1;
    return 0;
}

/* Highest id of a table, of a damaged file too: one that has a successor. */
static int last_of(store_reader *r, const char *table, int64_t *id)
{
    int rc = store_last_id(r, table, id);
    *id -= *id == INT64_MAX;
    return rc;
}

int an_trace_part_find(store_reader *r, int64_t slices, int64_t until, struct an_trace_part *p)
{
    struct look l;
    int64_t last, high;
    int rc;
    *p = (struct an_trace_part){.ordered = true, .t1 = until, .last_index = -1};
    if ((rc = last_of(r, "slice", &last)))
        return rc;
    if (last <= slices && until == INT64_MAX) {
        p->whole = true;
        return 0;
    }
    if ((rc = last_of(r, "step", &p->last_step_row)) ||
        (rc = last_of(r, "counter", &p->last_counter_row)) ||
        (rc = store_run_each(r, on_key, &p->ordered)))
        return rc;
    high = last + 1;
    p->slice = p->counter = 1;
    if (!p->ordered) {
        rc = time_by_sample(r, last, slices, until, &p->t0);
    } else {
        if (until != INT64_MAX && (rc = bisect(r, SLICE, last, until, &high)))
            return rc;
        rc = high > slices ? look(r, SLICE, high - slices, high - slices, &l) : 0;
        p->t0 = high > slices ? l.end : INT64_MIN; /* so few: from the beginning of the run */
    }
    if (rc || (rc = fit_steps(r, slices, last, high, p)) || (rc = first_aggregate(r, p)))
        return rc;
    if (p->ordered && ((rc = first_id(r, SLICE, last, p->t0, &p->slice)) ||
                       (rc = first_id(r, COUNTER, p->last_counter_row, p->t0, &p->counter))))
        return rc;
    p->slices = !p->ordered ? slices : high > p->slice ? high - p->slice : 1;
    return 0;
}

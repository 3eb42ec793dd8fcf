/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the newest part of a run that holds about a given number of slices, without reading the
 * run. While a run is recorded its rows are written nearly in the order of their ends, so ids are
 * bisected by time; BLOCK rows before the result are read to make sure that no late row lies in
 * the part. Merged and imported runs have no such order: there a sample of the slices gives the
 * time, and the tables are scanned later.
 */
#include "analyzers/trace/trace_part.h"

#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"

#define BLOCK  2048 /* rows that are read before an id, to check that ids grow with time there */
#define PROBES 2048 /* slices that are sampled if ids do not grow with time */

enum table { SLICE, COUNTER, STEP };

/* The times of the rows up to `stop` of a table; if there are none, of the first row after it. */
struct rows_seen {
    int64_t stop;
    int64_t start, end, newest; /* of the last one; latest end of all */
    bool found;
};

static int note_times(struct rows_seen *seen, int64_t id, int64_t start, int64_t end)
{
    if (seen->found && id > seen->stop)
        return 1;
    seen->newest = seen->found && seen->newest > end ? seen->newest : end;
    seen->start = start;
    seen->end = end;
    seen->found = true;
    return id >= seen->stop;
}

static int see_slice(void *ctx, const struct store_slice *slice)
{
    return note_times(ctx, slice->id, slice->start,
                      slice->dur == STORE_ABSENT ? slice->start
                                                 : an_time_add(slice->start, slice->dur));
}

static int see_counter(void *ctx, const struct store_counter *counter)
{
    return note_times(ctx, counter->id, counter->time, counter->time);
}

static int see_step(void *ctx, const struct store_step *step)
{
    return note_times(ctx, step->id, step->start,
                      step->end == STORE_ABSENT ? step->start : step->end);
}

static int read_rows(store_reader *reader, enum table table, int64_t from, int64_t stop,
                     struct rows_seen *out)
{
    *out = (struct rows_seen){.stop = stop};
    int rc;
    if (table == SLICE)
        rc = store_slice_each(reader, from, see_slice, out);
    else if (table == COUNTER)
        rc = store_counter_each(reader, from, see_counter, out);
    else
        rc = store_step_from(reader, from, see_step, out);
    return rc < 0 ? rc : 0;
}

/* About the first id whose row ends at or after `time`, as if ids grew with the ends of rows. */
static int bisect(store_reader *reader, enum table table, int64_t last, int64_t time, int64_t *id)
{
    struct rows_seen seen;
    int64_t low = 1, high = last + 1;
    int rc;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((rc = read_rows(reader, table, middle, middle, &seen)))
            return rc;
        if (seen.found && seen.end < time)
            low = middle + 1;
        else
            high = middle;
    }
    *id = low;
    return 0;
}

/* The first id from which rows may end at or after `time`: from there back until a whole block lies
 * before it. */
static int first_id(store_reader *reader, enum table table, int64_t last, int64_t time, int64_t *id)
{
    struct rows_seen seen;
    int64_t low;
    int rc = bisect(reader, table, last, time, &low);
    if (rc)
        return rc;
    while (low > 1) {
        int64_t from = low > BLOCK ? low - BLOCK : 1;
        if ((rc = read_rows(reader, table, from, low - 1, &seen)))
            return rc;
        if (seen.newest < time)
            break;
        low = from;
    }
    *id = low;
    return 0;
}

/* ---- runs whose rows are in any order --------------------------------------------------------------------------------------- */

static int order(const void *first, const void *second)
{
    const int64_t *left = first, *right = second;
    return AN_COMPARE(*left, *right);
}

/* Finds the time at which about `slices` slices had not ended yet, from the ends of PROBES slices
 * that are spread evenly over the ids. */
static int time_by_sample(store_reader *reader, int64_t last, int64_t slices, int64_t until,
                          int64_t *time)
{
    static const int64_t none = 0;
    int64_t *end = malloc(PROBES * sizeof *end), step = last / PROBES + 1;
    size_t count = 0;
    int rc = end ? 0 : TACHO_ENOMEM;
    for (int64_t id = 1; !rc && id <= last && count < PROBES; id += step) {
        struct rows_seen seen;
        rc = read_rows(reader, SLICE, id, id, &seen);
        if (!rc && seen.found && seen.end <= until)
            end[count++] = seen.end;
    }
    if (!rc && count) {
        qsort(end, count, sizeof *end, order);
        size_t keep = (size_t)(slices / step) + 1;
        *time = end[count > keep ? count - keep : 0];
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

/* The newest rows of `step` that end before `until`, in a ring: enough to find the last
 * AN_PART_STEPS_LEAST of each process. */
#define RING 512
struct steps {
    struct store_step ring[RING];
    size_t count;
    int64_t until, t0;
    struct an_trace_part *part;
};

static int keep_step(void *ctx, const struct store_step *step)
{
    struct steps *steps = ctx;
    if (step->end != STORE_ABSENT && step->end <= steps->until)
        steps->ring[steps->count++ % RING] = *step;
    return 0;
}

/* Returns where the part must start to hold enough steps of each process: the earliest of their
 * starts, INT64_MAX without steps. */
static int64_t start_of_least(const struct steps *steps)
{
    size_t count = steps->count < RING ? steps->count : RING;
    int64_t start = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct store_step *step = &steps->ring[(steps->count - 1 - i) % RING];
        int newer = 0;
        for (size_t k = 0; k < i; k++)
            newer += steps->ring[(steps->count - 1 - k) % RING].process == step->process;
        if (newer < AN_PART_STEPS_LEAST)
            start = step->start < start ? step->start : start;
    }
    return start;
}

/* From the first step that begins in the part on. */
static int first_step(void *ctx, const struct store_step *step)
{
    struct steps *steps = ctx;
    if (step->start >= steps->part->t0 && step->start < steps->t0)
        steps->t0 = step->start;
    return 0;
}

static int count_step(void *ctx, const struct store_step *step)
{
    struct an_trace_part *part = ctx;
    if (step->start < part->t0 || step->start > part->t1)
        return 0;
    if (!part->steps)
        part->first_index = part->last_index = step->index;
    part->first_index = an_time_min(part->first_index, step->index);
    part->last_index = an_time_max(part->last_index, step->index);
    part->steps++;
    return 0;
}

/* Moves the start of the part so that it begins with a step and holds at least AN_PART_STEPS_LEAST
 * complete steps of each process, unless that makes the part more than AN_PART_STRETCH times as
 * large as was asked for. Then counts the steps of the part. */
static int fit_steps(store_reader *reader, int64_t slices, int64_t last, int64_t high,
                     struct an_trace_part *part)
{
    struct steps steps = {.until = part->t1, .part = part};
    int64_t from = 1, least_slice, steps_end;
    int rc = 0;
    if (part->ordered) {
        if ((rc = first_id(reader, STEP, part->last_step_row, part->t1, &steps_end)))
            return rc;
        from = steps_end > RING ? steps_end - RING : 1;
    }
    if ((rc = store_step_from(reader, from, keep_step, &steps)))
        return rc;
    int64_t least = start_of_least(&steps);
    if (least < part->t0 && part->ordered) {
        if ((rc = first_id(reader, SLICE, last, least, &least_slice)))
            return rc;
        if (high - least_slice <= AN_PART_STRETCH * slices)
            part->t0 = least;
    } else if (least < part->t0) {
        part->t0 = least; /* steps of an import are few and large */
    }
    part->step = 1;
    if (part->ordered && (rc = first_id(reader, STEP, part->last_step_row, part->t0, &part->step)))
        return rc;
    steps.t0 = INT64_MAX;
    if ((rc = store_step_from(reader, part->step, first_step, &steps)))
        return rc;
    if (steps.t0 != INT64_MAX)
        part->t0 = steps.t0;
    part->last_index = -1;
    return store_step_from(reader, part->step, count_step, part);
}

/* Finds the first row of step_aggregate to read. These rows follow the rows of their steps, so the
 * part has about the same share of both tables; some more are read for safety. */
static int first_aggregate(store_reader *reader, struct an_trace_part *part)
{
    int64_t last;
    int rc = store_last_id(reader, "step_aggregate", &last);
    part->aggregate = 1;
    if (rc || !part->ordered || !part->last_step_row)
        return rc;
    double share = (double)(part->last_step_row - part->step + 2) / (double)part->last_step_row;
    int64_t rows = (int64_t)(share * (double)last * 1.5) + BLOCK;
    part->aggregate = rows < last ? last - rows : 1;
    return 0;
}

/* Highest id of a table, of a damaged file too: one that has a successor. */
static int last_of(store_reader *reader, const char *table, int64_t *id)
{
    int rc = store_last_id(reader, table, id);
    *id -= *id == INT64_MAX;
    return rc;
}

int an_trace_part_find(store_reader *reader, int64_t slices, int64_t until,
                       struct an_trace_part *part)
{
    struct rows_seen seen;
    int64_t last, high;
    int rc;
    *part = (struct an_trace_part){.ordered = true, .t1 = until, .last_index = -1};
    if ((rc = last_of(reader, "slice", &last)))
        return rc;
    if (last <= slices && until == INT64_MAX) {
        part->whole = true;
        return 0;
    }
    if ((rc = last_of(reader, "step", &part->last_step_row)) ||
        (rc = last_of(reader, "counter", &part->last_counter_row)) ||
        (rc = store_run_each(reader, on_key, &part->ordered)))
        return rc;
    high = last + 1;
    part->slice = part->counter = 1;
    if (!part->ordered) {
        rc = time_by_sample(reader, last, slices, until, &part->t0);
    } else {
        if (until != INT64_MAX && (rc = bisect(reader, SLICE, last, until, &high)))
            return rc;
        rc = high > slices ? read_rows(reader, SLICE, high - slices, high - slices, &seen) : 0;
        part->t0 = high > slices ? seen.end : INT64_MIN; /* the part begins with the run */
    }
    if (rc || (rc = fit_steps(reader, slices, last, high, part)) ||
        (rc = first_aggregate(reader, part)))
        return rc;
    if (part->ordered &&
        ((rc = first_id(reader, SLICE, last, part->t0, &part->slice)) ||
         (rc = first_id(reader, COUNTER, part->last_counter_row, part->t0, &part->counter))))
        return rc;
    part->slices = part->ordered ? an_time_max(high - part->slice, 1) : slices;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python was doing in the steps, by line: the looks at the frames of the threads that run
 * steps, joined to the class of the step budget at that instant. Looks at other processes are
 * those of the workers of a loader.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/budget/budget.h"
#include "analyzers/device/value_wait.h"
#include "analyzers/pictures/python.h"
#include "analyzers/pictures/python_lines.h"

#define LOOKS_LEAST 10 /* at one line of one thread */
#define LINES_MOST  200

struct looks {
    struct an_context *context;
    struct an_python_counts steps, workers;
    int64_t busy;  /* in time of other classes than host and unattributed */
    int64_t plain; /* in host or unattributed time, while it did not wait for a core */
    int64_t worker_looks;
    int64_t state[2][3]; /* of all looks in steps, of those in unattributed time: by state */
};

/* The state of a thread by the unit of its track: 0 running, 1 runnable, 2 asleep. */
static int state_of(const struct an_track *track)
{
    if (!strcmp(track->unit, "running"))
        return 0;
    return strcmp(track->unit, "runnable") ? 2 : 1;
}

/* Is a thread at that time in a range of the host of which a finding of its own speaks? */
static bool has_finding(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    static const char *const name[] = {"gc.collect ", "loader workers ",
                                       "unused parameters looked for"};
    size_t after = an_slice_seek(trace, track, an_time_add(time, 1));
    uint32_t at = after > track->slice_first ? (uint32_t)(after - 1) : AN_NONE;
    for (int depth = 0; at != AN_NONE && depth < AN_DEPTH_MAX; depth++) {
        const char *text = an_trace_name(trace, trace->slice.name[at]);
        bool found = an_slice_value_wait(trace, at, NULL);
        for (size_t i = 0; i < sizeof name / sizeof *name && !found; i++)
            found = !strncmp(text, name[i], strlen(name[i]));
        if (found && an_slice_end(trace, at) > time)
            return true;
        at = trace->slice.parent[at];
    }
    return false;
}

/* Is a backward pass the next thing that the thread does? Gradients may be set to zero before it.
 */
static bool is_before_backward(const struct an_trace *trace, const struct an_track *track,
                               int64_t time)
{
    size_t next = an_slice_seek(trace, track, an_time_add(time, 1));
    while (next < an_track_end(track) &&
           !strcmp(an_trace_name(trace, trace->slice.name[next]), "zero_grad"))
        next++;
    return next < an_track_end(track) &&
           !strcmp(an_trace_name(trace, trace->slice.name[next]), "backward");
}

/* `track`: of the thread that was looked at, NULL: it runs no steps. */
static void count_look(struct looks *looks, size_t i, enum an_class class,
                       const struct an_track *track)
{
    const struct an_trace *trace = looks->context->trace;
    const struct an_python_looks *python = &trace->python;
    int state = state_of(&trace->track[python->track[i]]);
    bool is_host = class == AN_CLASS_HOST || class == AN_CLASS_UNATTRIBUTED,
         is_open = is_host && !(track && has_finding(trace, track, python->time[i]));
    looks->steps.all[python->stack[i]]++;
    looks->steps.host[python->stack[i]] += is_host;
    looks->busy += !is_host;
    looks->plain += is_host && state != 1;
    looks->steps.plain[python->stack[i]] += is_open && state != 1;
    looks->steps.asleep[python->stack[i]] += is_open && state == 2;
    looks->steps.loss[python->stack[i]] +=
        is_open && state == 0 && track && is_before_backward(trace, track, python->time[i]);
    looks->steps.fetch[python->stack[i]] += class == AN_CLASS_INPUT;
    looks->state[0][state]++;
    if (class == AN_CLASS_UNATTRIBUTED)
        looks->state[1][state]++;
}

/* ---- looks inside of steps ------------------------------------------------------------------- */

/* The looks at one thread, by time. */
struct rows {
    struct row {
        int64_t time;
        size_t look;
    } * at;
    size_t count, room;
};

static int by_time(const void *first, const void *second)
{
    const struct row *left = first, *right = second;
    return 2 * AN_COMPARE(left->time, right->time) + AN_COMPARE(left->look, right->look);
}

static bool is_of_lane(const struct an_trace *trace, const struct an_lane *lane, size_t i)
{
    uint32_t track = trace->python.track[i];
    return track != AN_NONE && lane->track != AN_NONE &&
           trace->track[track].process == lane->process &&
           trace->track[track].tid == trace->track[lane->track].tid;
}

static int rows_of_lane(const struct an_trace *trace, const struct an_lane *lane, struct rows *rows)
{
    rows->count = 0;
    for (size_t i = 0; i < trace->python.count; i++) {
        if (!is_of_lane(trace, lane, i))
            continue;
        if (an_grow(&rows->at, &rows->room, rows->count + 1, sizeof *rows->at))
            return TACHO_ENOMEM;
        rows->at[rows->count++] = (struct row){trace->python.time[i], i};
    }
    if (rows->count)
        qsort(rows->at, rows->count, sizeof *rows->at, by_time);
    return 0;
}

/* Counts the looks in the pieces of one step. */
static void count_in_step(struct looks *looks, const struct rows *rows,
                          const struct an_class_spans *spans, const struct an_track *track)
{
    size_t low = 0, high = rows->count;
    if (!spans->count)
        return;
    AN_BISECT(low, high, rows->at[middle].time < spans->at[0].span.start);
    for (size_t i = low, k = 0; i < rows->count && k < spans->count;) {
        if (rows->at[i].time >= spans->at[k].span.end)
            k++;
        else if (rows->at[i++].time >= spans->at[k].span.start)
            count_look(looks, rows->at[i - 1].look, spans->at[k].class, track);
    }
}

/* The pieces of a step by class; on a device the host's part of it as one piece, whose class is
 * not known. */
static int spans_of_step(struct an_context *context, const struct an_step *step,
                         struct an_class_spans *spans)
{
    if (context->lane[step->lane].device == AN_NONE)
        return an_budget_spans(context, step, spans);
    if (an_grow(&spans->at, &spans->room, 1, sizeof *spans->at))
        return TACHO_ENOMEM;
    spans->at[0] = (struct an_class_span){{step->host_start, step->host_end}, AN_CLASS_COMPUTE};
    spans->count = 1;
    return 0;
}

/* Counts the looks at the thread of a lane; `spans` and `rows` are memory for it. */
static int count_lane(struct looks *looks, const struct an_lane *lane, struct an_class_spans *spans,
                      struct rows *rows)
{
    struct an_context *context = looks->context;
    if (lane->track == AN_NONE)
        return 0;
    int rc = rows_of_lane(context->trace, lane, rows);
    for (size_t k = lane->first; k < an_lane_end(lane) && rc == 0; k++) {
        if (!an_step_detailed(&context->step[k]))
            continue;
        rc = spans_of_step(context, &context->step[k], spans);
        if (rc == 0)
            count_in_step(looks, rows, spans, &context->trace->track[lane->track]);
    }
    return rc;
}

/* Counts the looks at the threads of some lanes. */
static int count_steps(struct looks *looks, size_t first, size_t count)
{
    struct an_class_spans spans = {0};
    struct rows rows = {0};
    int rc = 0;
    for (size_t i = first; i < first + count && rc == 0; i++)
        rc = count_lane(looks, &looks->context->lane[i], &spans, &rows);
    free(spans.at);
    free(rows.at);
    return rc;
}

/* The same with counts that are made here, in *column, which the caller frees. */
static int count_lanes(struct looks *looks, size_t first, size_t count, int64_t **column)
{
    size_t stacks = looks->context->trace->stack.count;
    int64_t *at = *column = calloc(6 * stacks + 1, sizeof **column);
    if (!at)
        return TACHO_ENOMEM;
    looks->steps = (struct an_python_counts){.all = at,
                                             .host = at + stacks,
                                             .plain = at + 2 * stacks,
                                             .asleep = at + 3 * stacks,
                                             .loss = at + 4 * stacks,
                                             .fetch = at + 5 * stacks};
    return count_steps(looks, first, count);
}

/* ---- other looks ----------------------------------------------------------------------------- */

/* Is the thread the first one of its process? */
static bool is_main(const struct an_trace *trace, const struct an_track *track)
{
    return track->process != AN_NONE && trace->process[track->process].pid == track->tid;
}

/* Counts the looks at first threads of processes: without steps all of them, else those of
 * processes that run no steps, as workers, while they do not sleep. */
static void count_others(struct looks *looks)
{
    const struct an_trace *trace = looks->context->trace;
    for (size_t i = 0; i < trace->python.count; i++) {
        uint32_t at = trace->python.track[i];
        if (at == AN_NONE || !is_main(trace, &trace->track[at]))
            continue;
        if (!looks->context->lane_count) {
            count_look(looks, i, AN_CLASS_COMPUTE, NULL);
            continue;
        }
        if (an_own_lane(looks->context, trace->track[at].process) != AN_NONE)
            continue;
        looks->worker_looks++;
        looks->workers.all[trace->python.stack[i]] += state_of(&trace->track[at]) != 2;
        looks->workers.fetch[trace->python.stack[i]]++;
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int by_own(const void *first, const void *second)
{
    const struct an_python_line *left = first, *right = second;
    if (left->own != right->own)
        return left->own < right->own ? 1 : -1;
    if (left->self != right->self)
        return left->self < right->self ? 1 : -1;
    if (left->total != right->total)
        return left->total < right->total ? 1 : -1;
    return strcmp(left->function, right->function);
}

static struct an_value share(int64_t part, int64_t all)
{
    return an_num_if(all, 100.0 * (double)part / (double)(all ? all : 1), "no look was made");
}

static bool was_seen(const struct an_python_line *line)
{
    return line->total > 0 || line->fetch > 0;
}

/* The lines of these counts, largest first; *count: without those at which every look slept. */
static int list_lines(struct an_context *context, struct an_python_sums *sums, int64_t all,
                      const struct an_python_line **list, size_t *count, size_t *with_sleep)
{
    const struct an_trace *trace = context->trace;
    size_t rows = 0, kept = 0, asleep = 0;
    for (size_t i = 0; i < trace->string_count; i++)
        rows += was_seen(&sums->line[i]);
    struct an_python_line *line = an_arena_zero(context->arena, rows, sizeof *line);
    if (!line)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < trace->string_count; i++) {
        if (!was_seen(&sums->line[i]) ||
            !an_python_label(context, an_trace_name(trace, i), &sums->line[i]))
            continue;
        asleep += !sums->line[i].total;
        line[kept] = sums->line[i];
        line[kept].program = an_python_kind(trace, sums, i) == AN_PYTHON_PROGRAM;
        line[kept].self_pct = share(line[kept].self, all);
        line[kept].total_pct = share(line[kept].total, all);
        line[kept].own_pct = share(line[kept].own, all);
        line[kept].host_pct = share(line[kept].host, all);
        kept++;
    }
    if (kept)
        qsort(line, kept, sizeof *line, by_own);
    *list = line;
    *with_sleep = kept > LINES_MOST ? LINES_MOST : kept;
    *count = kept - asleep < *with_sleep ? kept - asleep : *with_sleep;
    return 0;
}

static int make_lines(struct an_context *context, const struct an_python_counts *counts,
                      int64_t all, const struct an_python_line **list, size_t *count,
                      size_t *with_sleep)
{
    bool of_worker = list == &context->result->python.worker;
    struct an_python_sums sums;
    int rc = an_python_sums_make(&sums, context->trace->string_count + 1);
    for (uint32_t i = 0; rc == 0 && i < context->trace->stack.count; i++)
        if (counts->all[i] || counts->fetch[i])
            an_python_add_stack(context->trace, &sums, i, counts, of_worker);
    if (rc == 0)
        rc = list_lines(context, &sums, all, list, count, with_sleep);
    an_python_sums_free(&sums);
    return rc;
}

/* ---- one thread ------------------------------------------------------------------------------ */

/* The name of the line with most looks that are plain, AN_NONE: too few. */
static uint32_t most_plain(const struct an_trace *trace, struct an_python_sums *sums,
                           const struct an_python_counts *counts)
{
    uint32_t most = AN_NONE;
    for (uint32_t i = 0; i < trace->stack.count; i++)
        if (counts->all[i])
            an_python_add_stack(trace, sums, i, counts, false);
    for (uint32_t i = 0; i < trace->string_count; i++)
        if (sums->line[i].plain >= LOOKS_LEAST &&
            (most == AN_NONE || sums->line[i].plain > sums->line[most].plain))
            most = i;
    return most;
}

int an_python_line_of_lane(struct an_context *context, size_t lane, struct an_python_line *line,
                           double *pct)
{
    const struct an_trace *trace = context->trace;
    if (!trace->python.count || !trace->stack.count || context->lane[lane].device != AN_NONE)
        return 0;
    struct looks looks = {.context = context};
    int64_t *column = NULL, all = 0;
    struct an_python_sums sums;
    int rc = an_python_sums_make(&sums, trace->string_count + 1);
    if (rc == 0)
        rc = count_lanes(&looks, lane, 1, &column);
    for (int i = 0; i < 3; i++)
        all += looks.state[0][i];
    uint32_t most = rc == 0 ? most_plain(trace, &sums, &looks.steps) : AN_NONE;
    if (most != AN_NONE && an_python_label(context, an_trace_name(trace, most), &sums.line[most])) {
        *line = sums.line[most];
        *pct = 100.0 * (double)line->plain / (double)all;
        rc = 1;
    }
    free(column);
    an_python_sums_free(&sums);
    return rc;
}

int64_t an_python_before_backward(struct an_context *context, const struct an_python_line *first,
                                  int64_t from, int64_t to)
{
    const struct an_trace *trace = context->trace;
    struct looks looks = {.context = context};
    struct an_python_sums sums;
    int64_t *column = NULL, sum = 0;
    int rc = an_python_sums_make(&sums, trace->string_count + 1);
    if (rc == 0)
        rc = count_lanes(&looks, 0, context->lane_count, &column);
    for (uint32_t i = 0; rc == 0 && i < trace->stack.count; i++)
        if (looks.steps.all[i])
            an_python_add_stack(trace, &sums, i, &looks.steps, false);
    for (uint32_t i = 0; rc == 0 && i < trace->string_count; i++) {
        struct an_python_line *line = &sums.line[i];
        if (sums.loss[i] && an_python_label(context, an_trace_name(trace, i), line) &&
            line->line >= from && line->line <= to && !strcmp(line->function, first->function) &&
            !strcmp(line->file, first->file))
            sum += sums.loss[i];
    }
    free(column);
    an_python_sums_free(&sums);
    return sum;
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

static struct an_python_states states(const int64_t state[3], int64_t all)
{
    int64_t looks = state[0] + state[1] + state[2];
    return (struct an_python_states){.looks = looks,
                                     .share_pct = share(looks, all),
                                     .running_pct = share(state[0], looks),
                                     .runnable_pct = share(state[1], looks),
                                     .asleep_pct = share(state[2], looks)};
}

static void absent(struct an_context *context, const char *reason)
{
    struct an_python *python = &context->result->python;
    *python = (struct an_python){.reason = reason,
                                 .looks = an_int_none(reason),
                                 .torn = an_int_none(reason),
                                 .worker_looks = an_int_none(reason),
                                 .hz = an_num_none(reason)};
    struct an_value none = an_num_none(reason);
    python->all = python->unattributed = (struct an_python_states){0, none, none, none, none};
}

/* Why there are no looks. */
static const char *reason_of(struct an_context *context)
{
    const char *status = an_trace_key(context->trace, "python");
    if (!status)
        return "not looked at: tacho run looks at Python unless --python-hz is 0";
    if (!strncmp(status, "not sampled", 11))
        return an_arena_text(context->arena, status);
    return "Python was not looked at while it ran";
}

static int fill(struct looks *looks)
{
    struct an_context *context = looks->context;
    struct an_python *python = &context->result->python;
    int64_t number, all = 0, workers = 0;
    size_t with_sleep;
    for (int i = 0; i < 3; i++)
        all += looks->state[0][i];
    for (size_t i = 0; i < context->trace->stack.count; i++)
        workers += looks->workers.all[i];
    python->busy = looks->busy;
    python->plain = looks->plain;
    const char *how = an_trace_key(context->trace, "python");
    python->how = an_arena_text(context->arena, how ? how : "sampled: frames of Python");
    python->window = context->lane_count ? an_window_text(context) : "the whole run";
    python->looks = an_int(all);
    python->worker_looks = an_int(looks->worker_looks);
    const char *unknown = "the file does not say";
    bool known = an_trace_key_integer(context->trace, "python.torn", &number);
    python->torn = known ? an_int(number) : an_int_none(unknown);
    known = an_trace_key_integer(context->trace, "python.hz", &number);
    python->hz = an_num_if(known, known ? (double)number : 0, unknown);
    python->all = states(looks->state[0], all);
    python->unattributed = states(looks->state[1], all);
    int rc =
        make_lines(context, &looks->steps, all, &python->line, &python->line_count, &with_sleep);
    if (rc == 0)
        rc = make_lines(context, &looks->workers, workers, &python->worker, &python->worker_count,
                        &python->worker_asleep_count);
    return rc;
}

static int python_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct looks looks = {.context = context};
    size_t count = trace->stack.count;
    if (!trace->python.count || !count) {
        absent(context, reason_of(context));
        return 0;
    }
    int64_t **column[] = {&looks.steps.all,      &looks.steps.host,   &looks.steps.plain,
                          &looks.steps.asleep,   &looks.steps.loss,   &looks.steps.fetch,
                          &looks.workers.all,    &looks.workers.host, &looks.workers.plain,
                          &looks.workers.asleep, &looks.workers.loss, &looks.workers.fetch};
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        if (!(*column[i] = an_arena_zero(context->scratch, count, sizeof(int64_t))))
            return TACHO_ENOMEM;
    int rc = count_steps(&looks, 0, context->lane_count);
    if (rc)
        return rc;
    count_others(&looks);
    return fill(&looks);
}

const struct an_analyzer an_python_looks = {
    .name = "python",
    .help = "what Python was doing in the steps, by line",
    .after = "steps, phases, budget",
    .run = python_run,
    .absent = absent,
};

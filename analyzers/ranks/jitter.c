/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank jitter: no rank is slower than the others for long, but in each step another one is. Mean
 * over steps of (max - median over ranks) of own time, in each group of ranks that do the same
 * work. What coincides with it is the host cause whose time in a step deviates from the group's
 * median as the own time does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/sampled.h"
#include "analyzers/counters/system.h"
#include "analyzers/ranks/ranks_compare.h"

#define ALPHA     0.05
#define COINCIDES 0.5 /* correlation from which on a cause is named */

enum source { FROM_TOKENS, FROM_QUEUE, FROM_COLLECTOR, SOURCES };
static const char *const source_keys[SOURCES] = {"batch tokens", "run-queue wait", "collector"};

struct group {
    const struct an_rank_matrix *matrix;
    size_t *row, count;
    double *value;   /* of each of its rows in one step, and room to sort them */
    double *jitter;  /* of each step, ms */
    double *longest; /* the longest own time in each step, ms */
};

static uint32_t group_of(const struct an_context *context, const struct an_rank_matrix *matrix,
                         size_t row)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    return peers ? peers[matrix->lane[row]] : 0;
}

static double median_of(const struct group *group, double *sorted)
{
    memcpy(sorted, group->value, group->count * sizeof *sorted);
    return an_quantile_of(sorted, group->count, 0.5);
}

/* Mean over steps of (max - median), ms; of the group's steps in group->jitter. */
static double jitter_of(struct group *group)
{
    double sum = 0;
    for (size_t step = 0; step < group->matrix->steps; step++) {
        double most = 0;
        for (size_t i = 0; i < group->count; i++) {
            group->value[i] = group->matrix->own[group->row[i] * group->matrix->steps + step];
            most = fmax(most, group->value[i]);
        }
        group->longest[step] = most;
        group->jitter[step] = most - median_of(group, group->value + group->count);
        sum += group->jitter[step];
    }
    return sum / (double)group->matrix->steps;
}

/* The stage in which the longest rank of each step exceeds the group's median most, over all
 * steps; communication does not count, in it the others wait. */
static enum an_step_stage stage_of(struct group *group)
{
    double excess[AN_STAGE_COUNT] = {0}, most = 0;
    enum an_step_stage found = AN_STAGE_COUNT;
    for (size_t step = 0; step < group->matrix->steps; step++) {
        size_t longest = 0;
        for (size_t i = 1; i < group->count; i++)
            if (group->matrix->own[group->row[i] * group->matrix->steps + step] >
                group->matrix->own[group->row[longest] * group->matrix->steps + step])
                longest = i;
        for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
            for (size_t i = 0; i < group->count; i++)
                group->value[i] =
                    group->matrix->stage[stage][group->row[i] * group->matrix->steps + step];
            excess[stage] += group->value[longest] - median_of(group, group->value + group->count);
        }
    }
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (stage != AN_STAGE_COMM && excess[stage] > most) {
            most = excess[stage];
            found = (enum an_step_stage)stage;
        }
    return found;
}

/* ---- what coincides ----------------------------------------------------------------------------------------------------- */

static const struct an_track *queue_track(const struct an_trace *trace, const struct an_lane *lane)
{
    if (lane->process == AN_NONE)
        return NULL;
    AN_EACH_TRACK(trace, lane->process, k)
    if (an_system_track(&trace->track[k], "cpu_wait", false))
        return &trace->track[k];
    return NULL;
}

/* ns in ranges of the collector on the thread of a step. */
static double collector_ns(const struct an_trace *trace, const struct an_lane *lane,
                           const struct an_step *step)
{
    const struct an_track *track = &trace->track[lane->track];
    double sum = 0;
    for (size_t i = an_slice_seek(trace, track, step->host_start);
         i < an_track_end(track) && trace->slice.start[i] < step->host_end; i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        bool collects =
            !strcmp(name, "gc") || !strncmp(name, "gc.", 3) || !strncmp(name, "garbage", 7);
        sum += collects && trace->slice.dur[i] != AN_OPEN ? (double)trace->slice.dur[i] : 0;
    }
    return sum;
}

/* What a source says of a step; NAN: nothing. */
static double source_value(const struct an_context *context, const struct an_lane *lane,
                           const struct an_step *step, enum source source)
{
    const struct an_trace *trace = context->trace;
    double from, to;
    if (source == FROM_TOKENS)
        return step->tokens == STORE_ABSENT ? NAN : (double)step->tokens;
    if (lane->track == AN_NONE || step->host_end == STORE_ABSENT)
        return NAN;
    if (source == FROM_COLLECTOR)
        return collector_ns(trace, lane, step);
    const struct an_track *track = queue_track(trace, lane);
    return track && an_sampled_at(trace, track, step->host_start, &from) &&
                   an_sampled_at(trace, track, step->host_end, &to)
               ? to - from
               : NAN;
}

/* Correlation of the deviations of own time and of a source from the group's median in the same
 * step, over all ranks and steps; 0: the source says nothing, or nothing differs. */
static double coincides(const struct an_context *context, struct group *group, enum source source)
{
    const struct an_rank_matrix *matrix = group->matrix;
    double own_square = 0, value_square = 0, product = 0;
    for (size_t step = 0; step < matrix->steps; step++) {
        for (size_t i = 0; i < group->count; i++) {
            size_t cell = group->row[i] * matrix->steps + step;
            group->value[i] = source_value(context, &context->lane[matrix->lane[group->row[i]]],
                                           &context->step[matrix->step[cell]], source);
            if (isnan(group->value[i]))
                return 0;
        }
        double usual = median_of(group, group->value + group->count);
        for (size_t i = 0; i < group->count; i++) {
            double own = matrix->own[group->row[i] * matrix->steps + step] -
                         (group->longest[step] - group->jitter[step]),
                   value = group->value[i] - usual;
            own_square += own * own;
            value_square += value * value;
            product += own * value;
        }
    }
    return own_square > 0 && value_square > 0 ? product / sqrt(own_square * value_square) : 0;
}

static void find_cause(const struct an_context *context, struct group *group, struct an_jitter *out)
{
    double most = COINCIDES;
    for (int source = 0; source < SOURCES; source++) {
        double found = coincides(context, group, (enum source)source);
        if (found >= most) {
            most = found;
            out->cause = source_keys[source];
            out->correlation = an_num(found);
        }
    }
}

/* ---- the result --------------------------------------------------------------------------------------------------------- */

/* Gain if the longest rank of every step took the median, by steps: the means of blocks of steps
 * are taken as independent, with Student's interval. */
static void find_gain(const struct an_context *context, const struct group *group,
                      struct an_jitter *out)
{
    double block[10], steps_ms = 0;
    size_t steps = group->matrix->steps, blocks = sizeof block / sizeof *block;
    for (size_t step = 0; step < steps; step++)
        steps_ms +=
            (double)an_step_ns(&context->step[group->matrix->step[group->row[0] * steps + step]]) /
            1e6;
    steps_ms /= (double)steps;
    for (size_t i = 0; i < blocks; i++) {
        size_t from = i * steps / blocks, to = (i + 1) * steps / blocks;
        block[i] = an_mean(group->jitter + from, to - from);
    }
    double mean = an_mean(group->jitter, steps),
           half = an_quantile_of_tail(an_student_tail, ALPHA, (double)blocks - 1) *
                  an_sd(block, blocks) / sqrt((double)blocks);
    double most = fmin(mean + half, 0.99 * steps_ms), least = fmax(mean - half, 0);
    out->ms = an_num(mean);
    out->pct = an_num(100 * mean / steps_ms);
    out->gain = (struct an_gain_pct){an_num(100 * (steps_ms / (steps_ms - least) - 1)),
                                     an_num(100 * (steps_ms / (steps_ms - mean) - 1)),
                                     an_num(100 * (steps_ms / (steps_ms - most) - 1))};
}

void an_ranks_no_jitter(struct an_jitter *out, const char *reason)
{
    struct an_value none = an_num_none(reason);
    *out = (struct an_jitter){.reason = reason,
                              .ms = none,
                              .pct = none,
                              .gain = {none, none, none},
                              .stage = AN_STAGE_COUNT,
                              .correlation = none};
}

/* The rows of the group that `first` is the first one of; false: it is in the group of a row before
 * it, or alone. */
static bool open_group(const struct an_context *context, struct group *group, size_t first)
{
    const struct an_rank_matrix *matrix = group->matrix;
    group->count = 0;
    for (size_t row = 0; row < matrix->ranks; row++)
        if (group_of(context, matrix, row) == group_of(context, matrix, first))
            group->row[group->count++] = row;
    return group->row[0] == first && group->count > 1;
}

int an_ranks_jitter(struct an_context *context, const struct an_rank_matrix *matrix)
{
    struct an_jitter *out = &context->result->ranks.jitter;
    struct an_arena *scratch = context->scratch;
    struct group group = {.matrix = matrix,
                          .row = an_arena_zero(scratch, matrix->ranks, sizeof *group.row),
                          .value = an_arena_zero(scratch, 2 * matrix->ranks, sizeof *group.value),
                          .jitter = an_arena_zero(scratch, matrix->steps, sizeof *group.jitter),
                          .longest = an_arena_zero(scratch, matrix->steps, sizeof *group.longest)};
    double most = -1;
    size_t worst = 0;
    if (!group.row || !group.value || !group.jitter || !group.longest)
        return TACHO_ENOMEM;
    if (matrix->steps < AN_RANKS_STEPS_LEAST) {
        an_ranks_no_jitter(out, "fewer than 20 compared steps");
        return 0;
    }
    for (size_t first = 0; first < matrix->ranks; first++) {
        double ms = open_group(context, &group, first) ? jitter_of(&group) : -1;
        worst = ms > most ? first : worst;
        most = fmax(most, ms);
    }
    if (most < 0) {
        an_ranks_no_jitter(out, "no two ranks do the same work");
        return 0;
    }
    open_group(context, &group, worst);
    jitter_of(&group);
    *out = (struct an_jitter){.rank = context->lane[matrix->lane[worst]].rank,
                              .ranks = (int64_t)group.count,
                              .correlation = an_num_none("no host cause coincides")};
    find_gain(context, &group, out);
    find_cause(context, &group, out);
    out->stage = stage_of(&group);
    return 0;
}

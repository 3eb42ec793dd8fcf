/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantities over the run: what the program counts as its loss, throughput from the steps, and what
 * was sampled of processors, GPUs and memory. Points are means of equal parts of the run, or the
 * samples themselves where there are few.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/counters/sampled.h"
#include "analyzers/counters/system.h"

#define CURVES_MOST 24

struct curves {
    struct an_context *context;
    struct an_curve *curve;
    size_t count;
    int64_t t0, t1;
    double sum[AN_CURVE_POINTS_MOST]; /* of the parts of the run; NAN: not known */
};

static int64_t part_time(const struct curves *curves, size_t part)
{
    double share = (double)part / AN_CURVE_POINTS_MOST;
    return curves->t0 + (int64_t)((double)(curves->t1 - curves->t0) * share);
}

static size_t lines_of(const struct curves *curves, const char *quantity)
{
    size_t lines = 0;
    for (size_t i = 0; i < curves->count; i++)
        lines += !strcmp(curves->curve[i].quantity, quantity);
    return lines;
}

/* Adds a line of at least two points; the points are copied. 0 or TACHO_ENOMEM. */
static int add_line(struct curves *curves, const struct an_curve *line)
{
    if (line->count < 2 || curves->count == CURVES_MOST ||
        lines_of(curves, line->quantity) == AN_CURVE_LINES_MOST)
        return 0;
    struct an_curve *out = &curves->curve[curves->count];
    *out = *line;
    out->name = an_arena_text(curves->context->arena, line->name);
    out->point =
        an_arena_copy(curves->context->arena, line->point, line->count * sizeof *line->point);
    curves->count += out->point != NULL;
    return out->point ? 0 : TACHO_ENOMEM;
}

/* The parts of the run as a line: those that are not known are passed over. */
static int add_parts(struct curves *curves, const char *quantity, const char *name,
                     const char *unit, int64_t samples)
{
    struct an_curve_point point[AN_CURVE_POINTS_MOST];
    struct an_curve line = {
        .quantity = quantity, .name = name, .unit = unit, .point = point, .samples = samples};
    for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++)
        if (isfinite(curves->sum[i]))
            point[line.count++] = (struct an_curve_point){
                (double)(part_time(curves, i + 1) - curves->t0) / 1e9, curves->sum[i]};
    return add_line(curves, &line);
}

/* A track of samples: a point each, or one for as many neighbours as keep the number bounded. */
static int add_track(struct curves *curves, const struct an_track *track, const char *quantity,
                     const char *name, const char *unit)
{
    const struct an_counters *counter = &curves->context->trace->counter;
    struct an_curve_point point[AN_CURVE_POINTS_MOST];
    struct an_curve line = {.quantity = quantity,
                            .name = name,
                            .unit = unit,
                            .point = point,
                            .samples = (int64_t)track->counter_count};
    size_t each = (track->counter_count + AN_CURVE_POINTS_MOST - 1) / AN_CURVE_POINTS_MOST;
    for (size_t i = track->counter_first; i < an_counter_end(track); i += each) {
        double sum = 0, known = 0;
        for (size_t k = i; k < i + each && k < an_counter_end(track); k++)
            if (isfinite(counter->value[k])) {
                sum += counter->value[k];
                known++;
            }
        if (known > 0)
            point[line.count++] = (struct an_curve_point){
                (double)an_time_sub(counter->time[i], curves->t0) / 1e9, sum / known};
    }
    return add_line(curves, &line);
}

/* ---- the program's own ----------------------------------------------------------------------- */

static bool says_loss(const char *name)
{
    for (; *name; name++)
        if (!strncasecmp(name, "loss", 4))
            return true;
    return false;
}

static int add_losses(struct curves *curves)
{
    const struct an_trace *trace = curves->context->trace;
    int rc = 0;
    for (size_t i = 0; i < trace->track_count && !rc; i++) {
        const struct an_track *track = &trace->track[i];
        if (!strcmp(track->kind, "counter") && !an_system_owns(track) && says_loss(track->name))
            rc = add_track(curves, track, "loss", track->name, "");
    }
    return rc;
}

/* The mean of a rank in every part of the run in which it has points; what follows is the next
 * rank's. */
static size_t rank_throughput(struct curves *curves, size_t first, bool tokens,
                              double mean[AN_CURVE_POINTS_MOST])
{
    const struct an_result *result = curves->context->result;
    double known[AN_CURVE_POINTS_MOST] = {0}, run_s = (double)(curves->t1 - curves->t0) / 1e9;
    size_t i = first;
    memset(mean, 0, AN_CURVE_POINTS_MOST * sizeof *mean);
    for (; i < result->step_point_count &&
           result->step_points[i].rank == result->step_points[first].rank;
         i++) {
        const struct an_step_point *point = &result->step_points[i];
        double rate = tokens ? point->tokens_per_s : 1e3 / point->ms;
        double part = (point->start_s + point->ms / 1e3) / run_s * AN_CURVE_POINTS_MOST;
        if (!isfinite(rate) || !(part >= 0) || part >= AN_CURVE_POINTS_MOST + 1)
            continue;
        size_t at = part < AN_CURVE_POINTS_MOST ? (size_t)part : AN_CURVE_POINTS_MOST - 1;
        mean[at] += rate;
        known[at]++;
    }
    for (size_t k = 0; k < AN_CURVE_POINTS_MOST; k++)
        mean[k] = known[k] > 0 ? mean[k] / known[k] : NAN;
    return i;
}

/* Tokens are added over ranks. Steps are not: the ranks take them together. */
static int add_throughput(struct curves *curves)
{
    const struct an_result *result = curves->context->result;
    bool tokens = result->steps.tokens_per_s.valid;
    double mean[AN_CURVE_POINTS_MOST];
    if (!result->step_point_count)
        return 0;
    size_t next = rank_throughput(curves, 0, tokens, curves->sum);
    while (tokens && next < result->step_point_count) {
        next = rank_throughput(curves, next, tokens, mean);
        for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++)
            curves->sum[i] += mean[i];
    }
    return add_parts(curves, "throughput", tokens ? "tokens" : "steps",
                     tokens ? "tokens/s" : "steps/s", (int64_t)result->step_point_count);
}

/* ---- sampled --------------------------------------------------------------------------------- */

/* Adds the growth a second of a growing total to the parts of the run in which it was sampled. */
static void add_rate(struct curves *curves, const struct an_track *track, double scale)
{
    const struct an_trace *trace = curves->context->trace;
    for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++) {
        int64_t from = part_time(curves, i), to = part_time(curves, i + 1);
        double before, after;
        if (to > from && an_sampled_at(trace, track, from, &before) &&
            an_sampled_at(trace, track, to, &after))
            curves->sum[i] = (isfinite(curves->sum[i]) ? curves->sum[i] : 0) +
                             (after - before) / (double)(to - from) * scale;
    }
}

/* Adds a level, from its first sample to its last. */
static void add_level(struct curves *curves, const struct an_track *track)
{
    const struct an_trace *trace = curves->context->trace;
    for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++) {
        double value;
        if (an_sampled_at(trace, track, part_time(curves, i + 1), &value))
            curves->sum[i] = (isfinite(curves->sum[i]) ? curves->sum[i] : 0) + value;
    }
}

/* Sums a system counter over the processes of the run. 0 or TACHO_ENOMEM. */
static int add_processes(struct curves *curves, const char *counter, bool rate,
                         const char *quantity, const char *name, const char *unit)
{
    const struct an_trace *trace = curves->context->trace;
    int64_t samples = 0;
    for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++)
        curves->sum[i] = NAN;
    for (size_t i = 0; i < trace->track_count; i++) {
        const struct an_track *track = &trace->track[i];
        if (!an_system_track(track, counter, false) || track->counter_count < 2)
            continue;
        samples += (int64_t)track->counter_count;
        if (rate)
            add_rate(curves, track, 1);
        else
            add_level(curves, track);
    }
    return samples ? add_parts(curves, quantity, name, unit, samples) : 0;
}

/* Lines of counters by their name, each with its device. */
static int add_named(struct curves *curves, const char *counter, const char *quantity,
                     const char *says, const char *unit)
{
    const struct an_trace *trace = curves->context->trace;
    int rc = 0;
    for (size_t i = 0; i < trace->track_count && !rc; i++) {
        const struct an_track *track = &trace->track[i];
        char name[120];
        if (strcmp(track->kind, "counter") || strcmp(track->name, counter))
            continue;
        snprintf(name, sizeof name, "%.40s%s%.60s", track->device, *track->device ? " " : "", says);
        rc = add_track(curves, track, quantity, name, unit);
    }
    return rc;
}

/* Where nothing samples a GPU: how busy its operations keep it. */
static int add_busy_devices(struct curves *curves)
{
    const struct an_devices *gpu = curves->context->gpu;
    int rc = 0;
    if (lines_of(curves, "GPU") || !gpu || !gpu->split)
        return 0;
    for (size_t k = 0; k < gpu->device_count && !rc; k++) {
        const struct an_set *busy = &gpu->split[k].busy;
        char name[60];
        for (size_t i = 0; i < AN_CURVE_POINTS_MOST; i++) {
            int64_t from = part_time(curves, i), to = part_time(curves, i + 1);
            curves->sum[i] =
                to > from ? 100 * (double)an_spans_within(busy->span, busy->count, from, to) /
                                (double)(to - from)
                          : NAN;
        }
        snprintf(name, sizeof name, "%.40s busy", gpu->device[k].label);
        rc = add_parts(curves, "GPU", name, "%", (int64_t)gpu->device[k].count);
    }
    return rc;
}

static int add_sampled(struct curves *curves)
{
    int rc = add_processes(curves, "cpu_time", true, "CPU", "this run", "cores");
    if (!rc)
        rc = add_named(curves, "pm_sm_active", "GPU", "SM active", "%");
    if (!rc && !lines_of(curves, "GPU"))
        rc = add_named(curves, "gpu_sm_active", "GPU", "SM active", "%");
    if (!rc)
        rc = add_busy_devices(curves);
    if (!rc)
        rc = add_processes(curves, "rss", false, "memory", "resident", "bytes");
    if (!rc)
        rc = add_named(curves, "memory.total", "memory", "tracked", "bytes");
    if (!rc)
        rc = add_named(curves, "memory.allocated", "memory", "allocated", "bytes");
    if (!rc)
        rc = add_named(curves, "memory.reserved", "memory", "reserved", "bytes");
    return rc ? rc : add_named(curves, "gpu_memory_used", "memory", "used", "bytes");
}

static int curves_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct curves curves = {.context = context, .t0 = trace->t0, .t1 = trace->t1};
    if (trace->t1 <= trace->t0 || an_time_sub(trace->t1, trace->t0) > INT64_MAX / 4)
        return 0;
    curves.curve = an_arena_zero(context->arena, CURVES_MOST, sizeof *curves.curve);
    if (!curves.curve)
        return TACHO_ENOMEM;
    int rc = add_losses(&curves);
    if (!rc)
        rc = add_throughput(&curves);
    if (!rc)
        rc = add_sampled(&curves);
    context->result->curves = curves.curve;
    context->result->curve_count = curves.count;
    return rc;
}

static void curves_absent(struct an_context *context, const char *reason)
{
    (void)context; /* an empty list */
    (void)reason;
}

const struct an_analyzer an_curves = {
    .name = "curves",
    .help = "loss, throughput, processors, GPUs and memory over the run",
    .after = "steps, step_points",
    .needs = 0,
    .run = curves_run,
    .absent = curves_absent,
};

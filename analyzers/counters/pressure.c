/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for memory while counted steps ran, by the kernel's pressure stall information (PSI): the
 * part of the time in which some task, and in which all tasks that had work to do, waited for pages
 * to be reclaimed, read again after they were dropped, or swapped in. The first reading of a file
 * is no such wait. It is that of the control group of the processes that run steps, where each of
 * them has one, else that of the machine, which holds other programs too.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/counters/system.h"

#define PLENTY 0.1 /* of the machine's memory */

/* Times of the counted steps, and how many they are. */
struct span {
    int64_t start, end, steps;
};

static struct span counted_span(const struct an_context *context)
{
    struct span span = {INT64_MAX, INT64_MIN, 0};
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step))
            continue;
        span.start = step->host_start < span.start ? step->host_start : span.start;
        span.end = step->host_end > span.end ? step->host_end : span.end;
        span.steps++;
    }
    return span;
}

/* The mean over the lanes of a rate of their processes, a second. */
static struct an_value lane_rate(const struct an_context *context, const char *name,
                                 struct span span)
{
    double sum = 0;
    for (size_t i = 0; i < context->lane_count; i++) {
        struct an_value rate =
            context->lane[i].process == AN_NONE
                ? an_num_none("the steps are of no process")
                : an_system_rate_of(context, name, NULL, context->lane[i].process, span.start,
                                    span.end);
        if (!rate.valid)
            return rate;
        sum += rate.value;
    }
    return context->lane_count ? an_num(sum / (double)context->lane_count)
                               : an_num_none("no steps were found");
}

static struct an_value machine_rate(const struct an_context *context, const char *name,
                                    struct span span)
{
    return an_system_rate(context, "", name, span.start, span.end);
}

static struct an_value scaled(struct an_value value, double factor)
{
    return value.valid ? an_num(fmax(0, value.value * factor)) : value;
}

/* Fills the shares of time by the group's account, or by the machine's. */
static void fill_shares(const struct an_context *context, struct span span,
                        struct an_pressure *pressure)
{
    struct an_value some = lane_rate(context, "memory_stall_some", span),
                    full = lane_rate(context, "memory_stall_full", span);
    pressure->scope = "the control group of the run";
    if (!some.valid) {
        some = machine_rate(context, "memory_stall_some", span);
        full = machine_rate(context, "memory_stall_full", span);
        pressure->scope = "the machine";
    }
    pressure->reason = some.valid ? NULL : "memory pressure (PSI) was not sampled in the steps";
    pressure->some_pct = scaled(some, 1e-7); /* ns a second as % */
    pressure->full_pct = scaled(full, 1e-7);
}

/* Was memory never short, by what was free? A limit was not reached. */
static bool has_plenty(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    const struct an_value *hits = &context->result->pressure.limit_hits;
    int64_t machine = 0, limit;
    double least = INFINITY;
    bool limited = an_trace_key_integer(trace, "memory.limit_bytes", &limit) ||
                   context->result->pressure.limit_bytes.valid;
    if (!an_trace_key_integer(trace, "memory.bytes", &machine) || machine <= 0 ||
        (limited && !(hits->valid && hits->value < 1)))
        return false;
    for (size_t k = 0; k < trace->track_count; k++)
        for (size_t i = trace->track[k].counter_first;
             an_system_track(&trace->track[k], "memory_available", true) &&
             i < an_counter_end(&trace->track[k]);
             i++)
            least = fmin(least, trace->counter.value[i]);
    return isfinite(least) && least >= PLENTY * (double)machine;
}

/* The smallest limit of the processes that run steps, if it is below the machine's memory. */
static struct an_count limit_of(const struct an_context *context)
{
    int64_t least = INT64_MAX, bytes, machine = INT64_MAX;
    (void)an_trace_key_integer(context->trace, "memory.bytes", &machine);
    for (size_t i = 0; i < context->lane_count; i++) {
        char key[64];
        if (context->lane[i].process == AN_NONE)
            continue;
        snprintf(key, sizeof key, "process.%" PRId64 ".memory_limit_bytes",
                 context->trace->process[context->lane[i].process].id);
        if (an_trace_key_integer(context->trace, key, &bytes) && bytes > 0 && bytes < least)
            least = bytes;
    }
    return least < machine ? an_int(least) : an_int_none("no limit of memory was recorded");
}

static void pressure_absent(struct an_context *context, const char *reason)
{
    struct an_pressure *pressure = &context->result->pressure;
    struct an_value *all[] = {&pressure->some_pct,   &pressure->full_pct, &pressure->major_faults,
                              &pressure->limit_hits, &pressure->kills,    &pressure->swap_in_bytes};
    *pressure = (struct an_pressure){.reason = reason, .limit_bytes = limit_of(context)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = an_num_none(reason);
    pressure->plenty = has_plenty(context);
}

static int pressure_run(struct an_context *context)
{
    struct an_pressure *pressure = &context->result->pressure;
    struct span span = counted_span(context);
    if (!span.steps || span.end <= span.start) {
        pressure_absent(context, "no steps were counted");
        return 0;
    }
    double seconds = (double)an_time_sub(span.end, span.start) / 1e9;
    pressure->limit_bytes = limit_of(context);
    fill_shares(context, span, pressure);
    pressure->major_faults =
        scaled(an_system_rate(context, "major_faults", NULL, span.start, span.end),
               seconds / (double)span.steps);
    pressure->limit_hits = scaled(lane_rate(context, "memory_limit_hits", span), seconds);
    pressure->kills = scaled(lane_rate(context, "oom_kills", span), seconds);
    pressure->swap_in_bytes = scaled(machine_rate(context, "swap_in", span), seconds);
    pressure->plenty = has_plenty(context);
    return 0;
}

const struct an_analyzer an_pressure = {
    .name = "pressure",
    .help = "waiting for memory while steps ran",
    .after = "steps, system",
    .needs = AN_INPUT_COUNTERS | AN_INPUT_STEPS,
    .run = pressure_run,
    .absent = pressure_absent,
};

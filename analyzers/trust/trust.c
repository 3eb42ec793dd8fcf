/* SPDX-License-Identifier: Apache-2.0
 *
 * Trust: what was recorded, what is missing and why, what recording cost, and where the file
 * contradicts itself. A reader decides by it how far the report can be believed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/counters/system.h"
#include "analyzers/steps/context.h"
#include "analyzers/trust/losses.h"

#define INTERVAL_MOST 10.0 /* points: a wider interval says nothing about the overhead */
#define SLEPT_NS      1e8
#define PAUSED_LEAST  10 /* steps of either kind for a bootstrap interval */

static double since_start(const struct an_trace *trace, int64_t time)
{
    return time == STORE_ABSENT || trace->t1 < trace->t0
               ? NAN
               : (double)an_time_sub(time, trace->t0) / 1e9;
}

/* Lists what was lost. The events are counted where every loss says how many. */
static int losses(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_trust *trust = &context->result->trust;
    struct an_loss *rows = an_arena_zero(context->arena, trace->loss_count, sizeof *rows);
    int64_t lost = 0;
    const char *unknown = NULL;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->loss_count; i++) {
        const struct an_loss_row *loss_row = &trace->loss[i];
        enum store_loss_kind kind = store_loss_kind(loss_row->source, loss_row->reason);
        bool counted = loss_row->count != STORE_ABSENT && loss_row->count >= 0;
        rows[i] = (struct an_loss){.source = an_arena_text(context->arena, loss_row->source),
                                   .reason = an_arena_text(context->arena, loss_row->reason),
                                   .count = counted ? an_int(loss_row->count)
                                                    : an_int_none("not known how many"),
                                   .lost = kind != STORE_LOSS_NONE,
                                   .t0_s = since_start(trace, loss_row->t0),
                                   .t1_s = since_start(trace, loss_row->t1)};
        if (!rows[i].lost)
            continue;
        if (counted && kind == STORE_LOSS_EVENTS)
            lost = an_time_add(lost, loss_row->count);
        else
            unknown = rows[i].reason;
    }
    trust->losses = rows;
    trust->loss_count = trace->loss_count;
    trust->lost_events = unknown ? an_int_none(unknown) : an_int(lost);
    if (unknown && lost)
        trust->lost_events.reason = an_arena_format(
            context->arena, "at least %" PRId64 ", and more: %.200s", lost, unknown);
    return 0;
}

static void overhead_absent(struct an_trust *trust, const char *reason)
{
    trust->overhead_pct = trust->overhead_low_pct = trust->overhead_high_pct = an_num_none(reason);
}

/* Durations of the counted steps with and without recording. */
struct durations {
    double *with, *without;
    size_t with_count, without_count;
};

/* Takes the steps of the most frequent size, so that both kinds do the same work. Where the size of
 * paused steps is not known it takes all: which ones are paused was drawn. */
static int take_durations(struct an_context *context, struct durations *durations)
{
    const struct an_steps *steps = &context->result->steps;
    bool sized = steps->group_count > 0 && steps->groups[0].tokens.valid && !context->sizes_carried;
    size_t room = (size_t)steps->counted;
    *durations = (struct durations){
        .with = an_arena_zero(context->scratch, room, sizeof *durations->with),
        .without = an_arena_zero(context->scratch, room, sizeof *durations->without)};
    if (!durations->with || !durations->without)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_counted(step) || (sized && step->tokens != steps->groups[0].tokens.value))
            continue;
        if (step->paused)
            durations->without[durations->without_count++] = (double)an_step_ns(step);
        else
            durations->with[durations->with_count++] = (double)an_step_ns(step);
    }
    return 0;
}

/* The agent pauses recording in steps drawn at random. Their difference from the other steps is
 * what recording costs. */
static int overhead(struct an_context *context)
{
    struct an_trust *trust = &context->result->trust;
    const struct an_steps *steps = &context->result->steps;
    struct durations durations;
    struct an_interval interval;
    if (!steps->paused) {
        overhead_absent(trust, steps->counted ? "no counted step ran with recording paused"
                                              : "no counted steps");
        return 0;
    }
    int rc = take_durations(context, &durations);
    if (rc)
        return rc;
    size_t with = durations.with_count, without = durations.without_count;
    if (with < PAUSED_LEAST || without < PAUSED_LEAST) {
        overhead_absent(
            trust,
            an_arena_format(
                context->arena,
                "%zu step%s ran with recording paused and %zu with it on; %d of each are needed",
                without, without == 1 ? "" : "s", with, PAUSED_LEAST));
        return 0;
    }
    an_sort(durations.without, without);
    if (!(an_quantile(durations.without, without, 0.5) > 0)) {
        overhead_absent(trust, "the steps last 0 ns");
        return 0;
    }
    rc = an_bootstrap_ratio(durations.with, with, durations.without, without, 1, &interval);
    if (rc)
        return rc;
    trust->overhead_pct = an_num(interval.estimate);
    if (!(interval.high - interval.low <= INTERVAL_MOST))
        trust->overhead_pct = an_num_none(
            an_arena_format(context->arena,
                            "between %.1f and %.1f %%: the %zu steps with recording paused and "
                            "the %zu with it on vary too much",
                            interval.low, interval.high, without, with));
    trust->overhead_low_pct = an_num(interval.low);
    trust->overhead_high_pct = an_num(interval.high);
    return 0;
}

static const char *key_or(struct an_context *context, const char *key, const char *otherwise)
{
    const char *text = an_trace_key(context->trace, key);
    return text && *text ? an_arena_text(context->arena, text) : otherwise;
}

/* What is missing as a whole: the end of the run, events. */
static void incomplete(struct an_context *context)
{
    const struct an_trust *trust = &context->result->trust;
    const struct an_count *status = &context->result->run.exit_status;
    if (status->valid && status->value > 128)
        an_problem(context, "INCOMPLETE: the program was ended by signal %" PRId64,
                   status->value - 128);
    else if (status->valid && status->value)
        an_problem(context, "INCOMPLETE: the program failed with exit status %" PRId64,
                   status->value);
    else if (*trust->ended && strncmp(trust->ended, "exit", 4) && !context->options->live)
        an_problem(context, "INCOMPLETE: the recording did not end by itself: %.200s",
                   trust->ended);
    if (!trust->lost_events.valid)
        an_problem(context, "LOST_EVENTS: it is not known how many: %.300s",
                   trust->lost_events.reason);
    else if (trust->lost_events.value)
        an_problem(
            context,
            "LOST_EVENTS: %" PRId64
            " events are missing: the time of their ranges is counted with the range around them",
            trust->lost_events.value);
}

/* Says that the machine was suspended, which CLOCK_MONOTONIC does not count. */
static void suspended(struct an_context *context)
{
    const char *start = an_trace_key(context->trace, "start.suspended_ns"),
               *end = an_trace_key(context->trace, "end.suspended_ns");
    double slept = start && end ? strtod(end, NULL) - strtod(start, NULL) : 0;
    if (slept > SLEPT_NS)
        an_problem(context,
                   "SUSPENDED: the machine was suspended for %.1f s during the recording; times "
                   "leave that out, and the step it happened in can be slow after it",
                   slept / 1e9);
}

/* Reports rows that cannot be right: impossible times, unknown tracks, steps that overlap. */
static void contradictions(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    size_t overlap = 0;
    if (trace->odd)
        an_problem(context,
                   "%zu rows have impossible times (an end before its start); they count as 0 ns "
                   "or as open",
                   trace->odd);
    if (trace->orphans)
        an_problem(context, "%zu rows name a track that the file does not hold; they were excluded",
                   trace->orphans);
    for (size_t i = 0; i < context->step_count; i++)
        overlap += context->step[i].excluded && !strcmp(context->step[i].excluded, "overlap");
    if (overlap)
        an_problem(context,
                   "%zu steps began before the previous step on their thread had ended; they were "
                   "excluded",
                   overlap);
}

/* A trace of another tool: who recorded it, and what such a trace cannot say. */
static void foreign(struct an_context *context)
{
    struct an_trust *trust = &context->result->trust;
    const char *source = key_or(context, "source", "tacho");
    trust->source = source;
    trust->tool = key_or(context, "source.tool", "");
    if (!strcmp(source, "tacho"))
        return;
    overhead_absent(trust, "a trace of another tool: nothing in it says how fast the program is "
                           "without its profiler (trust/capture lists the signs)");
    if (!*trust->clock)
        trust->clock = key_or(context, "source.clock", "");
}

/* Fills the part and reports contradictions; the caution about the run is the last of them. */
static int trust_run(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_trust *trust = &context->result->trust;
    trust->events = (int64_t)(trace->slice.count - trace->inferred + trace->counter.count);
    int rc = losses(context);
    if (rc || (rc = an_losses_weigh(context)) || (rc = overhead(context)) ||
        (rc = an_system_gaps(context)))
        return rc;
    trust->open_ranges = (int64_t)trace->open;
    trust->replay_error_pct = an_num_none("nothing was replayed");
    trust->clock = key_or(context, "clock", "");
    trust->version = key_or(context, "tacho.version", "");
    trust->ended = context->options->live ? "still running" : key_or(context, "ended", "");
    foreign(context);
    incomplete(context);
    suspended(context);
    contradictions(context);
    if (context->result->caution &&
        context->problems < sizeof context->problem / sizeof *context->problem)
        context->problem[context->problems++] = context->result->caution;
    return 0;
}

static void trust_absent(struct an_context *context, const char *reason)
{
    (void)context;
    (void)reason; /* needs nothing, so it is never absent */
}

const struct an_analyzer an_trust = {
    .name = "trust",
    .help = "losses, overhead, missing counters, contradictions",
    .after = "steps, contention",
    .run = trust_run,
    .absent = trust_absent,
};

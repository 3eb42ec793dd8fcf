/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-steps: the parts of a step that accumulate gradients before one update. What the hook of
 * PyTorch says of them and of what a step is given, in counters.
 */
#include <string.h>

#include "analyzers/steps/step_private.h"

/* Micro-steps in the detailed steps of a lane. */
static int64_t count_on(const struct an_context *context, const struct an_lane *lane)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = &trace->track[lane->track];
    int64_t count = 0;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        if (an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_MICRO_STEP)
            continue;
        const struct an_step *step = an_step_at(context, lane, trace->slice.start[i]);
        count += step && an_step_detailed(step);
    }
    return count;
}

int64_t an_micro_steps(const struct an_context *context)
{
    int64_t count = 0, steps = context->result->steps.detailed;
    for (size_t i = 0; i < context->lane_count; i++)
        if (context->lane[i].track != AN_NONE)
            count += count_on(context, &context->lane[i]);
    count = steps ? (count + steps / 2) / steps : 0;
    return count > 1 ? count : 1;
}

/* ---- counters of the hook ------------------------------------------------------------------- */

int64_t an_hooked_micro_steps(const struct an_trace *trace)
{
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (!strcmp(track->kind, "counter") && !strcmp(track->name, "micro_steps") &&
            track->counter_count)
            return (int64_t)trace->counter.value[an_counter_end(track) - 1];
    }
    return 0;
}

/* The counter of a process in which the hook of PyTorch says what its steps are given; NULL: none.
 */
static const struct an_track *hooked_counter(const struct an_trace *trace, uint32_t process,
                                             const char *name)
{
    uint32_t at = process == AN_NONE ? AN_NONE : trace->process[process].first_track;
    for (; at != AN_NONE; at = trace->track[at].next) {
        const struct an_track *track = &trace->track[at];
        if (track->counter_count && !strcmp(track->kind, "counter") && !strcmp(track->name, name))
            return track;
    }
    return NULL;
}

static int64_t *amount_of(struct an_step *step, bool tokens)
{
    if (tokens)
        return &step->tokens;
    return &step->samples;
}

/* Fills in the samples or tokens of each step of a lane that declares none: the last value of the
 * counter before the step ends, because it is written where it changes. The hook does not look at
 * the batch of a step in which recording is paused. */
static void fill_hooked(struct an_context *context, const struct an_lane *lane, const char *name,
                        bool tokens)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *track = hooked_counter(trace, lane->process, name);
    for (size_t i = lane->first; track && i < an_lane_end(lane); i++) {
        int64_t end = context->step[i].host_end, *amount = amount_of(&context->step[i], tokens);
        if (*amount != STORE_ABSENT || end == STORE_ABSENT)
            continue;
        size_t after = an_times_seek(trace->counter.time, track->counter_first,
                                     an_counter_end(track), an_time_add(end, 1));
        if (after == track->counter_first)
            continue;
        *amount = (int64_t)trace->counter.value[after - 1];
        context->sizes_carried = context->sizes_carried || context->step[i].paused;
    }
}

void an_hooked_amounts(struct an_context *context)
{
    for (size_t k = 0; k < context->lane_count; k++) {
        fill_hooked(context, &context->lane[k], "step.samples", false);
        fill_hooked(context, &context->lane[k], "step.tokens", true);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro-steps: the parts of a step that accumulate gradients before one update.
 */
#include "analyzers/steps/context.h"

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

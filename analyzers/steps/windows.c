/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: runs of consecutive steps that are looked at together.
 */
#include <stdlib.h>

#include "analyzers/steps/windows.h"

/* Does step `after` follow step `before` with nothing but phases between them? Steps on a device
 * touch each other; between two marked steps of a thread lies the loop itself, which belongs to
 * the window as host time. */
static bool follows(const struct an_context *context, const struct an_step *before,
                    const struct an_step *after)
{
    const struct an_lane *lane = &context->lane[before->lane];
    if (after->start < before->end)
        return false;
    int64_t apart =
        an_time_sub(an_time_sub(after->start, before->end),
                    an_spans_within(lane->cut, lane->cut_count, before->end, after->start));
    int64_t first = an_time_sub(before->end, before->start),
            second = an_time_sub(after->end, after->start);
    return apart <= (first < second ? first : second);
}

int an_windows_of(struct an_context *context, uint32_t number, struct an_window **out,
                  size_t *count)
{
    const struct an_lane *lane = &context->lane[number];
    struct an_window *window = *out =
        an_arena_zero(context->scratch, lane->count + 1, sizeof *window);
    size_t found = 0;
    *count = 0;
    if (!window)
        return TACHO_ENOMEM;
    for (size_t i = lane->first; i < an_lane_end(lane); i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_detailed(step) || step->end == STORE_ABSENT || step->end <= step->start ||
            an_time_sub(step->end, step->start) == INT64_MAX) /* damaged */
            continue;
        if (found && an_time_sub(step->end, window[found - 1].start) < INT64_MAX &&
            window[found - 1].first + window[found - 1].count == i &&
            follows(context, &context->step[i - 1], step)) {
            window[found - 1].count++;
            window[found - 1].end = step->end;
        } else {
            window[found++] = (struct an_window){
                .lane = number, .first = i, .count = 1, .start = step->start, .end = step->end};
        }
    }
    *count = found;
    return 0;
}

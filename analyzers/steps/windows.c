/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: runs of consecutive steps that are looked at together.
 */
#include <stdlib.h>

#include "analyzers/steps/windows.h"

/* Does step b follow step a with nothing but phases between them? On a device the steps touch; on a
 * thread the loop's own instructions lie between two marked steps, and belong to the window as host
 * time. */
static bool follows(const struct an_context *context, const struct an_step *a,
                    const struct an_step *b)
{
    const struct an_lane *lane = &context->lane[a->lane];
    if (b->start < a->end)
        return false;
    int64_t apart = an_time_sub(an_time_sub(b->start, a->end),
                                an_spans_within(lane->cut, lane->cut_count, a->end, b->start));
    int64_t first = an_time_sub(a->end, a->start), second = an_time_sub(b->end, b->start);
    return apart <= (first < second ? first : second);
}

int an_windows_of(struct an_context *context, uint32_t lane, struct an_window **out, size_t *count)
{
    const struct an_lane *l = &context->lane[lane];
    struct an_window *window = *out = an_arena_zero(context->scratch, l->count + 1, sizeof *window);
    size_t n = 0;
    *count = 0;
    if (!window)
        return TACHO_ENOMEM;
    for (size_t i = l->first; i < an_lane_end(l); i++) {
        const struct an_step *step = &context->step[i];
        if (!an_step_detailed(step) || step->end == STORE_ABSENT || step->end <= step->start ||
            an_time_sub(step->end, step->start) == INT64_MAX) /* damaged */
            continue;
        if (n && an_time_sub(step->end, window[n - 1].start) < INT64_MAX &&
            window[n - 1].first + window[n - 1].count == i &&
            follows(context, &context->step[i - 1], step)) {
            window[n - 1].count++;
            window[n - 1].end = step->end;
        } else {
            window[n++] = (struct an_window){
                .lane = lane, .first = i, .count = 1, .start = step->start, .end = step->end};
        }
    }
    *count = n;
    return 0;
}

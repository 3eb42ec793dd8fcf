/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: runs of consecutive steps that are looked at together.
 */
#include <stdlib.h>

#include "analyzers/graph/graph.h"

/* Does step b follow step a with nothing but phases between them? On a device the steps touch; on a
 * thread the loop's own instructions lie between two marked steps, and belong to the window as host
 * time. */
static bool follows(const struct an_context *c, const struct an_step *a, const struct an_step *b)
{
    const struct an_lane *l = &c->lane[a->lane];
    if (b->start < a->end)
        return false;
    int64_t apart = an_time_sub(an_time_sub(b->start, a->end),
                                an_spans_within(l->cut, l->cut_count, a->end, b->start));
    int64_t first = an_time_sub(a->end, a->start), second = an_time_sub(b->end, b->start);
    return apart <= (first < second ? first : second);
}

int an_windows_of(struct an_context *c, uint32_t lane, struct an_window **out, size_t *count)
{
    const struct an_lane *l = &c->lane[lane];
    struct an_window *w = *out = an_arena_zero(c->work, l->count + 1, sizeof *w);
    size_t n = 0;
    *count = 0;
    if (!w)
        return TACHO_ENOMEM;
    for (size_t i = l->first; i < l->first + l->count; i++) {
        const struct an_step *s = &c->step[i];
        if (!an_step_detailed(s) || s->end == STORE_ABSENT || s->end <= s->start ||
            an_time_sub(s->end, s->start) == INT64_MAX) /* damaged */
            continue;
        if (n && an_time_sub(s->end, w[n - 1].start) < INT64_MAX &&
            w[n - 1].first + w[n - 1].count == i && follows(c, &c->step[i - 1], s)) {
            w[n - 1].count++;
            w[n - 1].end = s->end;
        } else {
            w[n++] = (struct an_window){
                .lane = lane, .first = i, .count = 1, .start = s->start, .end = s->end};
        }
    }
    *count = n;
    return 0;
}

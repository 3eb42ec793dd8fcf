/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that a profiler shows twice: XLA on AMD lists the calls of the driver under "Host
 * Threads/7", and the ranges of the thread that makes them under its name. Nothing in the file
 * links the two, but the calls lie inside the ranges. They are put there; otherwise such a thread
 * seems to do nothing between its calls, and no range says what launched a kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"
#include "analyzers/trace/trace_rows.h"

#define APART        "Host Threads/"
#define SHORT_NS     1000000 /* a call proves something in a range that is shorter than this */
#define SLACK_NS     1000    /* rounding of both ends */
#define CROSSED_PART 50      /* at most 1 call of so many may cross the end of a range */

struct span {
    uint32_t track, row;
    int64_t start, end;
};

static int span_order(const void *first, const void *second)
{
    const struct span *left = first, *right = second;
    return 8 * AN_COMPARE(left->track, right->track) + 4 * AN_COMPARE(left->start, right->start) +
           2 * AN_COMPARE(right->end, left->end) + AN_COMPARE(left->row, right->row);
}

static bool is_apart(const struct an_track *track)
{
    return !strcmp(track->kind, "thread") && !strncmp(track->name, APART, strlen(APART));
}

/* The slices of all threads, by thread and time. Open ones are left out. */
static size_t collect(const struct an_trace *trace, const uint32_t *slice_track, struct span *span)
{
    size_t count = 0;
    for (uint32_t i = 0; i < trace->slice.count; i++) {
        uint32_t track = slice_track[i];
        if (track != AN_NONE && !strcmp(trace->track[track].kind, "thread") &&
            trace->slice.dur[i] != AN_OPEN)
            span[count++] = (struct span){track, i, trace->slice.start[i],
                                          an_time_add(trace->slice.start[i], trace->slice.dur[i])};
    }
    qsort(span, count, sizeof *span, span_order);
    return count;
}

/* Does the call cross the end or the start of a range, so that they are not one thread's? `around`:
 * the innermost range that is open when the call starts, NULL: none. */
static bool crosses(const struct span *call, const struct span *around, const struct span *range,
                    const struct span *ranges_end)
{
    int64_t end = an_time_add(call->end, SLACK_NS);
    if (around && an_time_add(around->end, SLACK_NS) < call->end)
        return true;
    for (; range < ranges_end && an_time_add(range->start, SLACK_NS) < call->end; range++)
        if (range->end > end)
            return true;
    return false;
}

/* How many of the calls lie in a short range of the other thread; 0 where too many cross one.
 * `open` has room for all ranges. */
static size_t calls_inside(const struct span *call, size_t calls, const struct span *range,
                           size_t ranges, const struct span **open)
{
    size_t depth = 0, next = 0, inside = 0, crossed = 0;
    for (size_t i = 0; i < calls; i++) {
        for (; next < ranges && range[next].start <= an_time_add(call[i].start, SLACK_NS); next++) {
            while (depth && open[depth - 1]->end <= range[next].start)
                depth--;
            open[depth++] = &range[next];
        }
        while (depth && open[depth - 1]->end <= call[i].start)
            depth--;
        const struct span *around = depth ? open[depth - 1] : NULL;
        if (crosses(&call[i], around, range + next, range + ranges))
            crossed++;
        else if (around && an_time_sub(around->end, around->start) < SHORT_NS)
            inside++;
    }
    return crossed > calls / CROSSED_PART ? 0 : inside;
}

/* The end of the spans that are on the track of the first one. */
static size_t track_end(const struct span *span, size_t first, size_t count)
{
    size_t end = first;
    while (end < count && span[end].track == span[first].track)
        end++;
    return end;
}

/* The thread that makes the calls [first, end), AN_NONE: it is not known. */
static uint32_t caller_of(const struct an_trace *trace, const struct span *span, size_t count,
                          size_t first, size_t end, const struct span **open)
{
    uint32_t best = AN_NONE;
    size_t most = (end - first) / 2;
    for (size_t i = 0, last; i < count; i = last) {
        last = track_end(span, i, count);
        const struct an_track *other = &trace->track[span[i].track];
        if (is_apart(other) || other->process != trace->track[span[first].track].process)
            continue;
        size_t inside = calls_inside(span + first, end - first, span + i, last - i, open);
        if (inside > most) {
            most = inside;
            best = span[i].track;
        }
    }
    return best;
}

int an_trace_join_threads(const struct an_trace *trace, uint32_t *slice_track)
{
    size_t apart = 0;
    for (size_t i = 0; i < trace->track_count; i++)
        apart += is_apart(&trace->track[i]);
    if (!apart)
        return 0;
    struct span *span = malloc((trace->slice.count + 1) * sizeof *span);
    const struct span **open = malloc((trace->slice.count + 1) * sizeof *open);
    int rc = span && open ? 0 : TACHO_ENOMEM;
    size_t count = rc ? 0 : collect(trace, slice_track, span);
    for (size_t first = 0, end; first < count; first = end) {
        end = track_end(span, first, count);
        uint32_t caller = is_apart(&trace->track[span[first].track])
                              ? caller_of(trace, span, count, first, end, open)
                              : AN_NONE;
        for (size_t i = first; i < end && caller != AN_NONE; i++)
            slice_track[span[i].row] = caller;
    }
    free(open);
    free(span);
    return rc;
}

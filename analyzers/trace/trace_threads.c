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
#define SHORT_NS     1000000 /* only a range that is shorter than this shows whose call it is */
#define SLACK_NS     1000    /* rounding of both ends */
#define CROSSED_PART 50      /* at most 1 call of so many may overlap a range */
#define CALLS_LEAST  20      /* of a track: fewer show nothing */
#define TRACKS_MOST  64      /* of calls that are looked at */
#define LOOKS_MOST   1000    /* ranges inside one call: more show nothing */

struct span {
    uint32_t track, row;
    int64_t start, end;
};

/* The spans of one track. */
struct thread {
    const struct span *span;
    size_t count;
};

struct threads {
    struct span *span;
    const struct span **open; /* room for the ranges of a thread that are open */
    struct thread *thread;
    size_t count;
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

/* Marks the tracks to look at: the threads of processes that have calls apart. Processes are not
 * resolved yet: they are ids of the file. */
static void mark_tracks(const struct an_trace *trace, bool *wanted)
{
    uint32_t process[TRACKS_MOST];
    size_t count = 0;
    for (size_t i = 0; i < trace->track_count && count < TRACKS_MOST; i++)
        if (is_apart(&trace->track[i]) && (!count || process[count - 1] != trace->track[i].process))
            process[count++] = trace->track[i].process;
    for (size_t i = 0; i < trace->track_count; i++)
        for (size_t k = 0; k < count && !strcmp(trace->track[i].kind, "thread"); k++)
            wanted[i] |= trace->track[i].process == process[k];
}

/* Collects the slices of the wanted tracks, by track and time; those without an end are left out.
 */
static int collect(const struct an_trace *trace, const uint32_t *slice_track,
                   struct threads *threads)
{
    bool *wanted = calloc(trace->track_count + 1, sizeof *wanted);
    size_t count = 0, used = 0;
    if (!wanted)
        return TACHO_ENOMEM;
    mark_tracks(trace, wanted);
    for (size_t i = 0; i < trace->slice.count; i++)
        count += slice_track[i] != AN_NONE && wanted[slice_track[i]];
    threads->span = malloc((count + 1) * sizeof *threads->span);
    threads->open = malloc((count + 1) * sizeof *threads->open);
    threads->thread = calloc(trace->track_count + 1, sizeof *threads->thread);
    bool has_room = threads->span && threads->open && threads->thread;
    for (uint32_t i = 0; has_room && i < trace->slice.count; i++)
        if (slice_track[i] != AN_NONE && wanted[slice_track[i]] && trace->slice.dur[i] != AN_OPEN)
            threads->span[used++] =
                (struct span){slice_track[i], i, trace->slice.start[i],
                              an_time_add(trace->slice.start[i], trace->slice.dur[i])};
    free(wanted);
    if (!has_room)
        return TACHO_ENOMEM;
    qsort(threads->span, used, sizeof *threads->span, span_order);
    for (size_t i = 0; i < used; i++) {
        if (!i || threads->span[i].track != threads->span[i - 1].track)
            threads->thread[threads->count++] = (struct thread){&threads->span[i], 0};
        threads->thread[threads->count - 1].count++;
    }
    return 0;
}

/* The innermost of the open ranges that the call is not around itself. A range that ends as the
 * call begins is not around it: both ends were rounded. */
static const struct span *around_of(const struct span *call, const struct span *const *open,
                                    size_t depth)
{
    while (depth && open[depth - 1]->end < call->end &&
           (open[depth - 1]->start >= call->start ||
            open[depth - 1]->end <= an_time_add(call->start, SLACK_NS)))
        depth--;
    return depth ? open[depth - 1] : NULL;
}

/* Does the call overlap a range without lying in it or around it? Calls and ranges of one thread
 * never do. `around`: the innermost range that is open when the call starts, NULL: none. */
static bool overlaps(const struct span *call, const struct span *around, const struct span *range,
                     const struct span *ranges_end)
{
    int64_t end = an_time_add(call->end, SLACK_NS);
    if (around && an_time_add(around->end, SLACK_NS) < call->end)
        return true;
    for (size_t looks = 0; range < ranges_end && looks < LOOKS_MOST &&
                           an_time_add(range->start, SLACK_NS) < call->end;
         range++, looks++)
        if (range->end > end)
            return true;
    return false;
}

/* How many of the calls lie in a short range of the other thread; 0 where too many overlap one. */
static size_t calls_inside(const struct thread *calls, const struct thread *ranges,
                           const struct span **open)
{
    size_t depth = 0, next = 0, inside = 0, crossed = 0;
    const struct span *range = ranges->span;
    for (size_t i = 0; i < calls->count; i++) {
        const struct span *call = &calls->span[i];
        for (; next < ranges->count && range[next].start <= an_time_add(call->start, SLACK_NS);
             next++) {
            while (depth && open[depth - 1]->end <= range[next].start)
                depth--;
            open[depth++] = &range[next];
        }
        while (depth && open[depth - 1]->end <= call->start)
            depth--;
        const struct span *around = around_of(call, open, depth);
        if (overlaps(call, around, range + next, range + ranges->count))
            crossed++;
        else if (around && an_time_sub(around->end, around->start) < SHORT_NS)
            inside++;
    }
    return crossed > calls->count / CROSSED_PART ? 0 : inside;
}

/* The track of the thread that makes the calls, AN_NONE: it is not known. */
static uint32_t caller_of(const struct an_trace *trace, const struct threads *threads,
                          const struct thread *calls)
{
    uint32_t best = AN_NONE;
    size_t most = calls->count / 2;
    for (size_t i = 0; i < threads->count; i++) {
        const struct thread *other = &threads->thread[i];
        const struct an_track *track = &trace->track[other->span->track];
        if (is_apart(track) || track->process != trace->track[calls->span->track].process)
            continue;
        size_t inside = calls_inside(calls, other, threads->open);
        if (inside > most) {
            most = inside;
            best = other->span->track;
        }
    }
    return best;
}

int an_trace_join_threads(const struct an_trace *trace, uint32_t *slice_track)
{
    size_t apart = 0, looked = 0;
    struct threads threads = {.count = 0};
    for (size_t i = 0; i < trace->track_count; i++)
        apart += is_apart(&trace->track[i]);
    if (!apart)
        return 0;
    int rc = collect(trace, slice_track, &threads);
    for (size_t i = 0; !rc && i < threads.count && looked < TRACKS_MOST; i++) {
        const struct thread *calls = &threads.thread[i];
        if (!is_apart(&trace->track[calls->span->track]) || calls->count < CALLS_LEAST)
            continue;
        looked++;
        uint32_t caller = caller_of(trace, &threads, calls);
        for (size_t k = 0; k < calls->count && caller != AN_NONE; k++)
            slice_track[calls->span[k].row] = caller;
    }
    free(threads.span);
    free(threads.open);
    free(threads.thread);
    return rc;
}

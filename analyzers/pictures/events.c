/* SPDX-License-Identifier: Apache-2.0
 *
 * Every range and device operation of a few tracks, for a timeline that can be zoomed: of the ranks
 * that a reader compares (the slowest, the median, the fastest, that of the typical step), over the
 * whole run or as many steps around the typical one as make AN_EVENTS_MOST events. A run without
 * steps is shown from its beginning.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/pictures/events_private.h"
#include "analyzers/pictures/timeline_private.h"

#define RANKS_MOST   4
#define STEPS_MOST   4096
#define ORDER_STREAM 1 /* an_timeline_order of a stream */

/* ---- which ranks ----------------------------------------------------------------------------- */

static void add_rank(struct an_events_work *work, int64_t rank, const char *why)
{
    for (size_t i = 0; i < work->rank_count; i++)
        if (work->rank[i].rank == rank)
            return;
    if (work->rank_count < RANKS_MOST)
        work->rank[work->rank_count++] = (struct an_event_rank){rank, why};
}

static int own_time_order(const void *left, const void *right)
{
    const struct an_rank_row *first = *(const struct an_rank_row *const *)left,
                             *second = *(const struct an_rank_row *const *)right;
    return 2 * AN_COMPARE(first->own_ms.value, second->own_ms.value) +
           AN_COMPARE(first->rank, second->rank);
}

/* The rank that holds the others back, the fastest, the median. */
static int add_compared(struct an_events_work *work)
{
    const struct an_ranks *ranks = &work->context->result->ranks;
    if (ranks->reason || !ranks->row_count)
        return 0;
    const struct an_rank_row **row =
        an_arena_zero(work->context->scratch, ranks->row_count, sizeof *row);
    if (!row)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < ranks->row_count; i++)
        row[i] = &ranks->row[i];
    qsort(row, ranks->row_count, sizeof *row, own_time_order);
    if (an_straggler_rank(ranks) >= 0)
        add_rank(work, an_straggler_rank(ranks), "straggler");
    add_rank(work, row[ranks->row_count - 1]->rank, "slowest");
    add_rank(work, row[ranks->row_count / 2]->rank, "median");
    add_rank(work, row[0]->rank, "fastest");
    return 0;
}

/* Without lanes every process that has tracks stands for itself: by its rank, else by its pid. */
static int64_t process_rank(const struct an_trace *trace, uint32_t process)
{
    int64_t rank = trace->process[process].rank;
    return rank == STORE_ABSENT ? trace->process[process].pid : rank;
}

static void choose_processes(struct an_events_work *work)
{
    const struct an_trace *trace = work->context->trace;
    for (uint32_t i = 0; i < trace->process_count; i++)
        if (trace->process[i].first_track != AN_NONE)
            add_rank(work, process_rank(trace, i),
                     trace->process[i].rank == STORE_ABSENT ? "process" : "");
}

static int choose_ranks(struct an_events_work *work)
{
    const struct an_context *context = work->context;
    int64_t *ranks = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *ranks);
    if (!ranks)
        return TACHO_ENOMEM;
    if (!work->typical) {
        choose_processes(work);
        return 0;
    }
    int rc = add_compared(work);
    add_rank(work, context->lane[work->typical->lane].rank, work->rank_count ? "typical step" : "");
    for (size_t i = 0; i < context->lane_count; i++) {
        add_rank(work, context->lane[i].rank, "");
        ranks[i] = context->lane[i].rank;
    }
    context->result->events.ranks_omitted =
        (int64_t)an_distinct(ranks, context->lane_count) - (int64_t)work->rank_count;
    return rc;
}

/* ---- which tracks ---------------------------------------------------------------------------- */

/* By rank, streams before threads: what a device does is at the top, however deep its host calls.
 */
static int track_order(const void *left, const void *right)
{
    const struct an_events_track *first = left, *second = right;
    int stream = first->order == ORDER_STREAM, other = second->order == ORDER_STREAM;
    return 8 * AN_COMPARE(first->rank, second->rank) + 4 * AN_COMPARE(other, stream) +
           2 * AN_COMPARE(first->order, second->order) + AN_COMPARE(first->track, second->track);
}

/* The rank that a track belongs to; false: it belongs to none, or is not drawn. */
static bool find_rank(const struct an_events_work *work, uint32_t process, int64_t *rank,
                      bool *drives)
{
    const struct an_context *context = work->context;
    uint32_t lane = an_lane_of_process(context, process);
    if (lane == AN_NONE && (work->typical || process == AN_NONE))
        return false;
    *rank = lane == AN_NONE ? process_rank(context->trace, process) : context->lane[lane].rank;
    *drives = lane == AN_NONE ? context->gpu != NULL : context->lane[lane].device != AN_NONE;
    return true;
}

/* Lists the tracks of the chosen ranks: `rank` of a track is the place in that list. */
static int choose_tracks(struct an_events_work *work)
{
    const struct an_context *context = work->context;
    size_t tracks = context->trace->track_count;
    work->track = an_arena_zero(context->scratch, tracks, sizeof *work->track);
    if (!work->track)
        return TACHO_ENOMEM;
    for (uint32_t track = 0; track < tracks; track++) {
        int64_t rank;
        bool drives;
        int order =
            context->trace->track[track].slice_count ? an_timeline_order(context, track) : -1;
        if (order < 0 || !find_rank(work, context->trace->track[track].process, &rank, &drives))
            continue;
        for (size_t i = 0; i < work->rank_count; i++)
            if (work->rank[i].rank == rank)
                work->track[work->track_count++] = (struct an_events_track){
                    .track = track, .rank = i, .order = order, .drives = drives};
    }
    qsort(work->track, work->track_count, sizeof *work->track, track_order);
    return 0;
}

/* ---- which window ---------------------------------------------------------------------------- */

/* Ranges that start in the window, in all tracks that are shown. */
static size_t count_in(const struct an_events_work *work, int64_t from, int64_t to)
{
    size_t count = 0;
    for (size_t i = 0; i < work->track_count; i++) {
        const struct an_track *track = &work->context->trace->track[work->track[i].track];
        count += an_slice_seek(work->context->trace, track, to) -
                 an_slice_seek(work->context->trace, track, from);
    }
    return count;
}

static bool can_extend(const struct an_step *step)
{
    return step->end != STORE_ABSENT && step->end > step->start;
}

/* A run without steps: as much from its beginning as makes AN_EVENTS_MOST events. */
static void choose_beginning(struct an_events_work *work)
{
    int64_t least = work->t0, most = work->t1;
    while (most - least > 1) {
        int64_t middle = least + (most - least) / 2;
        if (count_in(work, work->t0, middle) <= AN_EVENTS_MOST)
            least = middle;
        else
            most = middle;
    }
    work->t1 = least;
}

/* The typical step with its neighbours on both sides, one after the other. */
static void choose_steps(struct an_events_work *work)
{
    const struct an_lane *lane = &work->context->lane[work->typical->lane];
    const struct an_step *step = work->context->step;
    size_t first = (size_t)(work->typical - step), last = first;
    bool before = true, after = true;
    work->t0 = work->typical->start;
    work->t1 = work->typical->end;
    while (before || after) {
        after = after && last + 1 < an_lane_end(lane) && can_extend(&step[last + 1]) &&
                step[last + 1].end > work->t1 &&
                count_in(work, work->t0, step[last + 1].end) <= AN_EVENTS_MOST;
        if (after)
            work->t1 = step[++last].end;
        before = before && first > lane->first && can_extend(&step[first - 1]) &&
                 step[first - 1].start < work->t0 &&
                 count_in(work, step[first - 1].start, work->t1) <= AN_EVENTS_MOST;
        if (before)
            work->t0 = step[--first].start;
    }
}

/* The whole run where it fits. False: the run has no time. */
static bool choose_window(struct an_events_work *work)
{
    const struct an_trace *trace = work->context->trace;
    bool bounded = trace->t1 > trace->t0 && an_time_sub(trace->t1, trace->t0) < INT64_MAX / 4;
    work->t0 = trace->t0;
    work->t1 = trace->t1;
    if (bounded && count_in(work, trace->t0, trace->t1) <= AN_EVENTS_MOST)
        work->context->result->events.whole = true;
    else if (work->typical)
        choose_steps(work);
    else if (bounded)
        choose_beginning(work);
    return bounded || work->typical;
}

/* ---- the parts of the result ----------------------------------------------------------------- */

static bool in_window(const struct an_events_work *work, const struct an_step *step)
{
    return can_extend(step) && step->end > work->t0 && step->start < work->t1;
}

/* The steps of the chosen ranks in the window, as bands. */
static int keep_steps(struct an_events_work *work)
{
    const struct an_context *context = work->context;
    struct an_event_step *out = an_arena_zero(context->arena, STEPS_MOST, sizeof *out);
    size_t count = 0;
    if (!out)
        return TACHO_ENOMEM;
    for (size_t rank = 0; rank < work->rank_count; rank++)
        for (size_t k = 0; k < context->lane_count; k++) {
            const struct an_lane *lane = &context->lane[k];
            if (lane->rank != work->rank[rank].rank)
                continue;
            for (size_t i = lane->first; i < an_lane_end(lane) && count < STEPS_MOST; i++)
                if (in_window(work, &context->step[i]))
                    out[count++] = (struct an_event_step){
                        .rank = lane->rank,
                        .index = context->step[i].index,
                        .start_ns = context->step[i].start - work->t0,
                        .dur_ns = context->step[i].end - context->step[i].start,
                        .typical = &context->step[i] == work->typical};
        }
    context->result->events.step = out;
    context->result->events.step_count = count;
    return 0;
}

/* What of a track is on the critical path in the window. */
static int keep_path(const struct an_events_work *work, uint32_t track, struct an_event_track *out)
{
    const struct an_path_spans *path = work->context->path;
    if (!path)
        return 0;
    size_t first = path->track_first[track], count = path->track_first[track + 1] - first;
    struct an_event_span *span = an_arena_zero(work->context->arena, count, sizeof *span);
    if (!span)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct an_span part = path->span[first + i];
        part.start = part.start > work->t0 ? part.start : work->t0;
        part.end = part.end < work->t1 ? part.end : work->t1;
        if (part.end > part.start)
            span[out->path_count++] =
                (struct an_event_span){part.start - work->t0, part.end - part.start};
    }
    out->path = span;
    return 0;
}

static int keep_tracks(struct an_events_work *work)
{
    const struct an_context *context = work->context;
    struct an_event_track *out = an_arena_zero(context->arena, work->track_count, sizeof *out);
    int rc = out ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < work->track_count && !rc; i++) {
        const struct an_track *track = &context->trace->track[work->track[i].track];
        const struct an_process *process = an_trace_process(context->trace, track->process);
        const char *device = *track->device || !process ? track->device : process->device;
        out[i] =
            (struct an_event_track){.name = an_track_name(context->trace, context->arena, track),
                                    .kind = an_arena_text(context->arena, track->kind),
                                    .device = an_arena_text(context->arena, device),
                                    .rank = work->rank[work->track[i].rank].rank,
                                    .main = work->track[i].order < 2,
                                    .process = process ? process->pid : STORE_ABSENT};
        rc = an_events_collect(work, i, &out[i]);
        if (!rc)
            rc = keep_path(work, work->track[i].track, &out[i]);
    }
    context->result->events.track = out;
    context->result->events.track_count = work->track_count;
    return rc;
}

static int events_run(struct an_context *context)
{
    struct an_events *events = &context->result->events;
    struct an_event_rank ranks[RANKS_MOST];
    struct an_events_work work = {.context = context, .rank = ranks};
    const struct an_step *worst = NULL;
    events->reason = "not asked for";
    if (!context->options || !context->options->events)
        return 0;
    events->reason = "no range has a duration";
    an_timeline_choose(context, &work.typical, &worst);
    int rc = choose_ranks(&work);
    if (!rc)
        rc = choose_tracks(&work);
    if (rc || !work.track_count || !choose_window(&work))
        return rc;
    rc = keep_tracks(&work);
    if (!rc)
        rc = an_events_finish(&work);
    if (!rc)
        rc = keep_steps(&work);
    an_events_free(&work);
    if (rc)
        return rc;
    events->start_s = (double)an_time_sub(work.t0, context->trace->t0) / 1e9;
    events->window_ns = work.t1 - work.t0;
    events->rank = an_arena_copy(context->arena, ranks, work.rank_count * sizeof *ranks);
    events->rank_count = work.rank_count;
    if (!events->rank)
        return TACHO_ENOMEM;
    rc = an_events_marks(&work);
    events->reason = events->track_count && events->kind_count ? NULL : events->reason;
    return rc;
}

static void events_absent(struct an_context *context, const char *reason)
{
    context->result->events.reason = reason;
}

const struct an_analyzer an_event_pictures = {
    .name = "events",
    .help = "every range of the ranks that are compared, for a timeline that can be zoomed",
    .after = "steps, ranks, critical path, timeline, findings",
    .needs = AN_INPUT_SLICES,
    .run = events_run,
    .absent = events_absent,
};

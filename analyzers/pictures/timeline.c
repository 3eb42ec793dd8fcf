/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of a typical step and of the worst one: what every thread and stream of the run did
 * from the start of the step to its end. Ranges that are too short to be seen are merged, so that a
 * picture has a bounded number of spans whatever the trace holds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/pictures/timeline_private.h"

#define GRAINS      1000 /* of a step: what is shorter is merged with its neighbours */
#define TRACKS_MOST 64   /* of a picture */

/* ---- which tracks ---------------------------------------------------------------------------- */

/* A track that may be in the picture. The order is: tracks of the rank that holds the others back,
 * which the smallest screen shows, of the step's rank, of the others; of a rank the thread that
 * runs steps, streams, other threads. */
struct candidate {
    int64_t rank;
    uint32_t track;
    int order;   /* 0: the thread that runs steps */
    int place;   /* 0: of the rank that holds the others back, 1: of the step's rank, 2 */
    bool drives; /* the steps of its process are a device's */
};

/* For qsort: by place, by rank, by order and by track. */
static int candidate_order(const void *left, const void *right)
{
    const struct candidate *first = left, *second = right;
    if (first->place != second->place)
        return first->place - second->place;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    if (first->order != second->order)
        return first->order - second->order;
    return (first->track > second->track) - (first->track < second->track);
}

int an_timeline_order(const struct an_context *context, uint32_t track)
{
    static const char *const kinds[] = {"stream", "thread", "loader", "comm", "range"};
    if (an_lane_of_track(context, track) != AN_NONE)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(context->trace->track[track].kind, kinds[i]))
            return (int)i + 1;
    return -1; /* counters */
}

static int place_of(const struct an_context *context, int64_t rank, int64_t step_rank)
{
    if (rank == an_straggler_rank(&context->result->ranks))
        return 0;
    return rank == step_rank ? 1 : 2;
}

/* Lists every track of the step's rank, and of the other ranks the threads that run steps and the
 * streams. */
static size_t find_candidates(const struct an_context *context, const struct an_step *step,
                              struct candidate *all)
{
    size_t count = 0;
    for (uint32_t track = 0; track < context->trace->track_count; track++) {
        int order =
            context->trace->track[track].slice_count ? an_timeline_order(context, track) : -1;
        uint32_t lane =
            order < 0 ? AN_NONE : an_lane_of_process(context, context->trace->track[track].process);
        if (lane == AN_NONE)
            continue;
        int64_t rank = context->lane[lane].rank, step_rank = context->lane[step->lane].rank;
        int place = place_of(context, rank, step_rank);
        if (rank == step_rank || order < 2)
            all[count++] = (struct candidate){rank, track, order, place,
                                              context->lane[lane].device != AN_NONE};
    }
    qsort(all, count, sizeof *all, candidate_order);
    return count;
}

/* ---- one picture ----------------------------------------------------------------------------- */

struct picture {
    struct an_context *context;
    const struct an_step *step;
    const char **text; /* names that were kept, by string */
    struct an_timeline_track *track;
    size_t count;
};

static const char *kept_name(struct picture *picture, uint32_t name)
{
    if (name == AN_NONE)
        return "";
    if (!picture->text[name])
        picture->text[name] =
            an_arena_text(picture->context->arena, picture->context->trace->string[name]);
    return picture->text[name];
}

/* Adds a filled row to the picture, unless it is empty, and clears it for the next track. */
static int keep_row(struct picture *picture, const struct candidate *candidate,
                    struct an_timeline_row *timeline_row, int depth)
{
    const struct an_context *context = picture->context;
    const struct an_track *track = &context->trace->track[candidate->track];
    const struct an_process *process =
        track->process == AN_NONE ? NULL : &context->trace->process[track->process];
    int rc = an_timeline_close(timeline_row);
    struct an_timeline_span *span = NULL;
    const char *device = *track->device || !process ? track->device : process->device;
    if (!rc && timeline_row->count) {
        span =
            an_arena_copy(context->arena, timeline_row->span, timeline_row->count * sizeof *span);
        rc = span ? 0 : TACHO_ENOMEM;
    }
    for (size_t i = 0; span && i < timeline_row->count; i++)
        span[i].name = kept_name(picture, timeline_row->name[i]);
    if (span)
        picture->track[picture->count++] =
            (struct an_timeline_track){.name = an_track_name(context->trace, context->arena, track),
                                       .kind = an_arena_text(context->arena, track->kind),
                                       .device = an_arena_text(context->arena, device),
                                       .rank = candidate->rank,
                                       .process = process ? process->pid : STORE_ABSENT,
                                       .busy_ns = timeline_row->busy_ns,
                                       .depth = depth,
                                       .span = span,
                                       .span_count = timeline_row->count};

    free(timeline_row->span);
    free(timeline_row->name);
    *timeline_row = (struct an_timeline_row){.t0 = timeline_row->t0,
                                             .t1 = timeline_row->t1,
                                             .grain = timeline_row->grain,
                                             .path = timeline_row->path,
                                             .track = timeline_row->track};
    return rc;
}

int an_timeline_op_class(int class)
{
    if (AN_DEVICE_COMPUTE_MASK >> class & 1)
        return AN_CLASS_COMPUTE;
    if (class == AN_DEVICE_COMM)
        return AN_CLASS_COMM;
    return class == AN_DEVICE_COPY ? AN_CLASS_COPY : AN_CLASS_UNATTRIBUTED;
}

/* The ops of all devices, once, into the rows of their streams. row_of: by track, AN_NONE: not in
 * the picture. */
static int fill_streams(const struct an_context *context, struct an_timeline_row *row,
                        const uint32_t *row_of)
{
    int rc = 0;
    for (size_t device_index = 0; context->gpu && device_index < context->gpu->device_count;
         device_index++) {
        const struct an_device *device = &context->gpu->device[device_index];
        for (size_t i = device->first;
             i < device->first + device->count && context->gpu->op.start[i] < row->t1 && !rc; i++) {
            uint32_t row_index = row_of[context->gpu->op.track[i]];
            if (row_index != AN_NONE && context->gpu->op.end[i] > row->t0)
                rc = an_timeline_add(&row[row_index], context->gpu->op.start[i],
                                     context->gpu->op.end[i],
                                     context->trace->slice.name[context->gpu->op.slice[i]], NULL,
                                     an_timeline_op_class(context->gpu->op.class[i]));
        }
    }
    return rc;
}

/* Tracks whose ranges do not nest: one row, by start. */
static int fill_flat(const struct an_context *context, const struct an_track *track,
                     struct an_timeline_row *timeline_row)
{
    const struct an_trace *trace = context->trace;
    int rc = 0;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count &&
                                        trace->slice.start[i] < timeline_row->t1 && !rc;
         i++)
        if (an_slice_end(trace, i) > timeline_row->t0 && trace->slice.dur[i] != AN_OPEN &&
            an_slice_role(trace, i) != AN_ROLE_QUEUE_WAIT)
            rc = an_timeline_add(timeline_row, trace->slice.start[i], an_slice_end(trace, i),
                                 trace->slice.name[i], NULL,
                                 an_class_of_role(an_slice_role(trace, i), AN_CLASS_HOST));
    return rc;
}

/* Keeps the row of a stream, or fills the rows of a thread or another track and keeps them. */
static int draw_track(struct picture *picture, const struct candidate *candidate,
                      struct an_timeline_row *stream)
{
    const struct an_track *track = &picture->context->trace->track[candidate->track];
    if (!strcmp(track->kind, "stream"))
        return keep_row(picture, candidate, stream, 0);
    struct an_timeline_row row[2] = {{.t0 = stream->t0,
                                      .t1 = stream->t1,
                                      .grain = stream->grain,
                                      .path = stream->path,
                                      .track = candidate->track,
                                      .drives = candidate->drives,
                                      .waits = candidate->order > 0}};
    row[1] = row[0];
    uint32_t mark = picture->step->slice == AN_NONE
                        ? AN_NONE
                        : picture->context->trace->slice.name[picture->step->slice];
    int rc = strcmp(track->kind, "thread") ? fill_flat(picture->context, track, row)
                                           : an_timeline_thread(picture->context, track, mark, row);
    for (int depth = 0; depth < 2; depth++) { /* frees the rows, also after a failure */
        int kept = keep_row(picture, candidate, &row[depth], depth);
        rc = rc ? rc : kept;
    }
    return rc;
}

/* Draws one step. The ops of the devices fill the rows of all streams at once; every other track is
 * filled and kept one after the other. */
static int draw(struct picture *picture, struct an_timeline_step *out)
{
    struct an_context *context = picture->context;
    size_t tracks = context->trace->track_count, candidates;
    struct candidate *all = an_arena_zero(context->scratch, tracks, sizeof *all);
    struct an_timeline_row *row = an_arena_zero(context->scratch, tracks, sizeof *row);
    uint32_t *row_of = an_arena_zero(context->scratch, tracks, sizeof *row_of);
    picture->track = an_arena_zero(context->arena, TRACKS_MOST + 1, sizeof *picture->track);
    picture->count = 0;
    if (!all || !row || !row_of || !picture->track)
        return TACHO_ENOMEM;
    candidates = find_candidates(context, picture->step, all);
    int64_t ns = picture->step->end - picture->step->start;
    for (size_t k = 0; k < tracks; k++) {
        row[k] = (struct an_timeline_row){
            .t0 = picture->step->start, .t1 = picture->step->end, .grain = ns / GRAINS + 1};
        row_of[k] = AN_NONE;
    }
    for (uint32_t k = 0; k < candidates; k++) {
        row_of[all[k].track] = k;
        row[k].track = all[k].track;
        row[k].path = context->path;
    }
    int rc = candidates ? fill_streams(context, row, row_of) : 0;
    for (size_t k = 0; k < candidates && !rc && picture->count + 2 <= TRACKS_MOST; k++)
        rc = draw_track(picture, &all[k], &row[k]);
    for (size_t k = 0; k < candidates; k++) {
        free(row[k].span);
        free(row[k].name);
    }
    out->rank = context->lane[picture->step->lane].rank;
    out->index = picture->step->index;
    out->ms = (double)an_step_ns(picture->step) / 1e6;
    out->track = picture->track;
    out->track_count = picture->count;
    return rc;
}

/* ---- which steps ----------------------------------------------------------------------------- */

static bool can_draw(const struct an_step *step)
{
    return an_step_detailed(step) && step->end > step->start &&
           step->end - step->start <= INT64_MAX / 4;
}

/* The typical step is the one through which the critical path is drawn; without a path the one
 * nearest to the median. */
void an_timeline_choose(const struct an_context *context, const struct an_step **typical,
                        const struct an_step **worst)
{
    double median = an_value_or_0(context->result->steps.median_ms), best = INFINITY;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!can_draw(step))
            continue;
        double off = fabs((double)an_step_ns(step) / 1e6 - median);
        if (off < best) {
            best = off;
            *typical = step;
        }
        if (!*worst || an_step_ns(step) > an_step_ns(*worst))
            *worst = step;
    }
    const struct an_step *drawn = context->path ? context->path->typical : NULL;
    if (drawn && can_draw(drawn))
        *typical = drawn;
}

/* Draws the typical step and, where it is longer, the worst one. */
static int timeline_run(struct an_context *context)
{
    const struct an_step *shown[2] = {NULL, NULL};
    struct picture picture = {.context = context,
                              .text = an_arena_zero(context->scratch, context->trace->string_count,
                                                    sizeof *picture.text)};
    struct an_timeline_step *step = an_arena_zero(context->arena, 2, sizeof *step);
    struct an_timeline *timeline = &context->result->timeline;
    int rc = 0;
    if (!picture.text || !step)
        return TACHO_ENOMEM;
    an_timeline_choose(context, &shown[0], &shown[1]);
    /* The worst step is drawn only if it is longer than the typical one. */
    bool two = shown[0] && shown[1] && an_step_ns(shown[1]) > an_step_ns(shown[0]);
    for (size_t i = 0; i < (two ? 2 : 1) && !rc && shown[i]; i++) {
        picture.step = shown[i];
        step[i].which = i ? "worst" : "typical";
        rc = draw(&picture, &step[i]);
        timeline->step_count = i + 1;
    }
    timeline->step = step;
    if (!timeline->step_count || !step[0].track_count)
        timeline->reason = "no range lies inside a counted step";
    return rc;
}

static void timeline_absent(struct an_context *context, const char *reason)
{
    context->result->timeline.reason = reason;
}

const struct an_analyzer an_timeline = {
    .name = "timeline",
    .help = "what every thread and stream does in a typical and in the worst step",
    .after = "steps, ranks, critical path",
    .needs = AN_INPUT_SLICES | AN_INPUT_STEPS | AN_INPUT_DETAIL,
    .run = timeline_run,
    .absent = timeline_absent,
};

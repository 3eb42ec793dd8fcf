/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path through one typical step, for its picture: the tracks that it leads over, its
 * causes, and a bounded number of segments. Neighbouring segments are merged until few enough are
 * left.
 */
#include <stdlib.h>

#include "analyzers/graph/critical_path.h"

/* Where there are too many segments, those shorter than 1 / GRAINS of the step are merged first. */
#define GRAINS 2000

/* A segment while neighbours are merged into it. */
struct piece {
    int64_t start, end, longest;
    uint32_t track, slice;            /* of the longest; AN_NONE: none */
    uint32_t first_track, last_track; /* tracks at its ends */
    uint32_t merged;
    uint8_t cause, link, how;
};

struct step_path {
    struct an_context *context;
    struct piece *piece;
    size_t count;
    int *lane_of; /* of every track */
};

static int shortest(const void *left, const void *right)
{
    const struct an_step *const *first = left, *const *second = right;
    int64_t first_ns = (*first)->end - (*first)->start,
            second_ns = (*second)->end - (*second)->start;
    if (first_ns != second_ns)
        return first_ns < second_ns ? -1 : 1;
    return (*first > *second) - (*first < *second);
}

/* The median step weighted by time: half of the windows' time lies in steps that are not longer.
 * Where every second step waits, the typical step is one that waits. */
int an_path_typical(const struct an_context *context, const struct an_window *window,
                    size_t window_count, size_t least, const struct an_step **out)
{
    size_t count = 0, middle = 0;
    int64_t all = 0, sum = 0;
    *out = NULL;
    for (size_t i = 0; i < window_count; i++)
        count += window[i].count;
    const struct an_step **step = an_arena_zero(context->scratch, count, sizeof *step);
    if (!step)
        return TACHO_ENOMEM;
    count = 0;
    for (size_t i = 0; i < window_count; i++)
        for (size_t s = window[i].first;
             window[i].count >= least && s < window[i].first + window[i].count; s++)
            if (context->step[s].end > context->step[s].start) {
                step[count++] = &context->step[s];
                all = an_time_add(all, context->step[s].end - context->step[s].start);
            }
    if (!count)
        return 0;
    qsort(step, count, sizeof *step, shortest);
    while (middle + 1 < count &&
           (sum = an_time_add(sum, step[middle]->end - step[middle]->start)) < all / 2)
        middle++;
    *out = step[middle];
    return 0;
}

/* ---- segments ----------------------------------------------------------------------------------------------------------- */

/* Takes the part of a segment that lies in the step. */
static void add_piece(struct step_path *step_path, const struct an_graph *graph,
                      const struct an_path_segment *segment, const struct an_step *step)
{
    int64_t start = segment->start > step->start ? segment->start : step->start;
    int64_t end = segment->end < step->end ? segment->end : step->end;
    if (end <= start)
        return;
    uint32_t track = segment->node == AN_NONE ? AN_NONE : graph->track[segment->node];
    step_path->piece[step_path->count++] = (struct piece){.start = start,
                                                          .end = end,
                                                          .longest = end - start,
                                                          .track = track,
                                                          .first_track = track,
                                                          .last_track = track,
                                                          .slice = segment->slice,
                                                          .merged = 1,
                                                          .cause = segment->cause,
                                                          .link = segment->link,
                                                          .how = segment->how};
}

static void merge_pieces(struct piece *piece, const struct piece *next)
{
    if (next->longest > piece->longest) {
        piece->longest = next->longest;
        piece->track = next->track;
        piece->slice = next->slice;
        piece->cause = next->cause;
    }
    piece->end = next->end;
    piece->last_track = next->last_track;
    piece->link = next->link;
    piece->how = next->how;
    piece->merged += next->merged;
}

/* Neighbours of which one is shorter than the grain become one. */
static void merge_below(struct step_path *step_path, int64_t grain, bool same_track)
{
    size_t kept = 0;
    for (size_t i = 0; i < step_path->count; i++) {
        const struct piece next = step_path->piece[i];
        struct piece *last = kept ? &step_path->piece[kept - 1] : NULL;
        bool is_short = last && (next.end - next.start < grain || last->end - last->start < grain);
        if (is_short && (!same_track || (last->track == next.track && last->track != AN_NONE)))
            merge_pieces(last, &next);
        else
            step_path->piece[kept++] = next;
    }
    step_path->count = kept;
}

/* Merges pieces until at most AN_PATH_STRETCHES_MOST are left. Pieces of one track are merged
 * first, so that the dependencies between tracks stay visible; then all pieces that are shorter
 * than a grain, of which a step has a limited number. */
static void limit_pieces(struct step_path *step_path)
{
    int64_t ns = step_path->count
                     ? step_path->piece[step_path->count - 1].end - step_path->piece[0].start
                     : 0,
            least = ns / GRAINS + 1;
    for (int64_t grain = least; step_path->count > AN_PATH_STRETCHES_MOST && grain <= ns / 16;
         grain *= 2)
        merge_below(step_path, grain, true);
    for (int64_t grain = least; step_path->count > AN_PATH_STRETCHES_MOST; grain *= 2)
        merge_below(step_path, grain, false);
}

/* ---- lanes -------------------------------------------------------------------------------------------------------------- */

struct lane {
    uint32_t track;
    int64_t rank, ns, first;
};

static int by_time(const void *left, const void *right)
{
    const struct lane *first = left, *second = right;
    if (first->ns != second->ns)
        return first->ns < second->ns ? 1 : -1;
    return (first->track > second->track) - (first->track < second->track);
}

static int by_place(const void *left, const void *right)
{
    const struct lane *first = left, *second = right;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    return (first->first > second->first) - (first->first < second->first);
}

static int64_t rank_of(const struct an_context *context, uint32_t track)
{
    uint32_t process = context->trace->track[track].process,
             lane = process == AN_NONE ? AN_NONE : an_lane_of_process(context, process);
    return lane == AN_NONE ? context->result->critical_path.rank : context->lane[lane].rank;
}

/* Lists the tracks that the path leads over. Where there are too many, those with least time share
 * the last lane. */
static int list_lanes(struct step_path *step_path, struct an_path_step *out)
{
    struct an_context *context = step_path->context;
    size_t tracks = context->trace->track_count, track_count = 0, own_count;
    struct lane *lanes = an_arena_zero(context->scratch, tracks, sizeof *lanes);
    struct an_path_lane *rows = an_arena_zero(context->arena, AN_PATH_LANES_MOST, sizeof *rows);
    step_path->lane_of = an_arena_zero(context->scratch, tracks, sizeof *step_path->lane_of);
    if (!lanes || !rows || !step_path->lane_of)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < step_path->count; i++) {
        const struct piece *piece = &step_path->piece[i];
        if (piece->track == AN_NONE)
            continue;
        if (!step_path->lane_of[piece->track]) {
            lanes[track_count] = (struct lane){.track = piece->track,
                                               .rank = rank_of(context, piece->track),
                                               .first = piece->start};
            step_path->lane_of[piece->track] = (int)++track_count;
        }
        lanes[step_path->lane_of[piece->track] - 1].ns += piece->end - piece->start;
    }
    own_count = track_count <= AN_PATH_LANES_MOST ? track_count : AN_PATH_LANES_MOST - 1;
    if (track_count)
        qsort(lanes, track_count, sizeof *lanes, by_time);
    if (own_count)
        qsort(lanes, own_count, sizeof *lanes, by_place);
    for (size_t i = 0; i < track_count; i++) {
        size_t row = i < own_count ? i : own_count;
        const struct an_track *track = &context->trace->track[lanes[i].track];
        step_path->lane_of[lanes[i].track] = (int)row;
        rows[row].rank = lanes[i].rank;
        rows[row].ns += lanes[i].ns;
        rows[row].name =
            i < own_count ? an_track_name(context->trace, context->arena, track) : "other tracks";
        rows[row].kind = i < own_count ? an_arena_text(context->arena, track->kind) : "";
    }
    out->lane = rows;
    out->lane_count = own_count + (track_count > own_count);
    return 0;
}

/* ---- causes ------------------------------------------------------------------------------------------------------------- */

static int class_of(enum an_cause cause)
{
    static const int classes[AN_CAUSE_COUNT] = {
        [AN_CAUSE_COMPUTE] = AN_CLASS_COMPUTE,  [AN_CAUSE_TRANSFER] = AN_CLASS_COMM,
        [AN_CAUSE_PEERS] = AN_CLASS_BUBBLE,     [AN_CAUSE_COPY] = AN_CLASS_COPY,
        [AN_CAUSE_INPUT] = AN_CLASS_INPUT,      [AN_CAUSE_LAUNCH] = AN_CLASS_HOST,
        [AN_CAUSE_SYNC] = AN_CLASS_HOST,        [AN_CAUSE_ALLOCATION] = AN_CLASS_HOST,
        [AN_CAUSE_COLLECTION] = AN_CLASS_HOST,  [AN_CAUSE_COMPILE] = AN_CLASS_HOST,
        [AN_CAUSE_FRAMEWORK] = AN_CLASS_HOST,   [AN_CAUSE_UNTRACED] = AN_CLASS_UNATTRIBUTED,
        [AN_CAUSE_PHASE] = AN_CLASS_IO,         [AN_CAUSE_PROFILER] = AN_CLASS_HOST,
        [AN_CAUSE_DISPATCH] = AN_CLASS_HOST,    [AN_CAUSE_OPAQUE] = AN_CLASS_COMPUTE,
        [AN_CAUSE_GAP] = AN_CLASS_UNATTRIBUTED, [AN_CAUSE_SUSPECTED] = AN_CLASS_HOST};
    return classes[cause];
}

static int longest(const void *left, const void *right)
{
    const struct an_path_reason *first = left, *second = right;
    if (first->ns != second->ns)
        return first->ns < second->ns ? 1 : -1;
    return (first->key > second->key) - (first->key < second->key);
}

/* Lists the causes with time in the step, the longest first; row_of[cause] is the row of each. */
static int list_reasons(struct step_path *step_path, struct an_path_step *out,
                        int row_of[AN_CAUSE_COUNT])
{
    struct an_path_reason *rows =
        an_arena_zero(step_path->context->arena, AN_CAUSE_COUNT, sizeof *rows);
    size_t row_count = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (int cause = 0; cause < AN_CAUSE_COUNT; cause++) {
        int64_t ns = 0;
        for (size_t i = 0; i < step_path->count; i++)
            ns += step_path->piece[i].cause == cause
                      ? step_path->piece[i].end - step_path->piece[i].start
                      : 0;
        if (ns)
            rows[row_count++] = (struct an_path_reason){an_cause_key((enum an_cause)cause),
                                                        an_cause_text((enum an_cause)cause),
                                                        class_of((enum an_cause)cause), ns};
    }
    if (row_count)
        qsort(rows, row_count, sizeof *rows, longest);
    for (int cause = 0; cause < AN_CAUSE_COUNT; cause++)
        for (size_t i = 0; i < row_count; i++)
            if (rows[i].key == an_cause_key((enum an_cause)cause))
                row_of[cause] = (int)i;
    out->reason = rows;
    out->reason_count = row_count;
    return 0;
}

/* ---- the step ----------------------------------------------------------------------------------------------------------- */

/* The dependency from piece `i` to the next one, as far as the picture can say it: a merged piece
 * may hide dependencies over other lanes. */
static const char *link_of(const struct step_path *step_path, size_t i)
{
    if (i + 1 == step_path->count)
        return "";
    const struct piece *piece = &step_path->piece[i], *next = piece + 1;
    return piece->last_track != piece->track || next->first_track != next->track
               ? AN_PATH_SEVERAL
               : an_path_link_key(piece->link);
}

/* Writes the merged pieces as segments of the result, with times from the start of the step. */
static int list_segments(struct step_path *step_path, struct an_path_step *out, int64_t step_start,
                         const int row_of[AN_CAUSE_COUNT])
{
    const struct an_trace *trace = step_path->context->trace;
    struct an_path_stretch *rows =
        an_arena_zero(step_path->context->arena, step_path->count, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < step_path->count; i++) {
        const struct piece *piece = &step_path->piece[i];
        const char *name =
            piece->slice == AN_NONE ? "" : an_trace_name(trace, trace->slice.name[piece->slice]);
        rows[i] = (struct an_path_stretch){
            .start_ns = piece->start - step_start,
            .dur_ns = piece->end - piece->start,
            .lane = piece->track == AN_NONE ? -1 : step_path->lane_of[piece->track],
            .reason = row_of[piece->cause],
            .name = an_arena_text(step_path->context->arena, name),
            .link = link_of(step_path, i),
            .inferred = piece->how != AN_PATH_RECORDED,
            .merged = piece->merged};
    }
    out->stretch = rows;
    out->stretch_count = step_path->count;
    return 0;
}

int an_path_keep_step(struct an_context *context, const struct an_graph *graph,
                      const struct an_path_walk *walk, const struct an_step *step)
{
    struct an_path_step *out = &context->result->critical_path.step;
    struct step_path step_path = {.context = context};
    int row_of[AN_CAUSE_COUNT] = {0};
    size_t piece_count = 0;
    for (size_t i = 0; i < walk->count; i++)
        piece_count += walk->segment[i].start < step->end && walk->segment[i].end > step->start;
    if (!(step_path.piece = an_arena_zero(context->scratch, piece_count, sizeof *step_path.piece)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < walk->count; i++)
        add_piece(&step_path, graph, &walk->segment[i], step);
    if (!step_path.count)
        return 0;
    out->rank = context->lane[step->lane].rank;
    out->index = step->index;
    out->ms = (double)(step->end - step->start) / 1e6;
    int rc = list_lanes(&step_path, out);
    rc = rc ? rc : list_reasons(&step_path, out, row_of);
    limit_pieces(&step_path); /* lanes and causes have the times of what goes into others, too */
    return rc ? rc : list_segments(&step_path, out, step->start, row_of);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path through one step, for its picture: the tracks it leads over, and a bounded
 * number of stretches.
 */
#include <stdlib.h>

#include "analyzers/graph/critical_path.h"

#define GRAINS \
    2000 /* of a step: the first length below which stretches are merged, where there are too many \
          */

/* A stretch while neighbours are merged into it. */
struct piece {
    int64_t start, end, longest;
    uint32_t track, slice; /* of the longest; AN_NONE: none */
    uint32_t first, last;  /* tracks at its ends */
    uint32_t merged;
    uint8_t cause, link, how;
};

struct keeper {
    struct an_context *context;
    struct piece *at;
    size_t count;
    int *lane; /* of every track */
};

static int shortest(const void *a, const void *b)
{
    const struct an_step *const *x = a, *const *y = b;
    int64_t m = (*x)->end - (*x)->start, n = (*y)->end - (*y)->start;
    return m != n ? (m < n ? -1 : 1) : (*x > *y) - (*x < *y);
}

/* Half of the windows' time lies in steps that are not longer: where every second step waits, that
 * is one that does. */
int an_path_typical(const struct an_context *context, const struct an_window *window, size_t n,
                    size_t least, const struct an_step **out)
{
    size_t count = 0, k = 0;
    int64_t all = 0, sum = 0;
    *out = NULL;
    for (size_t i = 0; i < n; i++)
        count += window[i].count;
    const struct an_step **step = an_arena_zero(context->scratch, count, sizeof *step);
    if (!step)
        return TACHO_ENOMEM;
    count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t s = window[i].first;
             window[i].count >= least && s < window[i].first + window[i].count; s++)
            if (context->step[s].end > context->step[s].start) {
                step[count++] = &context->step[s];
                all = an_time_add(all, context->step[s].end - context->step[s].start);
            }
    if (!count)
        return 0;
    qsort(step, count, sizeof *step, shortest);
    while (k + 1 < count && (sum = an_time_add(sum, step[k]->end - step[k]->start)) < all / 2)
        k++;
    *out = step[k];
    return 0;
}

/* ---- stretches ---------------------------------------------------------------------------------------------------------- */

static void take(struct keeper *keeper, const struct an_graph *graph,
                 const struct an_path_segment *segment, const struct an_step *step)
{
    int64_t start = segment->start > step->start ? segment->start : step->start,
            end = segment->end < step->end ? segment->end : step->end;
    if (end <= start)
        return;
    uint32_t track = segment->node == AN_NONE ? AN_NONE : graph->track[segment->node];
    keeper->at[keeper->count++] = (struct piece){.start = start,
                                                 .end = end,
                                                 .longest = end - start,
                                                 .track = track,
                                                 .first = track,
                                                 .last = track,
                                                 .slice = segment->slice,
                                                 .merged = 1,
                                                 .cause = segment->cause,
                                                 .link = segment->link,
                                                 .how = segment->how};
}

static void join(struct piece *a, const struct piece *b)
{
    if (b->longest > a->longest) {
        a->longest = b->longest;
        a->track = b->track;
        a->slice = b->slice;
        a->cause = b->cause;
    }
    a->end = b->end;
    a->last = b->last;
    a->link = b->link;
    a->how = b->how;
    a->merged += b->merged;
}

/* Neighbours of which one is shorter than the grain become one. */
static void merge_below(struct keeper *keeper, int64_t grain, bool same_track)
{
    size_t n = 0;
    for (size_t i = 0; i < keeper->count; i++) {
        const struct piece b = keeper->at[i];
        struct piece *a = n ? &keeper->at[n - 1] : NULL;
        bool is_short = a && (b.end - b.start < grain || a->end - a->start < grain);
        if (is_short && (!same_track || (a->track == b.track && a->track != AN_NONE)))
            join(a, &b);
        else
            keeper->at[n++] = b;
    }
    keeper->count = n;
}

/* First what is on one track, so that hand-overs stay; then whatever is shorter than a grain: there
 * are at most as many pieces as the step has grains, and one. */
static void merge(struct keeper *keeper)
{
    int64_t ns = keeper->count ? keeper->at[keeper->count - 1].end - keeper->at[0].start : 0,
            least = ns / GRAINS + 1;
    for (int64_t grain = least; keeper->count > AN_PATH_STRETCHES_MOST && grain <= ns / 16;
         grain *= 2)
        merge_below(keeper, grain, true);
    for (int64_t grain = least; keeper->count > AN_PATH_STRETCHES_MOST; grain *= 2)
        merge_below(keeper, grain, false);
}

/* ---- lanes -------------------------------------------------------------------------------------------------------------- */

struct lane {
    uint32_t track;
    int64_t rank, ns, first;
};

static int by_time(const void *x, const void *y)
{
    const struct lane *a = x, *b = y;
    return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1)
                          : (a->track > b->track) - (a->track < b->track);
}

static int by_place(const void *x, const void *y)
{
    const struct lane *a = x, *b = y;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static int64_t rank_of(const struct an_context *context, uint32_t track)
{
    uint32_t process = context->trace->track[track].process,
             k = process == AN_NONE ? AN_NONE : an_lane_of_process(context, process);
    return k == AN_NONE ? context->result->critical_path.rank : context->lane[k].rank;
}

/* Tracks of the stretches; the shortest ones share the last lane where there are too many. */
static int list_lanes(struct keeper *keeper, struct an_path_step *out)
{
    struct an_context *context = keeper->context;
    size_t tracks = context->trace->track_count, n = 0, own;
    struct lane *all = an_arena_zero(context->scratch, tracks, sizeof *all);
    struct an_path_lane *rows = an_arena_zero(context->arena, AN_PATH_LANES_MOST, sizeof *rows);
    keeper->lane = an_arena_zero(context->scratch, tracks, sizeof *keeper->lane);
    if (!all || !rows || !keeper->lane)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < keeper->count; i++) {
        const struct piece *piece = &keeper->at[i];
        if (piece->track == AN_NONE)
            continue;
        if (!keeper->lane[piece->track]) {
            all[n] = (struct lane){.track = piece->track,
                                   .rank = rank_of(context, piece->track),
                                   .first = piece->start};
            keeper->lane[piece->track] = (int)++n;
        }
        all[keeper->lane[piece->track] - 1].ns += piece->end - piece->start;
    }
    own = n <= AN_PATH_LANES_MOST ? n : AN_PATH_LANES_MOST - 1;
    if (n)
        qsort(all, n, sizeof *all, by_time);
    if (own)
        qsort(all, own, sizeof *all, by_place);
    for (size_t i = 0; i < n; i++) {
        size_t k = i < own ? i : own;
        const struct an_track *track = &context->trace->track[all[i].track];
        keeper->lane[all[i].track] = (int)k;
        rows[k].rank = all[i].rank;
        rows[k].ns += all[i].ns;
        rows[k].name =
            i < own ? an_track_name(context->trace, context->arena, track) : "other tracks";
        rows[k].kind = i < own ? an_arena_text(context->arena, track->kind) : "";
    }
    out->lane = rows;
    out->lane_count = own + (n > own);
    return 0;
}

/* ---- causes ------------------------------------------------------------------------------------------------------------- */

static int class_of(enum an_cause k)
{
    static const int classes[AN_CAUSE_COUNT] = {
        [AN_CAUSE_COMPUTE] = AN_CLASS_COMPUTE, [AN_CAUSE_TRANSFER] = AN_CLASS_COMM,
        [AN_CAUSE_PEERS] = AN_CLASS_BUBBLE,    [AN_CAUSE_COPY] = AN_CLASS_COPY,
        [AN_CAUSE_INPUT] = AN_CLASS_INPUT,     [AN_CAUSE_LAUNCH] = AN_CLASS_HOST,
        [AN_CAUSE_SYNC] = AN_CLASS_HOST,       [AN_CAUSE_ALLOCATION] = AN_CLASS_HOST,
        [AN_CAUSE_COLLECTION] = AN_CLASS_HOST, [AN_CAUSE_COMPILE] = AN_CLASS_HOST,
        [AN_CAUSE_FRAMEWORK] = AN_CLASS_HOST,  [AN_CAUSE_THINK] = AN_CLASS_UNATTRIBUTED,
        [AN_CAUSE_PHASE] = AN_CLASS_IO,        [AN_CAUSE_PROFILER] = AN_CLASS_HOST,
        [AN_CAUSE_DISPATCH] = AN_CLASS_HOST,   [AN_CAUSE_OPAQUE] = AN_CLASS_COMPUTE,
        [AN_CAUSE_GAP] = AN_CLASS_UNATTRIBUTED};
    return classes[k];
}

static int longest(const void *x, const void *y)
{
    const struct an_path_reason *a = x, *b = y;
    return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1) : a->key > b->key ? 1 : -(a->key < b->key);
}

/* row[k]: of cause k */
static int list_reasons(struct keeper *keeper, struct an_path_step *out, int row[AN_CAUSE_COUNT])
{
    struct an_path_reason *rows =
        an_arena_zero(keeper->context->arena, AN_CAUSE_COUNT, sizeof *rows);
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (int k = 0; k < AN_CAUSE_COUNT; k++) {
        int64_t ns = 0;
        for (size_t i = 0; i < keeper->count; i++)
            ns += keeper->at[i].cause == k ? keeper->at[i].end - keeper->at[i].start : 0;
        if (ns)
            rows[n++] = (struct an_path_reason){an_cause_key((enum an_cause)k),
                                                an_cause_text((enum an_cause)k),
                                                class_of((enum an_cause)k), ns};
    }
    if (n)
        qsort(rows, n, sizeof *rows, longest);
    for (int k = 0; k < AN_CAUSE_COUNT; k++)
        for (size_t i = 0; i < n; i++)
            if (rows[i].key == an_cause_key((enum an_cause)k))
                row[k] = (int)i;
    out->reason = rows;
    out->reason_count = n;
    return 0;
}

/* ---- the step ----------------------------------------------------------------------------------------------------------- */

/* What the picture may say of the hand-over from piece i: what was merged may have led over other
 * lanes. */
static const char *link_of(const struct keeper *keeper, size_t i)
{
    if (i + 1 == keeper->count)
        return "";
    const struct piece *a = &keeper->at[i], *b = a + 1;
    return a->last != a->track || b->first != b->track ? AN_PATH_SEVERAL
                                                       : an_path_link_key(a->link);
}

static int list_stretches(struct keeper *keeper, struct an_path_step *out, int64_t from,
                          const int row[AN_CAUSE_COUNT])
{
    const struct an_trace *trace = keeper->context->trace;
    struct an_path_stretch *rows =
        an_arena_zero(keeper->context->arena, keeper->count, sizeof *rows);
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < keeper->count; i++) {
        const struct piece *piece = &keeper->at[i];
        rows[i] = (struct an_path_stretch){
            .start_ns = piece->start - from,
            .dur_ns = piece->end - piece->start,
            .lane = piece->track == AN_NONE ? -1 : keeper->lane[piece->track],
            .reason = row[piece->cause],
            .name = an_arena_text(keeper->context->arena,
                                  piece->slice == AN_NONE
                                      ? ""
                                      : an_trace_name(trace, trace->slice.name[piece->slice])),
            .link = link_of(keeper, i),
            .inferred = piece->how != AN_PATH_RECORDED,
            .merged = piece->merged};
    }
    out->stretch = rows;
    out->stretch_count = keeper->count;
    return 0;
}

int an_path_keep_step(struct an_context *context, const struct an_graph *graph,
                      const struct an_path_walk *walk, const struct an_step *step)
{
    struct an_path_step *out = &context->result->critical_path.step;
    struct keeper keeper = {.context = context};
    int row[AN_CAUSE_COUNT] = {0};
    size_t most = 0;
    for (size_t i = 0; i < walk->count; i++)
        most += walk->at[i].start < step->end && walk->at[i].end > step->start;
    if (!(keeper.at = an_arena_zero(context->scratch, most, sizeof *keeper.at)))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < walk->count; i++)
        take(&keeper, graph, &walk->at[i], step);
    if (!keeper.count)
        return 0;
    out->rank = context->lane[step->lane].rank;
    out->index = step->index;
    out->ms = (double)(step->end - step->start) / 1e6;
    int rc = list_lanes(&keeper, out);
    rc = rc ? rc : list_reasons(&keeper, out, row);
    merge(&keeper); /* lanes and causes have the times of what goes into others, too */
    return rc ? rc : list_stretches(&keeper, out, step->start, row);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the picture of a step. The first part joins ranges into spans that are long enough to be
 * seen. The second part sweeps over the ranges of a thread: every instant belongs to the innermost
 * range, as in the budget, and sums are passed to the outer ranges, so that an outer range has the
 * class of most of what happens in it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/timeline_private.h"

/* ---- spans of a row -------------------------------------------------------------------------- */

/* Is at least half of the open span on the critical path? */
static bool is_critical(const struct an_timeline_row *row)
{
    if (!row->path)
        return false;
    const size_t *first = row->path->track_first + row->track;
    return an_spans_within(row->path->span + first[0], first[1] - first[0], row->from,
                           row->until) >= (row->until - row->from + 1) / 2;
}

int an_timeline_class(const int64_t class_ns[AN_CLASS_COUNT])
{
    int what = AN_CLASS_UNATTRIBUTED;
    for (int class = 0; class < AN_CLASS_COUNT; class ++)
        if (class_ns[class] > class_ns[what])
            what = class;
    return what;
}

int an_timeline_close(struct an_timeline_row *row)
{
    if (!row->open)
        return 0;
    int rc = an_grow(&row->span, &row->span_room, row->count + 1, sizeof *row->span);
    if (!rc)
        rc = an_grow(&row->name, &row->name_room, row->count + 1, sizeof *row->name);
    if (rc)
        return rc;
    row->name[row->count] = row->longest_name;
    row->span[row->count++] = (struct an_timeline_span){
        .start_ns = row->from - row->t0,
        .dur_ns = row->until - row->from,
        .what = an_timeline_class(row->class_ns),
        .merged = row->merged,
        .critical = is_critical(row),
        .busy = (float)((double)row->filled / (double)(row->until - row->from))};
    row->open = false;
    return 0;
}

int an_timeline_add(struct an_timeline_row *row, int64_t start, int64_t end, uint32_t name,
                    const int64_t *class_ns, int class)
{
    /* Ranges of a stream or of a foreign trace may overlap. */
    int64_t earliest = row->end > row->t0 ? row->end : row->t0;
    start = start > earliest ? start : earliest;
    end = end < row->t1 ? end : row->t1;
    if (end <= start)
        return 0;
    int rc = 0;
    bool joins = row->open && start - row->until < row->grain && end - start < row->grain &&
                 row->until - row->from < 2 * row->grain;
    if (!joins) {
        rc = an_timeline_close(row);
        row->open = true;
        row->from = start;
        row->filled = row->longest = row->merged = 0;
        memset(row->class_ns, 0, sizeof row->class_ns);
    }
    if (!class_ns)
        row->class_ns[class] += end - start;
    for (int i = 0; class_ns && i < AN_CLASS_COUNT; i++)
        row->class_ns[i] += class_ns[i];

    if (end - start > row->longest) {
        row->longest = end - start;
        row->longest_name = name;
    }
    row->merged++;
    row->until = row->end = end;
    row->filled += end - start;
    row->busy_ns += end - start;
    return rc;
}

/* ---- threads --------------------------------------------------------------------------------- */

struct sweep {
    const struct an_timeline_sweep *of;
    struct an_timeline_frame *open;
    size_t depth, room;
    int64_t at;
};

static int leave(struct sweep *sweep)
{
    struct an_timeline_frame *frame = &sweep->open[--sweep->depth];
    if (sweep->depth)
        for (int class = 0; class < AN_CLASS_COUNT; class ++)
            sweep->open[sweep->depth - 1].class_ns[class] += frame->class_ns[class];
    return sweep->of->leave(sweep->of->to, frame, sweep->depth);
}

/* Advances to `time`: the elapsed time belongs to the innermost range, and ranges that end before
 * are closed. */
static int sweep_to(struct sweep *sweep, int64_t time)
{
    int rc = 0;
    while (sweep->depth && !rc) {
        struct an_timeline_frame *frame = &sweep->open[sweep->depth - 1];
        int64_t until = frame->end < time ? frame->end : time;
        if (until > sweep->at) {
            frame->class_ns[frame->class] += until - sweep->at;
            sweep->at = until;
        }
        if (frame->end > time)
            return 0;
        rc = leave(sweep);
    }
    sweep->at = time;
    return rc;
}

/* Marks of steps and frames of Python are not drawn; what they contain is. */
static bool is_seen_through(const struct an_timeline_sweep *sweep, size_t i)
{
    const struct an_trace *trace = sweep->context->trace;
    enum an_role role = an_slice_role(trace, i);
    return role == AN_ROLE_STEP || (role == AN_ROLE_QUEUE_WAIT && sweep->waits) ||
           (sweep->mark != AN_NONE && trace->slice.name[i] == sweep->mark) ||
           !strncmp(an_trace_name(trace, trace->slice.name[i]), "ProfilerStep#", 13) ||
           !strcmp(an_slice_category(trace, i), "python_function");
}

/* Opens a range, clipped to the window and to the range around it. */
static int enter(struct sweep *sweep, size_t i)
{
    const struct an_timeline_sweep *of = sweep->of;
    const struct an_trace *trace = of->context->trace;
    int64_t start = trace->slice.start[i] > of->t0 ? trace->slice.start[i] : of->t0,
            end = an_slice_end(trace, i);
    int rc = sweep_to(sweep, start);
    if (rc || end <= start || sweep->depth >= AN_DEPTH_MAX || is_seen_through(of, i))
        return rc;
    const struct an_timeline_frame *around = sweep->depth ? &sweep->open[sweep->depth - 1] : NULL;
    int64_t limit = around ? around->end : of->t1;
    struct an_timeline_frame frame = {.start = start, .end = end < limit ? end : limit, .slice = i};
    frame.class = an_class_of_role(an_slice_role(trace, i), around ? around->class : AN_CLASS_HOST);
    if (trace->slice.dur[i] == AN_OPEN)
        frame.class = AN_CLASS_UNATTRIBUTED;
    if (frame.class == AN_CLASS_COMPUTE && of->drives)
        frame.class = AN_CLASS_HOST;
    if ((rc = an_grow(&sweep->open, &sweep->room, sweep->depth + 1, sizeof *sweep->open)))
        return rc;
    sweep->open[sweep->depth++] = frame;
    return 0;
}

int an_timeline_sweep(const struct an_timeline_sweep *of, const struct an_track *track)
{
    const struct an_trace *trace = of->context->trace;
    struct sweep sweep = {.of = of, .at = of->t0};
    size_t first = an_slice_seek(trace, track, of->t0), before[AN_DEPTH_MAX], levels = 0;
    int rc = 0;
    /* Ranges that are open at the start of the window contain the last range before it, or are that
     * range. */
    if (first > track->slice_first)
        for (uint32_t i = (uint32_t)(first - 1); i != AN_NONE && levels < AN_DEPTH_MAX;
             i = trace->slice.parent[i])
            before[levels++] = i;
    while (levels-- && !rc)
        if (an_slice_end(trace, before[levels]) > of->t0)
            rc = enter(&sweep, before[levels]);
    for (size_t i = first;
         i < track->slice_first + track->slice_count && trace->slice.start[i] < of->t1 && !rc; i++)
        rc = enter(&sweep, i);
    rc = rc ? rc : sweep_to(&sweep, of->t1);
    free(sweep.open);
    return rc;
}

struct rows {
    const struct an_trace *trace;
    struct an_timeline_row *row;
};

static int add_to_row(void *to, const struct an_timeline_frame *frame, size_t depth)
{
    const struct rows *rows = to;
    return depth < 2 ? an_timeline_add(&rows->row[depth], frame->start, frame->end,
                                       rows->trace->slice.name[frame->slice], frame->class_ns,
                                       frame->class)
                     : 0;
}

int an_timeline_thread(const struct an_context *context, const struct an_track *track,
                       uint32_t mark, struct an_timeline_row row[2])
{
    struct rows rows = {context->trace, row};
    return an_timeline_sweep(&(struct an_timeline_sweep){.context = context,
                                                         .t0 = row->t0,
                                                         .t1 = row->t1,
                                                         .mark = mark,
                                                         .waits = row->waits,
                                                         .drives = row->drives,
                                                         .leave = add_to_row,
                                                         .to = &rows},
                             track);
}

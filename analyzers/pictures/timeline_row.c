/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of one thread in a step: a sweep over its ranges that gives every instant to the
 * innermost one, as the budget does, and hands the sums up, so that an outer range has the class of
 * most of what happens in it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/timeline_private.h"

/* Is half of the open stretch or more on the critical path? */
static bool is_critical(const struct an_timeline_row *timeline_row)
{
    if (!timeline_row->path)
        return false;
    const size_t *first = timeline_row->path->track_first + timeline_row->track;
    return an_spans_within(timeline_row->path->span + first[0], first[1] - first[0],
                           timeline_row->from, timeline_row->until) >=
           (timeline_row->until - timeline_row->from + 1) / 2;
}

int an_timeline_close(struct an_timeline_row *timeline_row)
{
    if (!timeline_row->open)
        return 0;
    int what = AN_CLASS_UNATTRIBUTED;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        if (timeline_row->class_ns[k] > timeline_row->class_ns[what])
            what = k;
    int rc = an_grow(&timeline_row->span, &timeline_row->span_room, timeline_row->count + 1,
                     sizeof *timeline_row->span);
    rc = rc ? rc
            : an_grow(&timeline_row->name, &timeline_row->name_room, timeline_row->count + 1,
                      sizeof *timeline_row->name);
    if (rc)
        return rc;
    timeline_row->name[timeline_row->count] = timeline_row->longest_name;
    timeline_row->span[timeline_row->count++] = (struct an_timeline_span){
        .start_ns = timeline_row->from - timeline_row->t0,
        .dur_ns = timeline_row->until - timeline_row->from,
        .what = what,
        .merged = timeline_row->merged,
        .critical = is_critical(timeline_row),
        .busy = (float)((double)timeline_row->filled /
                        (double)(timeline_row->until - timeline_row->from))};
    timeline_row->open = false;
    return 0;
}

int an_timeline_add(struct an_timeline_row *timeline_row, int64_t start, int64_t end, uint32_t name,
                    const int64_t *class_ns, int class)
{
    start = start > timeline_row->t0 ? start : timeline_row->t0;
    end = end < timeline_row->t1 ? end : timeline_row->t1;
    start = timeline_row->end > start
                ? timeline_row->end
                : start; /* ranges of a stream or of a foreign trace may overlap */
    if (end <= start)
        return 0;
    int rc = 0;
    bool joins = timeline_row->open && start - timeline_row->until < timeline_row->grain &&
                 end - start < timeline_row->grain &&
                 timeline_row->until - timeline_row->from < 2 * timeline_row->grain;
    if (!joins) {
        rc = an_timeline_close(timeline_row);
        timeline_row->open = true;
        timeline_row->from = start;
        timeline_row->filled = timeline_row->longest = timeline_row->merged = 0;
        memset(timeline_row->class_ns, 0, sizeof timeline_row->class_ns);
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        timeline_row->class_ns[k] += class_ns ? class_ns[k] : k == class ? end - start : 0;
    if (end - start > timeline_row->longest) {
        timeline_row->longest = end - start;
        timeline_row->longest_name = name;
    }
    timeline_row->merged++;
    timeline_row->until = timeline_row->end = end;
    timeline_row->filled += end - start;
    timeline_row->busy_ns += end - start;
    return rc;
}

struct frame {
    int64_t start, end, class_ns[AN_CLASS_COUNT];
    uint32_t name;
    int class;
};

struct sweep {
    const struct an_context *context;
    struct an_timeline_row *row;
    struct frame *open;
    size_t depth, room;
    int64_t at;
    uint32_t mark;
};

static int leave(struct sweep *sweep)
{
    struct frame *frame = &sweep->open[--sweep->depth];
    if (sweep->depth)
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            sweep->open[sweep->depth - 1].class_ns[k] += frame->class_ns[k];
    return sweep->depth < 2 ? an_timeline_add(&sweep->row[sweep->depth], frame->start, frame->end,
                                              frame->name, frame->class_ns, frame->class)
                            : 0;
}

static int sweep_to(struct sweep *sweep, int64_t time)
{
    int rc = 0;
    while (sweep->depth && !rc) {
        struct frame *frame = &sweep->open[sweep->depth - 1];
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

/* Marks of steps and frames of Python are not what the picture is about. */
static bool is_seen_through(const struct an_trace *trace, size_t i, const struct sweep *sweep)
{
    uint32_t mark = sweep->mark;
    enum an_role role = an_slice_role(trace, i);
    return role == AN_ROLE_STEP || (role == AN_ROLE_QUEUE_WAIT && sweep->row->waits) ||
           (mark != AN_NONE && trace->slice.name[i] == mark) ||
           !strncmp(an_trace_name(trace, trace->slice.name[i]), "ProfilerStep#", 13) ||
           !strcmp(an_slice_category(trace, i), "python_function");
}

static int enter(struct sweep *sweep, size_t i)
{
    const struct an_trace *trace = sweep->context->trace;
    const struct an_timeline_row *timeline_row = sweep->row;
    int64_t start =
                trace->slice.start[i] > timeline_row->t0 ? trace->slice.start[i] : timeline_row->t0,
            end = an_slice_end(trace, i);
    int rc = sweep_to(sweep, start);
    if (rc || end <= start || sweep->depth >= AN_DEPTH_MAX || is_seen_through(trace, i, sweep))
        return rc;
    const struct frame *around = sweep->depth ? &sweep->open[sweep->depth - 1] : NULL;
    int64_t limit = around ? around->end : timeline_row->t1;
    struct frame frame = {
        .start = start, .end = end < limit ? end : limit, .name = trace->slice.name[i]};
    frame.class =
        trace->slice.dur[i] == AN_OPEN
            ? AN_CLASS_UNATTRIBUTED
            : an_class_of_role(an_slice_role(trace, i), around ? around->class : AN_CLASS_HOST);
    if (frame.class == AN_CLASS_COMPUTE && timeline_row->drives)
        frame.class = AN_CLASS_HOST;
    if ((rc = an_grow(&sweep->open, &sweep->room, sweep->depth + 1, sizeof *sweep->open)))
        return rc;
    sweep->open[sweep->depth++] = frame;
    return 0;
}

int an_timeline_thread(const struct an_context *context, const struct an_track *track,
                       uint32_t mark, struct an_timeline_row row[2])
{
    const struct an_trace *trace = context->trace;
    struct sweep sweep = {.context = context, .row = row, .at = row->t0, .mark = mark};
    size_t first = an_slice_seek(trace, track, row->t0), before[AN_DEPTH_MAX], n = 0;
    int rc = 0;
    /* what is open at the start of the window holds the last range before it, or is that range */
    if (first > track->slice_first)
        for (uint32_t i = (uint32_t)(first - 1); i != AN_NONE && n < AN_DEPTH_MAX;
             i = trace->slice.parent[i])
            before[n++] = i;
    while (n-- && !rc)
        if (an_slice_end(trace, before[n]) > row->t0)
            rc = enter(&sweep, before[n]);
    for (size_t i = first;
         i < track->slice_first + track->slice_count && trace->slice.start[i] < row->t1 && !rc; i++)
        rc = enter(&sweep, i);
    rc = rc ? rc : sweep_to(&sweep, row->t1);
    free(sweep.open);
    return rc;
}

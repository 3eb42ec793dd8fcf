/* SPDX-License-Identifier: Apache-2.0
 *
 * The picture of one thread in a step: a sweep over its ranges that gives every instant to the
 * innermost one, as the budget does, and hands the sums up, so that an outer range has the class of
 * most of what happens in it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/pictures/timeline.h"

struct frame {
    int64_t start, end, class_ns[AN_CLASS_COUNT];
    uint32_t name;
    int class;
};

struct sweep {
    const struct an_context *c;
    struct an_timeline_row *row;
    struct frame *open;
    size_t depth, room;
    int64_t at;
    uint32_t mark;
};

static int leave(struct sweep *w)
{
    struct frame *f = &w->open[--w->depth];
    if (w->depth)
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            w->open[w->depth - 1].class_ns[k] += f->class_ns[k];
    return w->depth < 2 ? an_timeline_add(&w->row[w->depth], f->start, f->end, f->name, f->class_ns,
                                          f->class)
                        : 0;
}

static int sweep_to(struct sweep *w, int64_t time)
{
    int rc = 0;
    while (w->depth && !rc) {
        struct frame *f = &w->open[w->depth - 1];
        int64_t until = f->end < time ? f->end : time;
        if (until > w->at) {
            f->class_ns[f->class] += until - w->at;
            w->at = until;
        }
        if (f->end > time)
            return 0;
        rc = leave(w);
    }
    w->at = time;
    return rc;
}

/* Marks of steps and frames of Python are not what the picture is about. */
static bool is_seen_through(const struct an_trace *t, size_t i, const struct sweep *w)
{
    uint32_t mark = w->mark;
    enum an_role r = an_slice_role(t, i);
    return r == AN_ROLE_STEP || (r == AN_ROLE_QUEUE_WAIT && w->row->waits) ||
           (mark != AN_NONE && t->slice.name[i] == mark) ||
           !strncmp(an_trace_name(t, t->slice.name[i]), "ProfilerStep#", 13) ||
           !strcmp(an_slice_category(t, i), "python_function");
}

static int enter(struct sweep *w, size_t i)
{
    const struct an_trace *t = w->c->t;
    const struct an_timeline_row *r = w->row;
    int64_t start = t->slice.start[i] > r->t0 ? t->slice.start[i] : r->t0, end = an_slice_end(t, i);
    int rc = sweep_to(w, start);
    if (rc || end <= start || w->depth >= AN_DEPTH_MAX || is_seen_through(t, i, w))
        return rc;
    const struct frame *around = w->depth ? &w->open[w->depth - 1] : NULL;
    int64_t limit = around ? around->end : r->t1;
    struct frame f = {.start = start, .end = end < limit ? end : limit, .name = t->slice.name[i]};
    f.class = t->slice.dur[i] == AN_OPEN
                  ? AN_CLASS_UNATTRIBUTED
                  : an_class_of_role(an_slice_role(t, i), around ? around->class : AN_CLASS_HOST);
    if (f.class == AN_CLASS_COMPUTE && r->drives)
        f.class = AN_CLASS_HOST;
    if ((rc = an_grow(&w->open, &w->room, w->depth + 1, sizeof *w->open)))
        return rc;
    w->open[w->depth++] = f;
    return 0;
}

int an_timeline_thread(const struct an_context *c, const struct an_track *k, uint32_t mark,
                       struct an_timeline_row row[2])
{
    const struct an_trace *t = c->t;
    struct sweep w = {.c = c, .row = row, .at = row->t0, .mark = mark};
    size_t first = an_slice_seek(t, k, row->t0), before[AN_DEPTH_MAX], n = 0;
    int rc = 0;
    /* what is open at the start of the window holds the last range before it, or is that range */
    if (first > k->slice_first)
        for (uint32_t i = (uint32_t)(first - 1); i != AN_NONE && n < AN_DEPTH_MAX;
             i = t->slice.parent[i])
            before[n++] = i;
    while (n-- && !rc)
        if (an_slice_end(t, before[n]) > row->t0)
            rc = enter(&w, before[n]);
    for (size_t i = first;
         i < k->slice_first + k->slice_count && t->slice.start[i] < row->t1 && !rc; i++)
        rc = enter(&w, i);
    rc = rc ? rc : sweep_to(&w, row->t1);
    free(w.open);
    return rc;
}

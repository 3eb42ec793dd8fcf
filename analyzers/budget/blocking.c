/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication that the next kernel waits for (DESIGN 5). From the kernel that ends a gap the walk
 * goes back over what it depends on, as long as that ended inside the gap: order of streams, waits
 * between streams, and calls of the thread that launched it which waited for an op. Communication
 * on such a way blocks. The way is proven if the file says all of it, inferred if a part is told by
 * times only, or by a wait of another thread of the process.
 */
#include "analyzers/budget/absent.h"

#include <string.h>

#define OPS_MOST 256 /* on the ways back from one kernel */

struct way {
    struct an_context *c;
    const struct an_device_edges *e;
    struct an_compute_gap gap;
    bool inferred; /* follow inferred edges too */
    uint32_t op[OPS_MOST];
    size_t count;
};

/* Did the op end in the gap, before what waits for it? Then the way goes on from it. */
static void reach(struct way *w, uint32_t p)
{
    if (w->c->gpu->op.end[p] <= w->gap.start || w->count == OPS_MOST)
        return;
    for (size_t i = 0; i < w->count; i++)
        if (w->op[i] == p)
            return;
    w->op[w->count++] = p;
}

static void reach_sync(struct way *w, size_t i, int64_t until)
{
    if ((w->inferred || !w->e->sync[i].inferred) && w->c->gpu->op.end[w->e->sync[i].op] <= until)
        reach(w, w->e->sync[i].op);
}

/* Calls of a thread that came back inside the gap, and before `launched`. */
static void reach_thread(struct way *w, uint32_t track, int64_t launched)
{
    const struct an_trace *t = w->c->t;
    const struct an_track *x = &t->track[track];
    size_t i = an_sync_seek(w->e, an_slice_seek(t, x, launched));
    while (i-- > 0 && w->e->sync[i].call >= x->slice_first) {
        int64_t end = an_slice_end(t, w->e->sync[i].call);
        if (end <= w->gap.start)
            break;
        if (end <= launched)
            reach_sync(w, i, an_time_add(end, AN_EDGE_SLACK_NS));
    }
}

/* Calls that waited before op q was launched and came back inside the gap: of the thread that
 * launched it; where inferred ways count, of the other threads of its process as well. */
static void reach_host(struct way *w, uint32_t q)
{
    const struct an_trace *t = w->c->t;
    const struct an_device_edges *e = w->e;
    uint32_t launch = w->c->gpu->op.launch[q];
    if (launch == AN_NONE)
        return;
    uint32_t thread = an_slice_track(t, launch);
    size_t process = an_edge_process(t, thread);
    if (!w->inferred)
        reach_thread(w, thread, t->slice.start[launch]);
    for (size_t k = e->sync_of[process]; k < e->sync_of[process + 1] && w->inferred; k++)
        reach_thread(w, e->sync_track[k], t->slice.start[launch]);
}

static void walk(struct way *w)
{
    w->count = 0;
    w->op[w->count++] = w->gap.next;
    for (size_t i = 0; i < w->count; i++) {
        uint32_t q = w->op[i];
        if (w->e->before[q] != AN_NONE)
            reach(w, w->e->before[q]);
        for (size_t k = w->e->first[q]; k < w->e->first[q + 1]; k++)
            if (w->inferred || !w->e->inferred[k])
                reach(w, w->e->from[k]);
        reach_host(w, q);
    }
}

int an_blocking_gap(struct an_context *c, const struct an_device_edges *e,
                    struct an_compute_gap gap, struct an_span_list *proven,
                    struct an_span_list *inferred)
{
    const struct an_device_ops *op = &c->gpu->op;
    struct way w = {.c = c, .e = e, .gap = gap};
    int rc = 0;
    for (int pass = 0; pass < 2 && !rc; pass++) {
        w.inferred = pass;
        walk(&w);
        for (size_t i = 0; i < w.count && !rc; i++) {
            uint32_t p = w.op[i];
            int64_t start = op->start[p] > gap.start ? op->start[p] : gap.start;
            int64_t end = op->end[p] < gap.end ? op->end[p] : gap.end;
            if (op->class[p] == AN_DEVICE_COMM)
                rc = an_span_list_add(pass ? inferred : proven, start, end);
        }
    }
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward runs on threads of its own, where no module and no user code is open. There the
 * innermost backward operator leads, by its autograd sequence number, to the forward operator that
 * made it: module and line are that one's, and the annotation is the one open at that moment on the
 * thread that ran forward, because it is the one that waits in backward(). What is nearer than the
 * backward operator (a Python function called from it, a module that is run again) comes first.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution_sweep.h"

#define SAME_NUMBER_MOST 4096 /* operators of one sequence number that are looked at */

static int sort_forward(struct an_sweep *s)
{
    size_t n = s->forwards;
    struct an_pair *a = an_arena_zero(s->c->work, n, sizeof *a),
                   *work = an_arena_zero(s->c->work, n, sizeof *work);
    if (!a || !work)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++)
        a[i] = (struct an_pair){an_pair_key(s->t->slice.correlation[s->forward[i].slice]),
                                (uint32_t)i, 0};
    an_pairs_sort(a, work, n);
    s->by_number = a;
    return 0;
}

/* The forward operator of a backward one: of its number and process, the last one that began
 * before. Each thread counts for itself: of a backward operator inside of another one (a part that
 * is run again and differentiated in there) its own thread goes first, else the other threads do.
 */
static const struct an_sweep_forward *forward_of(const struct an_sweep *s,
                                                 const struct an_sweep_pending *p)
{
    const struct an_slices *x = &s->t->slice;
    const struct an_sweep_forward *best = NULL;
    bool best_fits = false;
    if (p->link == AN_NONE)
        return NULL;
    uint64_t key = an_pair_key(x->correlation[p->link]);
    size_t low = 0, high = s->forwards;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->by_number[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low;
         i < s->forwards && s->by_number[i].key == key && i < low + SAME_NUMBER_MOST; i++) {
        const struct an_sweep_forward *f = &s->forward[s->by_number[i].value];
        bool fits = p->nested == (f->track == p->track);
        if (s->t->track[f->track].process != s->t->track[p->track].process ||
            x->start[f->slice] > x->start[p->link])
            continue;
        if (!best || fits > best_fits ||
            (fits == best_fits && x->start[f->slice] > x->start[best->slice])) {
            best = f;
            best_fits = fits;
        }
    }
    return best;
}

/* Row of the innermost annotation of a thread that is open at `time`. */
static uint32_t marked_at(const struct an_sweep *s, uint32_t track, int64_t time)
{
    size_t low = s->first_mark[track], high = s->first_mark[track + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->marked[middle].start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t i = low > s->first_mark[track] ? (uint32_t)low - 1 : AN_NONE;
    for (int levels = AN_DEPTH_MAX; i != AN_NONE && s->marked[i].end <= time && levels; levels--)
        i = s->marked[i].outer;
    return i != AN_NONE && s->marked[i].end > time ? s->marked[i].row : AN_NONE;
}

int an_sweep_resolve(struct an_sweep *s)
{
    uint32_t *caller = an_arena_zero(s->c->work, s->t->track_count,
                                     sizeof *caller); /* track + 1 that backward was called from */
    if (!caller || sort_forward(s))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < s->pendings; i++) {
        const struct an_sweep_pending *p = &s->pending[i];
        const struct an_sweep_forward *f = forward_of(s, p);
        if (f && f->track != p->track && !caller[p->track])
            caller[p->track] = f->track + 1;
    }
    for (size_t i = 0; i < s->pendings; i++) {
        const struct an_sweep_pending *p = &s->pending[i];
        const struct an_sweep_forward *f = forward_of(s, p);
        if (p->module != AN_NONE - 1)
            an_sweep_give(s, AN_BY_MODULE, f && f->module != AN_NONE ? f->module : p->module,
                          p->launch, p->call);
        if (p->line != AN_NONE - 1)
            an_sweep_give(s, AN_BY_LINE, f && f->line != AN_NONE ? f->line : p->line, p->launch,
                          p->call);
        uint32_t track = f && f->track != p->track ? f->track + 1 : caller[p->track];
        if (!p->annotated && track)
            an_sweep_give(s, AN_BY_ANNOTATION,
                          marked_at(s, track - 1, s->t->slice.start[s->g->launch_slice[p->launch]]),
                          p->launch, p->call);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread did at given times, by cause and name (absent.h). The innermost range that is open
 * decides; but what is done inside a wait for input, a compilation, a collection, a phase or a call
 * of the runtime is done for that.
 */
#include "analyzers/budget/absent.h"

#include <stdlib.h>
#include <string.h>

/* ---- the tally ---------------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const struct an_host_tally *y, uint32_t name, enum an_cause cause)
{
    uint64_t h = ((uint64_t)name << 8 | (uint64_t)cause) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32) & (y->slots - 1);
}

static void place(struct an_host_tally *y, size_t row)
{
    size_t at = hash_of(y, y->row[row].name, y->row[row].cause);
    while (y->slot[at])
        at = (at + 1) & (y->slots - 1);
    y->slot[at] = (uint32_t)row + 1;
}

static int grow_slots(struct an_host_tally *y)
{
    size_t slots = y->slots ? 2 * y->slots : 256;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    free(y->slot);
    y->slot = slot;
    y->slots = slots;
    for (size_t i = 0; i < y->count; i++)
        place(y, i);
    return 0;
}

static int tally_add(struct an_host_tally *y, uint32_t name, enum an_cause cause, int64_t ns)
{
    if (2 * y->count >= y->slots && grow_slots(y))
        return TACHO_ENOMEM;
    for (size_t at = hash_of(y, name, cause); y->slot[at]; at = (at + 1) & (y->slots - 1)) {
        struct an_host_row *row = &y->row[y->slot[at] - 1];
        if (row->name == name && row->cause == cause) {
            row->ns = an_time_add(row->ns, ns);
            return 0;
        }
    }
    if (an_grow(&y->row, &y->room, y->count + 1, sizeof *y->row))
        return TACHO_ENOMEM;
    y->row[y->count] = (struct an_host_row){name, cause, ns};
    place(y, y->count++);
    return 0;
}

void an_host_tally_free(struct an_host_tally *y)
{
    free(y->row);
    free(y->slot);
    *y = (struct an_host_tally){.row = NULL};
}

/* ---- the sweep ------------------------------------------------------------------------------------------------------------------ */

struct open_range {
    int64_t end;
    uint32_t slice;
    uint32_t name;
    enum an_cause cause;
    bool known; /* name and cause are filled */
};

struct host_sweep {
    struct an_context *c;
    const struct an_causes *causes;
    struct an_set when;
    size_t at; /* in `when`; a sweep only goes forward */
    struct an_host_tally *y;
    struct an_span_list *rest;
    struct open_range open[AN_DEPTH_MAX];
    size_t depth;
};

static bool is_for_itself(enum an_cause k)
{
    return k == AN_CAUSE_INPUT || k == AN_CAUSE_COMPILE || k == AN_CAUSE_COLLECTION ||
           k == AN_CAUSE_PHASE;
}

/* A call that waits for its copy is a copy, not a launch. */
static void note_waiting_copy(const struct host_sweep *w, uint32_t slice, enum an_cause *cause)
{
    const struct an_devices *g = w->c->gpu;
    if (*cause != AN_CAUSE_LAUNCH || !g || an_slice_api(w->c->t, slice).kind != AN_API_COPY)
        return;
    size_t i = an_launch_seek(g, slice);
    if (i < g->launch_count && g->launch_slice[i] == slice &&
        an_copy_waits(w->c, g->launch_op[g->launch_first[i]]))
        *cause = AN_CAUSE_COPY;
}

/* Fills the entry at `i` and those below it. */
static void know(struct host_sweep *w, size_t i)
{
    size_t from = i;
    while (from > 0 && !w->open[from].known)
        from--;
    for (size_t k = from; k <= i; k++) {
        struct open_range *x = &w->open[k];
        if (x->known)
            continue;
        const struct open_range *around = k ? &w->open[k - 1] : NULL;
        x->known = true;
        x->cause = an_slice_cause(w->c, w->causes, x->slice);
        note_waiting_copy(w, x->slice, &x->cause);
        x->name = x->cause == AN_CAUSE_THINK ? AN_NONE : w->c->t->slice.name[x->slice];
        if (!around || around->name == AN_NONE)
            continue;
        bool around_call = an_category_is_call(an_slice_category(w->c->t, around->slice));
        if (is_for_itself(around->cause) || around_call || x->name == AN_NONE) {
            if (x->cause == AN_CAUSE_COLLECTION || x->cause == AN_CAUSE_PROFILER)
                continue;
            x->cause = around->cause;
            x->name = around->name;
        }
    }
}

/* [from, to) belongs to the innermost open range: counts what of it is asked for. */
static int give(struct host_sweep *w, int64_t from, int64_t to)
{
    const struct an_set *s = &w->when;
    while (w->at < s->count && s->span[w->at].end <= from)
        w->at++;
    for (size_t i = w->at; i < s->count && s->span[i].start < to; i++) {
        int64_t a = s->span[i].start > from ? s->span[i].start : from;
        int64_t b = s->span[i].end < to ? s->span[i].end : to;
        if (b <= a)
            continue;
        uint32_t name = AN_NONE;
        enum an_cause cause = AN_CAUSE_THINK;
        if (w->depth) {
            know(w, w->depth - 1);
            name = w->open[w->depth - 1].name;
            cause = w->open[w->depth - 1].cause;
        }
        int rc = name == AN_NONE && w->rest ? an_span_list_add(w->rest, a, b)
                                            : tally_add(w->y, name, cause, an_time_sub(b, a));
        if (rc)
            return rc;
    }
    return 0;
}

int an_host_sweep(struct an_context *c, const struct an_track *k, struct an_set when,
                  struct an_host_tally *y, struct an_span_list *rest)
{
    struct host_sweep w = {.c = c, .when = when, .y = y, .rest = rest};
    struct an_causes *causes = c->graph ? c->graph->causes : c->causes;
    const struct an_trace *t = c->t;
    int64_t at = INT64_MIN;
    int rc = 0;
    if (!when.count)
        return 0;
    if (!causes && (rc = an_causes_make(c, &causes)))
        return rc;
    c->causes = causes;
    w.causes = causes;
    size_t stop = k->slice_first + k->slice_count;
    for (size_t i = k->slice_first; i <= stop && !rc; i++) {
        int64_t next = i == stop ? INT64_MAX : t->slice.start[i];
        while (w.depth && w.open[w.depth - 1].end <= next && !rc) {
            rc = give(&w, at, w.open[w.depth - 1].end);
            at = w.open[w.depth - 1].end > at ? w.open[w.depth - 1].end : at;
            w.depth--;
        }
        rc = rc ? rc : give(&w, at, next);
        at = next > at ? next : at;
        if (i < stop && w.depth < AN_DEPTH_MAX && t->slice.dur[i] != 0 && w.at < when.count)
            w.open[w.depth++] =
                (struct open_range){.end = an_slice_end(t, i), .slice = (uint32_t)i};
    }
    return rc;
}

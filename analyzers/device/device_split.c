/* SPDX-License-Identifier: Apache-2.0
 *
 * When each device did what: unions and differences of its ops, in integer ns (DESIGN 5, device
 * ops).
 *
 * Graphs. A graph that was recorded as a whole is busy and opaque. A graph whose launch is in the
 * file and that left no record makes the device look idle: the first gap that ends after the launch
 * call began is then opaque from the launch on, up to the end of the next call of the thread that
 * waits for the stream or the device, which proves that the graph had ended. A gap that ends with
 * an op whose own launch is not in the file is left alone: that op may be the graph's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/analyzer.h"

enum set_operation { SET_UNION, SET_SUBTRACT };

int an_device_spans(const struct an_context *c, const struct an_device *d, unsigned mask,
                    int64_t t0, int64_t t1, struct an_span **out, size_t *count)
{
    const struct an_device_ops *op = &c->gpu->op;
    size_t n = 0;
    for (size_t i = d->first; i < d->first + d->count && op->start[i] < t1; i++)
        n += mask >> op->class[i] & 1 && op->end[i] > t0;
    struct an_span *s = an_arena_zero(c->work, n, sizeof *s);
    *out = s;
    *count = 0;
    if (!s)
        return TACHO_ENOMEM;
    n = 0;
    for (size_t i = d->first; i < d->first + d->count && op->start[i] < t1; i++)
        if (mask >> op->class[i] & 1 && op->end[i] > t0)
            s[n++] = (struct an_span){op->start[i] > t0 ? op->start[i] : t0,
                                      op->end[i] < t1 ? op->end[i] : t1};
    *count = an_spans_normalize(s, n);
    return 0;
}

/* Union of the ops of a class mask, of the size it needs. */
static int set_of(struct an_context *c, const struct an_devices *g, const struct an_device *d,
                  unsigned mask, struct an_set *out)
{
    const struct an_device_ops *op = &g->op;
    size_t n = 0;
    for (size_t i = d->first; i < d->first + d->count; i++)
        n += mask >> op->class[i] & 1;
    struct an_span *s = malloc((n ? n : 1) * sizeof *s);
    if (!s)
        return TACHO_ENOMEM;
    n = 0;
    for (size_t i = d->first; i < d->first + d->count; i++)
        if (mask >> op->class[i] & 1)
            s[n++] = (struct an_span){op->start[i], op->end[i]};
    out->count = an_spans_normalize(s, n);
    out->span = an_arena_copy(c->work, s, out->count * sizeof *s);
    free(s);
    return out->span ? 0 : TACHO_ENOMEM;
}

static int set_make(struct an_context *c, enum set_operation operation, struct an_set a,
                    struct an_set b, struct an_set *out)
{
    size_t room = a.count + b.count;
    struct an_span *s = malloc((room ? room : 1) * sizeof *s);
    if (!s)
        return TACHO_ENOMEM;
    out->count = operation == SET_UNION ? an_spans_union(a.span, a.count, b.span, b.count, s)
                                        : an_spans_subtract(a.span, a.count, b.span, b.count, s);
    out->span = an_arena_copy(c->work, s, out->count * sizeof *s);
    free(s);
    return out->span ? 0 : TACHO_ENOMEM;
}

/* ---- graphs that left no record ------------------------------------------------------------------------------------------- */

/* A launch of a graph that left no record. */
struct graph_call {
    int64_t start;
    int64_t
        waited; /* end of the first wait of its thread that begins after it, INT64_MAX: none does */
    size_t device; /* that of the launch before it on the thread; SIZE_MAX: there is none */
};

struct graph_calls {
    struct graph_call *call;
    size_t count, room;
};

static size_t device_of_op(const struct an_devices *g, size_t op)
{
    size_t low = 0, high = g->device_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->device[middle].first + g->device[middle].count <= op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Kinds of calls by name: 1 launches a graph, 2 waits for a stream or a device. */
static uint8_t graph_kind(const char *name)
{
    struct an_api_call a = an_api_of(name);
    if (a.kind == AN_API_SYNC)
        return strstr(name, "Event") ? 0 : 2;
    return a.kind == AN_API_GRAPH;
}

/* The launches of a thread that left no record, in reverse order. */
static int list_thread(const struct an_trace *t, const struct an_devices *g,
                       const struct an_track *k, const uint8_t *kind, struct graph_calls *l)
{
    size_t at = an_launch_seek(g, k->slice_first + k->slice_count); /* behind the thread's rows */
    int64_t waited = INT64_MAX;
    for (size_t i = k->slice_first + k->slice_count; i-- > k->slice_first;) {
        bool linked = at && g->launch_slice[at - 1] == i;
        at -= linked;
        uint32_t name = t->slice.name[i];
        uint8_t what = name == AN_NONE ? 0 : kind[name];
        const char *category = what ? an_slice_category(t, i) : "";
        if (!what || (strcmp(category, "runtime") != 0 && strcmp(category, "driver") != 0))
            continue;
        if (what == 2)
            waited = an_slice_end(t, i);
        if (what == 2 || linked)
            continue;
        if (an_grow(&l->call, &l->room, l->count + 1, sizeof *l->call))
            return TACHO_ENOMEM;
        bool before = at && g->launch_slice[at - 1] >= k->slice_first;
        size_t device = before ? device_of_op(g, g->launch_op[g->launch_first[at - 1]]) : SIZE_MAX;
        l->call[l->count++] = (struct graph_call){t->slice.start[i], waited, device};
    }
    return 0;
}

/* What the launch hides: the part of the first gap that ends after it, up to the next wait.
 * Nothing: an empty span. */
static struct an_span hidden_by(const struct an_devices *g, const struct an_device *d,
                                const struct an_set *busy, const struct graph_call *l)
{
    const struct an_span nothing = {0, 0};
    int64_t start = l->start;
    size_t low = 0, high = busy->count;
    while (low <
           high) { /* the first busy span that begins after the launch: the gap is before it */
        size_t middle = low + (high - low) / 2;
        if (busy->span[middle].start <= start)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || low == busy->count)
        return nothing;
    struct an_span gap = {busy->span[low - 1].end, busy->span[low].start};
    gap.start = gap.start > start ? gap.start : start;
    gap.end = l->waited < gap.end ? l->waited : gap.end;
    const struct an_device_ops *op = &g->op;
    size_t a = d->first, z = d->first + d->count;
    while (a < z) { /* the op that ends the gap */
        size_t middle = a + (z - a) / 2;
        if (op->start[middle] < busy->span[low].start)
            a = middle + 1;
        else
            z = middle;
    }
    return op->launch[a] == AN_NONE || gap.end <= gap.start ? nothing : gap;
}

/* Spans in which devices of the process look idle and are not known to be; spans[d] for each of its
 * devices from `first` on. */
static int find_hidden(struct an_context *c, struct an_devices *g, uint32_t process,
                       const uint8_t *kind)
{
    const struct an_trace *t = c->t;
    struct graph_calls l = {0};
    struct an_span *s = NULL;
    int rc = 0;
    for (size_t k = 0; k < t->track_count && !rc; k++)
        if (t->track[k].process == process && strcmp(t->track[k].kind, "stream") != 0)
            rc = list_thread(t, g, &t->track[k], kind, &l);
    if (!rc && l.count)
        rc = (s = malloc(l.count * sizeof *s)) ? 0 : TACHO_ENOMEM;
    size_t first = SIZE_MAX;
    for (size_t d = 0; d < g->device_count && !rc; d++) {
        if (g->device[d].process != process)
            continue;
        first = first == SIZE_MAX ? d : first;
        struct an_device_split *x = &g->split[d];
        size_t n = 0;
        for (size_t i = 0; i < l.count; i++) {
            size_t on = l.call[i].device == SIZE_MAX ? first : l.call[i].device;
            if (on != d)
                continue;
            struct an_span hidden = hidden_by(g, &g->device[d], &x->busy, &l.call[i]);
            x->unseen_graphs++;
            if (hidden.end > hidden.start)
                s[n++] = hidden;
        }
        if (!n)
            continue;
        n = an_spans_normalize(s, n);
        x->unseen_ns = an_spans_measure(s, n);
        struct an_set hidden = {s, n}, opaque = x->exposed_opaque, busy = x->busy;
        rc = set_make(c, SET_UNION, opaque, hidden, &x->exposed_opaque);
        rc = rc ? rc : set_make(c, SET_UNION, busy, hidden, &x->busy);
    }
    free(l.call);
    free(s);
    return rc;
}

static int hide_graphs(struct an_context *c, struct an_devices *g)
{
    const struct an_trace *t = c->t;
    bool graphs = false;
    uint8_t *kind = an_arena_zero(c->work, t->string_count, 1);
    if (!kind)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->string_count; i++)
        graphs |= (kind[i] = graph_kind(t->string[i])) == 1;
    int rc = 0;
    for (size_t d = 0; d < g->device_count && graphs && !rc; d++)
        if (!d || g->device[d].process != g->device[d - 1].process)
            rc = find_hidden(c, g, g->device[d].process, kind);
    return rc;
}

/* ---- the sets -------------------------------------------------------------------------------------------------------------- */

static int split_device(struct an_context *c, const struct an_devices *g, const struct an_device *d,
                        struct an_device_split *x)
{
    struct an_set rest, classed;
    for (size_t i = d->first; i < d->first + d->count; i++) {
        x->start = i == d->first ? g->op.start[i] : x->start;
        x->end = i == d->first || g->op.end[i] > x->end ? g->op.end[i] : x->end;
    }
    int rc = set_of(c, g, d, AN_DEVICE_COMPUTE_MASK, &x->compute);
    rc = rc ? rc : set_of(c, g, d, AN_DEVICE_COMM_MASK, &x->comm);
    rc = rc ? rc : set_of(c, g, d, AN_DEVICE_COPY_MASK, &x->copy);
    rc = rc ? rc : set_of(c, g, d, 1u << AN_DEVICE_OPAQUE, &x->opaque);
    rc = rc ? rc : set_make(c, SET_SUBTRACT, x->comm, x->compute, &x->exposed_comm);
    rc = rc ? rc : set_make(c, SET_UNION, x->compute, x->comm, &rest);
    rc = rc ? rc : set_make(c, SET_SUBTRACT, x->copy, rest, &x->exposed_copy);
    rc = rc ? rc : set_make(c, SET_UNION, rest, x->copy, &classed);
    rc = rc ? rc : set_make(c, SET_SUBTRACT, x->opaque, classed, &x->exposed_opaque);
    return rc ? rc : set_make(c, SET_UNION, classed, x->opaque, &x->busy);
}

int an_devices_split(struct an_context *c, struct an_devices *g)
{
    int rc =
        (g->split = an_arena_zero(c->work, g->device_count, sizeof *g->split)) ? 0 : TACHO_ENOMEM;
    for (size_t d = 0; d < g->device_count && !rc; d++)
        rc = split_device(c, g, &g->device[d], &g->split[d]);
    return rc ? rc : hide_graphs(c, g);
}

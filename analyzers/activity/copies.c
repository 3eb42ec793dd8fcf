/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and memsets by kind and by the host's memory, over the whole capture: bytes, time, how
 * much of it nothing hid, bandwidth, and whether the host waited.
 *
 * A copy is synchronous when its call waits for it: a copying call without Async in its name, and
 * any copy from or to pageable memory, which the driver stages. Copies between devices, copies of a
 * graph and memsets never make the host wait.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/api.h"
#include "analyzers/steps/analyzer.h"

struct row {
    struct an_copy_row r;
    bool memset;
    int64_t sync, call_unknown, memory_unknown;
    int64_t sized; /* ops with a size */
    double sized_ns, best;
    size_t first, count; /* its spans on the device that is being looked at */
};

struct rows {
    struct row *row;
    size_t count, room;
    uint32_t *of_detail; /* row + 1 of a detail: copies at 2 i, memsets at 2 i + 1; the last two: no
                            detail */
    uint32_t *of_op;     /* row of each op, AN_NONE: no copy */
};

enum waits { WAITS_NO, WAITS_PAGEABLE, WAITS_CALL, WAITS_CALL_UNKNOWN, WAITS_MEMORY_UNKNOWN };

static bool between_devices(const char *kind)
{
    return !strcmp(kind, "DtoD") || !strcmp(kind, "PtoP");
}

static enum waits waits(const struct an_context *c, size_t op, const struct row *x)
{
    uint32_t call = c->gpu->op.launch[op];
    if (x->memset || between_devices(x->r.kind))
        return WAITS_NO;
    struct an_api_call a = {AN_API_OTHER, false};
    if (call != AN_NONE) {
        a = an_slice_api(c->t, call);
        if (a.kind != AN_API_COPY)
            return WAITS_NO;
    }
    if (!strcmp(x->r.memory, "pageable"))
        return WAITS_PAGEABLE;
    if (call == AN_NONE)
        return WAITS_CALL_UNKNOWN;
    if (!a.async)
        return WAITS_CALL;
    return *x->r.memory ? WAITS_NO : WAITS_MEMORY_UNKNOWN;
}

/* ---- rows --------------------------------------------------------------------------------------------------------------- */

static uint32_t row_find(struct an_context *c, struct rows *s, const char *kind, const char *memory,
                         bool memset)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->row[i].memset == memset && !strcmp(s->row[i].r.kind, kind) &&
            !strcmp(s->row[i].r.memory, memory))
            return (uint32_t)i;
    if (an_grow(&s->row, &s->room, s->count + 1, sizeof *s->row))
        return AN_NONE;
    s->row[s->count] = (struct row){
        .r = {.kind = an_arena_text(c->a, kind), .memory = an_arena_text(c->a, memory)},
        .memset = memset};
    return (uint32_t)s->count++;
}

/* Row of an op that is a copy or a memset; *row stays AN_NONE for others. */
static int row_of(struct an_context *c, struct rows *s, size_t op, uint32_t *row)
{
    size_t slice = c->gpu->op.slice[op];
    const char *category = an_slice_category(c->t, slice);
    bool memset = !strcmp(category, "memset");
    if (!memset && strcmp(category, "memcpy") != 0)
        return 0;
    const struct an_detail *d = an_trace_detail(c->t, c->t->slice.detail[slice]);
    uint32_t *known =
        &s->of_detail[2 * (d ? c->t->slice.detail[slice] : c->t->detail_count) + memset];
    if (!*known) {
        uint32_t r = row_find(c, s,
                              memset               ? "memset"
                              : d && *d->copy_kind ? d->copy_kind
                                                   : "unknown",
                              d ? d->kind : "", memset);
        if (r == AN_NONE)
            return TACHO_ENOMEM;
        *known = r + 1;
    }
    *row = *known - 1;
    return 0;
}

/* Size of a copy or memset, STORE_ABSENT: not known. Traces of AMD devices have it on the call. */
static int64_t size_of(const struct an_context *c, size_t op)
{
    const struct an_device_ops *o = &c->gpu->op;
    const struct an_trace *t = c->t;
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[o->slice[op]]);
    if ((!d || d->bytes == STORE_ABSENT) && o->launch[op] != AN_NONE) {
        enum an_api_kind kind = an_slice_api(t, o->launch[op]).kind;
        d = kind == AN_API_COPY || kind == AN_API_MEMSET
                ? an_trace_detail(t, t->slice.detail[o->launch[op]])
                : NULL;
    }
    return d && d->bytes >= 0 ? d->bytes : STORE_ABSENT;
}

static void row_add(struct an_context *c, struct row *x, size_t op)
{
    const struct an_device_ops *o = &c->gpu->op;
    int64_t dur = an_time_sub(o->end[op], o->start[op]);
    x->r.count++;
    x->r.total_ns = an_time_add(x->r.total_ns, dur);
    enum waits w = waits(c, op, x);
    x->sync += w == WAITS_PAGEABLE || w == WAITS_CALL;
    x->call_unknown += w == WAITS_CALL_UNKNOWN;
    x->memory_unknown += w == WAITS_MEMORY_UNKNOWN;
    if (w == WAITS_PAGEABLE)
        x->r.rule = "pageable memory: the driver stages it while the call waits";
    else if (w == WAITS_CALL && !x->r.rule)
        x->r.rule = "the call waits for its copy (no Async in its name)";
    int64_t bytes = size_of(c, op);
    if (bytes == STORE_ABSENT)
        return;
    x->sized++;
    x->r.bytes.value = an_time_add(x->r.bytes.value, bytes);
    x->sized_ns += (double)dur;
    if (dur > 0 && (double)bytes / (double)dur > x->best)
        x->best = (double)bytes / (double)dur;
}

/* ---- exposed time ------------------------------------------------------------------------------------------------------- */

/* Adds what no compute and no communication of the device hid. Copies of a communicator are
 * communication: they hide themselves.
 */
static int expose(struct an_context *c, const struct an_device *d, struct rows *s)
{
    const struct an_device_ops *o = &c->gpu->op;
    unsigned busy = AN_DEVICE_COMPUTE_MASK | AN_DEVICE_COMM_MASK;
    struct an_span *hide[2], *span, *rest;
    size_t hides[2], n = 0;
    int rc = an_device_spans(c, d, busy, INT64_MIN, INT64_MAX, &hide[0], &hides[0]);
    if (!rc)
        rc = an_device_spans(c, d, busy & ~(1u << AN_DEVICE_MEMSET), INT64_MIN, INT64_MAX, &hide[1],
                             &hides[1]);
    if (rc)
        return rc;
    for (size_t r = 0; r < s->count; r++)
        s->row[r].count = 0;
    for (size_t i = d->first; i < d->first + d->count; i++)
        if (s->of_op[i] != AN_NONE)
            s->row[s->of_op[i]].count++;
    for (size_t r = 0; r < s->count; r++) {
        s->row[r].first = n;
        n += s->row[r].count;
        s->row[r].count = 0;
    }
    size_t most = n + (hides[0] > hides[1] ? hides[0] : hides[1]);
    span = malloc((n + 1) * sizeof *span);
    rest = malloc((most + 1) * sizeof *rest);
    for (size_t i = d->first; span && i < d->first + d->count; i++)
        if (s->of_op[i] != AN_NONE) {
            struct row *x = &s->row[s->of_op[i]];
            span[x->first + x->count++] = (struct an_span){o->start[i], o->end[i]};
        }
    for (size_t r = 0; span && rest && r < s->count; r++) {
        struct row *x = &s->row[r];
        size_t k = an_spans_normalize(span + x->first, x->count);
        k = an_spans_subtract(span + x->first, k, hide[x->memset], hides[x->memset], rest);
        x->r.exposed_ns = an_time_add(x->r.exposed_ns, an_spans_measure(rest, k));
    }
    rc = span && rest ? 0 : TACHO_ENOMEM;
    free(span);
    free(rest);
    an_arena_give_back(c->work, hide[0]);
    an_arena_give_back(c->work, hide[1]);
    return rc;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------- */

static int row_order(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    if (a->r.total_ns != b->r.total_ns)
        return a->r.total_ns > b->r.total_ns ? -1 : 1;
    int kind = strcmp(a->r.kind, b->r.kind);
    return kind ? kind : strcmp(a->r.memory, b->r.memory);
}

static void finish(struct an_context *c, struct row *x)
{
    const char *unsized = "the trace does not say how many bytes";
    if (!x->sized)
        x->r.bytes = an_int_none(unsized);
    else
        x->r.bytes.valid = true;
    x->r.bytes_per_s = x->sized && x->sized_ns > 0
                           ? an_num((double)x->r.bytes.value / x->sized_ns * 1e9)
                           : an_num_none(x->sized ? "they took 0 ns" : unsized);
    x->r.max_bytes_per_s =
        x->best > 0 ? an_num(x->best * 1e9) : an_num_none(x->sized ? "they took 0 ns" : unsized);
    if (x->call_unknown)
        x->r.synchronous = an_int_none(an_arena_format(
            c->a,
            "the call of %" PRId64 " of %" PRId64 " is not in the file; of the others %" PRId64,
            x->call_unknown, x->r.count, x->sync));
    else if (x->memory_unknown)
        x->r.synchronous =
            an_int_none("the trace does not say whether the host's memory is pageable");
    else
        x->r.synchronous = an_int(x->sync);
}

static void copies_absent(struct an_context *c, const char *reason)
{
    c->r->copies.reason = reason;
}

static int copies_run(struct an_context *c)
{
    const struct an_devices *g = c->gpu;
    struct rows s = {.of_detail = calloc(2 * c->t->detail_count + 2, sizeof *s.of_detail),
                     .of_op = malloc((g->op.count + 1) * sizeof *s.of_op)};
    int rc = s.of_detail && s.of_op ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < g->op.count && !rc; i++) {
        s.of_op[i] = AN_NONE;
        if (!(rc = row_of(c, &s, i, &s.of_op[i])) && s.of_op[i] != AN_NONE)
            row_add(c, &s.row[s.of_op[i]], i);
    }
    for (size_t d = 0; d < g->device_count && !rc && s.count; d++)
        rc = expose(c, &g->device[d], &s);
    struct an_copy_row *out = rc ? NULL : an_arena_zero(c->a, s.count, sizeof *out);
    if (out) {
        if (s.count)
            qsort(s.row, s.count, sizeof *s.row, row_order);
        for (size_t i = 0; i < s.count; i++) {
            finish(c, &s.row[i]);
            out[i] = s.row[i].r;
        }
        c->r->copy = out;
        c->r->copy_count = s.count;
    } else if (!rc) {
        rc = TACHO_ENOMEM;
    }
    free(s.row);
    free(s.of_detail);
    free(s.of_op);
    return rc;
}

const struct an_analyzer an_copies = {
    "copies", "copies and memsets by kind and memory: bytes, exposed time, bandwidth, waits",
    AN_INPUT_DEVICES, copies_run, copies_absent};

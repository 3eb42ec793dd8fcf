/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: what each operator reaches of what its device can do at its intensity (Williams,
 * Waterman, Patterson 2009: attainable = min(peak, bandwidth * FLOPs / bytes)). A point is one
 * operator in one element type, pass and shape class over the counted steps, or over the whole run
 * where there are no steps: FLOPs and bytes of the calls whose both are known, and the union of the
 * time of exactly these calls on their device. On the CPU the operators are ranges with a
 * tacho.work payload and the device is the machine: of ranks that share one the union is taken over
 * all of them.
 *
 * Two passes: the first one counts calls by cost, then shapes of nearly one intensity become a
 * point, the second one adds times.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution.h"
#include "analyzers/work/roofline.h"

#define POINTS_MOST 16 /* of one operator: beyond, shapes of intensities further apart share one \
                        */

static void roofline_absent(struct an_context *c, const char *reason)
{
    c->r->roofline.reason = reason;
}

/* ---- shapes --------------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const struct an_roof_call *x)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *text[] = {x->name, x->dtype, x->pass}, **t = text; t < text + 3; t++)
        for (const char *p = *t; *p; p++)
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    h = (h ^ (uint64_t)x->flops) * 0x100000001b3u;
    h = (h ^ (uint64_t)x->bytes) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

/* Of two calls the order by operator: name, type, pass. */
static int operator_order(const struct an_roof_call *a, const struct an_roof_call *b)
{
    int by_name = strcmp(a->name, b->name),
        by_dtype = by_name ? by_name : strcmp(a->dtype, b->dtype);
    return by_dtype ? by_dtype : strcmp(a->pass, b->pass);
}

static int grow_buckets(struct an_roof *r)
{
    size_t n = r->buckets ? 2 * r->buckets : 256;
    uint32_t *bucket = an_arena_zero(r->c->work, n, sizeof *bucket);
    if (!bucket)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < r->shapes; i++) {
        size_t h = hash_of(&r->shape[i].call) & (n - 1);
        while (bucket[h])
            h = (h + 1) & (n - 1);
        bucket[h] = (uint32_t)i + 1;
    }
    r->bucket = bucket;
    r->buckets = n;
    return 0;
}

/* The shape of a call, made when it is new. AN_NONE: out of memory. */
static uint32_t shape_of(struct an_roof *r, const struct an_roof_call *x)
{
    if (2 * r->shapes >= r->buckets && grow_buckets(r))
        return AN_NONE;
    size_t h = hash_of(x) & (r->buckets - 1);
    for (; r->bucket[h]; h = (h + 1) & (r->buckets - 1)) {
        const struct an_roof_call *y = &r->shape[r->bucket[h] - 1].call;
        if (x->flops == y->flops && x->bytes == y->bytes && !operator_order(x, y))
            return r->bucket[h] - 1;
    }
    if (an_grow(&r->shape, &r->shape_room, r->shapes + 1, sizeof *r->shape))
        return AN_NONE;
    r->shape[r->shapes] = (struct an_roof_shape){.call = *x};
    r->bucket[h] = (uint32_t)++r->shapes;
    return (uint32_t)r->shapes - 1;
}

/* ---- points --------------------------------------------------------------------------------------------------------------- */

static double intensity(const struct an_roof_shape *s)
{
    return (double)s->call.flops / (double)s->call.bytes;
}

static int shape_order(const void *x, const void *y)
{
    const struct an_roof_shape *a = *(const struct an_roof_shape *const *)x,
                               *b = *(const struct an_roof_shape *const *)y;
    int by_operator = operator_order(&a->call, &b->call);
    if (by_operator)
        return by_operator;
    if (intensity(a) < intensity(b) || intensity(a) > intensity(b))
        return intensity(a) < intensity(b) ? -1 : 1;
    return (a->call.flops > b->call.flops) - (a->call.flops < b->call.flops);
}

/* Points of the shapes of one operator, in order of intensity, when those within `factor` of the
 * first one share a point. */
static size_t points_within(struct an_roof_shape *const *s, size_t n, double factor)
{
    size_t points = 0;
    double from = 0;
    for (size_t i = 0; i < n; i++)
        if (!i || intensity(s[i]) > factor * from) {
            points++;
            from = intensity(s[i]);
        }
    return points;
}

/* Gives the shapes of one operator their points. */
static void join(struct an_roof *r, struct an_roof_shape *const *s, size_t n)
{
    static const double factors[] = {1.02, 1.1, 1.5, 4, 64};
    size_t k = 0;
    double from = 0;
    while (k + 1 < sizeof factors / sizeof *factors &&
           points_within(s, n, factors[k]) > POINTS_MOST)
        k++;
    for (size_t i = 0; i < n; i++) {
        if (!i || intensity(s[i]) > factors[k] * from) {
            r->point[r->points++] =
                (struct an_roof_point){.call = &s[i]->call, .one_cost = true, .place = SIZE_MAX};
            from = intensity(s[i]);
        }
        struct an_roof_point *p = &r->point[r->points - 1];
        p->shapes++;
        p->count += s[i]->count;
        p->one_cost =
            p->one_cost && s[i]->call.flops == p->call->flops && s[i]->call.bytes == p->call->bytes;
        s[i]->point = (uint32_t)r->points - 1;
    }
}

static int make_points(struct an_roof *r)
{
    struct an_roof_shape **order = malloc((r->shapes + 1) * sizeof(struct an_roof_shape *));
    r->point = an_arena_zero(r->c->work, r->shapes + 1, sizeof *r->point);
    if (!order || !r->point) {
        free(order);
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < r->shapes; i++)
        order[i] = &r->shape[i];
    qsort(order, r->shapes, sizeof *order, shape_order);
    for (size_t i = 0, n; i < r->shapes; i += n) {
        for (n = 1; i + n < r->shapes && !operator_order(&order[i]->call, &order[i + n]->call);)
            n++;
        join(r, order + i, n);
    }
    free(order);
    return 0;
}

/* Adds the time of a call on device `place`; calls come by device, then by start. */
static void add_time(struct an_roof_point *p, size_t place, int64_t start, int64_t end)
{
    if (p->place != place) {
        p->place = place;
        p->until = INT64_MIN;
    }
    int64_t from = start > p->until ? start : p->until;
    if (end > from) {
        p->ns = an_time_add(p->ns, an_time_sub(end, from));
        p->until = end;
    }
}

static void add_costs(struct an_roof *r)
{
    for (size_t i = 0; i < r->shapes; i++) {
        struct an_roof_point *p = &r->point[r->shape[i].point];
        const struct an_roof_call *x = &r->shape[i].call;
        int64_t n = r->shape[i].count;
        p->flops = an_time_add(p->flops, x->flops > INT64_MAX / n ? INT64_MAX : x->flops * n);
        p->bytes = an_time_add(p->bytes, x->bytes > INT64_MAX / n ? INT64_MAX : x->bytes * n);
    }
}

/* ---- accelerators ----------------------------------------------------------------------------------------------------------- */

static const char *cost_kind(enum an_op_kind kind)
{
    static const char *const kinds[] = {[AN_OP_OTHER] = "other",
                                        [AN_OP_MATRIX] = "matrix",
                                        [AN_OP_CONVOLUTION] = "convolution",
                                        [AN_OP_ATTENTION] = "attention"};
    return (size_t)kind < sizeof kinds / sizeof *kinds && kinds[kind] ? kinds[kind] : "";
}

static int from_calls(struct an_roof *r)
{
    const struct an_context *c = r->c;
    const struct an_calls *calls = c->calls;
    bool steps = c->r->steps.detailed > 0;
    uint32_t *of_call = an_arena_zero(c->work, calls->count, sizeof *of_call); /* shape + 1 */
    if (!of_call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call *call = &calls->call[i];
        const struct an_op_cost *cost = &calls->cost[call->cost];
        if ((steps && call->step == AN_NONE) || !(cost->flops > 0) || !(cost->bytes > 0))
            continue;
        struct an_roof_call x = {.name = an_trace_name(c->t, c->t->slice.name[call->slice]),
                                 .dtype = *call->dtype ? call->dtype : cost->dtype,
                                 .pass = call->recompute ? "recompute" : "",
                                 .kind = cost_kind(cost->kind),
                                 .product = cost->kind != AN_OP_OTHER,
                                 .flops = cost->flops,
                                 .bytes = cost->bytes};
        uint32_t s = shape_of(r, &x);
        if (s == AN_NONE)
            return TACHO_ENOMEM;
        r->shape[s].count++;
        of_call[i] = s + 1;
    }
    if (make_points(r))
        return TACHO_ENOMEM;
    for (size_t d = 0; d < c->gpu->device_count; d++) {
        const struct an_device *x = &c->gpu->device[d];
        for (size_t i = x->first; i < x->first + x->count; i++) {
            uint32_t call = calls->of_op[i], s = call == AN_NONE ? 0 : of_call[call];
            if (s)
                add_time(&r->point[r->shape[s - 1].point], d, c->gpu->op.start[i],
                         c->gpu->op.end[i]);
        }
    }
    return 0;
}

/* Devices of one name share a roof; a run with several kinds has none. */
static const char *device_name(const struct an_context *c)
{
    const char *name = NULL;
    for (size_t d = 0; d < c->gpu->device_count; d++) {
        if (!c->gpu->device[d].count)
            continue;
        if (name && strcmp(name, c->gpu->device[d].name))
            return NULL;
        name = c->gpu->device[d].name;
    }
    return name ? name : "";
}

/* ---- the CPU ---------------------------------------------------------------------------------------------------------------- */

/* A thread with work: of a lane, or any thread where there are no steps. */
struct source {
    const struct an_track *track;
    const struct an_lane *lane; /* NULL: the whole run counts */
    const char *host;
    size_t at; /* next slice of the second pass */
};

static bool counts(const struct an_context *c, const struct source *s, size_t i,
                   struct an_roof_call *x)
{
    const struct an_trace *t = c->t;
    const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
    if (!d || d->role != AN_ROLE_WORK || !(d->flops > 0) || t->slice.dur[i] == AN_OPEN)
        return false;
    const struct an_step *step = s->lane ? an_step_at(c, s->lane, t->slice.start[i]) : NULL;
    *x = (struct an_roof_call){.name = an_trace_name(t, t->slice.name[i]),
                               .dtype = d->dtype,
                               .pass = d->pass,
                               .kind = d->kind,
                               .product = d->hardware,
                               .flops = d->flops,
                               .bytes = an_time_add(d->bytes_read > 0 ? d->bytes_read : 0,
                                                    d->bytes_written > 0 ? d->bytes_written : 0)};
    return x->bytes > 0 && (!s->lane || (step && an_step_detailed(step))) &&
           !an_slice_in_phase(t, i);
}

static size_t find_sources(const struct an_context *c, struct source *s)
{
    const struct an_trace *t = c->t;
    size_t n = 0;
    if (c->r->steps.detailed)
        for (size_t l = 0; l < c->lane_count; l++) {
            const struct an_lane *lane = &c->lane[l];
            if (lane->track != AN_NONE)
                s[n++] = (struct source){.track = &t->track[lane->track], .lane = lane};
        }
    else
        for (size_t k = 0; k < t->track_count; k++)
            if (!strcmp(t->track[k].kind, "thread"))
                s[n++] = (struct source){.track = &t->track[k]};
    for (size_t i = 0; i < n; i++) {
        s[i].host = s[i].track->process == AN_NONE ? "" : t->process[s[i].track->process].host;
        s[i].at = s[i].track->slice_first;
    }
    return n;
}

/* The next call in order of start on any thread of a machine, *x says what it is; SIZE_MAX at the
 * end. */
static size_t next_on(const struct an_context *c, struct source *s, size_t n, const char *host,
                      struct an_roof_call *x)
{
    const struct an_trace *t = c->t;
    for (;;) {
        struct source *first = NULL;
        for (size_t k = 0; k < n; k++) {
            size_t end = s[k].track->slice_first + s[k].track->slice_count;
            if (s[k].at < end && (!first || t->slice.start[s[k].at] < t->slice.start[first->at]) &&
                !strcmp(s[k].host, host))
                first = &s[k];
        }
        if (!first)
            return SIZE_MAX;
        size_t i = first->at++;
        if (counts(c, first, i, x))
            return i;
    }
}

static int from_ranges(struct an_roof *r)
{
    const struct an_context *c = r->c;
    const struct an_trace *t = c->t;
    struct an_roof_call x;
    struct source *s = an_arena_zero(c->work, c->lane_count + t->track_count + 1, sizeof *s);
    if (!s)
        return TACHO_ENOMEM;
    size_t n = find_sources(c, s);
    for (size_t k = 0; k < n; k++)
        for (size_t i = s[k].track->slice_first;
             i < s[k].track->slice_first + s[k].track->slice_count; i++) {
            if (!counts(c, &s[k], i, &x))
                continue;
            uint32_t found = shape_of(r, &x);
            if (found == AN_NONE)
                return TACHO_ENOMEM;
            r->shape[found].count++;
        }
    if (make_points(r))
        return TACHO_ENOMEM;
    for (size_t k = 0; k < n; k++) {
        bool seen = false;
        for (size_t j = 0; j < k && !seen; j++)
            seen = !strcmp(s[j].host, s[k].host);
        for (size_t i; !seen && (i = next_on(c, s, n, s[k].host, &x)) != SIZE_MAX;)
            add_time(&r->point[r->shape[shape_of(r, &x)].point], k, t->slice.start[i],
                     an_slice_end(t, i));
    }
    return 0;
}

/* ---- what the hardware counted ------------------------------------------------------------------------------------------------ */

/* A range of all ranks is a point, with measured FLOPs and bytes; what it has in ranges inside it
 * is theirs. */
static int add_counted(struct an_roof *r)
{
    const struct an_result *all = r->c->r;
    size_t n = all->range_counted_count, first = r->points;
    if (!n)
        return 0;
    struct an_roof_point *point = an_arena_zero(r->c->work, r->points + n, sizeof *point);
    struct an_roof_call *call = an_arena_zero(r->c->work, n, sizeof *call);
    if (!point || !call)
        return TACHO_ENOMEM;
    if (r->points)
        memcpy(point, r->point, r->points * sizeof *point);
    r->point = point;
    for (size_t i = 0; i < n; i++) {
        const struct an_range_counted *x = &all->ranges_counted[i];
        const struct an_step_counted *s = &x->counted;
        size_t k = first;
        if (!s->flops_per_s.valid || !s->dram_bytes.valid || !(s->dram_bytes.value >= 1) ||
            !(s->time_ms.value > 0))
            continue;
        while (k < r->points && (strcmp(point[k].call->name, x->name) != 0 ||
                                 strcmp(point[k].call->dtype, x->dtype) != 0))
            k++;
        if (k == r->points) {
            call[i] = (struct an_roof_call){.name = x->name,
                                            .dtype = x->dtype,
                                            .pass = "",
                                            .kind = "range",
                                            .product = strcmp(x->dtype, "fp32") != 0};
            point[r->points++] = (struct an_roof_point){
                .call = &call[i], .measured = true, .shapes = 1, .place = SIZE_MAX};
        }
        point[k].count += x->pieces;
        point[k].flops += (int64_t)(s->matrix_ops.value + s->fp32_flops.value);
        point[k].bytes += (int64_t)s->dram_bytes.value;
        point[k].ns += (int64_t)(s->time_ms.value * 1e6);
    }
    return 0;
}

/* ---- the analyzer ------------------------------------------------------------------------------------------------------------ */

static const char *why_empty(const struct an_context *c)
{
    if (!c->gpu)
        return "no range in the steps says its FLOPs and bytes (tacho.work in "
               "include/tacho_nvtx.h)";
    if (!c->calls || !c->calls->count)
        return "no operators recorded that launched device work; record with torch.profiler, "
               "activities CPU and CUDA";
    return c->calls->shapes ? "no operator in the steps has known FLOPs and bytes"
                            : "no shapes recorded; record with record_shapes=True";
}

static int roofline_run(struct an_context *c)
{
    struct an_roof r = {.c = c, .device = c->gpu ? device_name(c) : "cpu"};
    int rc = c->gpu ? c->calls ? from_calls(&r) : 0 : from_ranges(&r);
    if (!rc && r.shapes)
        add_costs(&r);
    rc = rc ? rc : add_counted(&r);
    if (!rc && !r.points)
        roofline_absent(c, why_empty(c));
    else if (!rc && !r.device)
        roofline_absent(c,
                        "the run has devices of several kinds: their points have no common roof");
    else if (!rc)
        rc = an_roof_place(&r);
    free(r.shape);
    return rc;
}

const struct an_analyzer an_roofline = {
    "roofline", "what each operator reaches of its device's peak and bandwidth", AN_INPUT_SLICES,
    roofline_run, roofline_absent};

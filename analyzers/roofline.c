/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: what each operator reaches of what its device can do at its intensity (Williams, Waterman, Patterson 2009:
 * attainable = min(peak, bandwidth * FLOPs / bytes)). A point is one operator in one element type over the counted steps, or
 * over the whole run where there are no steps: FLOPs and bytes of the calls whose both are known, and the union of the time of
 * exactly these calls' kernels. On the CPU the operators are ranges with a tacho.work payload.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/attribution.h"
#include "analyzers/peaks.h"

struct point {
    const char *name, *dtype;
    const char *roof; /* element type whose peak bounds it */
    int64_t count, flops, bytes, ns;
    size_t place;  /* device or thread its last op ran on */
    int64_t until; /* latest end there so far */
    struct an_peak peak;
    bool known;
};

struct roof {
    struct an_context *c;
    const char *device;
    struct an_peak bandwidth;
    struct point *point;
    size_t count, room;
    uint32_t *bucket; /* of names and types: point + 1 */
    size_t buckets;
};

static void roofline_absent(struct an_context *c, const char *reason)
{
    c->r->roofline.reason = reason;
}

/* ---- points --------------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const char *name, const char *dtype)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *text[] = {name, dtype}, **t = text; t < text + 2; t++)
        for (const char *p = *t; *p; p++)
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

/* The point of a name and type, made when it is new. AN_NONE: out of memory. */
static uint32_t point_of(struct roof *r, const char *name, const char *dtype, bool product)
{
    if (2 * r->count >= r->buckets) {
        size_t n = r->buckets ? 2 * r->buckets : 256;
        uint32_t *bucket = an_arena_zero(r->c->work, n, sizeof *bucket);
        if (!bucket)
            return AN_NONE;
        for (size_t i = 0; i < r->count; i++) {
            size_t h = hash_of(r->point[i].name, r->point[i].dtype) & (n - 1);
            while (bucket[h])
                h = (h + 1) & (n - 1);
            bucket[h] = (uint32_t)i + 1;
        }
        r->bucket = bucket;
        r->buckets = n;
    }
    size_t h = hash_of(name, dtype) & (r->buckets - 1);
    for (; r->bucket[h]; h = (h + 1) & (r->buckets - 1)) {
        const struct point *p = &r->point[r->bucket[h] - 1];
        if (!strcmp(p->name, name) && !strcmp(p->dtype, dtype))
            return r->bucket[h] - 1;
    }
    if (an_grow(&r->point, &r->room, r->count + 1, sizeof *r->point))
        return AN_NONE;
    /* what is no product does not run on matrix units: short types are computed in fp32 */
    bool wide = product || !strcmp(dtype, "fp64");
    r->point[r->count] = (struct point){.name = name, .dtype = dtype, .roof = wide ? dtype : "fp32", .place = SIZE_MAX};
    r->bucket[h] = (uint32_t)++r->count;
    return (uint32_t)r->count - 1;
}

/* Adds an op's time; ops come by device or thread, then by start. */
static void add_time(struct point *p, size_t place, int64_t start, int64_t end)
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

static void add_call(struct point *p, int64_t flops, int64_t bytes)
{
    p->count++;
    p->flops = an_time_add(p->flops, flops);
    p->bytes = an_time_add(p->bytes, bytes);
}

/* ---- accelerators ----------------------------------------------------------------------------------------------------------- */

static int from_calls(struct roof *r)
{
    const struct an_context *c = r->c;
    const struct an_calls *calls = c->calls;
    bool steps = c->r->steps.detailed > 0;
    uint32_t *of_call = an_arena_zero(c->work, calls->count, sizeof *of_call); /* point + 1 */
    if (!of_call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call *call = &calls->call[i];
        const struct an_op_cost *cost = &calls->cost[call->cost];
        if ((steps && call->step == AN_NONE) || !(cost->flops > 0) || !(cost->bytes > 0))
            continue;
        const char *dtype = *call->dtype ? call->dtype : cost->dtype;
        uint32_t p = point_of(r, an_trace_name(c->t, c->t->slice.name[call->slice]), dtype, cost->kind != AN_OP_OTHER);
        if (p == AN_NONE)
            return TACHO_ENOMEM;
        add_call(&r->point[p], cost->flops, cost->bytes);
        of_call[i] = p + 1;
    }
    for (size_t d = 0; d < c->gpu->device_count; d++) {
        const struct an_device *x = &c->gpu->device[d];
        for (size_t i = x->first; i < x->first + x->count; i++) {
            uint32_t call = calls->of_op[i], p = call == AN_NONE ? 0 : of_call[call];
            if (p)
                add_time(&r->point[p - 1], d, c->gpu->op.start[i], c->gpu->op.end[i]);
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

static int from_ranges(struct roof *r)
{
    const struct an_context *c = r->c;
    const struct an_trace *t = c->t;
    for (size_t l = 0; l < c->lane_count; l++) {
        const struct an_track *k = c->lane[l].track == AN_NONE ? NULL : &t->track[c->lane[l].track];
        for (size_t i = k ? k->slice_first : 0; k && i < k->slice_first + k->slice_count; i++) {
            const struct an_detail *d = an_trace_detail(t, t->slice.detail[i]);
            if (!d || d->role != AN_ROLE_WORK || !(d->flops > 0) || t->slice.dur[i] == AN_OPEN)
                continue;
            int64_t bytes = an_time_add(d->bytes_read > 0 ? d->bytes_read : 0, d->bytes_written > 0 ? d->bytes_written : 0);
            const struct an_step *s = an_step_at(c, &c->lane[l], t->slice.start[i]);
            if (!bytes || !s || !an_step_detailed(s) || an_slice_in_phase(t, i))
                continue;
            uint32_t p = point_of(r, an_trace_name(t, t->slice.name[i]), d->dtype, d->hardware);
            if (p == AN_NONE)
                return TACHO_ENOMEM;
            add_call(&r->point[p], d->flops, bytes);
            add_time(&r->point[p], l, t->slice.start[i], an_slice_end(t, i));
        }
    }
    return 0;
}

/* ---- ceilings --------------------------------------------------------------------------------------------------------------- */

/* The file's own ceiling of a device; a data sheet's before a measured one. */
static bool ceiling_of(const struct an_context *c, const char *device, const char *resource, const char *dtype,
                       struct an_peak *out)
{
    bool found = false;
    for (size_t i = 0; i < c->t->ceiling_count; i++) {
        const struct an_ceiling_row *x = &c->t->ceiling[i];
        if (strcmp(x->resource, resource) || (*dtype && strcmp(x->dtype, dtype)) || !(x->value > 0) || !isfinite(x->value) ||
            (*x->device && strcmp(x->device, device)))
            continue;
        if (!found || (strncmp(out->source, "datasheet", 9) && !strncmp(x->source, "datasheet", 9)))
            *out = (struct an_peak){x->value, an_arena_text(c->a, x->source)};
        found = true;
    }
    return found;
}

static bool peak_of(struct roof *r, const char *dtype, bool product, struct an_peak *out)
{
    struct an_context *c = r->c;
    if (c->o->peak_flops > 0 && product)
        *out = (struct an_peak){c->o->peak_flops, "--peak"};
    else
        return ceiling_of(c, r->device, "flops", dtype, out) || (c->gpu && an_peak_find(c->a, r->device, dtype, out));
    return true;
}

/* The ceilings that did not come from the file, for the report. */
static int list_ceilings(struct roof *r)
{
    struct an_context *c = r->c;
    struct an_ceiling *rows = an_arena_zero(c->a, r->count + 1, sizeof *rows);
    size_t n = 0;
    struct an_peak own;
    if (!rows)
        return TACHO_ENOMEM;
    if (!ceiling_of(c, r->device, "bandwidth", "", &own))
        rows[n++] =
            (struct an_ceiling){an_arena_text(c->a, r->device), "bandwidth", "", r->bandwidth.source, r->bandwidth.value};
    for (size_t i = 0; i < r->count; i++) {
        const struct point *p = &r->point[i];
        bool listed = !p->known || ceiling_of(c, r->device, "flops", p->roof, &own);
        for (size_t k = 0; k < n && !listed; k++)
            listed = !strcmp(rows[k].dtype, p->roof) && !strcmp(rows[k].resource, "flops");
        if (!listed)
            rows[n++] = (struct an_ceiling){an_arena_text(c->a, r->device), "flops", an_arena_text(c->a, p->roof),
                                            p->peak.source, p->peak.value};
    }
    c->r->ceilings = rows; /* the file's own are added to them at the end */
    c->r->ceiling_count = n;
    return 0;
}

/* ---- the result -------------------------------------------------------------------------------------------------------------- */

static int point_order(const void *x, const void *y)
{
    const struct an_roofline_point *a = x, *b = y;
    if (a->time_ns != b->time_ns)
        return a->time_ns > b->time_ns ? -1 : 1;
    int by_name = strcmp(a->name, b->name);
    return by_name ? by_name : strcmp(a->dtype, b->dtype);
}

static int make_points(struct roof *r)
{
    struct an_context *c = r->c;
    struct an_roofline_point *out = an_arena_zero(c->a, r->count, sizeof *out);
    size_t n = 0;
    if (!out)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < r->count; i++) {
        struct point *p = &r->point[i];
        p->known = peak_of(r, p->roof, p->roof == p->dtype, &p->peak);
        if (!p->known || p->ns <= 0)
            continue;
        double intensity = (double)p->flops / (double)p->bytes, memory = r->bandwidth.value * intensity;
        double achieved = (double)p->flops / (double)p->ns * 1e9;
        out[n++] = (struct an_roofline_point){.name = an_arena_text(c->a, p->name),
                                              .dtype = an_arena_text(c->a, p->dtype),
                                              .count = p->count,
                                              .flops = p->flops,
                                              .bytes = p->bytes,
                                              .time_ns = p->ns,
                                              .intensity = intensity,
                                              .achieved_flops = achieved,
                                              .attainable_flops = memory < p->peak.value ? memory : p->peak.value,
                                              .bound = achieved > memory        ? "cached"
                                                       : memory < p->peak.value ? "memory"
                                                                                : "compute"};
    }
    if (n)
        qsort(out, n, sizeof *out, point_order);
    c->r->points = out;
    c->r->point_count = n;
    if (!n)
        roofline_absent(c, an_arena_format(c->a,
                                           "no peak of %s is known for the types of its operators; give one with --peak FLOPS",
                                           r->device));
    return list_ceilings(r);
}

static const char *why_empty(const struct an_context *c)
{
    if (!c->gpu)
        return "no range in the steps says its FLOPs and bytes (tacho.work in include/tacho_nvtx.h)";
    if (!c->calls || !c->calls->count)
        return "no operators recorded that launched device work; record with torch.profiler, activities CPU and CUDA";
    return c->calls->shapes ? "no operator in the steps has known FLOPs and bytes"
                            : "no shapes recorded; record with record_shapes=True";
}

static int roofline_run(struct an_context *c)
{
    struct roof r = {.c = c, .device = c->gpu ? device_name(c) : "cpu"};
    int rc = c->gpu ? c->calls ? from_calls(&r) : 0 : from_ranges(&r);
    if (!rc && !r.count)
        roofline_absent(c, why_empty(c));
    else if (!rc && !r.device)
        roofline_absent(c, "the run has devices of several kinds: their points have no common roof");
    else if (!rc && !ceiling_of(c, r.device, "bandwidth", "", &r.bandwidth) &&
             !(c->gpu && an_peak_find(c->a, r.device, "bandwidth", &r.bandwidth)))
        roofline_absent(c,
                        an_arena_format(c->a, "the memory bandwidth of %s is not known", *r.device ? r.device : "the device"));
    else if (!rc)
        rc = make_points(&r);
    free(r.point);
    return rc;
}

const struct an_analyzer an_roofline = {"roofline", "what each operator reaches of its device's peak and bandwidth",
                                        AN_INPUT_SLICES, roofline_run, roofline_absent};

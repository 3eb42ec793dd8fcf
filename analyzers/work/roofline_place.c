/* SPDX-License-Identifier: Apache-2.0
 *
 * Points under their ceilings. The memory roof of a point is the DRAM's: a point above it has bytes
 * of a model (each tensor once) that did not all come from there, and is called cached; the cache
 * level whose roof it stays below is named. Nothing runs above the instruction peak: a point there
 * is a counting error or a stale calibration, and trust says so.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution.h"
#include "analyzers/work/roofline.h"

#define REDUCED_MOST    4 /* times fewer multiplications: Winograd's F(4x4, 3x3) */
#define IMPOSSIBLE_TOLD 3 /* points of which trust tells one by one */

/* Element type whose peak bounds a call: what is no product does not run on matrix units, short
 * types are computed in fp32. */
static const char *peak_type(const struct an_roof_call *x)
{
    return x->product || !strcmp(x->dtype, "fp64") ? x->dtype : "fp32";
}

static bool peak_of(struct an_roof *r, const struct an_roof_call *x, struct an_peak *out)
{
    struct an_context *c = r->c;
    const struct an_ceiling_row *row = an_ceiling_find(c, r->device, "flops", peak_type(x));
    if (c->o->peak_flops > 0 && peak_type(x) == x->dtype)
        *out = (struct an_peak){c->o->peak_flops, "--peak"};
    else if (row)
        *out = (struct an_peak){row->value, an_arena_text(c->a, row->source)};
    else
        return c->gpu && an_peak_find(c->a, r->device, peak_type(x), out);
    return true;
}

/* The memory roofs, the slowest first; false: not even that of the DRAM is known. */
static bool memory_of(struct an_roof *r, struct an_peak level[AN_MEMORY_LEVELS],
                      const char *name[AN_MEMORY_LEVELS], size_t *n)
{
    struct an_memory_level found[AN_MEMORY_LEVELS];
    struct an_context *c = r->c;
    *n = an_memory_levels(c, r->device, found);
    for (size_t i = 0; i < *n; i++) {
        level[i] = (struct an_peak){found[i].row->value, an_arena_text(c->a, found[i].row->source)};
        name[i] = found[i].name;
    }
    if (*n && !strcmp(name[0], "dram"))
        return true;
    *n = 1;
    name[0] = "dram";
    return c->gpu && an_peak_find(c->a, r->device, "bandwidth", &level[0]);
}

/* ---- one point -------------------------------------------------------------------------------------------------------------- */

struct roofs {
    struct an_peak level[AN_MEMORY_LEVELS];
    const char *name[AN_MEMORY_LEVELS];
    size_t levels;
    int impossible; /* points above their peak */
};

/* Which cache the point could have been served by: the slowest level that is fast enough. */
static void name_level(const struct roofs *m, struct an_roofline_point *p)
{
    for (size_t k = 1; k < m->levels; k++)
        if (p->achieved_flops <= m->level[k].value * p->intensity) {
            p->level = m->name[k];
            return;
        }
    p->level_reason =
        m->levels > 1
            ? "above the roof of every cache level: it keeps values in registers, or its bytes are "
              "counted more than once"
            : "the bandwidth of cache levels was not measured; " AN_CALIBRATE;
}

static void impossible(struct an_roof *r, struct roofs *m, struct an_roofline_point *p,
                       const struct an_peak *peak)
{
    p->bound = "impossible";
    p->level_reason = "above the peak of its arithmetic: a counting error, or a ceiling that is "
                      "too low (see trust)";
    if (m->impossible++ < IMPOSSIBLE_TOLD)
        an_problem(r->c,
                   "counting error: %.100s (%.20s) would reach %.1f %% of the peak of its "
                   "arithmetic (%.100s): its FLOPs are "
                   "counted twice, or the peak is stale (tacho calibrate)",
                   p->name, p->dtype, 100 * p->achieved_flops / peak->value, peak->source);
}

static void place(struct an_roof *r, struct roofs *m, struct an_roofline_point *p,
                  const struct an_peak *peak)
{
    double memory = m->level[0].value * p->intensity;
    p->attainable_flops = NAN;
    if (peak) {
        p->peak_flops = peak->value;
        p->attainable_flops = memory < peak->value ? memory : peak->value;
    }
    if (peak && p->achieved_flops > peak->value) {
        if (!strcmp(p->kind, "convolution") && p->achieved_flops <= REDUCED_MOST * peak->value) {
            p->bound = "reduced";
            p->level_reason = "a convolution that multiplies less than its direct form, whose "
                              "FLOPs are counted (Winograd)";
        } else {
            impossible(r, m, p, peak);
        }
    } else if (p->achieved_flops > memory && !p->bytes_measured) {
        p->bound = "cached";
        name_level(m, p);
    } else if (p->achieved_flops > memory || (peak && memory < peak->value)) {
        p->bound = "memory";
        p->level = "dram";
    } else if (peak) {
        p->bound = "compute";
        p->level_reason = "bound by arithmetic";
    } else {
        p->level_reason = "no peak is known for its type";
    }
}

static struct an_roofline_point describe(struct an_context *c, const struct an_roof_point *p)
{
    const char *several =
        p->measured ? "counted over the whole range"
                    : an_arena_format(c->a, "its calls have %" PRId64 " shapes", p->shapes);
    return (struct an_roofline_point){
        .name = an_arena_text(c->a, p->call->name),
        .dtype = an_arena_text(c->a, p->call->dtype),
        .pass = an_arena_text(c->a, p->call->pass),
        .kind = an_arena_text(c->a, p->call->kind),
        .product = p->call->product,
        .count = p->count,
        .shapes = p->shapes,
        .flops = p->flops,
        .bytes = p->bytes,
        .flops_per_call = p->one_cost ? an_int(p->call->flops) : an_int_none(several),
        .bytes_per_call = p->one_cost ? an_int(p->call->bytes) : an_int_none(several),
        .time_ns = p->ns,
        .bytes_measured = p->measured,
        .intensity = (double)p->flops / (double)p->bytes,
        .achieved_flops = (double)p->flops / (double)p->ns * 1e9};
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------ */

static int point_order(const void *x, const void *y)
{
    const struct an_roofline_point *a = x, *b = y;
    if (a->time_ns != b->time_ns)
        return a->time_ns > b->time_ns ? -1 : 1;
    int by_name = strcmp(a->name, b->name),
        by_dtype = by_name ? by_name : strcmp(a->dtype, b->dtype);
    if (by_dtype)
        return by_dtype;
    return (a->intensity > b->intensity) - (a->intensity < b->intensity);
}

/* The ceilings that did not come from the file, for the report. */
static int list_ceilings(struct an_roof *r, const struct roofs *m)
{
    struct an_context *c = r->c;
    struct an_ceiling *rows = an_arena_zero(c->a, r->points + 1, sizeof *rows);
    const char *device = an_arena_text(c->a, r->device);
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    if (!an_ceiling_find(c, r->device, "bandwidth", ""))
        rows[n++] = (struct an_ceiling){
            device, "bandwidth", "", m->level[0].source, m->level[0].value, "bytes/s"};
    for (size_t i = 0; i < r->points; i++) {
        const struct an_roof_call *x = r->point[i].call;
        struct an_peak peak;
        bool listed = !peak_of(r, x, &peak) || an_ceiling_find(c, r->device, "flops", peak_type(x));
        for (size_t k = 0; k < n && !listed; k++)
            listed = !strcmp(rows[k].dtype, peak_type(x)) && !strcmp(rows[k].resource, "flops");
        if (!listed)
            rows[n++] =
                (struct an_ceiling){device,      "flops",    an_arena_text(c->a, peak_type(x)),
                                    peak.source, peak.value, "FLOP/s"};
    }
    c->r->ceilings = rows; /* the file's own are added to them at the end */
    c->r->ceiling_count = n;
    return 0;
}

int an_roof_place(struct an_roof *r)
{
    struct an_context *c = r->c;
    struct roofs m = {.levels = 0};
    struct an_roofline_point *out = an_arena_zero(c->a, r->points + 1, sizeof *out);
    size_t n = 0, known = 0;
    if (!out)
        return TACHO_ENOMEM;
    if (!memory_of(r, m.level, m.name, &m.levels)) {
        c->r->roofline.reason =
            an_arena_format(c->a, "the memory bandwidth of %s is not known%s",
                            *r->device ? r->device : "the device", c->gpu ? "" : "; " AN_CALIBRATE);
        return 0;
    }
    for (size_t i = 0; i < r->points; i++) {
        struct an_peak peak;
        bool told = peak_of(r, r->point[i].call, &peak);
        if (r->point[i].ns <= 0)
            continue;
        out[n] = describe(c, &r->point[i]);
        place(r, &m, &out[n++], told ? &peak : NULL);
        known += told;
    }
    if (m.impossible > IMPOSSIBLE_TOLD)
        an_problem(
            c,
            "counting error: %d more points of the roofline lie above the peak of their arithmetic",
            m.impossible - IMPOSSIBLE_TOLD);
    if (!known) {
        c->r->roofline.reason = an_arena_format(
            c->a, "no peak of %s is known for the types of its operators; %s", r->device,
            c->gpu ? "give one with --peak FLOPS" : AN_CALIBRATE ", or give one with --peak FLOPS");
        return list_ceilings(r, &m);
    }
    qsort(out, n, sizeof *out, point_order);
    c->r->points = out;
    c->r->point_count = n;
    return list_ceilings(r, &m);
}

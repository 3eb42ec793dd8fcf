/* SPDX-License-Identifier: Apache-2.0
 *
 * Places the points under their ceilings. The memory roof of a point is that of the DRAM. A point
 * above it is called cached: its bytes are those of a model (each tensor once), and not all of them
 * came from the DRAM; the report names the cache level whose roof it stays below. Nothing runs
 * above the instruction peak: a point there is a counting error or a stale calibration, and trust
 * reports it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution_private.h"
#include "analyzers/work/roofline_private.h"

#define REDUCED_MOST    4 /* times fewer multiplications: Winograd's F(4x4, 3x3) */
#define IMPOSSIBLE_TOLD 3 /* points that trust reports one by one */

/* The element type whose peak bounds a call. Work other than GEMMs, convolutions and attention does
 * not run on matrix units and computes short types in fp32. */
static const char *peak_type(const struct an_roof_call *call)
{
    return call->product || !strcmp(call->dtype, "fp64") ? call->dtype : "fp32";
}

bool an_roof_peak(const struct an_roof *roof, const struct an_roof_call *call, struct an_peak *out)
{
    struct an_context *context = roof->context;
    const struct an_ceiling_row *row =
        an_ceiling_find(context, roof->device, "flops", peak_type(call));
    if (context->options->peak_flops > 0 && peak_type(call) == call->dtype)
        *out = (struct an_peak){context->options->peak_flops, "--peak"};
    else if (row)
        *out = (struct an_peak){row->value, an_arena_text(context->arena, row->source)};
    else
        return context->gpu && an_peak_find(context->arena, roof->device, peak_type(call), out);
    return true;
}

/* Finds the memory roofs, the slowest first; false: that of the DRAM is not known. */
static bool memory_of(const struct an_roof *roof, struct an_peak level[AN_MEMORY_LEVELS],
                      const char *name[AN_MEMORY_LEVELS], size_t *count)
{
    struct an_memory_level found[AN_MEMORY_LEVELS];
    struct an_context *context = roof->context;
    *count = an_memory_levels(context, roof->device, found);
    for (size_t i = 0; i < *count; i++) {
        level[i] = (struct an_peak){found[i].row->value,
                                    an_arena_text(context->arena, found[i].row->source)};
        name[i] = found[i].name;
    }
    if (*count && !strcmp(name[0], "dram"))
        return true;
    *count = 1;
    name[0] = "dram";
    return context->gpu && an_peak_find(context->arena, roof->device, "bandwidth", &level[0]);
}

bool an_roof_bandwidth(const struct an_roof *roof, struct an_peak *out)
{
    struct an_peak level[AN_MEMORY_LEVELS];
    const char *name[AN_MEMORY_LEVELS];
    size_t levels;
    bool known = memory_of(roof, level, name, &levels);
    *out = level[0];
    return known;
}

double an_device_bandwidth(struct an_context *context, const char *device)
{
    struct an_roof roof = {.context = context, .device = device};
    struct an_peak peak;
    return an_roof_bandwidth(&roof, &peak) ? peak.value : 0;
}

/* ---- one point ------------------------------------------------------------------------------- */

struct roofs {
    struct an_peak level[AN_MEMORY_LEVELS];
    const char *name[AN_MEMORY_LEVELS];
    size_t levels;
    int impossible; /* points above their peak */
};

/* Names the cache that could have served the point: the slowest level that is fast enough. */
static void name_level(const struct roofs *roofs, struct an_roofline_point *point)
{
    for (size_t k = 1; k < roofs->levels; k++)
        if (point->achieved_flops <= roofs->level[k].value * point->intensity) {
            point->level = roofs->name[k];
            return;
        }
    point->level_reason = roofs->levels > 1
                              ? "above the roof of every cache level: it keeps values in "
                                "registers, or its bytes are counted more than once"
                              : "the bandwidth of cache levels was not measured; " AN_CALIBRATE;
}

/* Marks a point above its peak, and reports it as a counting error. */
static void impossible(struct an_roof *roof, struct roofs *roofs, struct an_roofline_point *point,
                       const struct an_peak *peak)
{
    point->bound = "impossible";
    point->level_reason = "above the peak of its arithmetic: a counting error, or a ceiling that "
                          "is too low (see trust)";
    if (roofs->impossible++ < IMPOSSIBLE_TOLD)
        an_problem(
            roof->context,
            "counting error: %.100s (%.20s) would reach %.1f %% of the peak of its arithmetic "
            "(%.100s): its FLOPs are counted twice, or the peak is stale (tacho calibrate)",
            point->name, point->dtype, 100 * point->achieved_flops / peak->value, peak->source);
}

/* Decides what bounds a point. peak NULL: it is not known for its type. */
static void place(struct an_roof *roof, struct roofs *roofs, struct an_roofline_point *point,
                  const struct an_peak *peak)
{
    double memory = roofs->level[0].value * point->intensity;
    point->attainable_flops = NAN;
    if (peak) {
        point->peak_flops = peak->value;
        point->attainable_flops = memory < peak->value ? memory : peak->value;
    }
    if (peak && point->achieved_flops > peak->value) {
        if (!strcmp(point->kind, "convolution") &&
            point->achieved_flops <= REDUCED_MOST * peak->value) {
            point->bound = "reduced";
            point->level_reason = "a convolution with fewer multiplications than the direct form "
                                  "whose FLOPs are counted (Winograd)";
        } else {
            impossible(roof, roofs, point, peak);
        }
    } else if (point->achieved_flops > memory && !point->bytes_measured) {
        point->bound = "cached";
        name_level(roofs, point);
    } else if (point->achieved_flops > memory || (peak && memory < peak->value)) {
        point->bound = "memory";
        point->level = "dram";
    } else if (peak) {
        point->bound = "compute";
        point->level_reason = "bound by arithmetic";
    } else {
        point->level_reason = "no peak is known for its type";
    }
}

/* The point in the result, before it is placed. */
static struct an_roofline_point describe(struct an_context *context,
                                         const struct an_roof_point *roof_point)
{
    const char *several = roof_point->measured
                              ? "counted over the whole range"
                              : an_arena_format(context->arena, "its calls have %" PRId64 " shapes",
                                                roof_point->shapes);
    struct an_roofline_point point = {
        .name = an_arena_text(context->arena, roof_point->call->name),
        .dtype = an_arena_text(context->arena, roof_point->call->dtype),
        .pass = an_arena_text(context->arena, roof_point->call->pass),
        .kind = an_arena_text(context->arena, roof_point->call->kind),
        .product = roof_point->call->product,
        .count = roof_point->count,
        .shapes = roof_point->shapes,
        .flops = roof_point->flops,
        .bytes = roof_point->bytes,
        .flops_per_call = an_int_none(several),
        .bytes_per_call = an_int_none(several),

        .time_ns = roof_point->ns,
        .bytes_measured = roof_point->measured,
        .intensity = (double)roof_point->flops / (double)roof_point->bytes,
        .achieved_flops = (double)roof_point->flops / (double)roof_point->ns * 1e9};
    if (roof_point->one_cost) {
        point.flops_per_call = an_int(roof_point->call->flops);
        point.bytes_per_call = an_int(roof_point->call->bytes);
    }
    return point;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* For qsort: the longest first, then by name, type and intensity. */
static int point_order(const void *left, const void *right)
{
    const struct an_roofline_point *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns > b->time_ns ? -1 : 1;
    int by_name = strcmp(a->name, b->name),
        by_dtype = by_name ? by_name : strcmp(a->dtype, b->dtype);
    if (by_dtype)
        return by_dtype;
    return (a->intensity > b->intensity) - (a->intensity < b->intensity);
}

/* Lists the ceilings that did not come from the file, for the report. */
static int list_ceilings(struct an_roof *roof, const struct roofs *roofs)
{
    struct an_context *context = roof->context;
    struct an_ceiling *rows = an_arena_zero(context->arena, roof->points + 1, sizeof *rows);
    const char *device = an_arena_text(context->arena, roof->device);
    size_t count = 0;
    if (!rows)
        return TACHO_ENOMEM;
    if (!an_ceiling_find(context, roof->device, "bandwidth", ""))
        rows[count++] = (struct an_ceiling){
            device, "bandwidth", "", roofs->level[0].source, roofs->level[0].value, "bytes/s"};
    for (size_t i = 0; i < roof->points; i++) {
        const struct an_roof_call *call = roof->point[i].call;
        struct an_peak peak;
        bool listed = !an_roof_peak(roof, call, &peak) ||
                      an_ceiling_find(context, roof->device, "flops", peak_type(call));
        for (size_t k = 0; k < count && !listed; k++)
            listed = !strcmp(rows[k].dtype, peak_type(call)) && !strcmp(rows[k].resource, "flops");
        if (!listed)
            rows[count++] = (struct an_ceiling){
                device,      "flops",    an_arena_text(context->arena, peak_type(call)),
                peak.source, peak.value, "FLOP/s"};
    }
    context->result->ceilings = rows; /* the file's own are added to them at the end */
    context->result->ceiling_count = count;
    return 0;
}

/* Why no point has a roof: no peak is known for any type of the operators. */
static const char *no_peak(const struct an_roof *roof)
{
    bool gpu = roof->context->gpu != NULL;
    return an_arena_format(
        roof->context->arena, "no peak of %s is known for the types of its operators; %s",
        roof->device,
        gpu ? "give one with --peak FLOPS" : AN_CALIBRATE ", or give one with --peak FLOPS");
}

int an_roof_place(struct an_roof *roof)
{
    struct an_context *context = roof->context;
    struct roofs roofs = {.levels = 0};
    struct an_roofline_point *out = an_arena_zero(context->arena, roof->points + 1, sizeof *out);
    size_t points = 0, known = 0;
    if (!out)
        return TACHO_ENOMEM;
    if (!memory_of(roof, roofs.level, roofs.name, &roofs.levels)) {
        const char *device = *roof->device ? roof->device : "the device";
        context->result->roofline.reason =
            an_arena_format(context->arena, "the memory bandwidth of %s is not known%s", device,
                            context->gpu ? "" : "; " AN_CALIBRATE);
        return 0;
    }
    for (size_t i = 0; i < roof->points; i++) {
        struct an_peak peak;
        bool has_peak = an_roof_peak(roof, roof->point[i].call, &peak);
        if (roof->point[i].ns <= 0)
            continue;
        out[points] = describe(context, &roof->point[i]);
        place(roof, &roofs, &out[points++], has_peak ? &peak : NULL);
        known += has_peak;
    }
    if (roofs.impossible > IMPOSSIBLE_TOLD)
        an_problem(
            context,
            "counting error: %d more points of the roofline lie above the peak of their arithmetic",
            roofs.impossible - IMPOSSIBLE_TOLD);
    if (!known) {
        context->result->roofline.reason = no_peak(roof);
        return list_ceilings(roof, &roofs);
    }
    qsort(out, points, sizeof *out, point_order);
    context->result->points = out;
    context->result->point_count = points;
    return list_ceilings(roof, &roofs);
}

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

#include "analyzers/steps/command.h"
#include "analyzers/steps/recorder.h"
#include "analyzers/work/attribution_private.h"
#include "analyzers/work/roofline_private.h"
#include "tacho_hash.h"

/* Of one operator; with more, shapes of intensities that are further apart share a point. */
#define POINTS_MOST 16

static void roofline_absent(struct an_context *context, const char *reason)
{
    context->result->roofline.reason = reason;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static size_t hash_of(const struct an_roof_call *call)
{
    uint64_t hash = TACHO_HASH_BEGIN;
    const char *const texts[] = {call->name, call->dtype, call->pass};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hash = tacho_hash_text(hash, texts[i]);
    hash = tacho_hash_number(hash, (uint64_t)call->flops);
    hash = tacho_hash_number(hash, (uint64_t)call->bytes);
    return (size_t)(hash ^ hash >> 32);
}

/* Of two calls the order by operator: name, type, pass. */
static int operator_order(const struct an_roof_call *a, const struct an_roof_call *b)
{
    int by_name = strcmp(a->name, b->name),
        by_dtype = by_name ? by_name : strcmp(a->dtype, b->dtype);
    return by_dtype ? by_dtype : strcmp(a->pass, b->pass);
}

/* Doubles the hash table of shapes. */
static int grow_buckets(struct an_roof *roof)
{
    size_t buckets = roof->buckets ? 2 * roof->buckets : 256;
    uint32_t *bucket = an_arena_zero(roof->context->scratch, buckets, sizeof *bucket);
    if (!bucket)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < roof->shapes; i++) {
        size_t place = hash_of(&roof->shape[i].call) & (buckets - 1);
        while (bucket[place])
            place = (place + 1) & (buckets - 1);
        bucket[place] = (uint32_t)i + 1;
    }
    roof->bucket = bucket;
    roof->buckets = buckets;
    return 0;
}

/* The shape of a call, made when it is new. AN_NONE: out of memory. */
static uint32_t shape_of(struct an_roof *roof, const struct an_roof_call *call)
{
    if (2 * roof->shapes >= roof->buckets && grow_buckets(roof))
        return AN_NONE;
    size_t place = hash_of(call) & (roof->buckets - 1);
    for (; roof->bucket[place]; place = (place + 1) & (roof->buckets - 1)) {
        const struct an_roof_call *known = &roof->shape[roof->bucket[place] - 1].call;
        if (call->flops == known->flops && call->bytes == known->bytes &&
            !operator_order(call, known))
            return roof->bucket[place] - 1;
    }
    if (an_grow(&roof->shape, &roof->shape_room, roof->shapes + 1, sizeof *roof->shape))
        return AN_NONE;
    roof->shape[roof->shapes] = (struct an_roof_shape){.call = *call};
    roof->bucket[place] = (uint32_t)++roof->shapes;
    return (uint32_t)roof->shapes - 1;
}

/* ---- points ---------------------------------------------------------------------------------- */

static double intensity(const struct an_roof_shape *roof_shape)
{
    return (double)roof_shape->call.flops / (double)roof_shape->call.bytes;
}

/* For qsort: by operator, then by intensity. */
static int shape_order(const void *left, const void *right)
{
    const struct an_roof_shape *a = *(const struct an_roof_shape *const *)left,
                               *b = *(const struct an_roof_shape *const *)right;
    int by_operator = operator_order(&a->call, &b->call);
    if (by_operator)
        return by_operator;
    if (intensity(a) < intensity(b) || intensity(a) > intensity(b))
        return intensity(a) < intensity(b) ? -1 : 1;
    return (a->call.flops > b->call.flops) - (a->call.flops < b->call.flops);
}

/* Points of the shapes of one operator, in order of intensity, when those within `factor` of the
 * first one share a point. */
static size_t points_within(struct an_roof_shape *const *shapes, size_t count, double factor)
{
    size_t points = 0;
    double from = 0;
    for (size_t i = 0; i < count; i++)
        if (!i || intensity(shapes[i]) > factor * from) {
            points++;
            from = intensity(shapes[i]);
        }
    return points;
}

/* Gives the shapes of one operator their points. */
static void join(struct an_roof *roof, struct an_roof_shape *const *shapes, size_t count)
{
    static const double factors[] = {1.02, 1.1, 1.5, 4, 64};
    size_t k = 0;
    double from = 0;
    while (k + 1 < sizeof factors / sizeof *factors &&
           points_within(shapes, count, factors[k]) > POINTS_MOST)
        k++;
    for (size_t i = 0; i < count; i++) {
        if (!i || intensity(shapes[i]) > factors[k] * from) {
            roof->point[roof->points++] = (struct an_roof_point){
                .call = &shapes[i]->call, .one_cost = true, .place = SIZE_MAX};
            from = intensity(shapes[i]);
        }
        struct an_roof_point *roof_point = &roof->point[roof->points - 1];
        roof_point->shapes++;
        roof_point->count += shapes[i]->count;
        roof_point->one_cost = roof_point->one_cost &&
                               shapes[i]->call.flops == roof_point->call->flops &&
                               shapes[i]->call.bytes == roof_point->call->bytes;
        shapes[i]->point = (uint32_t)roof->points - 1;
    }
}

/* Groups the shapes by operator and joins those of nearly one intensity. */
static int make_points(struct an_roof *roof)
{
    struct an_roof_shape **order = malloc((roof->shapes + 1) * sizeof(struct an_roof_shape *));
    roof->point = an_arena_zero(roof->context->scratch, roof->shapes + 1, sizeof *roof->point);
    if (!order || !roof->point) {
        free(order);
        return TACHO_ENOMEM;
    }
    for (size_t i = 0; i < roof->shapes; i++)
        order[i] = &roof->shape[i];
    qsort(order, roof->shapes, sizeof *order, shape_order);
    for (size_t i = 0, count; i < roof->shapes; i += count) {
        for (count = 1;
             i + count < roof->shapes && !operator_order(&order[i]->call, &order[i + count]->call);)
            count++;
        join(roof, order + i, count);
    }
    free(order);
    return 0;
}

/* Adds the time of a call on device `place`; calls come by device, then by start. */
static void add_time(struct an_roof_point *roof_point, size_t place, int64_t start, int64_t end)
{
    if (roof_point->place != place) {
        roof_point->place = place;
        roof_point->until = INT64_MIN;
    }
    int64_t from = start > roof_point->until ? start : roof_point->until;
    if (end > from) {
        roof_point->ns = an_time_add(roof_point->ns, an_time_sub(end, from));
        roof_point->until = end;
    }
}

/* Adds the FLOPs and bytes of all calls to their points, saturating. */
static void add_costs(struct an_roof *roof)
{
    for (size_t i = 0; i < roof->shapes; i++) {
        struct an_roof_point *roof_point = &roof->point[roof->shape[i].point];
        const struct an_roof_call *call = &roof->shape[i].call;
        int64_t calls = roof->shape[i].count;
        roof_point->flops = an_time_add(
            roof_point->flops, call->flops > INT64_MAX / calls ? INT64_MAX : call->flops * calls);
        roof_point->bytes = an_time_add(
            roof_point->bytes, call->bytes > INT64_MAX / calls ? INT64_MAX : call->bytes * calls);
    }
}

/* ---- accelerators ---------------------------------------------------------------------------- */

static const char *cost_kind(enum an_op_kind kind)
{
    static const char *const kinds[] = {[AN_OP_OTHER] = "other",
                                        [AN_OP_MATRIX] = "matrix",
                                        [AN_OP_CONVOLUTION] = "convolution",
                                        [AN_OP_ATTENTION] = "attention"};
    return (size_t)kind < sizeof kinds / sizeof *kinds && kinds[kind] ? kinds[kind] : "";
}

struct an_roof_call an_roof_call_of(const struct an_context *context, const struct an_call *call)
{
    const struct an_op_cost *cost = &context->calls->cost[call->cost];
    return (struct an_roof_call){
        .name = an_trace_name(context->trace, context->trace->slice.name[call->slice]),
        .dtype = *call->dtype ? call->dtype : cost->dtype,
        .pass = call->recompute ? "recompute" : "",
        .kind = cost_kind(cost->kind),
        .product = cost->kind != AN_OP_OTHER,
        .flops = cost->flops,
        .bytes = cost->bytes};
}

/* Adds the times of the device ops to the points of their calls. of_call: shape + 1 of each call.
 */
static void add_ops(struct an_roof *roof, const uint32_t *of_call)
{
    const struct an_devices *gpu = roof->context->gpu;
    for (size_t device = 0; device < gpu->device_count; device++) {
        size_t end = gpu->device[device].first + gpu->device[device].count;
        for (size_t i = gpu->device[device].first; i < end; i++) {
            uint32_t call = roof->context->calls->of_op[i];
            uint32_t shape = call == AN_NONE ? 0 : of_call[call];
            if (shape)
                add_time(&roof->point[roof->shape[shape - 1].point], device, gpu->op.start[i],
                         gpu->op.end[i]);
        }
    }
}

/* The points of an accelerator: calls of operators that launched device work. */
static int from_calls(struct an_roof *roof)
{
    const struct an_context *context = roof->context;
    const struct an_calls *calls = context->calls;
    bool steps = context->result->steps.detailed > 0;
    uint32_t *of_call =
        an_arena_zero(context->scratch, calls->count, sizeof *of_call); /* shape + 1 */
    if (!of_call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call *call = &calls->call[i];
        const struct an_op_cost *cost = &calls->cost[call->cost];
        if ((steps && call->step == AN_NONE) || !(cost->flops > 0) || !(cost->bytes > 0))
            continue;
        struct an_roof_call launch = an_roof_call_of(context, call);
        uint32_t shape = shape_of(roof, &launch);
        if (shape == AN_NONE)
            return TACHO_ENOMEM;
        roof->shape[shape].count++;
        of_call[i] = shape + 1;
    }
    if (make_points(roof))
        return TACHO_ENOMEM;
    add_ops(roof, of_call);
    return 0;
}

/* Devices of one name share a roof; a run with several kinds has none. */
static const char *device_name(const struct an_context *context)
{
    const char *name = NULL;
    for (size_t device = 0; device < context->gpu->device_count; device++) {
        if (!context->gpu->device[device].count)
            continue;
        if (name && strcmp(name, context->gpu->device[device].name))
            return NULL;
        name = context->gpu->device[device].name;
    }
    return name ? name : "";
}

/* ---- the CPU --------------------------------------------------------------------------------- */

/* A thread with work: of a lane, or any thread where there are no steps. */
struct source {
    const struct an_track *track;
    const struct an_lane *lane; /* NULL: the whole run counts */
    const char *host;
};

static int64_t known_bytes(int64_t bytes)
{
    return bytes > 0 ? bytes : 0;
}

/* Is slice i a call of work in counted time? Then *call says what it is. */
static bool counts(const struct an_context *context, const struct source *source, size_t i,
                   struct an_roof_call *call)
{
    const struct an_trace *trace = context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    if (!detail || detail->role != AN_ROLE_WORK || !(detail->flops > 0) ||
        trace->slice.dur[i] == AN_OPEN)
        return false;
    const struct an_step *step =
        source->lane ? an_step_at(context, source->lane, trace->slice.start[i]) : NULL;
    *call = (struct an_roof_call){
        .name = an_trace_name(trace, trace->slice.name[i]),
        .dtype = detail->dtype,
        .pass = detail->pass,
        .kind = detail->kind,
        .product = detail->hardware,
        .flops = detail->flops,
        .bytes = an_time_add(known_bytes(detail->bytes_read), known_bytes(detail->bytes_written))};
    return call->bytes > 0 && (!source->lane || (step && an_step_detailed(step))) &&
           !an_slice_in_phase(trace, i);
}

/* Lists the threads to read: those of the lanes where there are detailed steps, else all. */
static size_t find_sources(const struct an_context *context, struct source *source)
{
    const struct an_trace *trace = context->trace;
    size_t count = 0;
    if (context->result->steps.detailed)
        for (size_t lane_index = 0; lane_index < context->lane_count; lane_index++) {
            const struct an_lane *lane = &context->lane[lane_index];
            if (lane->track != AN_NONE)
                source[count++] =
                    (struct source){.track = &trace->track[lane->track], .lane = lane};
        }
    else
        for (size_t k = 0; k < trace->track_count; k++)
            if (!strcmp(trace->track[k].kind, "thread"))
                source[count++] = (struct source){.track = &trace->track[k]};
    for (size_t i = 0; i < count; i++)
        source[i].host = source[i].track->process == AN_NONE
                             ? ""
                             : trace->process[source[i].track->process].host;
    return count;
}

/* A call that counts: slice `slice` of source `source`. */
struct counted_call {
    const char *host;
    int64_t start;
    uint32_t source, slice;
};

/* Calls of one machine come together, in the order of their starts. */
static int call_order(const void *left, const void *right)
{
    const struct counted_call *first = left, *second = right;
    int host = strcmp(first->host, second->host);
    return 8 * AN_COMPARE(host, 0) + 4 * AN_COMPARE(first->start, second->start) +
           2 * AN_COMPARE(first->source, second->source) + AN_COMPARE(first->slice, second->slice);
}

struct counted_calls {
    struct counted_call *call;
    size_t count, room;
};

/* Counts the calls of a source by shape, and lists them. */
static int count_calls(struct an_roof *roof, const struct source *source, uint32_t index,
                       struct counted_calls *calls)
{
    const struct an_trace *trace = roof->context->trace;
    struct an_roof_call call;
    for (size_t i = source->track->slice_first; i < an_track_end(source->track); i++) {
        if (!counts(roof->context, source, i, &call))
            continue;
        uint32_t found = shape_of(roof, &call);
        if (found == AN_NONE ||
            an_grow(&calls->call, &calls->room, calls->count + 1, sizeof *calls->call))
            return TACHO_ENOMEM;
        roof->shape[found].count++;
        calls->call[calls->count++] =
            (struct counted_call){source->host, trace->slice.start[i], index, (uint32_t)i};
    }
    return 0;
}

/* The points of a CPU run: ranges of work. Threads of one machine are read together, so that time
 * in which several of them work counts once. */
static int from_ranges(struct an_roof *roof)
{
    const struct an_context *context = roof->context;
    const struct an_trace *trace = context->trace;
    struct counted_calls calls = {0};
    struct an_roof_call call;
    struct source *source = an_arena_zero(
        context->scratch, context->lane_count + trace->track_count + 1, sizeof *source);
    size_t count = source ? find_sources(context, source) : 0, machine = 0;
    int rc = source ? 0 : TACHO_ENOMEM;
    for (size_t k = 0; !rc && k < count; k++)
        rc = count_calls(roof, &source[k], (uint32_t)k, &calls);
    rc = rc ? rc : make_points(roof);
    if (!rc && calls.count)
        qsort(calls.call, calls.count, sizeof *calls.call, call_order);
    for (size_t i = 0; !rc && i < calls.count; i++) {
        const struct counted_call *found = &calls.call[i];
        machine += i && strcmp(found->host, found[-1].host) != 0;
        counts(context, &source[found->source], found->slice, &call);
        add_time(&roof->point[roof->shape[shape_of(roof, &call)].point], machine, found->start,
                 an_slice_end(trace, found->slice));
    }
    free(calls.call);
    return rc;
}

/* ---- what the hardware counted --------------------------------------------------------------- */

/* A range, over all ranks, is a point with measured FLOPs and bytes. What happens in ranges inside
 * it belongs to those. */
static int add_counted(struct an_roof *roof)
{
    const struct an_result *all = roof->context->result;
    size_t count = all->range_counted_count, first = roof->points;
    if (!count)
        return 0;
    struct an_roof_point *point =
        an_arena_zero(roof->context->scratch, roof->points + count, sizeof *point);
    struct an_roof_call *call = an_arena_zero(roof->context->scratch, count, sizeof *call);
    if (!point || !call)
        return TACHO_ENOMEM;
    if (roof->points)
        memcpy(point, roof->point, roof->points * sizeof *point);
    roof->point = point;
    for (size_t i = 0; i < count; i++) {
        const struct an_range_counted *range_counted = &all->ranges_counted[i];
        const struct an_step_counted *counted = &range_counted->counted;
        size_t k = first;
        if (!counted->flops_per_s.valid || !counted->dram_bytes.valid ||
            !(counted->dram_bytes.value >= 1) || !(counted->time_ms.value > 0))
            continue;
        while (k < roof->points && (strcmp(point[k].call->name, range_counted->name) != 0 ||
                                    strcmp(point[k].call->dtype, range_counted->dtype) != 0))
            k++;
        if (k == roof->points) {
            call[i] = (struct an_roof_call){.name = range_counted->name,
                                            .dtype = range_counted->dtype,
                                            .pass = "",
                                            .kind = "range",
                                            .product = strcmp(range_counted->dtype, "fp32") != 0};
            point[roof->points++] = (struct an_roof_point){
                .call = &call[i], .measured = true, .shapes = 1, .place = SIZE_MAX};
        }
        point[k].count += range_counted->pieces;
        point[k].flops += (int64_t)(counted->matrix_ops.value + counted->fp32_flops.value);
        point[k].bytes += (int64_t)counted->dram_bytes.value;
        point[k].ns += (int64_t)(counted->time_ms.value * 1e6);
    }
    return 0;
}

/* ---- the analyzer ---------------------------------------------------------------------------- */

/* Why there is no point, and how to record what is missing. */
static const char *why_empty(const struct an_context *context)
{
    if (!context->gpu)
        return an_command_marks(context, "no range in the steps declares its FLOPs and bytes",
                                "no range in the steps declares its FLOPs and bytes (tacho.work in "
                                "include/tacho_nvtx.h)");
    bool jax = an_command_framework(context) == AN_FRAMEWORK_JAX;
    if (jax && (!context->calls || !context->calls->count))
        return "an XLA profile does not link operators to what they launched";
    if (!context->calls || !context->calls->count)
        return an_arena_format(context->arena,
                               "no operators recorded that launched device work; %s",
                               an_say(context, AN_SAY_OPERATORS,
                                      "record with torch.profiler, activities CPU and "
                                      "CUDA"));
    return context->calls->shapes ? "no operator in the steps has known FLOPs and bytes"
                                  : an_command_no_shapes(context);
}

/* Finds the points, by calls or by ranges, adds those that hardware counted and places them all. */
static int roofline_run(struct an_context *context)
{
    struct an_roof roof = {.context = context,
                           .device = context->gpu ? device_name(context) : "cpu"};
    int rc = 0;
    if (!context->gpu)
        rc = from_ranges(&roof);
    else if (context->calls)
        rc = from_calls(&roof);

    if (!rc && roof.shapes)
        add_costs(&roof);
    rc = rc ? rc : add_counted(&roof);
    if (!rc && !roof.points)
        roofline_absent(context, why_empty(context));
    else if (!rc && !roof.device)
        roofline_absent(context,
                        "the run has devices of several kinds: their points share no roof");
    else if (!rc)
        rc = an_roof_place(&roof);
    free(roof.shape);
    return rc;
}

const struct an_analyzer an_roofline = {
    .name = "roofline",
    .help = "how close each operator comes to its device's peak and bandwidth",
    .after = "steps, attribution, counted",
    .needs = AN_INPUT_SLICES,
    .run = roofline_run,
    .absent = roofline_absent,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * What limits each kernel: the bandwidth of the memory, the arithmetic of its type, latency, or
 * nothing that the roofline knows. The cost is that of the operator which launched the kernel. A
 * kernel without a known cost is unknown, never below a roof. docs/kernels.md has the rules.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/device/family.h"
#include "analyzers/steps/command.h"
#include "analyzers/work/bounds_private.h"

#define ROWS_MOST  24
#define PEAKS_MOST 32 /* pairs of a device and an element type whose peaks are remembered */
#define NO_CALL    "no recorded operator launched them"
#define NO_COST    "their operators have no known FLOPs and bytes"
#define NO_ROOF    "no peak of their element type, or no bandwidth of the device, is known"
#define TOO_FAST   "they would be above the peak of their arithmetic: a counting error"

/* Peaks that were looked up: of one device and type. */
struct known_peak {
    const char *device, *dtype;
    bool product;
    double peak; /* 0: none */
};

struct peaks {
    struct an_context *context;
    struct known_peak known[PEAKS_MOST];
    size_t count;
};

/* ---- roofs ----------------------------------------------------------------------------------- */

/* Peak of the type of a call on a device, 0: not known. */
static double peak_of(struct peaks *peaks, const char *device, const struct an_roof_call *call)
{
    struct an_roof roof = {.context = peaks->context, .device = device};
    struct an_peak peak;
    for (size_t i = 0; i < peaks->count; i++) {
        const struct known_peak *known = &peaks->known[i];
        if (known->device == device && known->product == call->product &&
            !strcmp(known->dtype, call->dtype))
            return known->peak;
    }
    double value = an_roof_peak(&roof, call, &peak) ? peak.value : 0;
    if (peaks->count < PEAKS_MOST)
        peaks->known[peaks->count++] =
            (struct known_peak){device, call->dtype, call->product, value};
    return value;
}

static bool computes(const struct an_devices *gpu, size_t op)
{
    return 1u << gpu->op.class[op] & AN_DEVICE_COMPUTE_MASK && gpu->op.end[op] > gpu->op.start[op];
}

/* Adds the time of the kernels of a device to the calls that launched them. */
static void add_times(struct an_bounds *bounds, const struct an_device *device)
{
    const struct an_devices *gpu = bounds->context->gpu;
    for (size_t op = device->first; op < an_device_end(device); op++) {
        uint32_t call = bounds->context->calls->of_op[op];
        if (call != AN_NONE && computes(gpu, op))
            bounds->call[call].ns =
                an_time_add(bounds->call[call].ns, an_time_sub(gpu->op.end[op], gpu->op.start[op]));
    }
}

/* Which share of its roofs a call reaches. A convolution may multiply less than the direct form
 * whose FLOPs are counted; anything else above its peak is a counting error. */
static void find_roofs(struct an_bounds *bounds, struct peaks *peaks, const char *device,
                       double bandwidth, size_t index)
{
    struct an_context *context = bounds->context;
    const struct an_call *call = &context->calls->call[index];
    const struct an_op_cost *cost = &context->calls->cost[call->cost];
    struct an_call_roofs *roofs = &bounds->call[index];
    double seconds = (double)roofs->ns / 1e9;
    if (cost->bytes > 0 && bandwidth > 0)
        roofs->memory = (float)((double)cost->bytes / seconds / bandwidth);
    if (cost->flops == 0)
        roofs->compute = 0;
    if (cost->flops > 0) {
        struct an_roof_call of = an_roof_call_of(context, call);
        double peak = peak_of(peaks, device, &of);
        if (peak > 0)
            roofs->compute = (float)((double)cost->flops / seconds / peak);
    }
    if (roofs->compute > 1 && cost->kind != AN_OP_CONVOLUTION) {
        roofs->memory = roofs->compute = NAN;
        roofs->unknown = TOO_FAST;
    } else if (isnan(roofs->memory) || isnan(roofs->compute)) {
        roofs->unknown = cost->bytes > 0 && cost->flops >= 0 ? NO_ROOF : NO_COST;
    }
}

/* Fills the roofs of all calls. A call has its kernels on one device. */
static int find_all_roofs(struct an_bounds *bounds)
{
    struct an_context *context = bounds->context;
    const struct an_devices *gpu = context->gpu;
    struct peaks peaks = {.context = context};
    bool known = false; /* the bandwidth of some device */
    bounds->call = an_arena_zero(context->scratch, context->calls->count + 1, sizeof *bounds->call);
    if (!bounds->call)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->calls->count; i++)
        bounds->call[i].memory = bounds->call[i].compute = NAN;
    for (size_t device = 0; device < gpu->device_count; device++)
        add_times(bounds, &gpu->device[device]);
    for (size_t device = 0; device < gpu->device_count; device++) {
        const struct an_device *of = &gpu->device[device];
        double bandwidth = an_device_bandwidth(context, of->name);
        if (!of->count)
            continue;
        bounds->bandwidth = known && bandwidth != bounds->bandwidth ? 0 : bandwidth;
        known = true;
        for (size_t op = of->first; op < an_device_end(of); op++) {
            uint32_t call = context->calls->of_op[op];
            bool first = call != AN_NONE && context->calls->op[context->calls->first[call]] == op;
            if (first && bounds->call[call].ns > 0)
                find_roofs(bounds, &peaks, of->name, bandwidth, call);
        }
    }
    return 0;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* Is a kernel too short, or has it too few blocks, to reach a roof? A block on each SM is a wave at
 * least, however many fit. */
static bool is_latency(const struct an_context *context, const struct an_device *device, size_t op)
{
    const struct an_devices *gpu = context->gpu;
    if (an_time_sub(gpu->op.end[op], gpu->op.start[op]) < AN_BOUND_SHORT_NS)
        return true;
    int64_t blocks = an_kernel_blocks(context, op);
    return blocks && blocks < device->sms;
}

static enum an_bound bound_of(const struct an_bounds *bounds, const struct an_device *device,
                              size_t op, const char **unknown)
{
    uint32_t call = bounds->context->calls->of_op[op];
    const struct an_call_roofs *roofs = call == AN_NONE ? NULL : &bounds->call[call];
    double memory = roofs && !isnan(roofs->memory) ? (double)roofs->memory : 0,
           compute = roofs && !isnan(roofs->compute) ? (double)roofs->compute : 0;
    *unknown = NULL;
    if (fmax(memory, compute) >= AN_BOUND_NEAR)
        return memory >= compute ? AN_BOUND_MEMORY : AN_BOUND_COMPUTE;
    *unknown = roofs ? roofs->unknown : NO_CALL;
    if (*unknown)
        return AN_BOUND_UNKNOWN;
    if (is_latency(bounds->context, device, op))
        return AN_BOUND_LATENCY;
    return memory >= compute ? AN_BOUND_BELOW_MEMORY : AN_BOUND_BELOW_COMPUTE;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Sums of the kernels of one name and bound. */
struct sums {
    int64_t count, ns;
    double memory, compute; /* shares of the roofs by time */
    bool roofs;
};

/* Reasons for unknown kernels and the time of each. */
struct reasons {
    const char *text[4];
    int64_t ns[4];
};

static void add_reason(struct reasons *reasons, const char *text, int64_t ns)
{
    size_t i = 0;
    while (i < 3 && reasons->text[i] && strcmp(reasons->text[i], text) != 0)
        i++;
    reasons->text[i] = text;
    reasons->ns[i] = an_time_add(reasons->ns[i], ns);
}

/* Is the kernel part of what is counted: of a detailed step, or of the capture without steps? */
static bool is_counted(const struct an_context *context, const struct an_lane *lane, size_t op)
{
    if (!context->result->steps.detailed)
        return true;
    const struct an_step *step =
        lane ? an_step_at(context, lane, context->gpu->op.start[op]) : NULL;
    return step && an_step_detailed(step);
}

static const struct an_lane *lane_of(const struct an_context *context, size_t device)
{
    for (size_t lane = 0; lane < context->lane_count; lane++)
        if (context->lane[lane].device == device)
            return &context->lane[lane];
    return NULL;
}

/* Did a compiler of the framework make the kernel? */
static bool is_compiled(const char *name)
{
    return !strncmp(name, "triton_", 7);
}

static void add_family(struct an_kernel_bounds *out, enum an_family family, enum an_bound bound,
                       int64_t ns)
{
    out->family_ns[family] = an_time_add(out->family_ns[family], ns);
    if (bound == AN_BOUND_UNKNOWN)
        out->unknown_family_ns[family] = an_time_add(out->unknown_family_ns[family], ns);
}

/* Adds a kernel to the sums of its name and bound. */
static void add_kernel(struct an_bounds *bounds, struct sums *all, struct reasons *reasons,
                       const struct an_device *device, size_t op)
{
    const struct an_context *context = bounds->context;
    struct an_kernel_bounds *out = &bounds->context->result->bounds;
    uint32_t name = context->trace->slice.name[context->gpu->op.slice[op]],
             call = context->calls->of_op[op];
    int64_t ns = an_time_sub(context->gpu->op.end[op], context->gpu->op.start[op]);
    const char *unknown;
    enum an_bound bound = bound_of(bounds, device, op, &unknown);
    size_t row = name < context->trace->string_count ? name : context->trace->string_count;
    struct sums *sums = &all[row * AN_BOUND_COUNT + bound];
    bounds->op[op] = (uint8_t)bound;
    out->kernels++;
    out->total_ns = an_time_add(out->total_ns, ns);
    out->ns[bound] = an_time_add(out->ns[bound], ns);
    add_family(out,
               an_family_of((enum an_device_class)context->gpu->op.class[op],
                            an_trace_name(context->trace, name)),
               bound, ns);
    if (is_compiled(an_trace_name(context->trace, name)))
        out->compiled_ns = an_time_add(out->compiled_ns, ns);
    sums->count++;
    sums->ns = an_time_add(sums->ns, ns);
    if (unknown) {
        add_reason(reasons, unknown, ns);
    } else if (!isnan(bounds->call[call].memory) && !isnan(bounds->call[call].compute)) {
        sums->roofs = true;
        sums->memory += (double)bounds->call[call].memory * (double)ns;
        sums->compute += (double)bounds->call[call].compute * (double)ns;
    }
}

static int row_order(const void *left, const void *right)
{
    const struct an_bound_row *first = left, *second = right;
    if (first->total_ns != second->total_ns)
        return first->total_ns > second->total_ns ? -1 : 1;
    int by_name = strcmp(first->name, second->name);
    return by_name ? by_name : (int)first->bound - (int)second->bound;
}

static struct an_value share_of_roof(const struct sums *sums, double weighted)
{
    return an_num_if(sums->roofs && sums->ns > 0, 100 * weighted / (double)sums->ns,
                     "FLOPs, bytes or the roof are not known");
}

/* Keeps the rows with most time. */
static int keep_rows(struct an_context *context, const struct sums *all, size_t names)
{
    struct an_kernel_bounds *out = &context->result->bounds;
    struct an_bound_row *rows = NULL;
    size_t count = 0, room = 0;
    int rc = 0;
    for (size_t i = 0; i < names * AN_BOUND_COUNT && !rc; i++) {
        if (!all[i].count || (rc = an_grow(&rows, &room, count + 1, sizeof *rows)))
            continue;
        const char *name = an_trace_name(context->trace, (uint32_t)(i / AN_BOUND_COUNT));
        rows[count++] = (struct an_bound_row){an_arena_text(context->arena, name),
                                              (enum an_bound)(i % AN_BOUND_COUNT),
                                              all[i].count,
                                              all[i].ns,
                                              share_of_roof(&all[i], all[i].memory),
                                              share_of_roof(&all[i], all[i].compute)};
    }
    if (count)
        qsort(rows, count, sizeof *rows, row_order);
    out->row_count = count < ROWS_MOST ? count : ROWS_MOST;
    out->rows = an_arena_copy(context->arena, rows, out->row_count * sizeof *rows);
    free(rows);
    return rc || !out->rows ? TACHO_ENOMEM : 0;
}

/* Why the largest part of the unknown kernels is unknown. */
static void keep_reason(struct an_context *context, const struct reasons *reasons)
{
    struct an_kernel_bounds *out = &context->result->bounds;
    for (size_t i = 0; i < 4; i++)
        if (reasons->ns[i] > out->unknown_ns) {
            out->unknown = reasons->text[i];
            out->unknown_ns = reasons->ns[i];
        }
    if (out->unknown && !strcmp(out->unknown, NO_COST) && !context->calls->shapes)
        out->unknown = an_command_no_shapes(context);
}

/* Finds the bound of every counted kernel and adds them up. */
static int sum_kernels(struct an_bounds *bounds)
{
    struct an_context *context = bounds->context;
    const struct an_devices *gpu = context->gpu;
    size_t names = context->trace->string_count + 1;
    struct sums *all = an_arena_zero(context->scratch, names * AN_BOUND_COUNT, sizeof *all);
    struct reasons reasons = {{NULL}, {0}};
    bounds->op = an_arena_zero(context->scratch, gpu->op.count + 1, 1);
    if (!all || !bounds->op)
        return TACHO_ENOMEM;
    memset(bounds->op, AN_BOUND_COUNT, gpu->op.count);
    for (size_t device = 0; device < gpu->device_count; device++) {
        const struct an_lane *lane = lane_of(context, device);
        for (size_t op = gpu->device[device].first; op < an_device_end(&gpu->device[device]); op++)
            if (computes(gpu, op) && is_counted(context, lane, op))
                add_kernel(bounds, all, &reasons, &gpu->device[device], op);
    }
    keep_reason(context, &reasons);
    return keep_rows(context, all, names);
}

/* ---- the class of the device ----------------------------------------------------------------- */

/* Classes of the device; inefficient kernels of both sides are one. */
static const struct {
    const char *name;
    unsigned bounds; /* bits */
} classes[] = {{"MEMORY-BOUND", 1u << AN_BOUND_MEMORY},
               {"COMPUTE-BOUND", 1u << AN_BOUND_COMPUTE},
               {"LATENCY-BOUND", 1u << AN_BOUND_LATENCY},
               {"INEFFICIENT", 1u << AN_BOUND_BELOW_MEMORY | 1u << AN_BOUND_BELOW_COMPUTE},
               {"UNKNOWN", 1u << AN_BOUND_UNKNOWN}};
#define CLASSES (sizeof classes / sizeof *classes)

/* The class with most time; below half of the time it is mixed. */
static void find_class(struct an_kernel_bounds *out)
{
    int64_t most = -1;
    for (size_t i = 0; i < CLASSES; i++) {
        int64_t ns = 0;
        for (int bound = 0; bound < AN_BOUND_COUNT; bound++)
            if (classes[i].bounds >> bound & 1)
                ns = an_time_add(ns, out->ns[bound]);
        if (ns > most) {
            most = ns;
            out->class = classes[i].name;
        }
    }
    out->class_pct = an_num(100 * (double)most / (double)out->total_ns);
    if (out->class_pct.value < 50)
        out->class = "MIXED";
}

static void bounds_absent(struct an_context *context, const char *reason)
{
    context->result->bounds =
        (struct an_kernel_bounds){.reason = reason, .class_pct = an_num_none(reason)};
}

static int bounds_run(struct an_context *context)
{
    struct an_bounds bounds = {.context = context};
    if (!context->calls) {
        bounds_absent(context, "no operators were recorded");
        return 0;
    }
    int rc = find_all_roofs(&bounds);
    rc = rc ? rc : sum_kernels(&bounds);
    if (!rc && !context->result->bounds.total_ns) {
        bounds_absent(context, "no kernel computes in the counted steps");
        return 0;
    }
    if (rc)
        return rc;
    find_class(&context->result->bounds);
    rc = an_bounds_gemms(&bounds);
    return rc ? rc : an_bounds_chains(&bounds);
}

const struct an_analyzer an_kernel_bound = {
    .name = "bounds",
    .help = "what limits each kernel: memory, arithmetic, latency",
    .after = "steps, attribution, roofline",
    .needs = AN_INPUT_DEVICES,
    .run = bounds_run,
    .absent = bounds_absent,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs in three conventions and their share of a peak (docs/definitions.md, FLOPs). Sums are
 * integers. A share of a peak is only given when the FLOPs cover the matrix work, the peak is known
 * and named, and the result is possible: above 100 % of a peak something was counted wrongly, and
 * the report says that instead.
 *
 * On the CPU the FLOPs are those of ranges with a tacho.work payload, and coverage is the ranges'
 * time. On accelerators they are those of the operators that launched device work
 * (attribution_private.h), in the type that their kernels ran in, and coverage is the time of
 * matrix and attention kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/hardware/peaks.h"
#include "analyzers/steps/command.h"
#include "analyzers/work/utilization_private.h"

#define COVERAGE_LEAST 95.0

static bool flops_equal(const struct an_flops *first, const struct an_flops *second)
{
    return first->model == second->model && first->hardware == second->hardware &&
           first->palm == second->palm && first->again == second->again;
}

/* Sums the FLOPs of all steps, and those of the detailed steps of each lane. */
static int gather_all(struct an_flops_gather *gather)
{
    struct an_context *context = gather->context;
    const struct an_trace *trace = context->trace;
    gather->lane = an_arena_zero(context->scratch, context->lane_count, sizeof *gather->lane);
    gather->step = an_arena_zero(context->scratch, context->step_count, sizeof *gather->step);
    gather->first_lane =
        an_arena_zero(context->scratch, trace->process_count + 1, sizeof *gather->first_lane);
    gather->rate = an_arena_zero(context->scratch, trace->detail_count + 1, sizeof *gather->rate);
    if (!gather->lane || !gather->step || !gather->first_lane || !gather->rate)
        return TACHO_ENOMEM;
    for (size_t process = 0; process <= trace->process_count; process++)
        gather->first_lane[process] = context->lane_count;
    for (size_t k = context->lane_count; k--;)
        gather->first_lane[context->lane[k].process == AN_NONE ? trace->process_count
                                                               : context->lane[k].process] = k;
    bool of_calls = context->calls && context->calls->shapes;
    if (of_calls)
        an_flops_of_calls(gather);
    else if (an_flops_of_ranges(gather))
        return TACHO_ENOMEM;
    an_flops_of_replays(gather, of_calls);
    for (size_t i = 0; i < context->step_count; i++) {
        struct an_lane_flops *lane_flops = &gather->lane[context->step[i].lane];
        if (!an_step_detailed(&context->step[i]))
            continue;
        lane_flops->vary = lane_flops->vary ||
                           (lane_flops->any && !flops_equal(&lane_flops->each, &gather->step[i]));
        lane_flops->each = gather->step[i];
        lane_flops->any = true;
        lane_flops->steps++;
        an_flops_add(&lane_flops->ns, an_step_ns(&context->step[i]));
        an_flops_add_all(&lane_flops->total, &gather->step[i]);
    }
    return 0;
}

/* ---- peaks ----------------------------------------------------------------------------------- */

/* A property of an accelerator that the recording names; NULL where it does not. */
static const char *gpu_key(const struct an_context *context, const struct an_device *device,
                           const char *name)
{
    char key[96];
    if (device->process >= context->trace->process_count)
        return NULL;
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".%s",
             context->trace->process[device->process].id, device->ordinal, name);
    return an_trace_key(context->trace, key);
}

/* The UUID of an accelerator, which is the same in every process; "" where the trace has none. */
static const char *gpu_uuid(const struct an_context *context, const struct an_device *device)
{
    const char *value = gpu_key(context, device, "uuid");
    return value ? value : "";
}

/* The peak of an accelerator, or of the slice of one, by its data sheet. */
static bool datasheet_peak(struct an_context *context, const struct an_device *gpu,
                           const char *dtype, struct an_peak *out)
{
    const char *multiprocessors = gpu_key(context, gpu, "sms");
    return an_peak_find(context->arena, gpu->name, dtype, out) ||
           (multiprocessors && an_peak_find_slice(context->arena, gpu->name,
                                                  strtod(multiprocessors, NULL), dtype, out));
}

/* Peak of a lane's device: the user's, the file's, the data sheet's. false: none is known. */
static bool peak_of(struct an_context *context, const struct an_lane *lane, const char *dtype,
                    struct an_peak *out)
{
    const struct an_ceiling_row *ceiling_row =
        an_ceiling_find(context, an_flops_device(context, lane), "flops", dtype);
    if (context->options->peak_flops > 0)
        *out = (struct an_peak){context->options->peak_flops, "--peak"};
    else if (ceiling_row)
        *out = (struct an_peak){ceiling_row->value,
                                an_arena_text(context->arena, ceiling_row->source)};
    else
        return an_flops_gpu(context, lane) &&
               datasheet_peak(context, an_flops_gpu(context, lane), dtype, out);
    return true;
}

struct shares {
    double model, palm, hardware; /* device seconds at the peak */
    double flops, seconds; /* hardware FLOPs and the device seconds they would take at the peak */
    const char *source, *missing; /* missing: why there is no peak */
};

/* Why there is no peak for a type on the device of a lane. */
static const char *no_peak(const struct an_flops_gather *gather, const struct an_lane *lane,
                           const char *dtype)
{
    struct an_context *context = gather->context;
    const struct an_device *gpu = an_flops_gpu(context, lane);
    if (gather->mixed && !*dtype)
        return "the names of kernels with fp32 operands do not show whether they ran as tf32; give "
               "a peak with "
               "--peak FLOPS";
    if (gpu && !*gpu->name)
        return "the trace does not name its devices: their peak is not known; give one with --peak "
               "FLOPS";
    const char *type = *dtype ? dtype : "an unnamed type";
    return an_arena_format(context->arena,
                           "no peak of %s for %s is known; %sgive one with --peak FLOPS",
                           an_flops_device(context, lane), type, gpu ? "" : AN_CALIBRATE ", or ");
}

/* Adds the device seconds that the FLOPs of a lane would take at the peak of each element type, or
 * notes why a peak is missing. */
static void share_add(struct an_flops_gather *gather, const struct an_lane *lane,
                      const struct an_lane_flops *lane_flops, struct shares *shares)
{
    struct an_context *context = gather->context;
    for (size_t dtype = 0; dtype < gather->dtypes; dtype++) {
        const struct an_flops *flops = &lane_flops->by_dtype[dtype];
        struct an_peak found;
        if (!flops->model && !flops->hardware && !flops->palm)
            continue;
        if (!peak_of(context, lane, gather->dtype[dtype], &found)) {
            shares->missing = no_peak(gather, lane, gather->dtype[dtype]);
            return;
        }
        double peak = found.value;
        shares->source = found.source;
        shares->model += (double)flops->model / peak;
        shares->palm += (double)flops->palm / peak;
        shares->hardware += (double)flops->hardware / peak;
        shares->flops += (double)(flops->hardware ? flops->hardware : flops->model);
        shares->seconds += (double)(flops->hardware ? flops->hardware : flops->model) / peak;
    }
}

/* Where a lane runs: an accelerator with a UUID, one without, or a host and the name of its device.
 */
struct place {
    const char *host, *name;
    const struct an_device *gpu; /* NULL: the texts say it */
    size_t lane;
};

static struct place place_of(const struct an_context *context, size_t index)
{
    const struct an_lane *lane = &context->lane[index];
    const struct an_device *gpu = an_flops_gpu(context, lane);
    struct place place = {.host = "", .name = "", .lane = index};
    if (gpu && !*(place.name = gpu_uuid(context, gpu)))
        place.gpu = gpu;
    if (gpu)
        return place;
    place.host = lane->process != AN_NONE ? context->trace->process[lane->process].host : "";
    place.name = an_flops_device(context, lane);
    return place;
}

static int device_order(const struct place *left, const struct place *right)
{
    int order = AN_COMPARE((uintptr_t)left->gpu, (uintptr_t)right->gpu);
    order = order ? order : strcmp(left->host, right->host);
    return order ? order : strcmp(left->name, right->name);
}

static int place_order(const void *first, const void *second)
{
    const struct place *left = first, *right = second;
    int order = device_order(left, right);
    return order ? order : AN_COMPARE(left->lane, right->lane);
}

/* Finds for each lane the first one on its device. */
static int find_devices(struct an_flops_gather *gather)
{
    const struct an_context *context = gather->context;
    size_t count = context->lane_count;
    struct place *place = an_arena_zero(context->arena, count + 1, sizeof *place);
    gather->first_on_device =
        an_arena_zero(context->arena, count + 1, sizeof *gather->first_on_device);
    if (!place || !gather->first_on_device)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < count; k++)
        place[k] = place_of(context, k);
    qsort(place, count, sizeof *place, place_order);
    for (size_t k = 0; k < count; k++)
        gather->first_on_device[place[k].lane] = k && !device_order(&place[k - 1], &place[k])
                                                     ? gather->first_on_device[place[k - 1].lane]
                                                     : place[k].lane;
    return 0;
}

/* Device seconds of the steps. Ranks that share a device share its time, so it counts once. */
static int device_seconds(const struct an_flops_gather *gather, double *sum, size_t *devices)
{
    struct shared {
        double ns, lanes;
    } * shared;
    size_t count = gather->context->lane_count;
    shared = an_arena_zero(gather->context->arena, count + 1, sizeof *shared);
    *sum = 0;
    *devices = 0;
    if (!shared)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < count; k++) {
        shared[gather->first_on_device[k]].ns += (double)gather->lane[k].ns;
        shared[gather->first_on_device[k]].lanes++;
    }
    for (size_t k = 0; k < count; k++)
        if (gather->first_on_device[k] == k) {
            *sum += shared[k].ns / shared[k].lanes / 1e9;
            ++*devices;
        }
    return 0;
}

/* ---- the values ------------------------------------------------------------------------------ */

/* FLOPs of a mean step of a lane; where all steps are equal they are exact. */
static struct an_flops step_flops(const struct an_lane_flops *lane)
{
    const struct an_flops *total = &lane->total;
    int64_t half = lane->steps / 2, steps = lane->steps;
    if (!lane->vary)
        return lane->each;
    return (struct an_flops){.model = an_time_add(total->model, half) / steps,
                             .hardware = an_time_add(total->hardware, half) / steps,
                             .palm = an_time_add(total->palm, half) / steps,
                             .again = an_time_add(total->again, half) / steps};
}

/* Sums over the lanes, of all steps and of a mean step. */
static void totals(struct an_flops_gather *gather)
{
    struct an_utilization *utilization = &gather->context->result->utilization;
    struct an_flops sum = {0, 0, 0, 0}, each = {0, 0, 0, 0};
    for (size_t i = 0; i < gather->context->lane_count; i++) {
        const struct an_lane_flops *lane = &gather->lane[i];
        if (!lane->steps)
            continue;
        struct an_flops mean = step_flops(lane);
        utilization->flops_vary = utilization->flops_vary || lane->vary;
        an_flops_add_all(&sum, &lane->total);
        an_flops_add_all(&each, &mean);
    }
    utilization->model_flops = an_int(sum.model);
    utilization->palm_flops = an_int(sum.palm);
    utilization->hardware_flops = an_int(sum.hardware);
    utilization->model_flops_per_step = an_int(each.model);
    utilization->palm_flops_per_step = an_int(each.palm);
    utilization->hardware_flops_per_step = an_int(each.hardware);
    utilization->recomputed_flops = an_int(sum.again);
    utilization->recomputed_flops_per_step = an_int(each.again);
}

/* The element types of the run as one text: "bf16+fp32". */
static void dtype_text(struct an_flops_gather *gather)
{
    struct an_utilization *utilization = &gather->context->result->utilization;
    char text[128] = "";
    size_t length = 0;
    for (size_t dtype = 0; dtype < gather->dtypes && length < sizeof text; dtype++)
        if (*gather->dtype[dtype])
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s",
                                       length ? "+" : "", gather->dtype[dtype]);
    utilization->dtype = *text ? an_arena_text(gather->context->arena, text) : NULL;
    utilization->dtype_reason = *text ? NULL : "the work does not declare its element type";
}

static void flops_absent(struct an_utilization *utilization, const char *reason)
{
    utilization->model_flops_per_step = utilization->model_flops =
        utilization->hardware_flops_per_step = an_int_none(reason);
    utilization->hardware_flops = utilization->palm_flops_per_step = utilization->palm_flops =
        an_int_none(reason);
    utilization->mfu = utilization->mfu_palm = utilization->hfu = utilization->achieved_flops =
        an_num_none(reason);
    utilization->flop_coverage_pct = utilization->peak_flops = an_num_none(reason);
    utilization->recomputed_flops = utilization->recomputed_flops_per_step = an_int_none(reason);
    utilization->dtype_reason = reason;
}

static void utilization_absent(struct an_context *context, const char *reason)
{
    flops_absent(&context->result->utilization, reason);
    an_flops_roof_absent(context, reason);
}

static struct an_count exact(double flops)
{
    return flops < 9e18 ? an_int((int64_t)flops) : an_int_none("too large to count");
}

/* Time and number of the counted steps of all lanes, and the devices that the lanes use. */
static void count_lanes(const struct an_flops_gather *gather, double *ns, double *steps,
                        size_t *devices)
{
    const struct an_context *context = gather->context;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        double lane_ns = 0, lane_steps = 0;
        for (size_t i = lane->first; i < lane->first + lane->count; i++)
            if (an_step_counted(&context->step[i])) {
                lane_ns += (double)an_step_ns(&context->step[i]);
                lane_steps++;
            }
        *ns += lane_ns;
        *steps += lane_steps;
        *devices += gather->first_on_device[k] == k;
    }
}

/* Takes the peak from --peak, or from the type that the kernels show. */
static void peak_from_option(struct an_context *context, size_t devices)
{
    struct an_utilization *utilization = &context->result->utilization;
    const char *dtype = NULL;
    if (!utilization->peak_flops.valid && !(context->options->peak_flops > 0) && context->calls)
        dtype = an_flops_kernel_dtype(context);

    struct an_peak peak = {.value = 0};
    if (context->options->peak_flops > 0 ||
        (dtype && context->lane_count && peak_of(context, &context->lane[0], dtype, &peak))) {
        utilization->dtype = dtype ? dtype : utilization->dtype;
        utilization->peak_source = dtype ? peak.source : "--peak";
        utilization->peak_flops =
            an_num((dtype ? peak.value : context->options->peak_flops) * (double)devices);
    }
}

/* The user gives the model's FLOPs with --flops-per-step, because the program does not declare
 * them. */
static void from_option(const struct an_flops_gather *gather)
{
    struct an_context *context = gather->context;
    struct an_utilization *utilization = &context->result->utilization;
    double ns = 0, steps = 0, per_step = context->options->flops_per_step;
    size_t devices = 0;
    count_lanes(gather, &ns, &steps, &devices);
    double per_lane = context->lane_count ? ns / (double)context->lane_count / 1e9 : 0,
           done = per_step * steps / (double)context->lane_count;
    utilization->model_flops_per_step = exact(per_step);
    utilization->model_flops = exact(done);
    peak_from_option(context, devices);
    if (utilization->peak_flops.valid && utilization->peak_flops.value > 0)
        utilization->mfu =
            an_flops_share(context, "MFU", per_lane, done / utilization->peak_flops.value, NULL);
    else
        utilization->mfu = an_num_none("no peak is known; give one with --peak FLOPS");
}

/* The values from the FLOPs that were gathered. A share of a peak needs FLOPs of nearly all matrix
 * work. */
static int from_payloads(struct an_flops_gather *gather)
{
    struct an_context *context = gather->context;
    struct an_utilization *utilization = &context->result->utilization;
    struct shares shares = {0};
    size_t devices = 0;
    double seconds, coverage = 0;
    int rc = device_seconds(gather, &seconds, &devices);
    if (rc)
        return rc;
    if (gather->hardware_ns > 0)
        coverage = 100 * gather->covered_ns / gather->hardware_ns;
    totals(gather);
    dtype_text(gather);
    utilization->flop_coverage_pct =
        an_num_if(gather->hardware_ns > 0, coverage, "no matrix work was recorded");
    utilization->achieved_flops = an_num_if(seconds > 0, 0, "the steps last 0 ns");
    for (size_t k = 0; k < context->lane_count; k++) {
        share_add(gather, &context->lane[k], &gather->lane[k], &shares);
        if (gather->lane[k].ns > 0)
            utilization->achieved_flops.value +=
                (double)gather->lane[k].total.hardware / ((double)gather->lane[k].ns / 1e9);
    }
    const char *uncovered = NULL, *missing;
    if (!gather->hardware)
        uncovered = "no matrix work was recorded in the steps";
    else if (coverage < COVERAGE_LEAST)
        uncovered = an_arena_format(
            context->arena,
            "FLOPs are known for %.1f %% of the time of matrix work only; give --flops-per-step",
            coverage);
    missing = uncovered ? uncovered : shares.missing;
    utilization->peak_source = shares.source;
    utilization->peak_flops = an_num_if(shares.seconds > 0 && !shares.missing,
                                        shares.flops / shares.seconds * (double)devices,
                                        missing ? missing : "no FLOPs were recorded");
    const char *no_model = NULL, *no_palm = NULL;
    if (gather->model_missing) {
        no_model = "some matrix work does not declare its model FLOPs";
        utilization->model_flops = utilization->model_flops_per_step = an_int_none(no_model);
    }
    if (gather->palm_missing) {
        no_palm = "some matrix work does not declare its FLOPs with full attention";
        utilization->palm_flops = utilization->palm_flops_per_step = an_int_none(no_palm);
    }
    utilization->mfu =
        an_flops_share(context, "MFU", seconds, shares.model, missing ? missing : no_model);
    utilization->mfu_palm =
        an_flops_share(context, "MFU (PaLM)", seconds, shares.palm, missing ? missing : no_palm);
    utilization->hfu = an_flops_share(context, "HFU", seconds, shares.hardware, missing);
    an_flops_roof(gather, seconds, devices, uncovered ? uncovered : no_model);
    return 0;
}

/* Why no FLOPs are known, and how to record or give them. */
static const char *why_silent(const struct an_flops_gather *gather)
{
    const struct an_context *context = gather->context;
    if (!context->result->steps.detailed)
        return "no counted step has all its ranges in the file";
    if (gather->works)
        return "the ranges in the steps carry no FLOPs; give --flops-per-step";
    if (context->calls && context->calls->count)
        return context->calls->shapes
                   ? "no operator in the steps has a known cost; give --flops-per-step"
                   : an_arena_format(context->arena, "%s; give --flops-per-step",
                                     an_command_no_shapes(context));
    return an_command_marks(
        context, "no range in a step declares its FLOPs; give --flops-per-step",
        "no range in a step declares its FLOPs (tacho.work in include/tacho_nvtx.h); give "
        "--flops-per-step");
}

/* Gathers the FLOPs; where there are none, every value says why. */
static int utilization_run(struct an_context *context)
{
    struct an_flops_gather gather = {.context = context};
    utilization_absent(context, "no step is complete");
    if (!context->result->steps.counted)
        return 0;
    int rc = gather_all(&gather);
    rc = rc ? rc : an_flops_uncounted(context);
    if (!rc)
        rc = find_devices(&gather);
    if (!rc && gather.known && context->result->steps.detailed)
        rc = from_payloads(&gather);
    if (rc)
        return rc;
    if (!gather.known || !context->result->steps.detailed)
        utilization_absent(context, why_silent(&gather));
    if (gather.unclear)
        an_problem(
            context,
            "%" PRId64
            " GEMMs ran inside backward with gradients on: recomputed (checkpointing) or "
            "differentiated twice, the trace does not show which; the model FLOPs include them",
            gather.unclear);
    if (context->options->flops_per_step > 0)
        from_option(&gather);
    return 0;
}

const struct an_analyzer an_utilization = {
    .name = "utilization",
    .help = "FLOPs in three conventions, and their share of the peak",
    .after = "steps, attribution",
    .needs = AN_INPUT_STEPS,
    .run = utilization_run,
    .absent = utilization_absent,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs in three conventions and what share of a peak they are (DESIGN 5, "FLOPs"). Sums are
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
#include <string.h>

#include "analyzers/work/peaks.h"
#include "analyzers/work/utilization_private.h"

#define COVERAGE_LEAST 95.0

/* Is a range of work that has FLOPs of its own open around slice i? Then i is part of it and
 * counted there. */
static bool is_counted_above(const struct an_trace *trace, size_t i)
{
    int levels = AN_DEPTH_MAX;
    for (uint32_t parent = trace->slice.parent[i]; parent != AN_NONE && levels--;
         parent = trace->slice.parent[parent]) {
        const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[parent]);
        if (detail && detail->role == AN_ROLE_WORK && detail->flops > 0)
            return true;
    }
    return false;
}

/* The step of slice i, on whatever thread of the process that runs steps it is; NULL outside steps
 * and inside phases. */
static struct an_step *step_of(const struct an_flops_gather *gather, uint32_t process, size_t i)
{
    const struct an_context *context = gather->context;
    size_t k = process != AN_NONE ? gather->first_lane[process]
                                  : gather->first_lane[context->trace->process_count];
    int64_t time = context->trace->slice.start[i];
    for (; k < context->lane_count && context->lane[k].process == process; k++) {
        const struct an_lane *lane = &context->lane[k];
        struct an_step *step = an_step_at(context, lane, time);
        if (step && an_step_detailed(step))
            return an_spans_within(lane->cut, lane->cut_count, time, time + 1) ||
                           an_slice_in_phase(context->trace, i)
                       ? NULL
                       : step;
    }
    return NULL;
}

static void gather_slice(struct an_flops_gather *gather, uint32_t process, size_t i)
{
    const struct an_trace *trace = gather->context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    if (!detail || detail->role != AN_ROLE_WORK)
        return;
    struct an_step *step = step_of(gather, process, i);
    if (!step || is_counted_above(trace, i))
        return;
    struct an_flops *sum = &gather->step[step - gather->context->step];
    gather->works++;
    gather->told += detail->flops != STORE_ABSENT || detail->model_flops != STORE_ABSENT ||
                    detail->palm_flops != STORE_ABSENT;
    an_flops_add(&sum->model, detail->model_flops);
    an_flops_add(&sum->palm, detail->palm_flops);
    if (detail->hardware) {
        double ns = trace->slice.dur[i] == AN_OPEN ? 0 : (double)trace->slice.dur[i];
        struct an_flops_rate *rate = &gather->rate[trace->slice.detail[i]];
        rate->calls++;
        an_flops_add(&rate->flops, detail->flops);
        rate->ns = an_time_add(rate->ns, (int64_t)ns);
        gather->hardware++;
        gather->hardware_ns += ns;
        gather->covered_ns += detail->flops != STORE_ABSENT ? ns : 0;
        gather->model_missing += detail->model_flops == STORE_ABSENT;
        gather->palm_missing += detail->palm_flops == STORE_ABSENT;
        an_flops_add(&sum->hardware, detail->flops);
        an_flops_add(&sum->again, !strcmp(detail->pass, "recompute") ? detail->flops : 0);
    }
    if (detail->hardware || detail->model_flops > 0) {
        struct an_flops *by =
            &gather->lane[step->lane].by_dtype[an_flops_dtype(gather, detail->dtype)];
        an_flops_add(&by->model, detail->model_flops);
        an_flops_add(&by->palm, detail->palm_flops);
        an_flops_add(&by->hardware, detail->hardware ? detail->flops : 0);
    }
}

static bool flops_equal(const struct an_flops *first, const struct an_flops *second)
{
    return first->model == second->model && first->hardware == second->hardware &&
           first->palm == second->palm && first->again == second->again;
}

static void gather_ranges(struct an_flops_gather *gather)
{
    const struct an_trace *trace = gather->context->trace;
    for (size_t k = 0; k < trace->track_count; k++)
        for (size_t i = trace->track[k].slice_first;
             i < trace->track[k].slice_first + trace->track[k].slice_count; i++)
            gather_slice(gather, trace->track[k].process, i);
}

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
    if (context->calls && context->calls->shapes)
        an_flops_of_calls(gather);
    else
        gather_ranges(gather);
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
        an_flops_add(&lane_flops->total.model, gather->step[i].model);
        an_flops_add(&lane_flops->total.palm, gather->step[i].palm);
        an_flops_add(&lane_flops->total.hardware, gather->step[i].hardware);
        an_flops_add(&lane_flops->total.again, gather->step[i].again);
    }
    return 0;
}

/* ---- peaks -------------------------------------------------------------------------------------------------------------- */

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
               an_peak_find(context->arena, an_flops_gpu(context, lane)->name, dtype, out);
    return true;
}

struct shares {
    double model, palm, hardware; /* device seconds at the peak */
    double flops, seconds; /* hardware FLOPs and the device seconds they would take at the peak */
    const char *source, *missing; /* missing: why there is no peak */
};

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
            const struct an_device *gpu = an_flops_gpu(context, lane);
            if (gather->mixed && !*gather->dtype[dtype])
                shares->missing = "kernels of fp32 operands do not tell whether they ran as tf32; "
                                  "give a peak with --peak FLOPS";
            else if (gpu && !*gpu->name)
                shares->missing = "the trace does not name its devices: their peak is not known; "
                                  "give one with --peak FLOPS";
            else
                shares->missing = an_arena_format(
                    context->arena, "no peak of %s for %s is known; %sgive one with --peak FLOPS",
                    an_flops_device(context, lane),
                    *gather->dtype[dtype] ? gather->dtype[dtype] : "an unnamed type",
                    gpu ? "" : AN_CALIBRATE ", or ");
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

/* Text of an accelerator that is the same wherever it is used from; "" where the trace has none. */
static const char *gpu_uuid(const struct an_context *context, const struct an_device *device)
{
    char key[96];
    const char *value;
    if (device->process >= context->trace->process_count)
        return "";
    snprintf(key, sizeof key, "device.%" PRId64 ".gpu:%" PRId64 ".uuid",
             context->trace->process[device->process].id, device->ordinal);
    value = an_trace_key(context->trace, key);
    return value ? value : "";
}

static bool same_device(const struct an_context *context, const struct an_lane *first,
                        const struct an_lane *second)
{
    const struct an_device *first_gpu = an_flops_gpu(context, first),
                           *second_gpu = an_flops_gpu(context, second);
    if (first_gpu && second_gpu)
        return first_gpu == second_gpu ||
               (*gpu_uuid(context, first_gpu) &&
                !strcmp(gpu_uuid(context, first_gpu), gpu_uuid(context, second_gpu)));
    const char *first_host =
        first->process != AN_NONE ? context->trace->process[first->process].host : "";
    const char *second_host =
        second->process != AN_NONE ? context->trace->process[second->process].host : "";
    return !strcmp(first_host, second_host) &&
           !strcmp(an_flops_device(context, first), an_flops_device(context, second));
}

/* Device seconds of the steps: ranks that share a device share its time. */
static double device_seconds(const struct an_flops_gather *gather, size_t *devices)
{
    const struct an_context *context = gather->context;
    double sum = 0;
    *devices = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        double ns = 0, lanes = 0;
        bool first = true;
        for (size_t j = 0; j < context->lane_count && first; j++) {
            if (!same_device(context, &context->lane[k], &context->lane[j]))
                continue;
            first = j >= k;
            ns += (double)gather->lane[j].ns;
            lanes++;
        }
        if (!first)
            continue;
        sum += ns / lanes / 1e9;
        ++*devices;
    }
    return sum;
}

/* ---- the values --------------------------------------------------------------------------------------------------------- */

static void totals(struct an_flops_gather *gather)
{
    struct an_utilization *utilization = &gather->context->result->utilization;
    struct an_flops sum = {0, 0, 0, 0}, each = {0, 0, 0, 0};
    for (size_t k = 0; k < gather->context->lane_count; k++) {
        const struct an_lane_flops *lane_flops = &gather->lane[k];
        if (!lane_flops->steps)
            continue;
        utilization->flops_vary = utilization->flops_vary || lane_flops->vary;
        an_flops_add(&sum.model, lane_flops->total.model);
        an_flops_add(&sum.palm, lane_flops->total.palm);
        an_flops_add(&sum.hardware, lane_flops->total.hardware);
        an_flops_add(&sum.again, lane_flops->total.again);
        an_flops_add(&each.again, lane_flops->vary ? an_time_add(lane_flops->total.again,
                                                                 lane_flops->steps / 2) /
                                                         lane_flops->steps
                                                   : lane_flops->each.again);
        an_flops_add(&each.model, lane_flops->vary ? an_time_add(lane_flops->total.model,
                                                                 lane_flops->steps / 2) /
                                                         lane_flops->steps
                                                   : lane_flops->each.model);
        an_flops_add(&each.palm, lane_flops->vary
                                     ? an_time_add(lane_flops->total.palm, lane_flops->steps / 2) /
                                           lane_flops->steps
                                     : lane_flops->each.palm);
        an_flops_add(&each.hardware, lane_flops->vary ? an_time_add(lane_flops->total.hardware,
                                                                    lane_flops->steps / 2) /
                                                            lane_flops->steps
                                                      : lane_flops->each.hardware);
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
    utilization->dtype_reason = *text ? NULL : "the work does not say its element type";
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

/* --flops-per-step: the user knows the model's FLOPs, the program does not say them. */
static void from_option(struct an_context *context)
{
    struct an_utilization *utilization = &context->result->utilization;
    double ns = 0, steps = 0, per_lane = 0;
    size_t devices = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        double lane_ns = 0, lane_steps = 0;
        for (size_t i = lane->first; i < lane->first + lane->count; i++)
            if (an_step_counted(&context->step[i])) {
                lane_ns += (double)an_step_ns(&context->step[i]);
                lane_steps++;
            }
        ns += lane_ns;
        steps += lane_steps;
        bool seen_before = false;
        for (size_t j = 0; j < k; j++)
            seen_before = seen_before || same_device(context, lane, &context->lane[j]);
        devices += !seen_before;
    }
    per_lane = context->lane_count ? ns / (double)context->lane_count / 1e9 : 0;
    double per_step = context->options->flops_per_step,
           done = per_step * steps / (double)context->lane_count;
    utilization->model_flops_per_step =
        per_step < 9e18 ? an_int((int64_t)per_step) : an_int_none("too large to count");
    utilization->model_flops =
        done < 9e18 ? an_int((int64_t)done) : an_int_none("too large to count");
    const char *dtype =
        utilization->peak_flops.valid || context->options->peak_flops > 0 || !context->calls
            ? NULL
            : an_flops_kernel_dtype(context);
    struct an_peak peak;
    if (context->options->peak_flops > 0 ||
        (dtype && context->lane_count && peak_of(context, &context->lane[0], dtype, &peak))) {
        utilization->dtype = dtype ? dtype : utilization->dtype;
        utilization->peak_source = dtype ? peak.source : "--peak";
        utilization->peak_flops =
            an_num((dtype ? peak.value : context->options->peak_flops) * (double)devices);
    }
    if (utilization->peak_flops.valid && utilization->peak_flops.value > 0)
        utilization->mfu =
            an_flops_share(context, "MFU", per_lane, done / utilization->peak_flops.value, NULL);
    else
        utilization->mfu = an_num_none("no peak is known; give one with --peak FLOPS");
}

static void from_payloads(struct an_flops_gather *gather)
{
    struct an_context *context = gather->context;
    struct an_utilization *utilization = &context->result->utilization;
    struct shares shares = {0};
    size_t devices = 0;
    double seconds = device_seconds(gather, &devices),
           coverage = gather->hardware_ns > 0 ? 100 * gather->covered_ns / gather->hardware_ns : 0;
    totals(gather);
    dtype_text(gather);
    utilization->flop_coverage_pct =
        gather->hardware_ns > 0 ? an_num(coverage) : an_num_none("no matrix work was recorded");
    utilization->achieved_flops = seconds > 0 ? an_num(0) : an_num_none("the steps last 0 ns");
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
    utilization->peak_flops = shares.seconds > 0 && !shares.missing
                                  ? an_num(shares.flops / shares.seconds * (double)devices)
                                  : an_num_none(missing ? missing : "no FLOPs were recorded");
    const char *no_model = "some matrix work does not say its model FLOPs",
               *no_palm = "some matrix work does not say its FLOPs with full attention";
    if (gather->model_missing)
        utilization->model_flops = utilization->model_flops_per_step = an_int_none(no_model);
    if (gather->palm_missing)
        utilization->palm_flops = utilization->palm_flops_per_step = an_int_none(no_palm);
    utilization->mfu = an_flops_share(context, "MFU", seconds, shares.model,
                                      missing                 ? missing
                                      : gather->model_missing ? no_model
                                                              : NULL);
    utilization->mfu_palm = an_flops_share(context, "MFU (PaLM)", seconds, shares.palm,
                                           missing                ? missing
                                           : gather->palm_missing ? no_palm
                                                                  : NULL);
    utilization->hfu = an_flops_share(context, "HFU", seconds, shares.hardware, missing);
    an_flops_roof(gather, seconds, devices,
                  uncovered               ? uncovered
                  : gather->model_missing ? no_model
                                          : NULL);
}

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
                   : "no shapes recorded; record with record_shapes=True, or give --flops-per-step";
    return "no range in a step says its FLOPs (tacho.work in include/tacho_nvtx.h); give "
           "--flops-per-step";
}

static int utilization_run(struct an_context *context)
{
    struct an_flops_gather gather = {.context = context};
    utilization_absent(context, "no step is complete");
    if (!context->result->steps.counted)
        return 0;
    int rc = gather_all(&gather);
    if (rc)
        return rc;
    if (gather.told && context->result->steps.detailed)
        from_payloads(&gather);
    else
        utilization_absent(context, why_silent(&gather));
    if (gather.unclear)
        an_problem(context,
                   "%" PRId64
                   " products ran inside backward with gradients on: run again (checkpointing) or "
                   "differentiated twice, the trace does not tell which; the model FLOPs hold them",
                   gather.unclear);
    if (context->options->flops_per_step > 0)
        from_option(context);
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

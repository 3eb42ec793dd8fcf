/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares of a peak, and MFU against the measured roof: what the fastest product of a sweep of
 * shapes reached on this machine in each element type (ceilings `gemm`), instead of the instruction
 * peak that nothing reaches. A run that is faster raises the roof, so no share is above 1.
 */
#include <string.h>

#include "analyzers/work/utilization_private.h"

#define CALLS_LEAST 3       /* of one payload, for its rate to raise a roof */
#define TIME_LEAST  1000000 /* ns of these calls */

const struct an_device *an_flops_gpu(const struct an_context *context, const struct an_lane *lane)
{
    return context->gpu && lane->device < context->gpu->device_count
               ? &context->gpu->device[lane->device]
               : NULL;
}

const char *an_flops_device(const struct an_context *context, const struct an_lane *lane)
{
    if (an_flops_gpu(context, lane))
        return an_flops_gpu(context, lane)->name;
    const char *device =
        lane->process != AN_NONE ? context->trace->process[lane->process].device : "";
    return *device ? device : "cpu";
}

struct an_value an_flops_share(struct an_context *context, const char *name, double device_s,
                               double at_peak_s, const char *missing)
{
    if (missing)
        return an_num_none(missing);
    if (device_s <= 0)
        return an_num_none("the steps last 0 ns");
    double share = at_peak_s / device_s;
    if (share <= 1)
        return an_num(share);
    const char *why = an_arena_format(
        context->arena,
        "%s would be %.1f %% of the peak: FLOPs are counted twice, or the peak is wrong", name,
        100 * share);
    an_problem(context, "counting error: %s", why);
    return an_num_none(why);
}

struct roof_of_type {
    double value; /* FLOP/s, 0: not measured */
    const char *source;
};

/* The roof of a type on a lane's device, and the fastest product of this run where that is above
 * it. A rate above the instruction peak is a counting error and raises nothing. */
static struct roof_of_type roof_of(const struct an_flops_gather *gather, const struct an_lane *lane,
                                   const char *dtype)
{
    const struct an_context *context = gather->context;
    const struct an_trace *trace = context->trace;
    const struct an_ceiling_row *row =
        an_ceiling_find(context, an_flops_device(context, lane), "gemm", dtype);
    const struct an_ceiling_row *peak =
        an_ceiling_find(context, an_flops_device(context, lane), "flops", dtype);
    if (!row)
        return (struct roof_of_type){0, NULL};
    struct roof_of_type roof = {row->value, row->source};
    for (size_t i = 0; i < trace->detail_count; i++) {
        const struct an_flops_rate *flops_rate = &gather->rate[i];
        if (flops_rate->calls < CALLS_LEAST || flops_rate->ns < TIME_LEAST ||
            strcmp(trace->detail[i].dtype, dtype))
            continue;
        double rate = (double)flops_rate->flops / (double)flops_rate->ns * 1e9;
        if (rate > roof.value && !(peak && rate > peak->value))
            roof = (struct roof_of_type){
                rate, "this run: its fastest GEMMs are above the calibrated roof"};
    }
    return roof;
}

static const char *no_roof(struct an_context *context, const struct an_lane *lane,
                           const char *dtype)
{
    if (context->gpu)
        return "the roof was not measured: accelerators are not calibrated in this version";
    return an_arena_format(context->arena, "the roof of %s for %s was not measured; " AN_CALIBRATE,
                           an_flops_device(context, lane), *dtype ? dtype : "an unnamed type");
}

void an_flops_roof_absent(struct an_context *context, const char *reason)
{
    context->result->utilization.mfu_measured = context->result->utilization.roof_measured_flops =
        an_num_none(reason);
    context->result->utilization.roof_source = NULL;
}

void an_flops_roof(struct an_flops_gather *gather, double device_s, size_t devices,
                   const char *missing)
{
    struct an_context *context = gather->context;
    struct an_utilization *utilization = &context->result->utilization;
    double model_s = 0, flops = 0, hardware_s = 0;
    for (size_t k = 0; k < context->lane_count && !missing; k++)
        for (size_t dtype = 0; dtype < gather->dtypes && !missing; dtype++) {
            const struct an_flops *flops_of = &gather->lane[k].by_dtype[dtype];
            if (!flops_of->model && !flops_of->hardware)
                continue;
            struct roof_of_type roof = roof_of(gather, &context->lane[k], gather->dtype[dtype]);
            if (!(roof.value > 0)) {
                missing = no_roof(context, &context->lane[k], gather->dtype[dtype]);
                break;
            }
            model_s += (double)flops_of->model / roof.value;
            flops += (double)flops_of->hardware;
            hardware_s += (double)flops_of->hardware / roof.value;
            if (!utilization->roof_source || !strncmp(roof.source, "this run", 8))
                utilization->roof_source = an_arena_text(context->arena, roof.source);
        }
    if (!missing && !(hardware_s > 0))
        missing = "no FLOPs of GEMMs were recorded";
    if (missing) {
        an_flops_roof_absent(context, missing);
        return;
    }
    utilization->roof_measured_flops = an_num(flops / hardware_s * (double)devices);
    utilization->mfu_measured =
        an_flops_share(context, "MFU of the measured roof", device_s, model_s, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the recording of a device: what it lacks, and how to record it. They have no gain.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define OPAQUE_PCT     5.0  /* of the span */
#define LOST_PCT       2.0  /* of the launches of kernels */
#define UNLAUNCHED_PCT 10.0 /* of the device ops */

/* Sums over the devices of the run. */
struct totals {
    double span, opaque, ops;
};

static struct totals totals_of(const struct an_context *context)
{
    struct totals totals = {0};
    for (size_t i = 0; i < context->result->gpu_count; i++) {
        const struct an_gpu_device *device = &context->result->gpus[i];
        totals.span += device->span_ns.valid ? (double)device->span_ns.value : 0;
        totals.opaque += device->opaque_ns.valid ? (double)device->opaque_ns.value : 0;
        totals.ops += (double)device->ops;
    }
    return totals;
}

static double pct_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void no_gain(struct an_finding *finding)
{
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("a gap in the measurement has no gain");
    finding->method = "no gain: it is a gap in what was measured, not in the run";
    finding->effort = "another recording";
}

static void opaque_graphs(struct an_findings_list *findings, const struct totals *all)
{
    struct an_context *context = findings->context;
    const char *source = an_trace_key(context->trace, "source");
    double pct = pct_of(all->opaque, all->span);
    if (pct < OPAQUE_PCT) {
        an_findings_checked(findings, "graphs recorded without their kernels");
        return;
    }
    struct an_finding *finding =
        an_findings_add(findings, "OPAQUE_GRAPHS",
                        an_arena_format(context->arena,
                                        "%.1f %% of the capture is graphs of which the kernels "
                                        "were not recorded: busy, not idle",
                                        pct));
    an_finding_evidence(finding,
                        an_arena_format(context->arena, "%s opaque of %s on %zu %s",
                                        an_time_words(context->arena, all->opaque / 1e6, 3),
                                        an_time_words(context->arena, all->span / 1e6, 3),
                                        context->result->gpu_count,
                                        context->result->gpu_count == 1 ? "device" : "devices"));
    if (!context->result->launches.reason)
        an_finding_evidence(finding,
                            an_arena_format(context->arena, "%" PRId64 " launches of graphs",
                                            context->result->launches.graphs));
    finding->action = source && !strcmp(source, "nsight")
                          ? "record graphs node by node: nsys profile --cuda-graph-trace=node"
                          : "record some steps without graphs (TORCH_COMPILE_DISABLE=1, or no "
                            "capture), or with a profiler that records graph nodes";
    no_gain(finding);
    finding->verify = "report the new recording: opaque_us of each device is 0";
    finding->wrong_when = "never: what is inside these graphs is not in the file";
}

static void incomplete_capture(struct an_findings_list *findings, const struct totals *all)
{
    struct an_context *context = findings->context;
    const struct an_quality *quality = &context->result->quality;
    const struct an_launches *launches = &context->result->launches;
    if (quality->reason || launches->reason)
        return;
    double lost = quality->kernels_lost.valid
                      ? pct_of((double)quality->kernels_lost.value, (double)launches->calls)
                      : 0;
    double alone = quality->ops_without_launch.valid
                       ? pct_of((double)quality->ops_without_launch.value, all->ops)
                       : 0;
    if (lost < LOST_PCT && alone < UNLAUNCHED_PCT) {
        an_findings_checked(findings, "kernels and launches that the recording lost");
        return;
    }
    const char *source = an_trace_key(context->trace, "source");
    struct an_finding *finding = an_findings_add(
        findings, "INCOMPLETE_CAPTURE",
        lost >= LOST_PCT ? an_arena_format(context->arena,
                                           "%.1f %% of the launches have no kernel in the file: "
                                           "times of the device are too short",
                                           lost)
                         : an_arena_format(context->arena,
                                           "%.1f %% of the device ops have no launch in the file: "
                                           "what asked for them is not known",
                                           alone));
    if (quality->kernels_lost.valid)
        an_finding_evidence(finding,
                            an_arena_format(context->arena,
                                            "%" PRId64 " of %" PRId64 " launches without a kernel",
                                            quality->kernels_lost.value, launches->calls));
    if (quality->ops_without_launch.valid)
        an_finding_evidence(finding,
                            an_arena_format(context->arena,
                                            "%" PRId64 " of %.0f device ops without a launch",
                                            quality->ops_without_launch.value, all->ops));
    finding->action =
        source && !strcmp(source, "nsight")
            ? "start nsys before the program works on the device, and end the capture "
              "between steps after a "
              "synchronise call"
            : "give torch.profiler.schedule more warm-up steps, and synchronise the device "
              "before the profiler stops";
    no_gain(finding);
    finding->verify = "report the new recording: trust/capture counts no such rows";
    finding->wrong_when =
        "the capture window was cut on purpose: steps inside it are complete (see the "
        "steps left out)";
}

/* A run without steps: the device's tables are all there is. */
static void no_steps(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    if ((context->result->steps.detailed && !context->result->budget.reason) ||
        context->options->some_steps)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "NO_STEPS",
                        "no complete steps were found: why the device idles, "
                        "and what a step costs, cannot be told");
    an_finding_evidence(finding, context->result->steps.reason ? context->result->steps.reason
                                                               : context->result->budget.reason);
    finding->action =
        "mark steps and record several: prof.step() of torch.profiler, or an NVTX range "
        "named step around each update";
    no_gain(finding);
    finding->effort = "one line of code, another recording";
    finding->verify = "report the new recording: it has a step budget";
    finding->wrong_when = "the program is no training loop";
}

void an_findings_capture(struct an_findings_list *findings)
{
    struct totals all = totals_of(findings->context);
    if (all.span <= 0)
        return;
    opaque_graphs(findings, &all);
    incomplete_capture(findings, &all);
    no_steps(findings);
}

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

static bool is_nsight(const struct an_context *context)
{
    const char *source = an_trace_key(context->trace, "source");
    return source && !strcmp(source, "nsight");
}

/* Opaque time of `span` ns on all devices, and launches of graphs. */
static void opaque_evidence(struct an_context *context, double opaque, double span,
                            struct an_finding *finding)
{
    const struct an_result *result = context->result;
    an_finding_note(context, finding, "%s opaque of %s on %zu %s",
                    an_time_words(context->arena, opaque / 1e6, 3),
                    an_time_words(context->arena, span / 1e6, 3), result->gpu_count,
                    result->gpu_count == 1 ? "device" : "devices");
    if (!result->launches.reason)
        an_finding_note(context, finding, "%" PRId64 " launches of graphs",
                        result->launches.graphs);
}

/* Looks at graphs of which only the launch was recorded: their time counts as busy, but says
 * nothing about what ran. */
static void opaque_graphs(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_result *result = context->result;
    double opaque = an_devices_ns(result, opaque_ns), span = an_devices_ns(result, span_ns);
    double pct = an_percent(opaque, span);
    if (pct < OPAQUE_PCT)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "OPAQUE_GRAPHS",
                        an_finding_text(context,
                                        "in %.1f %% of the capture graphs run whose kernels were "
                                        "not recorded: the device is busy, not idle",
                                        pct));
    opaque_evidence(context, opaque, span, finding);
    finding->action = is_nsight(context)
                          ? "record graphs node by node: nsys profile --cuda-graph-trace=node"
                          : "record some steps without graphs (TORCH_COMPILE_DISABLE=1, or no "
                            "capture), or with a profiler that records graph nodes";
    an_finding_no_gain(finding);
    finding->verify = "report the new recording: opaque_us of each device is 0";
    finding->wrong_when = "never: what is inside these graphs is not in the file";
}

/* Says which rows are missing: kernels (`lost` %) or launches (`alone` %). */
static void incomplete_claim(struct an_context *context, double lost, double alone,
                             struct an_finding *finding)
{
    if (lost >= LOST_PCT)
        finding->claim = an_finding_text(
            context,
            "%.1f %% of the launches have no kernel in the file: times of the device are too short",
            lost);
    else
        finding->claim = an_finding_text(context,
                                         "%.1f %% of the device ops have no launch in the file: it "
                                         "is not known which call launched them",
                                         alone);
}

/* How to record without losing rows. */
static void incomplete_action(const struct an_context *context, struct an_finding *finding)
{
    finding->action = is_nsight(context)
                          ? "start nsys before the program uses the device, and end the capture "
                            "between steps after a synchronise call"
                          : "give torch.profiler.schedule more warm-up steps, and synchronise the "
                            "device before the profiler stops";
}

/* Looks at launches without a kernel and device ops without a launch: the recording lost rows, so
 * times of the device are too short or have no cause. */
static void incomplete_capture(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_quality *quality = &context->result->quality;
    const struct an_launches *launches = &context->result->launches;
    double ops = 0;
    if (quality->reason || launches->reason)
        return;
    for (size_t i = 0; i < context->result->gpu_count; i++)
        ops += (double)context->result->gpus[i].ops;
    double lost = an_percent(an_count_or_0(quality->kernels_lost), (double)launches->calls);
    double alone = an_percent(an_count_or_0(quality->ops_without_launch), ops);
    if (lost < LOST_PCT && alone < UNLAUNCHED_PCT)
        return;
    struct an_finding *finding = an_findings_add(findings, "INCOMPLETE_CAPTURE", NULL);
    incomplete_claim(context, lost, alone, finding);
    if (quality->kernels_lost.valid)
        an_finding_note(context, finding, "%" PRId64 " of %" PRId64 " launches without a kernel",
                        quality->kernels_lost.value, launches->calls);
    if (quality->ops_without_launch.valid)
        an_finding_note(context, finding, "%" PRId64 " of %.0f device ops without a launch",
                        quality->ops_without_launch.value, ops);
    incomplete_action(context, finding);
    an_finding_no_gain(finding);
    finding->verify = "report the new recording: trust/capture counts no such rows";
    finding->wrong_when = "the capture window was cut on purpose: steps inside it are complete "
                          "(see the excluded steps)";
}

/* Without steps the report has only the tables of the devices: no budget and no causes. */
static void no_steps(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    if ((context->result->steps.detailed && !context->result->budget.reason) ||
        context->options->some_steps)
        return;
    struct an_finding *finding =
        an_findings_add(findings, "NO_STEPS",
                        "no complete steps were found: why the device idles, and what a step "
                        "costs, cannot be determined");
    an_finding_evidence(finding, context->result->steps.reason ? context->result->steps.reason
                                                               : context->result->budget.reason);
    finding->action = "mark steps and record several: prof.step() of torch.profiler, or an NVTX "
                      "range named step around each update";
    an_finding_no_gain(finding);
    finding->effort = "one line of code, another recording";
    finding->verify = "report the new recording: it has a step budget";
    finding->wrong_when = "the program is not a training loop";
}

void an_findings_capture(struct an_findings_list *findings)
{
    if (an_devices_ns(findings->context->result, span_ns) <= 0)
        return;
    opaque_graphs(findings);
    incomplete_capture(findings);
    no_steps(findings);
}

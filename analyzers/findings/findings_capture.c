/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the recording of a device: what it lacks, and how to record it. They have no gain.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/device/api.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/steps/recorder.h"

#define OPAQUE_PCT     5.0  /* of the span */
#define LOST_PCT       2.0  /* of the launches of kernels */
#define UNLAUNCHED_PCT 10.0 /* of the device ops */
#define FIRST_PCT      20.0 /* of the host's time, in calls that initialise */
#define SLOW_START_NS  2000000
#define NAMED_START_NS 100000 /* shorter calls do not matter, whatever their name */
#define WORKS_PCT      10 /* of a call, in which the device works: then the call may wait for it */
#define LAST_PART      10 /* the capture's last tenth: calls that go on in it are no start */

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
    finding->action = an_trace_from(context->trace, "nsight")
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
static void incomplete_action(const struct an_context *context, double lost,
                              struct an_finding *finding)
{
    if (an_trace_from(context->trace, "nsight"))
        finding->action = "start nsys before the program uses the device, and end the capture "
                          "between steps after a synchronising call";
    else if (an_trace_from(context->trace, "kineto"))
        finding->action = "give torch.profiler.schedule more warm-up steps, and synchronise the "
                          "device before the profiler stops";
    else if (an_trace_imported(context->trace))
        finding->action = an_say(context, AN_SAY_COMPLETE,
                                 "let the recorder begin some steps earlier, and synchronise the "
                                 "device before it stops");
    else if (lost >= LOST_PCT)
        finding->action = "let the program synchronise the device before it ends; where the "
                          "report says that buffers were full, raise TACHO_GPU_MIB or record some "
                          "steps only (--steps)";
    else
        finding->action = "record again without another device profiler in the program: it takes "
                          "the records of the launching calls";
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
    incomplete_action(context, lost, finding);
    an_finding_no_gain(finding);
    finding->verify = "report the new recording: trust/capture counts no such rows";
    finding->wrong_when = "the capture window was cut on purpose: steps inside it are complete "
                          "(see the excluded steps)";
}

/* Why a recorder has nothing of the device, and what to do about it. */
static const char *device_action(const struct an_context *context)
{
    if (an_trace_from(context->trace, "kineto"))
        return "record again with ProfilerActivity.CUDA where CUPTI (on AMD: roctracer) works: a "
               "driver as new as the CUDA of this PyTorch, no other profiler on the device, and "
               "the permission to profile (ERR_NVGPUCTRPERM: load the module nvidia with "
               "NVreg_RestrictProfilingToAdminUsers=0); the program's log shows which of these "
               "failed";
    if (an_trace_from(context->trace, "nsight"))
        return "record again with nsys profile --trace=cuda,nvtx: use a version that supports the "
               "installed driver, have the permission to profile (ERR_NVGPUCTRPERM), run no other "
               "profiler on the device, and let the program exit by itself";
    if (an_trace_imported(context->trace))
        return an_say(context, AN_SAY_DEVICE,
                      "record again with the kernels and copies of the device switched on, where "
                      "the user may profile it and no other profiler does");
    return "tacho doctor says why CUPTI does not record the device: a driver that is older than "
           "CUPTI, no permission to profile (ERR_NVGPUCTRPERM), or another profiler on it";
}

/* Counts calls by the first words of the names that put work on a device, for the evidence. */
static void device_evidence(struct an_context *context, struct an_finding *finding)
{
    const struct an_trace *trace = context->trace;
    int64_t kernels = 0, copies = 0;
    for (size_t i = 0; i < trace->slice.count; i++) {
        enum an_api_kind kind =
            an_is_launch_call(trace, i) ? an_slice_api(trace, i).kind : AN_API_OTHER;
        kernels += kind == AN_API_KERNEL || kind == AN_API_GRAPH;
        copies += kind == AN_API_COPY || kind == AN_API_MEMSET;
    }
    an_finding_note(context, finding,
                    "%" PRId64 " calls that launch kernels or graphs, %" PRId64
                    " that copy or set memory, 0 operations of a device",
                    kernels, copies);
    for (size_t i = 0; i < trace->loss_count; i++)
        if (strstr(trace->loss[i].reason, "CUDA") || strstr(trace->loss[i].reason, "CUPTI"))
            an_finding_note(context, finding, "the recorder says: %.200s", trace->loss[i].reason);
}

void an_findings_unrecorded(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    if (!context->unrecorded || context->options->live) /* it may still arrive */
        return;
    struct an_finding *finding = an_findings_add(
        findings, "DEVICE_NOT_RECORDED",
        "the host calls a device, and the recorder wrote nothing of what the device did: the "
        "interface for that was not available to it, refused, or lost its records");
    device_evidence(context, finding);
    finding->action = device_action(context);
    an_finding_no_gain(finding);
    finding->verify = "report the new recording: it has the times of the device";
    finding->wrong_when = "never: without its activity it is not known whether the device is busy";
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
    finding->action =
        an_finding_text(context, "%s, and record several", an_command_step_advice(context));
    if (an_trace_imported(context->trace))
        finding->action = "mark steps and record several: prof.step() of torch.profiler, or an "
                          "NVTX range named step around each update";
    an_finding_no_gain(finding);
    finding->effort = "one line of code, another recording";
    finding->verify = "report the new recording: it has a step budget";
    finding->wrong_when = "the program is not a training loop";
}

/* ---- the first iteration --------------------------------------------------------------------- */

/* Does a range say by its name that it initialises the device or loads code for it? */
static bool is_named_start(const struct an_trace *trace, size_t slice)
{
    static const char *const names[] = {"ModuleLoad", "LibraryLoad", "cuInit",     "CtxCreate",
                                        "hipInit",    "CtxRetain",   "ModuleGetF", "Lazy Function"};
    const char *name = an_trace_name(trace, trace->slice.name[slice]),
               *category = an_slice_category(trace, slice);
    if (trace->slice.dur[slice] < NAMED_START_NS ||
        (!an_category_is_call(category) && strcmp(category, "overhead") != 0))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]))
            return true;
    return false;
}

/* Is it a call of the API that takes as long as none does once a program runs: no copy and no
 * synchronise call, and the device does not work while it lasts? */
static bool is_slow_call(const struct an_trace *trace, const struct an_set *busy, size_t slice)
{
    enum an_api_kind kind = an_slice_api(trace, slice).kind;
    int64_t start = trace->slice.start[slice], end = an_slice_end(trace, slice);
    return an_category_is_call(an_slice_category(trace, slice)) &&
           trace->slice.dur[slice] >= SLOW_START_NS && kind != AN_API_SYNC && kind != AN_API_COPY &&
           an_spans_within(busy->span, busy->count, start, end) <
               trace->slice.dur[slice] / 100 * WORKS_PCT;
}

/* Is a time part of what the report counts: a counted step, or the capture without steps? */
static bool is_counted(const struct an_context *context, uint32_t process, int64_t time)
{
    if (!context->result->steps.detailed)
        return true;
    for (size_t lane = 0; lane < context->lane_count; lane++) {
        const struct an_step *step = context->lane[lane].process == process
                                         ? an_step_at_host(context, &context->lane[lane], time)
                                         : NULL;
        if (step && an_step_detailed(step))
            return true;
    }
    return false;
}

/* Do slow calls of a thread go on until the end of the capture? Then the program makes them all the
 * time (it allocates in each step), and they are no start: of calls that are spread evenly the last
 * part has its share. */
static bool slow_calls_stay(const struct an_trace *trace, const struct an_track *track,
                            const struct an_set *busy)
{
    int64_t last = trace->t1 - an_time_sub(trace->t1, trace->t0) / LAST_PART, all = 0, late = 0;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        if (trace->slice.dur[i] == AN_OPEN || is_named_start(trace, i) ||
            !is_slow_call(trace, busy, i))
            continue;
        all = an_time_add(all, trace->slice.dur[i]);
        late = an_time_add(late, trace->slice.start[i] >= last ? trace->slice.dur[i] : 0);
    }
    return late > all / LAST_PART / 2;
}

/* The time that a thread spends in initialising calls, and the longest of them. */
static int64_t start_ns(const struct an_context *context, const struct an_track *track,
                        const struct an_set *busy, uint32_t *longest)
{
    const struct an_trace *trace = context->trace;
    int64_t sum = 0, until = INT64_MIN;
    bool slow_counts = !slow_calls_stay(trace, track, busy);
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        int64_t start = trace->slice.start[i], end = an_slice_end(trace, i);
        if (trace->slice.dur[i] == AN_OPEN || end <= until ||
            !(is_named_start(trace, i) || (slow_counts && is_slow_call(trace, busy, i))) ||
            !is_counted(context, track->process, start))
            continue;
        sum = an_time_add(sum, an_time_sub(end, start > until ? start : until));
        until = end;
        if (*longest == AN_NONE || trace->slice.dur[i] > trace->slice.dur[*longest])
            *longest = (uint32_t)i;
    }
    return sum;
}

/* Host time that is looked at: the counted steps of one thread, or the capture. */
static double host_ns(const struct an_context *context, uint32_t process)
{
    double sum = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (an_step_detailed(step) && context->lane[step->lane].process == process)
            sum += (double)an_time_sub(step->host_end, step->host_start);
    }
    return context->result->steps.detailed
               ? sum
               : (double)an_time_sub(context->trace->t1, context->trace->t0);
}

static void first_iteration_texts(struct an_context *context, struct an_finding *finding,
                                  double pct, int64_t sum, uint32_t longest)
{
    const struct an_trace *trace = context->trace;
    finding->claim = an_finding_text(
        context,
        "the capture holds the start of the program: for %.0f %% of %s the host loads code of the "
        "device or initialises it",
        pct, context->result->steps.detailed ? "the counted steps" : "the capture");
    an_finding_note(context, finding, "%s of one thread in such calls",
                    an_time_words(context->arena, (double)sum / 1e6, 3));
    an_finding_note(context, finding, "longest: %.60s, %s",
                    an_trace_name(trace, trace->slice.name[longest]),
                    an_time_words(context->arena, (double)trace->slice.dur[longest] / 1e6, 3));
    finding->action = "record later steps: tacho run --steps 10:19";
    if (an_trace_from(trace, "kineto"))
        finding->action = "capture later: torch.profiler.schedule(wait=10, warmup=2, active=5) "
                          "with prof.step() in the loop";
    else if (an_trace_from(trace, "nsight"))
        finding->action = "capture later: nsys profile --delay=SECONDS, or a capture range that "
                          "begins after the first steps (--capture-range=cudaProfilerApi)";
    else if (an_trace_imported(trace))
        finding->action = an_say(context, AN_SAY_LATER,
                                 "record later: let the recorder begin when the first steps are "
                                 "over");
    an_finding_no_gain(finding);
    finding->verify = "report the new recording: this finding is gone and the steps are shorter";
    finding->wrong_when = "the start is what you want to look at";
}

/* Looks at captures of the first iterations: what takes time there does not come again. */
static void first_iteration(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_devices *gpu = context->gpu;
    double most = FIRST_PCT;
    int64_t sum = 0;
    uint32_t longest = AN_NONE;
    for (size_t device = 0; device < gpu->device_count; device++)
        for (size_t i = 0; i < context->trace->track_count; i++) {
            const struct an_track *track = &context->trace->track[i];
            uint32_t slice = AN_NONE;
            if (track->process != gpu->device[device].process || strcmp(track->kind, "thread") != 0)
                continue;
            int64_t ns = start_ns(context, track, &gpu->split[device].busy, &slice);
            double pct = an_percent((double)ns, host_ns(context, track->process));
            if (pct < most)
                continue;
            most = pct;
            sum = ns;
            longest = slice;
        }
    if (longest != AN_NONE)
        first_iteration_texts(context, an_findings_add(findings, "FIRST_ITERATION", NULL), most,
                              sum, longest);
}

void an_findings_capture(struct an_findings_list *findings)
{
    if (an_devices_ns(findings->context->result, span_ns) <= 0)
        return;
    first_iteration(findings);
    opaque_graphs(findings);
    incomplete_capture(findings);
    no_steps(findings);
}

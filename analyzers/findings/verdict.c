/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict: one sentence about what the step's time goes to, what limits the run and how sure
 * that is. Without steps it says what was recorded instead and what to do.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

/* A class other than compute gives the run its name from here on, or if it is the largest. */
#define BOUND_PCT     15.0
#define QUOTA_PCT     10.0 /* of the steps' time: as much as other programs must take */
#define WORTH_PCT     2.0  /* a class that is worth a clause */
#define MEMORY_PCT    50.0 /* of the ops' time */
#define MFU_SHOWN_PCT 0.05 /* less is zero in the one digit that is printed */
/* Devices without steps: below them nothing is said of a capture. */
#define OPS_LEAST      20
#define SPAN_LEAST_PCT 1.0 /* of the recording, between the first and the last op */
#define NAMED_MOST     4   /* checks that were not made and are named */

static const char *const bound[AN_CLASS_COUNT] = {
    [AN_CLASS_COMPUTE] = "COMPUTE-BOUND", [AN_CLASS_COMM] = "COMMUNICATION-BOUND",
    [AN_CLASS_BUBBLE] = "PIPELINE-BOUND", [AN_CLASS_COPY] = "COPY-BOUND",
    [AN_CLASS_INPUT] = "INPUT-BOUND",     [AN_CLASS_IO] = "IO-BOUND",
    [AN_CLASS_HOST] = "HOST-BOUND",       [AN_CLASS_UNATTRIBUTED] = "UNEXPLAINED",
};

/* A device that works for most of the step, whatever limits its kernels. */
static const char device_busy[] = "DEVICE-BUSY";

/* What a step does in a class; on a device the host's time is time in which the device idles. */
static const char *const does[AN_CLASS_COUNT] = {
    [AN_CLASS_COMPUTE] = "computes",
    [AN_CLASS_COMM] = "is exposed communication",
    [AN_CLASS_BUBBLE] = "is pipeline bubble",
    [AN_CLASS_COPY] = "is exposed copies",
    [AN_CLASS_INPUT] = "is data wait",
    [AN_CLASS_IO] = "is work of asynchronous phases on the step's thread",
    [AN_CLASS_HOST] = "is host time (framework, ranges that are not operators)",
    [AN_CLASS_UNATTRIBUTED] = "is outside all ranges",
};

static double pct(const struct an_budget *budget, int class)
{
    return an_value_or_0(budget->pct[class]);
}

bool an_mostly_opaque(const struct an_context *context)
{
    double span = an_devices_ns(context->result, span_ns);
    double opaque = an_devices_ns(context->result, opaque_ns);
    return opaque > 0 &&
           100 * opaque / span >= pct(&context->result->budget, AN_CLASS_UNATTRIBUTED) / 2;
}

/* The clause for a class; more exact where the cause is known. */
static const char *does_what(struct an_context *context, int class)
{
    int64_t rank;
    if (class == AN_CLASS_COMM && an_comm_waits_for_one(context, &rank))
        return an_finding_text(
            context, "is exposed communication, most of which waits for rank %" PRId64, rank);
    if (class == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(context))
        return "is mostly opaque: the device was busy with graphs whose kernels were not recorded";
    if (context->gpu && class == AN_CLASS_HOST)
        return "leaves the device idle while the host launches, waits or is in the framework";
    if (context->gpu && class == AN_CLASS_UNATTRIBUTED)
        return an_verdict_idle(context);
    if (class == AN_CLASS_UNATTRIBUTED && context->result->python.holder)
        return an_finding_text(context, "is outside all ranges, most of it in %s",
                               context->result->python.holder);
    return does[class];
}

/* The largest class other than compute. */
static enum an_class other_than_compute(const struct an_budget *budget)
{
    int most = AN_CLASS_COMM;
    for (int class = 0; class < AN_CLASS_COUNT; class ++)
        if (class != AN_CLASS_COMPUTE && pct(budget, class) > pct(budget, most))
            most = class;
    return (enum an_class)most;
}

enum an_class an_bound_class(const struct an_budget *budget)
{
    enum an_class other = other_than_compute(budget);
    double share = pct(budget, (int)other);
    return share >= BOUND_PCT || share > pct(budget, AN_CLASS_COMPUTE) ? other : AN_CLASS_COMPUTE;
}

/* Was nothing found by the checks that were made, while others could not be made? */
static bool is_all_clear(const struct an_result *result)
{
    return !result->finding_count && result->not_checked_count;
}

/* " NOT checked: precision, batch size; to check: tacho calibrate --quick.": the first ones, and
 * what brings the first. */
static const char *not_checked_words(struct an_context *context)
{
    const struct an_result *result = context->result;
    const char *names = "";
    for (size_t i = 0; i < result->not_checked_count && i < NAMED_MOST; i++)
        names =
            an_finding_text(context, "%s%s%s", names, i ? ", " : "", result->not_checked[i].check);
    if (result->not_checked_count > NAMED_MOST)
        names = an_finding_text(context, "%s and %zu more", names,
                                result->not_checked_count - NAMED_MOST);
    return an_finding_text(context, " NOT checked: %s; to check: %s.", names,
                           result->not_checked[0].to_check);
}

/* "(steps 2-119, high confidence)", "(step 4, low confidence, short of cores)" */
static const char *basis(struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    enum an_confidence confidence = an_confidence_of(context);
    if (is_all_clear(context->result) && confidence > AN_MEDIUM)
        confidence = AN_MEDIUM; /* what was not checked can be the cause */
    const char *later = context->ceilings_later ? ", peaks measured after the recording" : "";
    const char *level =
        an_finding_text(context, "%s confidence%s%s", an_confidence_text(confidence),
                        context->result->caution ? ", short of cores" : "", later);
    if (steps->first_index == steps->last_index)
        return an_finding_text(context, "(step %" PRId64 ", %s)", steps->first_index, level);
    return an_finding_text(context, "(steps %" PRId64 "-%" PRId64 ", %s)", steps->first_index,
                           steps->last_index, level);
}

static const char *peak_words(struct an_context *context)
{
    const struct an_utilization *utilization = &context->result->utilization;
    if (!utilization->mfu.valid)
        return "";
    double pct = 100 * utilization->mfu.value;
    const char *peak = utilization->dtype ? utilization->dtype : "given";
    if (pct < MFU_SHOWN_PCT) /* one digit would say that nothing was computed */
        return an_finding_text(context, ", at less than 0.1 %% of the %s peak", peak);
    return an_finding_text(context, ", at %.1f %% of the %s peak", pct, peak);
}

bool an_op_is_work(const struct an_op *op)
{
    static const char *const kinds[] = {"matrix", "attention", "convolution", "other"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(op->kind, kinds[i]))
            return true;
    return false;
}

/* Largest op by self time among those that are work. On a device it is not named if the time that
 * no op launched exceeds its own: another op may be larger. */
static const char *op_words(struct an_context *context)
{
    const struct an_attribution *attribution = &context->result->attribution[0];
    if (context->gpu && !attribution->reason && attribution->row_count &&
        attribution->rows[0].share_pct.valid &&
        attribution->rows[0].device_ns > attribution->unattributed_ns)
        return an_finding_text(context, "; largest op: %.60s, %.0f %% of device time",
                               attribution->rows[0].name, attribution->rows[0].share_pct.value);
    if (context->gpu)
        return "";
    const struct an_op *largest = NULL;
    double all = 0;
    for (size_t i = 0; i < context->result->op_count; i++) {
        const struct an_op *op = &context->result->ops[i];
        if (!an_op_is_work(op))
            continue;
        if (!largest) /* ops are sorted, the largest first */
            largest = op;
        all += (double)op->self_ns;
    }
    if (!largest || all <= 0)
        return "";
    return an_finding_text(context, "; largest op: %.60s, %.0f %% of the ops' time", largest->name,
                           100 * (double)largest->self_ns / all);
}

/* The second level, after the sentence of a device that is busy. */
static const char *device_words(struct an_context *context)
{
    const char *sentence = context->gpu ? context->result->bounds.sentence : NULL;
    return sentence ? an_finding_text(context, " %s", sentence) : "";
}

/* "; operations with 62 % of the ops' time run at the speed of memory", for a run that they give
 * its name. */
static const char *memory_words(struct an_context *context)
{
    const struct an_result *result = context->result;
    if (context->gpu || strcmp(result->verdict_class, "MEMORY-BOUND") != 0)
        return "";
    return an_finding_text(context,
                           "; operations with %.0f %% of the ops' time run at the speed of memory",
                           an_memory_speed_pct(result));
}

/* "HOST-BOUND", or the more exact name that a finding gave it. */
static const char *bound_name(const struct an_context *context, enum an_class class)
{
    const struct an_result *result = context->result;
    int64_t rank;
    if (class == AN_CLASS_COMM && an_comm_waits_for_one(context, &rank))
        return "STRAGGLER-BOUND"; /* the link does not limit the run */
    if (class == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(context))
        return "OPAQUE";
    if (class == AN_CLASS_UNATTRIBUTED && result->python.holder)
        return bound[AN_CLASS_HOST];
    if (class == AN_CLASS_COMPUTE && context->gpu)
        return device_busy; /* what binds its kernels is the second level */
    if (class == AN_CLASS_COMPUTE && an_memory_speed_pct(result) >= MEMORY_PCT)
        return "MEMORY-BOUND";
    for (size_t i = 0; i < result->finding_count; i++)
        if (class == AN_CLASS_HOST && !strcmp(result->findings[i].id, "LAUNCH_BOUND"))
            return "LAUNCH-BOUND";
    return bound[class];
}

/* The verdict of a run with a step budget. A class other than compute that is larger than compute
 * is followed by compute, else it is set against it. */
static void by_budget(struct an_context *context)
{
    struct an_result *result = context->result;
    const struct an_budget *budget = &result->budget;
    int other = (int)other_than_compute(budget);
    double compute_pct = pct(budget, AN_CLASS_COMPUTE), other_pct = pct(budget, other);
    if ((int)an_bound_class(budget) == other) {
        result->verdict_class = bound_name(context, (enum an_class)other);
        result->verdict = an_finding_text(
            context, "%s: %.1f %% of every step %s%s %.1f %% computes%s %s.", result->verdict_class,
            other_pct, does_what(context, other), other_pct > compute_pct ? ";" : ", while",
            compute_pct, peak_words(context), basis(context));
        return;
    }
    const char *rest = other_pct < WORTH_PCT ? op_words(context)
                                             : an_finding_text(context, "; %.1f %% %s", other_pct,
                                                               does_what(context, other));
    const char *clear = is_all_clear(result) ? "NO PROBLEM FOUND, " : "";
    result->verdict_class = bound_name(context, AN_CLASS_COMPUTE);
    result->verdict =
        an_finding_text(context, "%s%s: %.1f %% of every step computes%s%s%s %s.%s%s%s",
                        result->healthy ? "HEALTHY, " : clear, result->verdict_class, compute_pct,
                        peak_words(context), memory_words(context), rest, basis(context),
                        device_words(context), context->gpu ? an_verdict_pace(context) : "",
                        is_all_clear(result) ? not_checked_words(context) : "");
}

/* "; next: INPUT_STALL": what there is to do in the run itself, if that may make it faster; "". */
static const char *next_words(struct an_context *context)
{
    const struct an_result *result = context->result;
    if (result->finding_count < 2)
        return "";
    enum an_listed listing = an_finding_listed(&result->findings[1]);
    if (listing != AN_LISTED_RANKED && listing != AN_LISTED_MEASURE)
        return "";
    return an_finding_text(context, "; next: %s", result->findings[1].id);
}

/* The verdict of a run that other programs hold back more than anything in it. */
static void by_others(struct an_context *context)
{
    struct an_result *result = context->result;
    const struct an_system *system = &result->system;
    result->verdict_class = "OTHER PROGRAMS";
    result->verdict = an_finding_text(
        context,
        "OTHER PROGRAMS hold this run back: they used %.1f of %s CPUs, and for %.0f %% of every "
        "step its thread waits for a core that they have%s %s.",
        system->other_cores.value, an_trace_key(context->trace, "cpu.online"),
        system->others_lost_pct.value, next_words(context), basis(context));
}

/* The verdict of a run that its CPU quota holds back more than anything in it. */
static void by_quota(struct an_context *context)
{
    struct an_result *result = context->result;
    result->verdict_class = "CPU QUOTA";
    result->verdict = an_finding_text(
        context,
        "CPU QUOTA holds this run back: its control group may use %.3g cores, and for %.0f %% of "
        "every step its thread could not run because they were spent%s %s.",
        result->system.cpu_quota.value, result->system.throttled_pct.value, next_words(context),
        basis(context));
}

/* The same for memory: the account of the group's tasks. */
static void by_pressure(struct an_context *context)
{
    struct an_result *result = context->result;
    result->verdict_class = "MEMORY PRESSURE";
    result->verdict = an_finding_text(context,
                                      "MEMORY PRESSURE holds this run back: for %.0f %% of every "
                                      "step tasks of %s wait for memory, "
                                      "all of them at once for %.0f %% %s.",
                                      result->pressure.some_pct.value, result->pressure.scope,
                                      result->pressure.full_pct.value, basis(context));
}

static bool is_pressure(const struct an_result *result)
{
    return result->finding_count && !strcmp(result->findings[0].id, "MEMORY_PRESSURE") &&
           !result->findings[0].gain.ceiling && result->pressure.full_pct.value >= QUOTA_PCT;
}

/* Is the first finding the quota, with as much of the steps' time as other programs must take to be
 * the verdict? */
static bool is_quota(const struct an_result *result)
{
    return result->finding_count && !strcmp(result->findings[0].id, "CPU_QUOTA") &&
           an_value_or_0(result->system.throttled_pct) >= QUOTA_PCT;
}

/* ---- devices without steps ------------------------------------------------------------------- */

/* The parts of a capture that get a name; the rest of the devices' span is opaque. */
static const struct {
    const char *name, *what;
    size_t offset; /* of the count in struct an_gpu_device */
} parts[] = {
    {device_busy, "compute", offsetof(struct an_gpu_device, compute_ns)},
    {"COMMUNICATION-BOUND", "exposed communication",
     offsetof(struct an_gpu_device, exposed_comm_ns)},
    {"COPY-BOUND", "exposed copies", offsetof(struct an_gpu_device, exposed_copy_ns)},
    {"DEVICE IDLE", "idle time", offsetof(struct an_gpu_device, idle_ns)},
};
#define PARTS (sizeof parts / sizeof *parts)

const char *an_too_little(struct an_context *context)
{
    const struct an_result *result = context->result;
    double span_ms = an_devices_ns(result, span_ns) / 1e6, recorded_ms = 0;
    int64_t ops = 0;
    if (context->step_count)
        return NULL;
    for (size_t i = 0; i < result->gpu_count; i++)
        ops += result->gpus[i].ops;
    if (result->run.duration_s.valid)
        recorded_ms = 1e3 * result->run.duration_s.value;
    if (ops >= OPS_LEAST && 100 * span_ms >= SPAN_LEAST_PCT * recorded_ms)
        return NULL;
    return an_finding_text(context,
                           "%" PRId64 " device operation%s, within %s of the %s that were recorded",
                           ops, ops == 1 ? "" : "s", an_time_words(context->arena, span_ms, 3),
                           an_time_words(context->arena, recorded_ms, 3));
}

/* The verdict of a capture without steps: the whole capture, in shares of the devices' spans. */
static void by_capture(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *little = an_too_little(context);
    if (little) {
        result->verdict_class = "TOO LITTLE DATA";
        result->verdict = an_finding_text(
            context, "TOO LITTLE DATA: %s: too little for a verdict. Record several steps.",
            little);
        return;
    }
    double span = an_devices_ns(result, span_ns), share[PARTS], opaque_pct = span;
    size_t most = 1;
    for (size_t i = 0; i < PARTS; i++) {
        double part = an_devices_sum(result, parts[i].offset);
        opaque_pct -= part;
        share[i] = 100 * part / span;
        if (i && share[i] > share[most])
            most = i;
    }
    opaque_pct = 100 * opaque_pct / span;
    bool named = share[most] >= BOUND_PCT || share[most] > share[0];
    result->verdict_class = parts[named ? most : 0].name;
    const char *opaque = "", *missing = "no complete steps";
    if (context->options->some_steps)
        missing = "none of the requested steps";
    if (opaque_pct >= WORTH_PCT)
        opaque = an_finding_text(context, ", %.1f %% opaque graphs", opaque_pct);
    if (opaque_pct >= WORTH_PCT && opaque_pct > share[0] && opaque_pct > share[most])
        result->verdict_class = "OPAQUE";
    /* what gives the verdict its name comes first */
    size_t first = result->verdict_class == parts[most].name ? most : 0, second = most - first;
    result->verdict = an_finding_text(
        context,
        "%s: %.1f %% of the %s recorded on %zu %s is %s, %.1f %% %s%s (%s: the whole capture, low "
        "confidence).%s",
        result->verdict_class, share[first], an_time_words(context->arena, span / 1e6, 4),
        result->gpu_count, result->gpu_count == 1 ? "device" : "devices", parts[first].what,
        share[second], parts[second].what, opaque, missing,
        result->verdict_class == device_busy ? device_words(context) : "");
}

/* The user asked for steps (--steps) that the run does not have. */
static const char *none_of_those(struct an_context *context)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < context->step_count; i++) {
        if (context->step[i].index < low)
            low = context->step[i].index;
        if (context->step[i].index > high)
            high = context->step[i].index;
    }
    return an_finding_text(context,
                           "STEPS ONLY: no requested step (--steps) is complete in this run; those "
                           "of the run are %" PRId64 " to %" PRId64 ".",
                           low, high);
}

/* Did PyTorch run backward? Its hook names that range, and what else it names has a role on the
 * CPU: steps of which nothing has one are those of a device. */
static bool has_backward(const struct an_trace *trace)
{
    for (size_t i = 0; i < trace->string_count; i++)
        if (!strcmp(trace->string[i], "backward"))
            return true;
    return false;
}

/* What to do where it is not known what a step is spent on. */
static const char *what_next(const struct an_context *context)
{
    if (an_trace_from(context->trace, "log") || an_trace_from(context->trace, "tfevents"))
        return "a log does not say what it is spent on: record some steps with 'tacho run -- CMD' "
               "or torch.profiler";
    if (an_command_framework(context) == AN_FRAMEWORK_TORCH && has_backward(context->trace))
        return "the work of its device is not in the file: a trace of torch.profiler has it, and "
               "'tacho report' reads that";
    if (an_trace_imported(context->trace))
        return "tacho report --section ops has the time of each range";
    return an_command_marks(context,
                            "tacho report --section ops has the time of each range; to name more, "
                            "use range() of the module tacho",
                            "payloads of include/tacho_nvtx.h make the rest visible");
}

/* The verdict of steps whose ranges do not say what they are: only how long a step lasts. */
static void by_ranges(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *part = "";
    double host = pct(&result->budget, AN_CLASS_HOST);
    result->verdict_class = "STEPS ONLY";
    if (!result->budget.reason)
        part = an_finding_text(context,
                               "; %.1f %% of it is inside ranges that do not say what they are, "
                               "%.1f %% outside all ranges",
                               host, pct(&result->budget, AN_CLASS_UNATTRIBUTED));
    if (!result->steps.median_ms.valid && context->options->some_steps && context->step_count)
        result->verdict = none_of_those(context);
    else if (!result->steps.median_ms.valid)
        result->verdict = an_finding_text(context, "STEPS ONLY: steps were marked (%s) but %s.",
                                          result->steps.source, an_verdict_no_step(context));
    else
        result->verdict = an_finding_text(
            context, "STEPS ONLY: a step lasts %s (median of %" PRId64 ", from %.120s)%s; %s.",
            an_time_words(context->arena, result->steps.median_ms.value, 4), result->steps.counted,
            result->steps.source, part, what_next(context));
}

/* What the system layer says of a program without steps: how many cores it kept busy. *class: the
 * name of that. */
static const char *load_words(struct an_context *context, const char **class)
{
    const struct an_system *system = &context->result->system;
    *class = "NO STEPS";
    if (!system->cpu_cores.valid)
        return an_finding_text(context,
                               "there are too few samples to say how busy the machine was: %s",
                               system->cpu_cores.reason);
    double used = system->cpu_cores.value, cores = an_count_or_0(context->result->run.cores);
    const char *of = cores > 0 ? an_finding_text(context, " of %.0f", cores) : "";
    if (cores > 0 && used >= 0.9 * cores) {
        *class = "CPU-BOUND";
        return an_finding_text(context, "the program kept %.2f%s cores busy: it is CPU-bound", used,
                               of);
    }
    if (used >= 0.9 && used <= 1.1) {
        *class = "ONE CORE";
        return an_finding_text(
            context, "the program kept %.2f%s cores busy: one thread does the work", used, of);
    }
    if (used < 0.3) {
        bool taken = cores > 0 && used + an_value_or_0(system->other_cores) >= 0.9 * cores;
        *class = taken ? *class : "IDLE";
        return an_finding_text(context, "the program kept %.2f%s cores busy: %s", used, of,
                               taken ? "other programs took the rest" : "it mostly waits");
    }
    return an_finding_text(context, "the program kept %.2f%s cores busy", used, of);
}

/* What makes the steps of this run visible. */
static const char *step_advice(struct an_context *context)
{
    const char *missing = an_trace_key(context->trace, "hook.missing");
    if (an_trace_imported(context->trace))
        return an_findings_step_advice(context);
    if (missing)
        return an_finding_text(context,
                               "PyTorch was loaded without tacho's hook, which records its steps, "
                               "because %.300s",
                               missing);
    const char *advice = an_command_step_advice(context);
    return an_finding_text(context, "%c%s", toupper((unsigned char)*advice), advice + 1);
}

/* The verdict of a trace of another tool that has neither steps nor ranges. */
static const char *of_foreign(const struct an_context *context)
{
    if (an_trace_from(context->trace, "pprof"))
        return "NO STEPS: a profile says where the processor's time went, not when: tacho export "
               "RUN --format stacks (flame graph), --format pprof-stacks.";
    return "NO STEPS: the trace holds no operator, kernel or range, only metadata. The trust "
           "section lists what of the file could not be read.";
}

/* The verdict of a run without steps. A trace of another tool is named NO STEPS, a program without
 * any range by its use of the processor. */
static void without_steps(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *class = NULL, *load = load_words(context, &class);
    size_t ranges = context->trace->slice.count;
    const char *time = "", *nothing = ranges ? NULL : an_verdict_nothing(context, &class);
    if (result->run.duration_s.valid)
        time =
            an_finding_text(context, " in %s",
                            an_time_words(context->arena, result->run.duration_s.value * 1e3, 3));

    bool foreign = an_trace_imported(context->trace);
    result->verdict_class = ranges || foreign ? "NO STEPS" : class;
    const char *failed = an_verdict_failed(context);
    if (failed) {
        result->verdict_class = "NO STEPS";
        result->verdict = failed;
    } else if (ranges)
        result->verdict = an_finding_text(
            context, "NO STEPS: no steps were marked, %zu ranges were recorded%s; %s. %s.", ranges,
            time, load, step_advice(context));
    else if (foreign)
        result->verdict = of_foreign(context);
    else if (nothing)
        result->verdict =
            an_finding_text(context, "%s: %s;%s %s.", result->verdict_class, nothing, time, load);
    else if (an_trace_key(context->trace, "hook.missing"))
        result->verdict =
            an_finding_text(context, "%s:%s %s. %s.", class, time, load, step_advice(context));
    else
        result->verdict = an_finding_text(
            context,
            "%s:%s %s. It recorded no NVTX ranges, so only the system layer is known: mark each "
            "optimizer update with an NVTX range named step to see where its time goes.",
            class, time, load);
}

/* Chooses the form of the sentence by what was recorded: a budget, devices without steps, steps
 * without roles, or no steps. */
static int verdict_run(struct an_context *context)
{
    const char *known = an_verdict_memory(context);
    if (!known)
        known = an_verdict_unrecorded(context);
    bool devices = context->gpu && an_devices_ns(context->result, span_ns) > 0;
    bool others = an_findings_others_of(context->result->findings,
                                        context->result->finding_count ? 1 : 0) != NULL;
    if (known)
        context->result->verdict = known;
    else if (others)
        by_others(context);
    else if (is_quota(context->result))
        by_quota(context);
    else if (is_pressure(context->result))
        by_pressure(context);
    else if (devices && (context->result->budget.reason || !context->result->budget.roles_known))
        by_capture(context);
    else if (!context->step_count)
        without_steps(context);
    else if (context->result->budget.reason || !context->result->budget.roles_known)
        by_ranges(context);
    else
        by_budget(context);
    return an_verdict_loss(context);
}

static void verdict_absent(struct an_context *context, const char *reason)
{
    context->result->verdict = reason;
    context->result->verdict_class = "";
}

const struct an_analyzer an_verdict = {
    .name = "verdict",
    .help = "the run in one sentence",
    .after = "steps, gpu, budget, attribution, utilization, roofline, ops, critical path, system, "
             "contention, pressure, allocator, flight, trust, findings",
    .run = verdict_run,
    .absent = verdict_absent,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * One sentence: what the step's time goes to, what holds the run back, how sure that is. Without
 * steps it says what there is instead and what to do.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define BOUND_PCT \
    15.0 /* a class other than compute that gives the run its name; so does the largest one */
#define WORTH_PCT 2.0 /* one that is worth a clause */

static const char *const bound[AN_CLASS_COUNT] = {
    [AN_CLASS_COMPUTE] = "COMPUTE-BOUND", [AN_CLASS_COMM] = "COMMUNICATION-BOUND",
    [AN_CLASS_BUBBLE] = "PIPELINE-BOUND", [AN_CLASS_COPY] = "COPY-BOUND",
    [AN_CLASS_INPUT] = "INPUT-BOUND",     [AN_CLASS_IO] = "IO-BOUND",
    [AN_CLASS_HOST] = "HOST-BOUND",       [AN_CLASS_UNATTRIBUTED] = "UNEXPLAINED",
};

/* What a step does in a class; on a device the host's time is time in which the device idles. */
static const char *const does[AN_CLASS_COUNT] = {
    [AN_CLASS_COMPUTE] = "computes",
    [AN_CLASS_COMM] = "is exposed communication",
    [AN_CLASS_BUBBLE] = "is pipeline bubble",
    [AN_CLASS_COPY] = "is exposed copies",
    [AN_CLASS_INPUT] = "waits for the loader",
    [AN_CLASS_IO] = "is what asynchronous phases leave on the step's thread",
    [AN_CLASS_HOST] = "is host time (framework, ranges that are no ops)",
    [AN_CLASS_UNATTRIBUTED] = "is covered by no range",
};

static double pct(const struct an_budget *budget, int k)
{
    return budget->pct[k].valid ? budget->pct[k].value : 0;
}

bool an_mostly_opaque(const struct an_context *context)
{
    double span = 0, opaque = 0;
    for (size_t i = 0; i < context->result->gpu_count; i++) {
        const struct an_gpu_device *device = &context->result->gpus[i];
        span += an_count_or_0(device->span_ns);
        opaque += an_count_or_0(device->opaque_ns);
    }
    return opaque > 0 &&
           100 * opaque / span >= pct(&context->result->budget, AN_CLASS_UNATTRIBUTED) / 2;
}

static const char *does_what(struct an_context *context, int k)
{
    int64_t rank;
    if (k == AN_CLASS_COMM && an_comm_waits_for_one(context, &rank))
        return an_finding_text(
            context, "is exposed communication, most of which waits for rank %" PRId64, rank);
    if (k == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(context))
        return "is mostly opaque: the device was busy with graphs of which the kernels were not "
               "recorded";
    if (context->gpu && k == AN_CLASS_HOST)
        return "leaves the device idle while the host launches, waits or is in the framework";
    if (context->gpu && k == AN_CLASS_UNATTRIBUTED)
        return "leaves the device idle for no known reason";
    return does[k];
}

/* Largest class but compute. */
static enum an_class other_than_compute(const struct an_budget *budget)
{
    int most = AN_CLASS_COMM;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        most = k != AN_CLASS_COMPUTE && pct(budget, k) > pct(budget, most) ? k : most;
    return (enum an_class)most;
}

enum an_class an_bound_class(const struct an_budget *budget)
{
    enum an_class holds = other_than_compute(budget);
    return pct(budget, (int)holds) >= BOUND_PCT ||
                   pct(budget, (int)holds) > pct(budget, AN_CLASS_COMPUTE)
               ? holds
               : AN_CLASS_COMPUTE;
}

/* "(steps 2-119, high confidence)", "(step 4, low confidence, short of cores)" */
static const char *basis(struct an_context *context)
{
    const struct an_steps *steps = &context->result->steps;
    const char *level =
        an_finding_text(context, "%s confidence%s", an_confidence_text(an_confidence_of(context)),
                        !context->result->caution ? "" : ", short of cores");
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
    return an_finding_text(context, ", at %.1f %% of the %s peak", 100 * utilization->mfu.value,
                           utilization->dtype ? utilization->dtype : "given");
}

bool an_op_is_work(const struct an_op *o)
{
    static const char *const kinds[] = {"matrix", "attention", "convolution", "other"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(o->kind, kinds[k]))
            return true;
    return false;
}

/* Largest op by self time among those that are work. */
static const char *op_words(struct an_context *context)
{
    const struct an_attribution *attribution = &context->result->attribution[0];
    if (context->gpu && !attribution->reason && attribution->row_count &&
        attribution->rows[0].share_pct.valid)
        return an_finding_text(context, "; largest op: %.60s, %.0f %% of device time",
                               attribution->rows[0].name, attribution->rows[0].share_pct.value);
    if (context->gpu)
        return "";
    const struct an_op *largest = NULL;
    double all = 0;
    for (size_t i = 0; i < context->result->op_count; i++) {
        const struct an_op *o = &context->result->ops[i];
        if (!an_op_is_work(o))
            continue;
        largest = largest ? largest : o;
        all += (double)o->self_ns;
    }
    if (!largest || all <= 0)
        return "";
    return an_finding_text(context, "; largest op: %.60s, %.0f %% of the ops' time", largest->name,
                           100 * (double)largest->self_ns / all);
}

/* "HOST-BOUND", or the more exact name that a finding gave it. */
static const char *bound_name(const struct an_context *context, enum an_class class)
{
    const struct an_result *result = context->result;
    int64_t rank;
    if (class == AN_CLASS_COMM && an_comm_waits_for_one(context, &rank))
        return "STRAGGLER-BOUND"; /* the link is not what holds the run back */
    if (class == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(context))
        return "OPAQUE";
    for (size_t i = 0; i < result->finding_count; i++)
        if (class == AN_CLASS_HOST && !strcmp(result->findings[i].id, "LAUNCH_BOUND"))
            return "LAUNCH-BOUND";
    return bound[class];
}

static void by_budget(struct an_context *context)
{
    struct an_result *result = context->result;
    const struct an_budget *budget = &result->budget;
    enum an_class holds = other_than_compute(budget);
    if (an_bound_class(budget) == holds) {
        result->verdict_class = bound_name(context, holds);
        if (pct(budget, (int)holds) > pct(budget, AN_CLASS_COMPUTE))
            result->verdict = an_finding_text(
                context, "%s: %.1f %% of every step %s; %.1f %% computes%s %s.",
                result->verdict_class, pct(budget, (int)holds), does_what(context, (int)holds),
                pct(budget, AN_CLASS_COMPUTE), peak_words(context), basis(context));
        else
            result->verdict = an_finding_text(
                context, "%s: %.1f %% of every step %s, while %.1f %% computes%s %s.",
                result->verdict_class, pct(budget, (int)holds), does_what(context, (int)holds),
                pct(budget, AN_CLASS_COMPUTE), peak_words(context), basis(context));
        return;
    }
    const char *rest = pct(budget, (int)holds) < WORTH_PCT
                           ? op_words(context)
                           : an_finding_text(context, "; %.1f %% %s", pct(budget, (int)holds),
                                             does_what(context, (int)holds));
    result->verdict_class = bound[AN_CLASS_COMPUTE];
    result->verdict =
        an_finding_text(context, "%s%s: %.1f %% of every step computes%s%s %s.",
                        result->healthy ? "HEALTHY, " : "", result->verdict_class,
                        pct(budget, AN_CLASS_COMPUTE), peak_words(context), rest, basis(context));
}

/* ---- devices without steps ---------------------------------------------------------------------------------------------- */

/* The capture in shares of the devices' spans. */
struct capture {
    double span, part[4]; /* compute, communication, copies, idle; opaque is the rest */
};

static struct capture capture_of(const struct an_result *result)
{
    struct capture capture = {0};
    for (size_t i = 0; i < result->gpu_count; i++) {
        const struct an_gpu_device *device = &result->gpus[i];
        const struct an_count *parts[] = {&device->compute_ns, &device->exposed_comm_ns,
                                          &device->exposed_copy_ns, &device->idle_ns};
        capture.span += an_count_or_0(device->span_ns);
        for (size_t k = 0; k < 4; k++)
            capture.part[k] += parts[k]->valid ? (double)parts[k]->value : 0;
    }
    return capture;
}

/* Steps are missing: the whole capture has to do. */
static void by_capture(struct an_context *context)
{
    static const char *const names[] = {"COMPUTE-BOUND", "COMMUNICATION-BOUND", "COPY-BOUND",
                                        "DEVICE IDLE"};
    static const char *const what[] = {"compute", "exposed communication", "exposed copies",
                                       "an idle device"};
    struct an_result *result = context->result;
    struct capture capture = capture_of(result);
    size_t most = 1;
    for (size_t k = 1; k < 4; k++)
        most = capture.part[k] > capture.part[most] ? k : most;
    double other = 100 * capture.part[most] / capture.span,
           compute = 100 * capture.part[0] / capture.span;
    size_t name = other >= BOUND_PCT || other > compute ? most : 0;
    const char *opaque = "";
    double rest =
        100 *
        (capture.span - capture.part[0] - capture.part[1] - capture.part[2] - capture.part[3]) /
        capture.span;
    if (rest >= WORTH_PCT) {
        opaque = an_finding_text(context, ", %.1f %% opaque graphs", rest);
        name = rest > compute && rest > other ? 4 : name;
    }
    result->verdict_class = name == 4 ? "OPAQUE" : names[name];
    result->verdict =
        an_finding_text(context,
                        "%s: of the %s on %zu %s that were recorded %.1f %% is compute, %.1f %% "
                        "%s%s (%s: the whole capture, low confidence).",
                        result->verdict_class, an_time_words(context->arena, capture.span / 1e6, 4),
                        result->gpu_count, result->gpu_count == 1 ? "device" : "devices", compute,
                        other, what[most], opaque,
                        context->options->some_steps ? "none of the steps that were asked for"
                                                     : "no complete steps");
}

/* --steps asked for others than the run has. */
static const char *none_of_those(struct an_context *context)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < context->step_count; i++) {
        low = context->step[i].index < low ? context->step[i].index : low;
        high = context->step[i].index > high ? context->step[i].index : high;
    }
    return an_finding_text(context,
                           "STEPS ONLY: no step that was asked for (--steps) is complete in this "
                           "run; those of the run are %" PRId64 " to %" PRId64 ".",
                           low, high);
}

/* Steps whose ranges do not say what they are: the largest range is all that can be named. */
static void by_ranges(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *part = "";
    double host = pct(&result->budget, AN_CLASS_HOST);
    result->verdict_class = "STEPS ONLY";
    if (!result->budget.reason)
        part = an_finding_text(
            context,
            "; %.1f %% of it is inside ranges that do not say what they are, %.1f %% inside none",
            host, pct(&result->budget, AN_CLASS_UNATTRIBUTED));
    if (!result->steps.median_ms.valid && context->options->some_steps && context->step_count)
        result->verdict = none_of_those(context);
    else if (!result->steps.median_ms.valid)
        result->verdict = an_finding_text(context,
                                          "STEPS ONLY: steps were marked (%s) but none is "
                                          "complete; let the run go on for some steps.",
                                          result->steps.source);
    else
        result->verdict = an_finding_text(
            context,
            "STEPS ONLY: a step lasts %s (median of %" PRId64
            ", from %.80s)%s; payloads of include/tacho_nvtx.h make the rest visible.",
            an_time_words(context->arena, result->steps.median_ms.value, 4), result->steps.counted,
            result->steps.source, part);
}

/* What the system layer says of a program without steps. */
static const char *load_words(struct an_context *context, const char **class)
{
    const struct an_system *system = &context->result->system;
    *class = "NO STEPS";
    if (!system->cpu_cores.valid)
        return an_finding_text(context,
                               "too little was sampled to tell how busy the machine was: %s",
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
        *class = "IDLE";
        return an_finding_text(context, "the program kept %.2f%s cores busy: it mostly waits", used,
                               of);
    }
    return an_finding_text(context, "the program kept %.2f%s cores busy", used, of);
}

static void without_steps(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *class = NULL, *load = load_words(context, &class);
    size_t ranges = context->trace->slice.count;
    const char *time =
        result->run.duration_s.valid
            ? an_finding_text(context, " in %s",
                              an_time_words(context->arena, result->run.duration_s.value * 1e3, 3))
            : "";
    bool foreign = an_trace_key(context->trace, "source");
    result->verdict_class = ranges || foreign ? "NO STEPS" : class;
    if (ranges)
        result->verdict = an_finding_text(
            context, "NO STEPS: no steps were marked, %zu ranges were recorded%s; %s. %s.", ranges,
            time, load,
            foreign ? "Record with torch.profiler and call its step() after each update, or mark "
                      "each update with an NVTX range named step"
                    : "Mark each optimizer update with an NVTX range named step, or with "
                      "tacho.step of include/tacho_nvtx.h");
    else if (foreign)
        result->verdict = "NO STEPS: the trace holds no operator, kernel or range, only what "
                          "describes it. Trust says what of the file could not be read.";
    else
        result->verdict = an_finding_text(
            context,
            "%s:%s %s. It spoke no NVTX, so only the system layer is known: mark each optimizer "
            "update with an NVTX range named step to see where its time goes.",
            class, time, load);
}

static int verdict_run(struct an_context *context)
{
    bool devices = context->gpu && capture_of(context->result).span > 0;
    if (devices && (context->result->budget.reason || !context->result->budget.roles_known))
        by_capture(context);
    else if (!context->step_count)
        without_steps(context);
    else if (context->result->budget.reason || !context->result->budget.roles_known)
        by_ranges(context);
    else
        by_budget(context);
    return 0;
}

static void verdict_absent(struct an_context *context, const char *reason)
{
    context->result->verdict = reason;
    context->result->verdict_class = "";
}

const struct an_analyzer an_verdict = {
    .name = "verdict",
    .help = "the run in one sentence",
    .after =
        "steps, gpu, budget, attribution, utilization, ops, system, contention, trust, findings",
    .run = verdict_run,
    .absent = verdict_absent,
};

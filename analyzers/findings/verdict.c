/* SPDX-License-Identifier: Apache-2.0
 *
 * One sentence: what the step's time goes to, what holds the run back, how sure that is. Without
 * steps it says what there is instead and what to do.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"

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

static double pct(const struct an_budget *b, int k)
{
    return b->pct[k].valid ? b->pct[k].value : 0;
}

bool an_mostly_opaque(const struct an_context *c)
{
    double span = 0, opaque = 0;
    for (size_t i = 0; i < c->r->gpu_count; i++) {
        const struct an_gpu_device *d = &c->r->gpus[i];
        span += d->span_ns.valid ? (double)d->span_ns.value : 0;
        opaque += d->opaque_ns.valid ? (double)d->opaque_ns.value : 0;
    }
    return opaque > 0 && 100 * opaque / span >= pct(&c->r->budget, AN_CLASS_UNATTRIBUTED) / 2;
}

static const char *does_what(struct an_context *c, int k)
{
    int64_t rank;
    if (k == AN_CLASS_COMM && an_comm_waits_for_one(c, &rank))
        return an_arena_format(
            c->a, "is exposed communication, most of which waits for rank %" PRId64, rank);
    if (k == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(c))
        return "is mostly opaque: the device was busy with graphs of which the kernels were not "
               "recorded";
    if (c->gpu && k == AN_CLASS_HOST)
        return "leaves the device idle while the host launches, waits or is in the framework";
    if (c->gpu && k == AN_CLASS_UNATTRIBUTED)
        return "leaves the device idle for no known reason";
    return does[k];
}

/* Largest class but compute. */
static enum an_class other_than_compute(const struct an_budget *b)
{
    int most = AN_CLASS_COMM;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        most = k != AN_CLASS_COMPUTE && pct(b, k) > pct(b, most) ? k : most;
    return (enum an_class)most;
}

enum an_class an_bound_class(const struct an_budget *b)
{
    enum an_class holds = other_than_compute(b);
    return pct(b, (int)holds) >= BOUND_PCT || pct(b, (int)holds) > pct(b, AN_CLASS_COMPUTE)
               ? holds
               : AN_CLASS_COMPUTE;
}

/* "(steps 2-119, high confidence)", "(step 4, low confidence, short of cores)" */
static const char *basis(struct an_context *c)
{
    const struct an_steps *s = &c->r->steps;
    const char *level =
        an_arena_format(c->a, "%s confidence%s", an_confidence_text(an_confidence_of(c)),
                        !c->r->caution ? "" : ", short of cores");
    if (s->first_index == s->last_index)
        return an_arena_format(c->a, "(step %" PRId64 ", %s)", s->first_index, level);
    return an_arena_format(c->a, "(steps %" PRId64 "-%" PRId64 ", %s)", s->first_index,
                           s->last_index, level);
}

static const char *peak_words(struct an_context *c)
{
    const struct an_utilization *u = &c->r->utilization;
    if (!u->mfu.valid)
        return "";
    return an_arena_format(c->a, ", at %.1f %% of the %s peak", 100 * u->mfu.value,
                           u->dtype ? u->dtype : "given");
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
static const char *op_words(struct an_context *c)
{
    const struct an_attribution *a = &c->r->attribution[0];
    if (c->gpu && !a->reason && a->row_count && a->rows[0].share_pct.valid)
        return an_arena_format(c->a, "; largest op: %.60s, %.0f %% of device time", a->rows[0].name,
                               a->rows[0].share_pct.value);
    if (c->gpu)
        return "";
    const struct an_op *largest = NULL;
    double all = 0;
    for (size_t i = 0; i < c->r->op_count; i++) {
        const struct an_op *o = &c->r->ops[i];
        if (!an_op_is_work(o))
            continue;
        largest = largest ? largest : o;
        all += (double)o->self_ns;
    }
    if (!largest || all <= 0)
        return "";
    return an_arena_format(c->a, "; largest op: %.60s, %.0f %% of the ops' time", largest->name,
                           100 * (double)largest->self_ns / all);
}

/* "HOST-BOUND", or the more exact name that a finding gave it. */
static const char *bound_name(const struct an_context *c, enum an_class k)
{
    const struct an_result *r = c->r;
    int64_t rank;
    if (k == AN_CLASS_COMM && an_comm_waits_for_one(c, &rank))
        return "STRAGGLER-BOUND"; /* the link is not what holds the run back */
    if (k == AN_CLASS_UNATTRIBUTED && an_mostly_opaque(c))
        return "OPAQUE";
    for (size_t i = 0; i < r->finding_count; i++)
        if (k == AN_CLASS_HOST && !strcmp(r->findings[i].id, "LAUNCH_BOUND"))
            return "LAUNCH-BOUND";
    return bound[k];
}

static void by_budget(struct an_context *c)
{
    struct an_result *r = c->r;
    const struct an_budget *b = &r->budget;
    enum an_class holds = other_than_compute(b);
    if (an_bound_class(b) == holds) {
        r->verdict_class = bound_name(c, holds);
        if (pct(b, (int)holds) > pct(b, AN_CLASS_COMPUTE))
            r->verdict =
                an_arena_format(c->a, "%s: %.1f %% of every step %s; %.1f %% computes%s %s.",
                                r->verdict_class, pct(b, (int)holds), does_what(c, (int)holds),
                                pct(b, AN_CLASS_COMPUTE), peak_words(c), basis(c));
        else
            r->verdict =
                an_arena_format(c->a, "%s: %.1f %% of every step %s, while %.1f %% computes%s %s.",
                                r->verdict_class, pct(b, (int)holds), does_what(c, (int)holds),
                                pct(b, AN_CLASS_COMPUTE), peak_words(c), basis(c));
        return;
    }
    const char *rest =
        pct(b, (int)holds) < WORTH_PCT
            ? op_words(c)
            : an_arena_format(c->a, "; %.1f %% %s", pct(b, (int)holds), does_what(c, (int)holds));
    r->verdict_class = bound[AN_CLASS_COMPUTE];
    r->verdict = an_arena_format(c->a, "%s%s: %.1f %% of every step computes%s%s %s.",
                                 r->healthy ? "HEALTHY, " : "", r->verdict_class,
                                 pct(b, AN_CLASS_COMPUTE), peak_words(c), rest, basis(c));
}

/* ---- devices without steps ---------------------------------------------------------------------------------------------- */

/* The capture in shares of the devices' spans. */
struct capture {
    double span, part[4]; /* compute, communication, copies, idle; opaque is the rest */
};

static struct capture capture_of(const struct an_result *r)
{
    struct capture s = {0};
    for (size_t i = 0; i < r->gpu_count; i++) {
        const struct an_gpu_device *d = &r->gpus[i];
        const struct an_count *parts[] = {&d->compute_ns, &d->exposed_comm_ns, &d->exposed_copy_ns,
                                          &d->idle_ns};
        s.span += d->span_ns.valid ? (double)d->span_ns.value : 0;
        for (size_t k = 0; k < 4; k++)
            s.part[k] += parts[k]->valid ? (double)parts[k]->value : 0;
    }
    return s;
}

/* Steps are missing: the whole capture has to do. */
static void by_capture(struct an_context *c)
{
    static const char *const names[] = {"COMPUTE-BOUND", "COMMUNICATION-BOUND", "COPY-BOUND",
                                        "DEVICE IDLE"};
    static const char *const what[] = {"compute", "exposed communication", "exposed copies",
                                       "an idle device"};
    struct an_result *r = c->r;
    struct capture s = capture_of(r);
    size_t most = 1;
    for (size_t k = 1; k < 4; k++)
        most = s.part[k] > s.part[most] ? k : most;
    double other = 100 * s.part[most] / s.span, compute = 100 * s.part[0] / s.span;
    size_t name = other >= BOUND_PCT || other > compute ? most : 0;
    const char *opaque = "";
    double rest = 100 * (s.span - s.part[0] - s.part[1] - s.part[2] - s.part[3]) / s.span;
    if (rest >= WORTH_PCT) {
        opaque = an_arena_format(c->a, ", %.1f %% opaque graphs", rest);
        name = rest > compute && rest > other ? 4 : name;
    }
    r->verdict_class = name == 4 ? "OPAQUE" : names[name];
    r->verdict = an_arena_format(
        c->a,
        "%s: of the %s on %zu %s that were recorded %.1f %% is compute, %.1f %% %s%s (%s: the "
        "whole capture, low confidence).",
        r->verdict_class, an_time_words(c->a, s.span / 1e6, 4), r->gpu_count,
        r->gpu_count == 1 ? "device" : "devices", compute, other, what[most], opaque,
        c->o->some_steps ? "none of the steps that were asked for" : "no complete steps");
}

/* --steps asked for others than the run has. */
static const char *none_of_those(struct an_context *c)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < c->step_count; i++) {
        low = c->step[i].index < low ? c->step[i].index : low;
        high = c->step[i].index > high ? c->step[i].index : high;
    }
    return an_arena_format(c->a,
                           "STEPS ONLY: no step that was asked for (--steps) is complete in this "
                           "run; those of the run are "
                           "%" PRId64 " to %" PRId64 ".",
                           low, high);
}

/* Steps whose ranges do not say what they are: the largest range is all that can be named. */
static void by_ranges(struct an_context *c)
{
    struct an_result *r = c->r;
    const char *part = "";
    double host = pct(&r->budget, AN_CLASS_HOST);
    r->verdict_class = "STEPS ONLY";
    if (!r->budget.reason)
        part = an_arena_format(
            c->a,
            "; %.1f %% of it is inside ranges that do not say what they are, %.1f %% inside none",
            host, pct(&r->budget, AN_CLASS_UNATTRIBUTED));
    if (!r->steps.median_ms.valid && c->o->some_steps && c->step_count)
        r->verdict = none_of_those(c);
    else if (!r->steps.median_ms.valid)
        r->verdict = an_arena_format(c->a,
                                     "STEPS ONLY: steps were marked (%s) but none is complete; let "
                                     "the run go on for some steps.",
                                     r->steps.source);
    else
        r->verdict = an_arena_format(
            c->a,
            "STEPS ONLY: a step lasts %s (median of %" PRId64
            ", from %.80s)%s; payloads of include/tacho_nvtx.h make the rest visible.",
            an_time_words(c->a, r->steps.median_ms.value, 4), r->steps.counted, r->steps.source,
            part);
}

/* What the system layer says of a program without steps. */
static const char *load_words(struct an_context *c, const char **class)
{
    const struct an_system *s = &c->r->system;
    *class = "NO STEPS";
    if (!s->cpu_cores.valid)
        return an_arena_format(c->a, "too little was sampled to tell how busy the machine was: %s",
                               s->cpu_cores.reason);
    double used = s->cpu_cores.value,
           cores = c->r->run.cores.valid ? (double)c->r->run.cores.value : 0;
    const char *of = cores > 0 ? an_arena_format(c->a, " of %.0f", cores) : "";
    if (cores > 0 && used >= 0.9 * cores) {
        *class = "CPU-BOUND";
        return an_arena_format(c->a, "the program kept %.2f%s cores busy: it is CPU-bound", used,
                               of);
    }
    if (used >= 0.9 && used <= 1.1) {
        *class = "ONE CORE";
        return an_arena_format(c->a, "the program kept %.2f%s cores busy: one thread does the work",
                               used, of);
    }
    if (used < 0.3) {
        *class = "IDLE";
        return an_arena_format(c->a, "the program kept %.2f%s cores busy: it mostly waits", used,
                               of);
    }
    return an_arena_format(c->a, "the program kept %.2f%s cores busy", used, of);
}

static void without_steps(struct an_context *c)
{
    struct an_result *r = c->r;
    const char *class = NULL, *load = load_words(c, &class);
    size_t ranges = c->t->slice.count;
    const char *time =
        r->run.duration_s.valid
            ? an_arena_format(c->a, " in %s", an_time_words(c->a, r->run.duration_s.value * 1e3, 3))
            : "";
    bool foreign = an_trace_key(c->t, "source");
    r->verdict_class = ranges || foreign ? "NO STEPS" : class;
    if (ranges)
        r->verdict = an_arena_format(
            c->a, "NO STEPS: no steps were marked, %zu ranges were recorded%s; %s. %s.", ranges,
            time, load,
            foreign ? "Record with torch.profiler and call its step() after each update, or mark "
                      "each update with an NVTX range "
                      "named step"
                    : "Mark each optimizer update with an NVTX range named step, or with "
                      "tacho.step of include/tacho_nvtx.h");
    else if (foreign)
        r->verdict = "NO STEPS: the trace holds no operator, kernel or range, only what describes "
                     "it. Trust says what of the file "
                     "could not be read.";
    else
        r->verdict = an_arena_format(
            c->a,
            "%s:%s %s. It spoke no NVTX, so only the system layer is known: mark each optimizer "
            "update with an NVTX range named "
            "step to see where its time goes.",
            class, time, load);
}

static int verdict_run(struct an_context *c)
{
    bool devices = c->gpu && capture_of(c->r).span > 0;
    if (devices && (c->r->budget.reason || !c->r->budget.roles_known))
        by_capture(c);
    else if (!c->step_count)
        without_steps(c);
    else if (c->r->budget.reason || !c->r->budget.roles_known)
        by_ranges(c);
    else
        by_budget(c);
    return 0;
}

static void verdict_absent(struct an_context *c, const char *reason)
{
    c->r->verdict = reason;
    c->r->verdict_class = "";
}

const struct an_analyzer an_verdict = {"verdict", "the run in one sentence", 0, verdict_run,
                                       verdict_absent};

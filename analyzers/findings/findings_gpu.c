/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of runs with accelerators. Every gain is a ceiling: what would be gained if all of the
 * time that is named went away. One rank alone cannot tell transfer from waiting for a peer, so
 * exposed communication names no cause (DESIGN 5).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/device/api.h"
#include "analyzers/findings/findings.h"
#include "analyzers/work/peaks.h"

#define CEILING "a ceiling has no expected value: nothing was replayed"

#define SHORT_PCT    50.0 /* of the kernels, shorter than their launch call */
#define SLOW_CALL_US 50.0
#define LAUNCHING_PCT \
    20.0 /* of the span in launch calls: then their number is what holds the host */

/* Sum over the devices of the run. */
static double span_of(const struct an_context *c)
{
    double span = 0;
    for (size_t i = 0; i < c->r->gpu_count; i++)
        span += c->r->gpus[i].span_ns.valid ? (double)c->r->gpus[i].span_ns.value : 0;
    return span;
}

static double pct_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* What a share is of. Without steps it is of the whole capture. */
static const char *window_of(const struct an_class_share *s)
{
    return s->steps ? "the step" : "the capture";
}

/* "exposed communication 20 ± 1.2 ms a step (steps 4-19)" */
static const char *share_words(struct an_context *c, const struct an_class_share *s,
                               const char *what)
{
    const struct an_budget *b = &c->r->budget;
    if (!s->steps)
        return an_arena_format(c->a, "%s: %s on all devices (whole capture)", what,
                               an_time_words(c->a, s->ms, 4));
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6;
    if (s->steps == 1)
        return an_arena_format(c->a, "%s %s (%s)", what,
                               an_time_words(c->a, step_ms * s->mean / 100, 3),
                               an_findings_window(c));
    return an_arena_format(c->a, "%s %s a step (%s)", what,
                           an_time_spread(c->a, step_ms * s->mean / 100, step_ms * s->half / 100),
                           an_findings_window(c));
}

static void share_ceiling(struct an_finding *f, const struct an_class_share *s)
{
    an_finding_ceiling(f, 100, s->mean, CEILING);
    f->bound = true;
    f->method = s->steps
                    ? "ceiling: step time / (step time - the time named) - 1; nothing was replayed"
                    : "ceiling: capture / (capture - the time named) - 1; nothing was replayed";
}

/* Share of exposed communication or copies over the whole capture. */
static struct an_class_share capture_share(const struct an_context *c, enum an_class k)
{
    struct an_class_share s = {0};
    double span = 0, sum = 0;
    for (size_t i = 0; i < c->r->gpu_count; i++) {
        const struct an_gpu_device *d = &c->r->gpus[i];
        struct an_count ns = k == AN_CLASS_COMM ? d->exposed_comm_ns : d->exposed_copy_ns;
        span += d->span_ns.valid ? (double)d->span_ns.value : 0;
        sum += ns.valid ? (double)ns.value : 0;
    }
    s.mean = pct_of(sum, span);
    s.ms = sum / 1e6;
    return s;
}

/* Finds the share of a class of the step (without steps: of the capture); *yes: it matters. */
static int exposed_matters(struct an_findings_list *l, enum an_class k, const char *checked,
                           struct an_class_share *s, bool *yes)
{
    struct an_context *c = l->c;
    bool steps = !c->r->budget.reason && c->r->budget.pct[k].valid;
    *yes = false;
    if (steps && an_class_share(c, k, s))
        return TACHO_ENOMEM;
    if (steps)
        s->mean = c->r->budget.pct[k].value; /* weighted as the budget that stands beside it */
    else if (k == AN_CLASS_COMM || k == AN_CLASS_COPY)
        *s = capture_share(c, k);
    else
        return 0;
    *yes = an_class_share_matters(s);
    if (!*yes)
        an_findings_checked(l, checked);
    return 0;
}

/* ---- communication ------------------------------------------------------------------------------------------------------ */

static const struct an_op *largest_of(const struct an_result *r, const char *kind)
{
    for (size_t i = 0; i < r->op_count; i++) /* largest first */
        if (!strcmp(r->ops[i].kind, kind))
            return &r->ops[i];
    return NULL;
}

static const char *blocking_words(struct an_context *c)
{
    double proven = 0, inferred = 0;
    bool known = false;
    for (size_t i = 0; i < c->r->gpu_count; i++) {
        const struct an_gpu_device *d = &c->r->gpus[i];
        known = known || d->blocking_proven_ns.valid || d->blocking_inferred_ns.valid;
        proven += d->blocking_proven_ns.valid ? (double)d->blocking_proven_ns.value : 0;
        inferred += d->blocking_inferred_ns.valid ? (double)d->blocking_inferred_ns.value : 0;
    }
    if (!known)
        return NULL;
    return an_arena_format(
        c->a, "compute waits for %s of it (proven), for %s more by its times (whole capture)",
        an_time_words(c->a, proven / 1e6, 4), an_time_words(c->a, inferred / 1e6, 4));
}

/* Processes with devices: what communicates in this run. */
static int64_t distinct_ranks(const struct an_result *r)
{
    int64_t n = 0;
    for (size_t i = 0; i < r->gpu_count; i++) {
        bool first = true;
        for (size_t k = 0; k < i && first; k++)
            first = r->gpus[k].rank != r->gpus[i].rank;
        n += first;
    }
    return n;
}

static int exposed_comm(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    struct an_class_share s;
    bool yes;
    int rc = exposed_matters(l, AN_CLASS_COMM, "communication that no compute hides", &s, &yes);
    if (rc || !yes)
        return rc;
    if (an_comm_mostly_waits(c) &&
        !an_findings_slow_rank(c)) /* the link is not the cause: an_findings_comm says it */
        return 0;
    const struct an_value *waiting = &c->r->communication.exposed_waiting_ms;
    double exposed = s.mean, step = c->r->budget.steps ? (double)c->r->budget.step_ns /
                                                             (double)c->r->budget.steps / 1e6
                                                       : 0;
    bool split = !c->r->communication.reason && waiting->valid && step > 0;
    s.mean -= split ? fmin(exposed, 100 * waiting->value / step)
                    : 0; /* waiting is not communication's own */
    if (split && !an_class_share_matters(&s)) {
        an_findings_checked(l, "transfer between ranks that no compute hides");
        return 0;
    }
    const struct an_op *op = largest_of(c->r, "comm");
    const char *world = an_trace_key(c->t, "world_size");
    int64_t ranks = distinct_ranks(c->r), size = world ? strtoll(world, NULL, 10) : 0;
    struct an_finding *f = an_findings_add(
        l, "EXPOSED_COMM",
        split
            ? an_arena_format(c->a, "%.1f %% of %s is transfer between ranks that no compute hides",
                              s.mean, window_of(&s))
            : an_arena_format(c->a, "%.1f %% of %s is communication that no compute hides", s.mean,
                              window_of(&s)));
    an_finding_evidence(f,
                        share_words(c, &s, split ? "exposed transfer" : "exposed communication"));
    if (split)
        an_finding_evidence(
            f, an_arena_format(c->a, "%s more are waiting for other ranks: not communication's own",
                               an_time_words(c->a, waiting->value, 3)));
    for (size_t i = 0; i < c->r->gpu_count && i < 1; i++)
        if (c->r->gpus[i].overlap_pct.valid)
            an_finding_evidence(
                f, an_arena_format(
                       c->a, "%.1f %% of communication runs beside compute (rank %" PRId64 ")",
                       c->r->gpus[i].overlap_pct.value, c->r->gpus[i].rank));
    if (op)
        an_finding_evidence(
            f, an_arena_format(
                   c->a, "largest: %.*s, %" PRId64 " times, %s each",
                   *op->name == '<' || *op->name == '(' ? 80 : (int)strcspn(op->name, "(<"),
                   op->name, op->count,
                   an_time_words(c->a, op->mean_us.valid ? op->mean_us.value / 1e3 : NAN, 3)));
    an_finding_evidence(f, blocking_words(c));
    if (ranks > 1 && size <= ranks)
        f->action = "let communication begin earlier, so that compute hides it (DDP: gradient "
                    "buckets; FSDP: prefetch)";
    else
        f->action = "record every rank into one folder and report that: it tells slow links from "
                    "waiting for a slow rank";
    f->effort =
        ranks > 1 && size <= ranks ? "a setting of the parallel layer" : "another recording";
    f->what_if = ranks > 1 && size <= ranks ? "comm=overlap" : "comm=0";
    share_ceiling(f, &s);
    f->verify = "run again and compare exposed_comm_us of each device: `tacho report --json`";
    f->wrong_when = "the time is waiting for a slower rank: communication kernels spin while they "
                    "wait, and one rank alone "
                    "cannot tell";
    return 0;
}

/* ---- the host is late --------------------------------------------------------------------------------------------------- */

/* The cause that explains most launch-starved time of a row, and its share of that time. */
static const char *largest_cause(const struct an_absent *x, double *pct)
{
    const char *best = "";
    *pct = 0;
    for (size_t i = 0; i < x->cause_count; i++) {
        double sum = 0;
        for (size_t k = i; k < x->cause_count; k++)
            sum += !strcmp(x->causes[k].cause, x->causes[i].cause) ? x->causes[k].pct : 0;
        if (sum > *pct) {
            *pct = sum;
            best = x->causes[i].cause;
        }
    }
    return best;
}

/* "in 33.6 % of the step the next kernel was not launched yet, 64.7 % of that for input": the split
 * of the compute-absent time, mean over devices; the cause is that of the device with most of it.
 */
static const char *starved_words(struct an_context *c)
{
    double starved = 0, window = 0, pct = 0;
    const struct an_absent *most = NULL;
    for (size_t i = 0; i < c->r->absent_count; i++) {
        const struct an_absent *x = &c->r->absent[i];
        const struct an_count *late = &x->part_ns[AN_ABSENT_LAUNCH_STARVED];
        if (!late->valid)
            continue;
        starved += (double)late->value;
        window += (double)x->window_ns;
        most = !most || late->value > most->part_ns[AN_ABSENT_LAUNCH_STARVED].value ? x : most;
    }
    if (!most || window <= 0)
        return NULL;
    const char *cause = largest_cause(most, &pct);
    return an_arena_format(c->a, "in %.1f %% of %s the next kernel was not launched yet%s",
                           pct_of(starved, window), most->steps ? "the step" : "the capture",
                           *cause ? an_arena_format(c->a, ", %.0f %% of that by %s", pct, cause)
                                  : "");
}

/* The operator that takes most host time of its own. */
static const struct an_attribution_row *busiest_host(const struct an_result *r)
{
    const struct an_attribution *a = &r->attribution[0];
    const struct an_attribution_row *most = NULL;
    for (size_t i = 0; !a->reason && i < a->row_count; i++)
        if (!most || a->rows[i].host_ns > most->host_ns)
            most = &a->rows[i];
    return most && most->host_ns > 0 ? most : NULL;
}

static void launch_bound(struct an_context *c, struct an_finding *f)
{
    f->action = c->r->launches.graphs
                    ? "fewer, longer kernels: fuse element-wise work (torch.compile), a fused "
                      "optimizer, a larger batch"
                    : "fewer launches: a CUDA graph of the step "
                      "(torch.compile(mode=\"reduce-overhead\")), fused kernels, a "
                      "larger batch";
    f->effort = "some lines of code";
    f->what_if = c->r->launches.graphs ? NULL : "launch=graph";
    f->wrong_when = "shapes change from step to step (graphs cannot be replayed), or recording "
                    "itself made the host slow";
}

/* `name`: what the host is in most while the device idles. */
static void host_bound(struct an_context *c, struct an_finding *f, const char *name)
{
    enum an_api_kind kind = an_api_of(name).kind;
    const struct an_attribution_row *op = busiest_host(c->r);
    if (op)
        an_finding_evidence(
            f,
            an_arena_format(
                c->a, "most host time of its own: %.80s, %s in %" PRId64 " calls (whole capture)",
                op->name, an_time_words(c->a, (double)op->host_ns / 1e6, 4), op->count));
    if (kind == AN_API_COPY)
        f->action = an_arena_format(c->a,
                                    "keep the host from waiting in %.60s: pin the memory, copy "
                                    "with non_blocking=True, and read "
                                    "values back less often (.item(), .cpu(), printing)",
                                    name);
    else if (kind == AN_API_SYNC)
        f->action = an_arena_format(
            c->a, "do not wait for the device inside a step (%.60s): read the loss every N steps",
            name);
    else if (kind == AN_API_KERNEL)
        f->action = an_arena_format(c->a,
                                    "let %.60s return at once: load kernels before the first step "
                                    "(warm-up), keep the launch "
                                    "queue from filling, launch less",
                                    name);
    else
        f->action = "shorten what the host does between launches: torch.compile, fewer small "
                    "tensor operations in Python, a "
                    "larger batch";
    f->effort = "some lines of code";
    f->what_if = kind == AN_API_SYNC     ? "sync=0"
                 : kind == AN_API_KERNEL ? "launch=0"
                 : kind == AN_API_COPY   ? "copy=0"
                                         : "framework=0";
    f->wrong_when =
        "recording itself made the host slow: stacks and shapes cost time in every operator";
}

static int host_late(struct an_findings_list *l, double span)
{
    struct an_context *c = l->c;
    const struct an_launches *n = &c->r->launches;
    struct an_class_share s;
    bool yes;
    int rc = exposed_matters(l, AN_CLASS_HOST,
                             "the device waiting for the host (framework, launches)", &s, &yes);
    if (rc || !yes)
        return rc;
    const char *doing, *name;
    if ((rc = an_idle_host(c, &doing, &name)))
        return rc;
    double calls_ns =
        !n->reason && n->host_mean_us.valid ? (double)n->calls * n->host_mean_us.value * 1e3 : 0;
    /* Calls that take long wait for something (a full queue, a library to load): fewer of them
     * would not help. */
    bool launches = pct_of(calls_ns, span) >= LAUNCHING_PCT &&
                    n->host_mean_us.value <= SLOW_CALL_US && n->short_pct.valid &&
                    n->short_pct.value >= SHORT_PCT;
    struct an_finding *f = an_findings_add(
        l, launches ? "LAUNCH_BOUND" : "HOST_BOUND",
        an_arena_format(c->a, "%.1f %% of the step the device idles while the host %s", s.mean,
                        launches ? "launches kernels one by one"
                                 : "is in the framework or in calls of the runtime"));
    an_finding_evidence(f, share_words(c, &s, "device idle, host busy"));
    an_finding_evidence(f, doing);
    if (!n->reason && n->host_mean_us.valid) {
        double us = n->host_mean_us.value;
        an_finding_evidence(
            f, an_arena_format(
                   c->a, "%" PRId64 " launches of %s each on the host, %.0f %% of the capture",
                   n->calls, an_time_words(c->a, us / 1000, 3), pct_of(calls_ns, span)));
    }
    if (!n->reason && n->short_pct.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.0f %% of kernels are shorter than their launch call",
                               n->short_pct.value));
    an_finding_evidence(f, starved_words(c));
    if (launches)
        launch_bound(c, f);
    else
        host_bound(c, f, name);
    share_ceiling(f, &s);
    f->verify = "run again and compare the row host of the step budget: `tacho report`";
    return 0;
}

/* ---- time that only some rows take ------------------------------------------------------------------------------------------ */

static int sync_stall(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    struct an_class_share s;
    const struct an_sync_row *most = NULL;
    if (c->r->syncs.reason)
        return 0;
    int rc = an_sync_idle_share(c, &s);
    for (size_t i = 0; i < c->r->sync_count; i++)
        if (c->r->sync[i].idle_ns.valid &&
            (!most || c->r->sync[i].idle_ns.value > most->idle_ns.value))
            most = &c->r->sync[i];
    if (rc || !most || !an_class_share_matters(&s)) {
        an_findings_checked(l, "synchronise calls that wait for an idle device");
        return rc;
    }
    struct an_finding *f = an_findings_add(
        l, "SYNC_STALL",
        an_arena_format(c->a,
                        "the host waits in synchronise calls while no device works: %.1f %% of %s",
                        s.mean, window_of(&s)));
    an_finding_evidence(f, share_words(c, &s, "waiting in synchronise calls with an idle device"));
    an_finding_evidence(
        f,
        an_arena_format(c->a, "most: %.60s, %" PRId64 " %s, %s with an idle device (whole capture)",
                        most->name, most->count, most->count == 1 ? "call" : "calls",
                        an_time_words(c->a, (double)most->idle_ns.value / 1e6, 4)));
    f->action = "do not wait for the device inside a step: read the loss every N steps (.item(), "
                ".cpu()), copy with "
                "non_blocking=True";
    f->effort = "some lines of code";
    f->what_if = "sync=0";
    share_ceiling(f, &s);
    f->verify = "run again and compare syncs: `tacho report --json`";
    f->wrong_when = "the calls wait for something else than this process's devices";
    return 0;
}

static const struct an_copy_row *copy_row(const struct an_result *r, const char *kind,
                                          const char *memory)
{
    for (size_t i = 0; i < r->copy_count; i++)
        if (!strcmp(r->copy[i].kind, kind) && (!memory || !strcmp(r->copy[i].memory, memory)))
            return &r->copy[i];
    return NULL;
}

static void copy_evidence(struct an_context *c, struct an_finding *f, const struct an_copy_row *row)
{
    an_finding_evidence(
        f, an_arena_format(c->a, "%s%s%s: %" PRId64 " copies, %s, %s of it exposed (whole capture)",
                           row->kind, *row->memory ? ", " : "", row->memory, row->count,
                           an_time_words(c->a, (double)row->total_ns / 1e6, 4),
                           an_time_words(c->a, (double)row->exposed_ns / 1e6, 4)));
    if (row->bytes.valid && row->bytes_per_s.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%s %s at %s GB/s",
                               an_number_words(c->a,
                                               (double)row->bytes.value /
                                                   (row->bytes.value >= 1000000000 ? 1e9 : 1e6),
                                               3),
                               row->bytes.value >= 1000000000 ? "GB" : "MB",
                               an_number_words(c->a, row->bytes_per_s.value / 1e9, 3)));
}

static int pageable_copy(struct an_findings_list *l, double *found)
{
    struct an_context *c = l->c;
    const struct an_copy_row *row = copy_row(c->r, "HtoD", "pageable");
    struct an_class_share s;
    *found = 0;
    if (c->r->copies.reason)
        return 0;
    int rc = row ? an_pageable_share(c, &s) : 0;
    if (rc || !row || !an_class_share_matters(&s)) {
        an_findings_checked(l, "copies from pageable memory");
        return rc;
    }
    *found = s.mean;
    struct an_finding *f = an_findings_add(
        l, "PAGEABLE_COPY",
        an_arena_format(
            c->a, "copies from pageable memory to the device that nothing hides take %.1f %% of %s",
            s.mean, window_of(&s)));
    an_finding_evidence(f, share_words(c, &s, "such copies"));
    copy_evidence(c, f, row);
    f->action = "copy from pinned memory, beside compute: DataLoader(pin_memory=True) and "
                ".to(device, non_blocking=True)";
    f->effort = "two settings";
    f->what_if = "copy:HtoD=0";
    share_ceiling(f, &s);
    f->verify = "run again and compare copies: `tacho report --json`";
    f->wrong_when = "the batch is needed at once and there is nothing to hide the copy behind";
    return 0;
}

/* Exposed copies of any other kind; `pageable`: what PAGEABLE_COPY has named already. */
static int exposed_copy(struct an_findings_list *l, double pageable)
{
    struct an_context *c = l->c;
    struct an_class_share s;
    bool yes;
    const struct an_copy_row *row = NULL;
    int rc = exposed_matters(l, AN_CLASS_COPY, "copies that nothing hides", &s, &yes);
    for (size_t i = 0; i < c->r->copy_count; i++)
        if (strcmp(c->r->copy[i].kind, "memset") != 0 &&
            (!row || c->r->copy[i].exposed_ns > row->exposed_ns))
            row = &c->r->copy[i];
    if (rc || !yes || !row || pageable > 0.8 * s.mean)
        return rc;
    struct an_finding *f = an_findings_add(
        l, "EXPOSED_COPY",
        an_arena_format(c->a, "%.1f %% of %s is copies that nothing hides", s.mean, window_of(&s)));
    an_finding_evidence(f, share_words(c, &s, "exposed copies"));
    copy_evidence(c, f, row);
    if (!strcmp(row->kind, "DtoD"))
        f->action = "fewer copies on the device: avoid .contiguous(), clone and torch.cat of large "
                    "tensors, write into place, or "
                    "fuse the operation that copies (tacho report --by line finds it)";
    else if (!strcmp(row->kind, "DtoH"))
        f->action = "copy less back to the host inside a step, or on a stream of its own with "
                    "non_blocking=True";
    else
        f->action = "move less to the device inside a step, or begin earlier: prefetch on a stream "
                    "of its own, beside compute";
    f->effort = "some lines of code";
    share_ceiling(f, &s);
    f->verify = "run again and compare copies: `tacho report --json`";
    f->wrong_when = "compute needs what is copied and nothing else could run meanwhile";
    return 0;
}

/* ---- precision ---------------------------------------------------------------------------------------------------------- */

/* The fastest type for matrix work that the device has beside fp32. */
static const char *faster_type(struct an_context *c, double *ratio)
{
    static const char *const types[] = {"bf16", "fp16"};
    struct an_peak slow, fast;
    const char *name = c->r->gpu_count ? c->r->gpus[0].name : "";
    if (!*name || !an_peak_find(c->work, name, "fp32", &slow))
        return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (an_peak_find(c->work, name, types[i], &fast) && fast.value > slow.value) {
            *ratio = fast.value / slow.value;
            return types[i];
        }
    return NULL;
}

static void low_precision(struct an_findings_list *l, double span)
{
    struct an_context *c = l->c;
    const struct an_precision *p = &c->r->precision;
    double off = 0, ratio = 1, compute = 0;
    const char *type = p->reason ? NULL : faster_type(c, &ratio);
    for (size_t i = 0; !p->reason && i < p->row_count; i++)
        if (p->rows[i].told && !p->rows[i].matrix_unit &&
            (!strcmp(p->rows[i].dtype, "fp32") || !strcmp(p->rows[i].dtype, "unknown")))
            off += (double)p->rows[i].total_ns;
    for (size_t i = 0; i < c->r->gpu_count; i++)
        compute += c->r->gpus[i].compute_ns.valid ? (double)c->r->gpus[i].compute_ns.value : 0;
    if (p->reason || !type)
        return; /* the device's units are not known: nothing was checked */
    double removed = (off < compute ? off : compute) * (1 - 1 / ratio);
    if (pct_of(removed, span) < FINDINGS_NOISE_PCT) {
        an_findings_checked(l, "matrix work that does not use the device's matrix units");
        return;
    }
    bool half = !strcmp(type, "fp16");
    struct an_finding *f = an_findings_add(
        l, "LOW_PRECISION",
        an_arena_format(
            c->a, "matrix kernels take %s off the device's matrix units, %.1f %% of the capture",
            an_time_words(c->a, off / 1e6, 4), pct_of(off, span)));
    if (p->matrix_unit_pct.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.1f %% of matrix and attention time runs on matrix units",
                               p->matrix_unit_pct.value));
    an_finding_evidence(f,
                        an_arena_format(c->a, "%.100s: %s is %s times as fast as fp32 (data sheet)",
                                        c->r->gpus[0].name, type, an_number_words(c->a, ratio, 3)));
    f->action = half ? "mixed precision: torch.autocast(\"cuda\", torch.float16) around forward "
                       "and loss, with a GradScaler"
                     : "mixed precision: torch.autocast(\"cuda\", torch.bfloat16) around forward "
                       "and loss; or "
                       "torch.set_float32_matmul_precision(\"high\")";
    f->effort = "some lines of code; the loss has to be watched";
    an_finding_ceiling(f, span, removed, CEILING);
    if (p->matrix_ns > 0)
        f->what_if =
            an_arena_format(c->a, "op:matrix=%sx",
                            an_number_words(c->a, fmax(0, 1 - removed / (double)p->matrix_ns), 3));
    f->bound = true;
    f->method =
        "ceiling: every such kernel as much faster as the data sheet's peaks; nothing was measured";
    f->confidence = f->confidence > AN_LOW ? AN_MEDIUM : AN_LOW;
    f->verify = "run again and compare precision and samples/s: `tacho report --json`";
    f->wrong_when = "these kernels are bound by memory, not by arithmetic, or training does not "
                    "converge in that type";
}

int an_findings_gpu(struct an_findings_list *l)
{
    double span = span_of(l->c);
    double pageable = 0;
    if (span <= 0)
        return 0;
    int rc = exposed_comm(l);
    rc = rc ? rc : host_late(l, span);
    rc = rc ? rc : sync_stall(l);
    rc = rc ? rc : pageable_copy(l, &pageable);
    rc = rc ? rc : exposed_copy(l, pageable);
    if (rc)
        return rc;
    low_precision(l, span);
    an_findings_throttled(l);
    an_findings_attention(l);
    an_findings_capture(l);
    return 0;
}

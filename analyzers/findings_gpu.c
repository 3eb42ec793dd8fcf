/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings of runs with accelerators. Every gain is a ceiling: what would be gained if all of the time that is named went away.
 * One rank alone cannot tell transfer from waiting for a peer, so exposed communication names no cause (DESIGN 5).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/findings.h"
#include "analyzers/peaks.h"

#define CEILING "a ceiling has no expected value: nothing was replayed"

#define OPAQUE_PCT     5.0  /* of the span */
#define LOST_PCT       2.0  /* of the launches of kernels */
#define UNLAUNCHED_PCT 10.0 /* of the device ops */
#define LAUNCHING_PCT  20.0 /* of the span in launch calls: then their number is what holds the host */

/* Sums over the devices of the run. */
struct totals {
    double span, opaque, ops;
};

static struct totals totals_of(const struct an_context *c)
{
    struct totals s = {0};
    for (size_t i = 0; i < c->r->gpu_count; i++) {
        const struct an_gpu_device *d = &c->r->gpus[i];
        s.span += d->span_ns.valid ? (double)d->span_ns.value : 0;
        s.opaque += d->opaque_ns.valid ? (double)d->opaque_ns.value : 0;
        s.ops += (double)d->ops;
    }
    return s;
}

static double pct_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* "20 ± 1.2 ms a step (steps 4-19)" */
static const char *share_words(struct an_context *c, enum an_class k, const char *what, const struct an_class_share *s)
{
    const struct an_budget *b = &c->r->budget;
    double step_ms = (double)b->step_ns / (double)b->steps / 1e6, ms = step_ms * b->pct[k].value / 100;
    if (s->steps == 1)
        return an_arena_format(c->a, "%s %.3g ms (%s)", what, ms, an_findings_window(c));
    return an_arena_format(c->a, "%s %.3g ± %.2g ms a step (%s)", what, ms, step_ms * s->half / 100, an_findings_window(c));
}

/* Finds the share of a class; false: it does not matter, or is not known. */
static int class_matters(struct an_findings_list *l, enum an_class k, const char *checked, struct an_class_share *s, bool *yes)
{
    struct an_context *c = l->c;
    *yes = false;
    if (c->r->budget.reason || !c->r->budget.pct[k].valid)
        return 0;
    if (an_class_share(c, k, s))
        return TACHO_ENOMEM;
    *yes = an_class_share_matters(s);
    if (!*yes)
        an_findings_checked(l, checked);
    return 0;
}

static void step_ceiling(const struct an_context *c, struct an_finding *f, enum an_class k)
{
    an_finding_ceiling(f, 100, c->r->budget.pct[k].value, CEILING);
    f->method = "ceiling: step time / (step time - the time named) - 1; nothing was replayed";
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
    return an_arena_format(c->a, "compute waits for %.3g ms of it (proven), for %.3g ms more by its times (whole capture)",
                           proven / 1e6, inferred / 1e6);
}

static int exposed_comm(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    struct an_class_share s;
    bool yes;
    int rc = class_matters(l, AN_CLASS_COMM, "communication that no compute hides", &s, &yes);
    if (rc || !yes)
        return rc;
    const struct an_op *op = largest_of(c->r, "comm");
    const char *world = an_trace_key(c->t, "world_size");
    int64_t ranks = c->r->run.ranks, size = world ? strtoll(world, NULL, 10) : 0;
    struct an_finding *f = an_findings_add(l, "EXPOSED_COMM",
                                           an_arena_format(c->a, "%.1f %% of the step is communication that no compute hides",
                                                           c->r->budget.pct[AN_CLASS_COMM].value));
    an_finding_evidence(f, share_words(c, AN_CLASS_COMM, "exposed communication", &s));
    for (size_t i = 0; i < c->r->gpu_count && i < 1; i++)
        if (c->r->gpus[i].overlap_pct.valid)
            an_finding_evidence(f, an_arena_format(c->a, "%.1f %% of communication runs beside compute (rank %" PRId64 ")",
                                                   c->r->gpus[i].overlap_pct.value, c->r->gpus[i].rank));
    if (op)
        an_finding_evidence(f, an_arena_format(c->a, "largest: %.60s, %" PRId64 " times, %.3g ms each", op->name, op->count,
                                               op->mean_us.valid ? op->mean_us.value / 1e3 : NAN));
    an_finding_evidence(f, blocking_words(c));
    if (ranks > 1 && size <= ranks)
        f->action = "let communication begin earlier, so that compute hides it (DDP: gradient buckets; FSDP: prefetch)";
    else
        f->action = "record every rank into one folder and report that: it tells slow links from waiting for a slow rank";
    f->effort = ranks > 1 && size <= ranks ? "a setting of the parallel layer" : "another recording";
    step_ceiling(c, f, AN_CLASS_COMM);
    f->verify = "run again and compare exposed_comm_us of each device: tacho report --json";
    f->wrong_when = "the time is waiting for a slower rank: communication kernels spin while they wait, and one rank alone "
                    "cannot tell";
    return 0;
}

/* ---- the host is late --------------------------------------------------------------------------------------------------- */

static const char *starved_words(struct an_context *c, double span)
{
    double starved = 0;
    bool known = false;
    for (size_t i = 0; i < c->r->gpu_count; i++) {
        known = known || c->r->gpus[i].absent_launch_starved_ns.valid;
        starved += c->r->gpus[i].absent_launch_starved_ns.valid ? (double)c->r->gpus[i].absent_launch_starved_ns.value : 0;
    }
    return known
               ? an_arena_format(c->a, "in %.1f %% of the capture the next kernel was not launched yet", pct_of(starved, span))
               : NULL;
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
                    ? "fewer, longer kernels: fuse element-wise work (torch.compile), a fused optimizer, a larger batch"
                    : "fewer launches: a CUDA graph of the step (torch.compile(mode=\"reduce-overhead\")), fused kernels, a "
                      "larger batch";
    f->effort = "some lines of code";
    f->wrong_when = "shapes change from step to step (graphs cannot be replayed), or recording itself made the host slow";
}

static void host_bound(struct an_context *c, struct an_finding *f)
{
    const struct an_attribution_row *op = busiest_host(c->r);
    if (op)
        an_finding_evidence(f, an_arena_format(c->a, "most host time of its own: %.80s, %.3g ms in %" PRId64 " calls", op->name,
                                               (double)op->host_ns / 1e6, op->count));
    f->action = "shorten what the host does between launches: torch.compile, fewer small tensor operations in Python, a larger "
                "batch";
    f->effort = "some lines of code";
    f->wrong_when = "recording itself made the host slow: stacks and shapes cost time in every operator";
}

static int host_late(struct an_findings_list *l, const struct totals *all)
{
    struct an_context *c = l->c;
    const struct an_launches *n = &c->r->launches;
    struct an_class_share s;
    bool yes;
    int rc = class_matters(l, AN_CLASS_HOST, "the device waiting for the host (framework, launches)", &s, &yes);
    if (rc || !yes)
        return rc;
    double calls_ns = !n->reason && n->host_mean_us.valid ? (double)n->calls * n->host_mean_us.value * 1e3 : 0;
    bool launches = pct_of(calls_ns, all->span) >= LAUNCHING_PCT;
    struct an_finding *f = an_findings_add(
        l, launches ? "LAUNCH_BOUND" : "HOST_BOUND",
        an_arena_format(c->a, "%.1f %% of the step the device idles while the host %s", c->r->budget.pct[AN_CLASS_HOST].value,
                        launches ? "launches kernels one by one" : "is in the framework or in calls of the runtime"));
    an_finding_evidence(f, share_words(c, AN_CLASS_HOST, "device idle, host busy", &s));
    if (!n->reason && n->host_mean_us.valid)
        an_finding_evidence(f, an_arena_format(c->a, "%" PRId64 " launches of %.3g us each on the host, %.0f %% of the capture",
                                               n->calls, n->host_mean_us.value, pct_of(calls_ns, all->span)));
    if (!n->reason && n->short_pct.valid)
        an_finding_evidence(f,
                            an_arena_format(c->a, "%.0f %% of kernels are shorter than their launch call", n->short_pct.value));
    an_finding_evidence(f, starved_words(c, all->span));
    if (launches)
        launch_bound(c, f);
    else
        host_bound(c, f);
    step_ceiling(c, f, AN_CLASS_HOST);
    f->verify = "run again and compare the row host of the step budget: tacho report";
    return 0;
}

/* ---- shares of the capture ------------------------------------------------------------------------------------------------ */

/* A finding whose time is known for the capture as a whole only; false: too small to be one. */
static bool capture_share(struct an_findings_list *l, double removed, double span, const char *checked)
{
    bool yes = pct_of(removed, span) >= FINDINGS_NOISE_PCT;
    if (!yes && checked)
        an_findings_checked(l, checked);
    return yes;
}

static void capture_ceiling(struct an_finding *f, double span, double removed)
{
    an_finding_ceiling(f, span, removed, CEILING);
    f->method = "ceiling: capture / (capture - the time named) - 1; nothing was replayed";
}

static void sync_stall(struct an_findings_list *l, const struct totals *all)
{
    struct an_context *c = l->c;
    const struct an_sync_row *most = NULL;
    double idle = 0;
    for (size_t i = 0; i < c->r->sync_count; i++) {
        const struct an_sync_row *s = &c->r->sync[i];
        if (!s->idle_ns.valid)
            continue;
        idle += (double)s->idle_ns.value;
        most = !most || s->idle_ns.value > most->idle_ns.value ? s : most;
    }
    if (c->r->syncs.reason || !capture_share(l, idle, all->span, "synchronise calls that wait for an idle device") || !most)
        return;
    struct an_finding *f = an_findings_add(
        l, "SYNC_STALL",
        an_arena_format(c->a,
                        "the host waits in synchronise calls for %.3g ms in which no device works, %.1f %% of the capture",
                        idle / 1e6, pct_of(idle, all->span)));
    an_finding_evidence(f, an_arena_format(c->a, "%.60s: %" PRId64 " calls, %.3g ms with an idle device, longest call %.3g ms",
                                           most->name, most->count, (double)most->idle_ns.value / 1e6,
                                           (double)most->max_ns / 1e6));
    f->action = "do not wait for the device inside a step: read the loss every N steps (.item(), .cpu()), copy with "
                "non_blocking=True";
    f->effort = "some lines of code";
    capture_ceiling(f, all->span, idle);
    f->verify = "run again and compare syncs: tacho report --json";
    f->wrong_when = "the calls stand outside of the steps, or wait for something else than this process's devices";
}

static void pageable_copy(struct an_findings_list *l, const struct totals *all)
{
    struct an_context *c = l->c;
    const struct an_copy_row *row = NULL;
    for (size_t i = 0; i < c->r->copy_count && !row; i++)
        if (!strcmp(c->r->copy[i].kind, "HtoD") && !strcmp(c->r->copy[i].memory, "pageable"))
            row = &c->r->copy[i];
    double exposed = row ? (double)row->exposed_ns : 0;
    if (c->r->copies.reason || !capture_share(l, exposed, all->span, "copies from pageable memory") || !row)
        return;
    struct an_finding *f = an_findings_add(
        l, "PAGEABLE_COPY",
        an_arena_format(c->a,
                        "copies from pageable memory to the device take %.3g ms that nothing hides, %.1f %% of the capture",
                        exposed / 1e6, pct_of(exposed, all->span)));
    an_finding_evidence(f, an_arena_format(c->a, "%" PRId64 " copies, %.3g ms, %.3g ms exposed", row->count,
                                           (double)row->total_ns / 1e6, exposed / 1e6));
    if (row->bytes.valid && row->bytes_per_s.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.3g MB at %.3g GB/s", (double)row->bytes.value / 1e6, row->bytes_per_s.value / 1e9));
    f->action = "copy from pinned memory, beside compute: DataLoader(pin_memory=True) and .to(device, non_blocking=True)";
    f->effort = "two settings";
    capture_ceiling(f, all->span, exposed);
    f->verify = "run again and compare copies: tacho report --json";
    f->wrong_when = "the copies stand outside of the steps, or the batch is needed at once";
}

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

static void low_precision(struct an_findings_list *l, const struct totals *all)
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
    if (!capture_share(l, removed, all->span, "matrix work that does not use the device's matrix units"))
        return;
    bool half = !strcmp(type, "fp16");
    struct an_finding *f = an_findings_add(
        l, "LOW_PRECISION",
        an_arena_format(c->a, "matrix kernels take %.3g ms off the device's matrix units, %.1f %% of the capture", off / 1e6,
                        pct_of(off, all->span)));
    if (p->matrix_unit_pct.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.1f %% of matrix and attention time runs on matrix units", p->matrix_unit_pct.value));
    an_finding_evidence(
        f, an_arena_format(c->a, "%.100s: %s is %.3g times as fast as fp32 (data sheet)", c->r->gpus[0].name, type, ratio));
    f->action = half ? "mixed precision: torch.autocast(\"cuda\", torch.float16) around forward and loss, with a GradScaler"
                     : "mixed precision: torch.autocast(\"cuda\", torch.bfloat16) around forward and loss; or "
                       "torch.set_float32_matmul_precision(\"high\")";
    f->effort = "some lines of code; the loss has to be watched";
    capture_ceiling(f, all->span, removed);
    f->method = "ceiling: every such kernel as much faster as the data sheet's peaks; nothing was measured";
    f->confidence = f->confidence > AN_LOW ? AN_MEDIUM : AN_LOW;
    f->verify = "run again and compare precision and samples/s: tacho report --json";
    f->wrong_when = "these kernels are bound by memory, not by arithmetic, or training does not converge in that type";
}

/* ---- what the capture lacks ----------------------------------------------------------------------------------------------- */

static void no_gain(struct an_finding *f)
{
    f->gain.low = f->gain.expected = f->gain.high = an_num_none("a gap in the measurement has no gain");
    f->method = "no gain: it is a gap in what was measured, not in the run";
    f->effort = "another recording";
}

static void opaque_graphs(struct an_findings_list *l, const struct totals *all)
{
    struct an_context *c = l->c;
    const char *source = an_trace_key(c->t, "source");
    double pct = pct_of(all->opaque, all->span);
    if (pct < OPAQUE_PCT) {
        an_findings_checked(l, "graphs recorded without their kernels");
        return;
    }
    struct an_finding *f = an_findings_add(
        l, "OPAQUE_GRAPHS",
        an_arena_format(c->a, "%.1f %% of the capture is graphs of which the kernels were not recorded: busy, not idle", pct));
    an_finding_evidence(f, an_arena_format(c->a, "%.3g ms opaque of %.3g ms on %zu %s", all->opaque / 1e6, all->span / 1e6,
                                           c->r->gpu_count, c->r->gpu_count == 1 ? "device" : "devices"));
    if (!c->r->launches.reason)
        an_finding_evidence(f, an_arena_format(c->a, "%" PRId64 " launches of graphs", c->r->launches.graphs));
    f->action = source && !strcmp(source, "nsight") ? "record graphs node by node: nsys profile --cuda-graph-trace=node"
                                                    : "record some steps without graphs (TORCH_COMPILE_DISABLE=1, or no "
                                                      "capture), or with a profiler that records graph nodes";
    no_gain(f);
    f->verify = "report the new recording: opaque_us of each device is 0";
    f->wrong_when = "never: what is inside these graphs is not in the file";
}

static void incomplete_capture(struct an_findings_list *l, const struct totals *all)
{
    struct an_context *c = l->c;
    const struct an_quality *q = &c->r->quality;
    const struct an_launches *n = &c->r->launches;
    if (q->reason || n->reason)
        return;
    double lost = q->kernels_lost.valid ? pct_of((double)q->kernels_lost.value, (double)n->calls) : 0;
    double alone = q->ops_without_launch.valid ? pct_of((double)q->ops_without_launch.value, all->ops) : 0;
    if (lost < LOST_PCT && alone < UNLAUNCHED_PCT) {
        an_findings_checked(l, "kernels and launches that the recording lost");
        return;
    }
    const char *source = an_trace_key(c->t, "source");
    struct an_finding *f = an_findings_add(
        l, "INCOMPLETE_CAPTURE",
        lost >= LOST_PCT
            ? an_arena_format(c->a, "%.1f %% of the launches have no kernel in the file: times of the device are too short",
                              lost)
            : an_arena_format(c->a, "%.1f %% of the device ops have no launch in the file: what asked for them is not known",
                              alone));
    if (q->kernels_lost.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%" PRId64 " of %" PRId64 " launches without a kernel", q->kernels_lost.value, n->calls));
    if (q->ops_without_launch.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%" PRId64 " of %.0f device ops without a launch", q->ops_without_launch.value, all->ops));
    f->action = source && !strcmp(source, "nsight")
                    ? "start nsys before the program works on the device, and end the capture between steps after a "
                      "synchronise call"
                    : "give torch.profiler.schedule more warm-up steps, and synchronise the device before the profiler stops";
    no_gain(f);
    f->verify = "report the new recording: trust/capture counts no such rows";
    f->wrong_when = "the capture window was cut on purpose: steps inside it are complete (see the steps left out)";
}

int an_findings_gpu(struct an_findings_list *l)
{
    struct totals all = totals_of(l->c);
    int rc = exposed_comm(l);
    if (!rc)
        rc = host_late(l, &all);
    if (rc || all.span <= 0)
        return rc;
    sync_stall(l, &all);
    pageable_copy(l, &all);
    low_precision(l, &all);
    opaque_graphs(l, &all);
    incomplete_capture(l, &all);
    return 0;
}

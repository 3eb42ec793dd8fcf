/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings about the recording of a device: what it lacks, and how to record it. They have no gain.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"

#define OPAQUE_PCT     5.0  /* of the span */
#define LOST_PCT       2.0  /* of the launches of kernels */
#define UNLAUNCHED_PCT 10.0 /* of the device ops */

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

static void no_gain(struct an_finding *f)
{
    f->gain.low = f->gain.expected = f->gain.high =
        an_num_none("a gap in the measurement has no gain");
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
    struct an_finding *f =
        an_findings_add(l, "OPAQUE_GRAPHS",
                        an_arena_format(c->a,
                                        "%.1f %% of the capture is graphs of which the kernels "
                                        "were not recorded: busy, not idle",
                                        pct));
    an_finding_evidence(f, an_arena_format(c->a, "%s opaque of %s on %zu %s",
                                           an_time_words(c->a, all->opaque / 1e6, 3),
                                           an_time_words(c->a, all->span / 1e6, 3), c->r->gpu_count,
                                           c->r->gpu_count == 1 ? "device" : "devices"));
    if (!c->r->launches.reason)
        an_finding_evidence(
            f, an_arena_format(c->a, "%" PRId64 " launches of graphs", c->r->launches.graphs));
    f->action = source && !strcmp(source, "nsight")
                    ? "record graphs node by node: nsys profile --cuda-graph-trace=node"
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
    double lost =
        q->kernels_lost.valid ? pct_of((double)q->kernels_lost.value, (double)n->calls) : 0;
    double alone =
        q->ops_without_launch.valid ? pct_of((double)q->ops_without_launch.value, all->ops) : 0;
    if (lost < LOST_PCT && alone < UNLAUNCHED_PCT) {
        an_findings_checked(l, "kernels and launches that the recording lost");
        return;
    }
    const char *source = an_trace_key(c->t, "source");
    struct an_finding *f = an_findings_add(
        l, "INCOMPLETE_CAPTURE",
        lost >= LOST_PCT ? an_arena_format(c->a,
                                           "%.1f %% of the launches have no kernel in the file: "
                                           "times of the device are too short",
                                           lost)
                         : an_arena_format(c->a,
                                           "%.1f %% of the device ops have no launch in the file: "
                                           "what asked for them is not known",
                                           alone));
    if (q->kernels_lost.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%" PRId64 " of %" PRId64 " launches without a kernel",
                               q->kernels_lost.value, n->calls));
    if (q->ops_without_launch.valid)
        an_finding_evidence(f,
                            an_arena_format(c->a, "%" PRId64 " of %.0f device ops without a launch",
                                            q->ops_without_launch.value, all->ops));
    f->action = source && !strcmp(source, "nsight")
                    ? "start nsys before the program works on the device, and end the capture "
                      "between steps after a "
                      "synchronise call"
                    : "give torch.profiler.schedule more warm-up steps, and synchronise the device "
                      "before the profiler stops";
    no_gain(f);
    f->verify = "report the new recording: trust/capture counts no such rows";
    f->wrong_when = "the capture window was cut on purpose: steps inside it are complete (see the "
                    "steps left out)";
}

/* A run without steps: the device's tables are all there is. */
static void no_steps(struct an_findings_list *l)
{
    struct an_context *c = l->c;
    if ((c->r->steps.detailed && !c->r->budget.reason) || c->o->some_steps)
        return;
    struct an_finding *f = an_findings_add(l, "NO_STEPS",
                                           "no complete steps were found: why the device idles, "
                                           "and what a step costs, cannot be told");
    an_finding_evidence(f, c->r->steps.reason ? c->r->steps.reason : c->r->budget.reason);
    f->action = "mark steps and record several: prof.step() of torch.profiler, or an NVTX range "
                "named step around each update";
    no_gain(f);
    f->effort = "one line of code, another recording";
    f->verify = "report the new recording: it has a step budget";
    f->wrong_when = "the program is no training loop";
}

void an_findings_capture(struct an_findings_list *l)
{
    struct totals all = totals_of(l->c);
    if (all.span <= 0)
        return;
    opaque_graphs(l, &all);
    incomplete_capture(l, &all);
    no_steps(l);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: what to change. Each has all the parts of DESIGN 6 or is not printed. A gain that was
 * not replayed is a ceiling: an upper bound and no expected value.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define FINDINGS_MOST    5
#define UNATTRIBUTED_PCT 5.0 /* DESIGN 5 */
#define ONE_STEP_PCT     5.0
#define LOW_MFU          0.2

static int unattributed(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_budget *budget = &context->result->budget;
    struct an_class_share share;
    if (budget->reason || !budget->pct[AN_CLASS_UNATTRIBUTED].valid || an_mostly_opaque(context))
        return 0;
    double pct = budget->pct[AN_CLASS_UNATTRIBUTED].value;
    if (pct <= UNATTRIBUTED_PCT) {
        an_findings_checked(findings, "time of steps that no range explains");
        return 0;
    }
    if (an_class_share(context, AN_CLASS_UNATTRIBUTED, &share))
        return TACHO_ENOMEM;
    double step_ms = (double)budget->step_ns / (double)budget->steps / 1e6;
    bool held = context->gpu && budget->ns[AN_CLASS_UNATTRIBUTED].valid &&
                2 * context->held_ns > budget->ns[AN_CLASS_UNATTRIBUTED].value;
    struct an_finding *finding = an_findings_add(
        findings, "UNATTRIBUTED",
        held ? an_arena_format(context->arena,
                               "in %.1f %% of the step the device is recorded as idle although its "
                               "next work was issued and "
                               "the host waits for it: what it did is not in the trace",
                               pct)
        : context->gpu
            ? an_arena_format(
                  context->arena,
                  "in %.1f %% of the step the device idles and no range on the host says why", pct)
            : an_arena_format(
                  context->arena,
                  "%.1f %% of the step is covered by no range: the report cannot say what it is",
                  pct));
    finding->action =
        held ? "record the device's work: begin to record before it is launched (a step of warm-up "
               "in the profiler's "
               "schedule), and the nodes of graphs"
        : context->gpu
            ? "record what the host does there: torch.profiler with with_stack=True, or NVTX ranges"
            : "mark what the step does between its ranges (include/tacho_nvtx.h)";
    finding->effort = context->gpu ? "another recording" : "some ranges in the code";
    finding->method = "no gain: it is a gap in what was measured, not in the run";
    finding->verify = "run again and read the row unattributed: `tacho report`";
    finding->wrong_when =
        held ? "another process had the device meanwhile"
             : "events were lost (see trust): then ranges are missing that the program did mark";
    an_finding_evidence(finding,
                        an_arena_format(context->arena, "%s a step (%s)",
                                        an_time_words(context->arena, step_ms * pct / 100, 3),
                                        an_window_text(context)));
    an_finding_evidence(finding, an_arena_format(context->arena, "%zu of %zu steps have such time",
                                                 share.touched, share.steps));
    an_finding_evidence(finding, context->result->trust.lost_events.valid
                                     ? an_arena_format(context->arena, "%" PRId64 " events lost",
                                                       context->result->trust.lost_events.value)
                                     : "an unknown number of events was lost");
    finding->gain.low = finding->gain.expected = finding->gain.high =
        an_num_none("a gap in the measurement has no gain");
    return 0;
}

static double gain_of(const struct an_finding *finding)
{
    return finding->gain.expected.valid ? finding->gain.expected.value
           : finding->gain.high.valid   ? finding->gain.high.value
                                        : -1;
}

/* Of two findings the one with more to gain goes first. */
static int gain_order(const void *x, const void *y)
{
    double a = gain_of(x), b = gain_of(y);
    return (a < b) - (a > b);
}

/* Puts what the verdict names in front: it holds the run back, whatever bounds the others have. Not
 * where its replay says that it brings nothing as long as the others are as they are: they come
 * first then. */
static void verdict_first(struct an_findings_list *findings)
{
    static const struct {
        const char *id;
        enum an_class class;
    } classes[] = {{"STRAGGLER", AN_CLASS_COMM},
                   {"UNEVEN_DATA", AN_CLASS_COMM},
                   {"SLOW_STAGE", AN_CLASS_COMM},
                   {"INPUT_STALL", AN_CLASS_INPUT},
                   {"EXPOSED_COMM", AN_CLASS_COMM},
                   {"LAUNCH_BOUND", AN_CLASS_HOST},
                   {"HOST_BOUND", AN_CLASS_HOST},
                   {"SYNC_STALL", AN_CLASS_HOST},
                   {"PAGEABLE_COPY", AN_CLASS_COPY},
                   {"LOW_PRECISION", AN_CLASS_COMPUTE},
                   {"UNFUSED_ATTENTION", AN_CLASS_COMPUTE},
                   {"SMALL_BATCH", AN_CLASS_COMPUTE},
                   {"RECOMPUTE", AN_CLASS_COMPUTE},
                   {"LOW_INTENSITY", AN_CLASS_COMPUTE}};
    const struct an_budget *budget = &findings->context->result->budget;
    size_t best = findings->count, place = sizeof classes / sizeof *classes;
    int64_t rank;
    bool one = an_comm_waits_for_one(
        findings->context,
        &rank); /* then what is about that rank goes before what has most to gain */
    for (size_t i = 0; !budget->reason && i < findings->count; i++)
        for (size_t k = 0; k < sizeof classes / sizeof *classes &&
                           !an_finding_brings_nothing(&findings->found[i]);
             k++)
            if (!strcmp(findings->found[i].id, classes[k].id) &&
                classes[k].class == an_bound_class(budget) &&
                (best == findings->count || (one && k < place))) {
                best = i;
                place = k;
            }
    if (best == findings->count)
        return;
    struct an_finding first = findings->found[best];
    memmove(findings->found + 1, findings->found, best * sizeof first);
    findings->found[0] = first;
}

static int findings_run(struct an_context *context)
{
    struct an_findings_list findings = {.context = context};
    int rc = an_findings_input(&findings);
    if (!rc)
        rc = an_findings_comm(&findings);
    if (!rc && context->gpu)
        rc = an_findings_gpu(&findings);
    if (!rc && !context->gpu)
        rc = an_findings_engine(&findings);
    if (!rc)
        an_findings_ranks(&findings);
    if (!rc)
        rc = unattributed(&findings);
    if (!rc)
        rc = an_findings_replay(&findings);
    if (rc)
        return rc;
    if (context->result->trust.lost_events.valid && !context->result->trust.lost_events.value)
        an_findings_checked(&findings, "events that were lost");
    if (findings.count)
        qsort(findings.found, findings.count, sizeof *findings.found, gain_order);
    verdict_first(&findings);
    findings.count = findings.count < FINDINGS_MOST ? findings.count : FINDINGS_MOST;
    context->result->findings =
        an_arena_copy(context->arena, findings.found, findings.count * sizeof *findings.found);
    context->result->finding_count = findings.count;
    context->result->checked =
        an_arena_copy(context->arena, findings.checked, findings.checks * sizeof *findings.checked);
    context->result->checked_count = findings.checks;
    const struct an_value *mfu = &context->result->utilization.mfu;
    bool idle_units = context->gpu && mfu->valid &&
                      mfu->value < LOW_MFU; /* a device that is busy is not one that is used well */
    context->result->healthy = !findings.count && !idle_units && !context->result->caution &&
                               an_confidence_of(context) != AN_LOW &&
                               context->result->steps.detailed && !context->result->budget.reason &&
                               context->result->budget.roles_known;
    return context->result->findings && context->result->checked ? 0 : TACHO_ENOMEM;
}

/* Without steps a device's own tables still tell something; nothing else does. */
static int findings_frame(struct an_context *context)
{
    if (context->gpu || context->result->steps.detailed)
        return findings_run(context);
    return 0;
}

static void findings_absent(struct an_context *context, const char *reason)
{
    (void)reason; /* nothing to look at is no finding, and no health either */
    context->result->finding_count = 0;
}

const struct an_analyzer an_findings = {
    .name = "findings",
    .help = "what to change, with evidence and gain",
    .after = "steps, gpu, budget, absent, attribution, utilization, roofline, ops, launches, "
             "copies, syncs, precision, loader, communication, ranks, contention, hardware, "
             "memory, quality, trust, replay",
    .needs = AN_INPUT_SLICES,
    .run = findings_frame,
    .absent = findings_absent,
};

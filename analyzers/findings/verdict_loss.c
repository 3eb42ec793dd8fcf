/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of a run that lost events, failed, or has no step to count. Heavy loss
 * (docs/definitions.md) comes first in the sentence. What the missing share could turn over is not
 * concluded: the name of the class that limits the run, and the gains of the findings.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"

#define FAILED_S    60.0 /* a program that fails later had time for steps */
#define LAST_STATUS 128  /* above: ended by a signal */

/* Points between the shares of the two largest classes of the step. */
static double lead_of(const struct an_budget *budget)
{
    double first = 0, second = 0;
    for (int class = 0; class < AN_CLASS_COUNT; class ++) {
        double share = an_value_or_0(budget->pct[class]);
        if (share > first) {
            second = first;
            first = share;
        } else if (share > second) {
            second = share;
        }
    }
    return first - second;
}

/* If the missing share L of the events were all of the second class, its time could pass that of
 * the first, which leads by D points of what is known: (100 - L) D < 100 L. */
static bool may_turn_over(const struct an_result *result)
{
    const struct an_value *lost = &result->trust.lost_pct;
    return !result->budget.reason &&
           (!lost->valid || (100 - lost->value) * lead_of(&result->budget) < 100 * lost->value);
}

/* No finding claims a gain: the time that it is computed from is incomplete. */
static int withhold_gains(struct an_context *context)
{
    struct an_result *result = context->result;
    struct an_finding *findings = an_arena_copy(context->arena, result->findings,
                                                result->finding_count * sizeof *result->findings);
    if (!findings)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < result->finding_count; i++) {
        struct an_value none = an_num_none(result->trust.missing);
        findings[i].gain = (struct an_gain){.low = none, .expected = none, .high = none};
        findings[i].method =
            an_finding_text(context, "no gain is claimed: %s", result->trust.missing);
        findings[i].confidence = AN_LOW;
    }
    result->findings = findings;
    return 0;
}

const char *an_verdict_nothing(struct an_context *context, const char **class)
{
    const struct an_result *result = context->result;
    const struct an_trust *trust = &result->trust;
    if (trust->missing_why) {
        *class = "EVENTS LOST";
        return an_finding_text(context,
                               "%s: %.200s; the program emitted events, and no range of them is in "
                               "the file: remove that cause and record again",
                               trust->missing ? trust->missing : "some events are missing",
                               trust->missing_why);
    }
    if (!result->series_count)
        return NULL;
    *class = "COUNTERS ONLY";
    return an_finding_text(context,
                           "the program emitted %zu counter%s and no ranges: mark each optimizer "
                           "update with an NVTX range named step to see where its time goes",
                           result->series_count, result->series_count == 1 ? "" : "s");
}

const char *an_verdict_no_step(struct an_context *context)
{
    size_t compiling = 0;
    for (size_t i = 0; i < context->step_count; i++) {
        const char *excluded = context->step[i].excluded;
        compiling += excluded && !strcmp(excluded, "compile");
    }
    if (!compiling)
        return "none is complete; let the run go on for some steps";
    return an_finding_text(context,
                           "each of the %zu that could be counted compiles: keep shapes the same "
                           "from step to step, or record steps after the last compilation",
                           compiling);
}

const char *an_verdict_unrecorded(struct an_context *context)
{
    struct an_result *result = context->result;
    const char *step = "", *failed = context->step_count ? NULL : an_verdict_failed(context);
    if (!context->unrecorded)
        return NULL;
    if (failed) { /* why it failed is worth more than what it recorded until then */
        result->verdict_class = "NO STEPS";
        return failed;
    }
    result->verdict_class = "DEVICE NOT RECORDED";
    if (result->run.live)
        result->verdict_class = result->steps.median_ms.valid ? "STEPS ONLY" : "NO STEPS";
    if (result->steps.median_ms.valid)
        step = an_finding_text(context, " A step lasts %s (median of %" PRId64 ").",
                               an_time_words(context->arena, result->steps.median_ms.value, 4),
                               result->steps.counted);
    return an_finding_text(context, "%s: %s, so what limits the run cannot be said%s.%s",
                           result->verdict_class, context->unrecorded,
                           result->run.live ? " yet" : "", step);
}

int an_verdict_loss(struct an_context *context)
{
    struct an_result *result = context->result;
    const struct an_trust *trust = &result->trust;
    const char *rest = result->verdict;
    if (!trust->missing || !context->trace->slice.count)
        return 0; /* without ranges the sentence has said so */
    if (may_turn_over(result)) {
        result->verdict_class = "EVENTS LOST";
        rest = an_finding_text(
            context,
            "what limits the run is not concluded: the missing events could change the order of "
            "the classes of time, whose recorded shares are %.1f %% compute and %.1f %% other",
            an_value_or_0(result->budget.pct[AN_CLASS_COMPUTE]),
            100 - an_value_or_0(result->budget.pct[AN_CLASS_COMPUTE]));
        rest = an_finding_text(context, "%s.", rest);
    }
    result->verdict = an_finding_text(context, "EVENTS LOST: %s: %.200s. Of the rest: %s",
                                      trust->missing, trust->missing_why, rest);
    result->healthy = false;
    return result->finding_count ? withhold_gains(context) : 0;
}

const char *an_verdict_failed(struct an_context *context)
{
    const struct an_run *run = &context->result->run;
    bool failed = run->exit_status.valid && run->exit_status.value > 0 &&
                  run->exit_status.value <= LAST_STATUS && run->duration_s.valid;
    if (!failed || run->duration_s.value > FAILED_S)
        return NULL;
    return an_finding_text(context,
                           "NO STEPS: the program failed with exit status %" PRId64
                           " after %s, before its first step: what it printed says why.",
                           run->exit_status.value,
                           an_time_words(context->arena, run->duration_s.value * 1e3, 3));
}

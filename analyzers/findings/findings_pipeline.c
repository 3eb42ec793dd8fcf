/* SPDX-License-Identifier: Apache-2.0
 *
 * RANK_JITTER: ranks take turns at being late. PIPELINE_IMBALANCE: the work of a pipeline's stages
 * or of its micro-batches is uneven, and the others wait. Both gains come from the replay of the
 * operations (ranks/even.c). Micro-batches are only named where all stages take longer for the same
 * ones, and a stage only where it is not one of its ranks that is slow.
 */
#include <inttypes.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/ranks/ranks_compare.h"

#define COINCIDES 0.5 /* correlation of stages from which on micro-batches are named */

/* What was replayed, and who is slow. */
static void even_evidence(struct an_context *context, const struct an_even *even,
                          struct an_finding *finding)
{
    const struct an_pipeline *pipeline = &context->result->ranks.pipeline;
    an_finding_note(context, finding,
                    "a step takes %s as recorded, without time between operations; %s if every "
                    "operation took the mean of its name (%" PRId64 " steps)",
                    an_time_words(context->arena, even->recorded_ms.value, 4),
                    an_time_words(context->arena, even->ideal_ms.value, 4), even->steps);
    an_finding_note(context, finding,
                    "even stages alone: +%.1f %% [%.1f, %.1f]; even micro-batches on top: +%.1f %% "
                    "[%.1f, %.1f]",
                    even->stages.expected.value, even->stages.low.value, even->stages.high.value,
                    even->batches.expected.value, even->batches.low.value,
                    even->batches.high.value);
    an_finding_note(context, finding,
                    "stage %" PRId64 " has %.1f %% more work than the mean of %" PRId64
                    " stages; with its usual work, %.0f %% of the lost time would be gone",
                    even->stage, even->stage_excess_pct.value, even->stage_count,
                    even->stage_share_pct.value);
    if (even->batch_correlation.valid)
        an_finding_note(context, finding,
                        "the times of different stages for the same micro-batch correlate by %.2f",
                        even->batch_correlation.value);
    if (even->rank_pct.valid)
        an_finding_note(context, finding,
                        "of the pipelines that of rank %" PRId64
                        " is slowest: alone it makes the even step %.1f %% longer",
                        even->rank, even->rank_pct.value);
    if (pipeline->bubble_pct.valid && pipeline->ideal_pct.valid)
        an_finding_note(context, finding,
                        "ranks wait in receives for %.1f %% of the step; %.1f %% is what even "
                        "stages wait with %" PRId64 " micro-batches",
                        pipeline->bubble_pct.value, pipeline->ideal_pct.value,
                        pipeline->micro_batches);
}

static void stage_texts(struct an_context *context, const struct an_even *even,
                        struct an_finding *finding)
{
    finding->claim =
        an_finding_text(context,
                        "the stages of the pipeline are uneven: stage %" PRId64
                        " has %.0f %% more work than the mean, and the other stages wait for it",
                        even->stage, even->stage_excess_pct.value);
    finding->action = an_finding_text(
        context,
        "move layers from stage %" PRId64
        " to the others (fewer layers beside the embedding, the output layer and the loss)",
        even->stage);
    finding->effort = "a change of the partition";
}

static void batch_texts(struct an_context *context, const struct an_even *even,
                        struct an_finding *finding)
{
    finding->claim = an_finding_text(
        context,
        "the same operations take unequally long on different micro-batches and ranks: the "
        "pipelines wait for the longest, most of all for that of rank %" PRId64,
        even->rank);
    finding->action = "give every micro-batch the same work: pack sequences, or distribute them by "
                      "the sum of their squared lengths; else look for what slows single ranks";
    finding->effort = "a change of the sampler";
}

/* Is a rank slower than its peers in the slow stage? Then the stage is slow by it. */
static bool is_by_rank(const struct an_context *context, const struct an_even *even)
{
    const uint32_t *peers = context->exchanges ? context->exchanges->peers : NULL;
    bool found = false;
    for (size_t lane = 0; peers && lane < context->lane_count; lane++)
        found = found || (context->lane[lane].rank == context->result->ranks.straggler.rank &&
                          peers[lane] == even->stage_lane);
    return found && an_findings_slow_rank(context);
}

/* Are micro-batches to blame? They are uneven in all stages alike. */
static bool is_by_batches(const struct an_even *even)
{
    return even->batches.expected.value > even->stages.expected.value &&
           even->batch_correlation.valid && even->batch_correlation.value >= COINCIDES;
}

/* Is one stage to blame, whose work explains what it costs? A stage with the mean's work whose
 * passes only vary, as on cores that others use, is not uneven. */
static bool is_by_one_stage(const struct an_even *even)
{
    double gain = even->slow_stage.expected.value;
    return gain > even->stages.expected.value && even->stage_excess_pct.value > gain / 2;
}

void an_findings_pipeline(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_even *even = &context->result->ranks.even;
    if (even->reason)
        return;
    bool stages = !is_by_batches(even), alone = stages && is_by_one_stage(even);
    const struct an_gain_pct *gain = stages ? &even->stages : &even->batches;
    gain = alone ? &even->slow_stage : gain;
    if (gain->low.value < FINDINGS_NOISE_PCT || (stages && is_by_rank(context, even)))
        return;
    struct an_finding *finding = an_findings_add(findings, "PIPELINE_IMBALANCE", NULL);
    (stages ? stage_texts : batch_texts)(context, even, finding);
    even_evidence(context, even, finding);
    finding->gain =
        (struct an_gain){.low = gain->low, .expected = gain->expected, .high = gain->high};
    finding->method = stages
                          ? "replay of the operations with the work of every stage scaled to the "
                            "mean of all; 90 % by Student's t over steps"
                          : "replay of the operations with every one as long as the mean of its "
                            "name, against even stages; 90 % by Student's t over steps";
    if (alone)
        finding->method = "replay of the operations with those of that stage as long as the mean "
                          "of their names; 90 % by Student's t over steps";
    finding->verify =
        an_finding_text(context, "%s, and read the line Pipeline",
                        an_command_rerun(context, stages ? "another partition" : "even batches"));
    finding->wrong_when = stages ? "layers cannot be divided that finely"
                                 : "the operations differ for another reason than their batches";
}

/* What to do about the cause that coincides. */
static const char *jitter_action(struct an_context *context, const struct an_jitter *jitter)
{
    if (!jitter->cause)
        return an_finding_text(context,
                               "look for what delays single steps in %s on the hosts: "
                               "logging, collectors, interrupts, shared storage",
                               an_stage_key(jitter->stage));
    if (!strcmp(jitter->cause, "batch tokens"))
        return "give the ranks equally long batches in each step: batches by tokens, packing";
    if (!strcmp(jitter->cause, "collector"))
        return "collect garbage in the same step on all ranks: gc.disable(), and gc.collect() "
               "every N steps";
    return "give every rank its own cores: pin the processes, fewer threads";
}

void an_findings_jitter(struct an_findings_list *findings)
{
    struct an_context *context = findings->context;
    const struct an_jitter *jitter = &context->result->ranks.jitter;
    if (jitter->reason || jitter->pct.value < FINDINGS_NOISE_PCT ||
        jitter->gain.low.value < FINDINGS_NOISE_PCT || jitter->stage == AN_STAGE_COUNT ||
        an_findings_slow_rank(context))
        return;
    struct an_finding *finding = an_findings_add(findings, "RANK_JITTER", NULL);
    finding->claim = an_finding_text(
        context,
        "in each step another rank is late: the longest own time is %.1f %% of the step above the "
        "median rank's, mostly in %s",
        jitter->pct.value, an_stage_key(jitter->stage));
    an_finding_note(context, finding,
                    "own time, max - median over %" PRId64 " ranks (from rank %" PRId64
                    "): %s a step on average; no rank is slower than the others for long",
                    jitter->ranks, jitter->rank,
                    an_time_words(context->arena, jitter->ms.value, 3));
    if (jitter->cause)
        an_finding_note(context, finding, "%s coincides: correlation %.2f over ranks and steps",
                        jitter->cause, jitter->correlation.value);
    finding->action = jitter_action(context, jitter);
    finding->effort = "find out what delays single steps";
    finding->what_if = "ranks=even";
    finding->gain = (struct an_gain){
        .low = jitter->gain.low, .expected = jitter->gain.expected, .high = jitter->gain.high};
    finding->method = "step / (step - (max - median of own time)) - 1; 90 % by Student's t over "
                      "ten parts of the run";
    finding->verify = an_finding_text(context, "%s, and read the line Jitter",
                                      an_command_rerun(context, "the cause removed"));
    finding->wrong_when = "another rank is late as soon as this one is not";
}

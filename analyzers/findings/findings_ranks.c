/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings that compare ranks. STRAGGLER and UNEVEN_DATA: a rank that all others wait for, and
 * whether it only has more to do. SLOW_STAGE: the stage of a step that makes a rank late.
 * EXPERT_IMBALANCE: all-to-all in which one rank moves much more than the mean. The gains of the
 * first three come from the replay (replay/what_if_ranks.c).
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings_private.h"
#include "analyzers/pictures/python.h"

#define IMBALANCE  1.2 /* of all-to-all, max / mean */
#define EDITS_MOST 8   /* stragglers that one edit names */

static const struct an_rank_row *row_of(const struct an_ranks *ranks, int64_t rank)
{
    for (size_t i = 0; i < ranks->row_count; i++)
        if (ranks->row[i].rank == rank)
            return &ranks->row[i];
    return NULL;
}

/* The time of a stage, as sentences name it. */
static const char *stage_words(enum an_step_stage stage)
{
    return stage == AN_STAGE_HOST || stage == AN_STAGE_OTHER ? "the host time between stages"
                                                             : an_stage_key(stage);
}

/* Where to look, by the stage that is slow. */
static const char *where_to_look(enum an_step_stage stage)
{
    static const char *const places[AN_STAGE_COUNT] = {
        [AN_STAGE_INPUT] = "its loader: workers, storage and cores of that machine",
        [AN_STAGE_HOST] = ("logging, synchronising calls, sleeps, Python (tacho run --stacks "
                           "shows what ran there)"),
        [AN_STAGE_FORWARD] =
            "its cores or device: clocks, heat, other programs on them, its share of the work",
        [AN_STAGE_COMPUTE] =
            "its device: clocks, heat, other programs on it, its share of the work",
        [AN_STAGE_BACKWARD] =
            "its cores or device: clocks, heat, other programs on them, its share of the work",
        [AN_STAGE_COMM] = "its link",
        [AN_STAGE_OPTIMIZER] =
            "its optimizer: memory bandwidth, offloading, an uneven share of the parameters",
        [AN_STAGE_OTHER] =
            "logging, checkpoints, synchronising calls (tacho run --stacks shows what ran there)",
    };
    return places[stage];
}

/* The line of Python with most host time on that rank, where frames were recorded: "sleep_a_while
 * (train.py:31), in 45 % of its samples"; NULL: it is not known. */
static const char *line_of_rank(struct an_context *context, int64_t rank)
{
    struct an_python_line line;
    double pct = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (lane->process == AN_NONE || context->trace->process[lane->process].rank != rank)
            continue;
        if (an_python_line_of_lane(context, k, &line, &pct) != 1)
            return NULL;
        return an_finding_text(context, "%.80s (%.80s:%" PRId64 "), in %.0f %% of its samples",
                               line.function, an_finding_file_name(line.file), line.line, pct);
    }
    return NULL;
}

/* Where to look for the delay: the line of Python in time of the host, else by the stage. */
static const char *place_words(struct an_context *context, const struct an_frontier *frontier)
{
    const char *line = NULL;
    if (frontier->stage == AN_STAGE_HOST || frontier->stage == AN_STAGE_OTHER)
        line = line_of_rank(context, frontier->rank);
    if (line)
        return line;
    return where_to_look(frontier->stage);
}

static const char *stage_action(struct an_context *context, const struct an_ranks *ranks)
{
    const struct an_frontier *frontier = &ranks->frontier;
    return an_finding_text(
        context, "make %s of rank %" PRId64 " as short as on the others: look at %s",
        stage_words(frontier->stage), frontier->rank, place_words(context, frontier));
}

/* The edit that makes the stragglers as fast as their peers. Of two ranks the verdicts do not say
 * which one is slow, but the row of the straggler does. */
static const char *peers_edit(struct an_context *context, const struct an_ranks *ranks)
{
    const char *list = "";
    size_t count = 0;
    for (size_t i = 0; i < ranks->row_count && count < EDITS_MOST; i++) {
        const struct an_rank_row *row = &ranks->row[i];
        bool slow = ranks->row_count == 2 ? row->rank == ranks->straggler.rank
                                          : !strcmp(row->verdict, "straggler");
        if (slow)
            list = an_finding_text(context, "%s%srank:%" PRId64 "=peers", list, count++ ? "," : "",
                                   row->rank);
    }
    return list;
}

static bool is_straggler(const struct an_ranks *ranks)
{
    const struct an_straggler *straggler = &ranks->straggler;
    return !ranks->reason && !straggler->reason && straggler->count &&
           straggler->gain_low_pct.valid && straggler->gain_low_pct.value >= FINDINGS_NOISE_PCT;
}

/* A rank with more data is longer in all stages: then no single stage is slow. */
static bool is_slow_stage(const struct an_ranks *ranks)
{
    const struct an_frontier *frontier = &ranks->frontier;
    bool data =
        is_straggler(ranks) && ranks->straggler.by_data && ranks->straggler.rank == frontier->rank;
    return !ranks->reason && !frontier->reason && frontier->stage != AN_STAGE_COUNT && !data;
}

bool an_findings_slow_rank(const struct an_context *context)
{
    return is_straggler(&context->result->ranks) || is_slow_stage(&context->result->ranks);
}

/* The excess of the rank with its interval, its data, and where the delay first appears. */
static void slow_rank_evidence(struct an_context *context, const struct an_ranks *ranks,
                               struct an_finding *finding)
{
    const struct an_straggler *straggler = &ranks->straggler;
    const struct an_frontier *frontier = &ranks->frontier;
    const struct an_rank_row *row = row_of(ranks, straggler->rank);
    an_finding_note(
        context, finding,
        "own time (%s): excess %.1f %% (%.1f to %.1f, all ranks together 95 %%), %" PRId64
        " steps, %zu ranks",
        ranks->own_is, straggler->excess_pct.value, straggler->excess_low_pct.value,
        straggler->excess_high_pct.value, ranks->steps, ranks->row_count);
    if (straggler->by_data || ranks->uneven.found)
        an_finding_note(
            context, finding, "%s %s a step at most (rank %" PRId64 "), %s at least, %s on average",
            an_number_words(context->arena, ranks->uneven.max.value, 6), ranks->uneven.what,
            ranks->uneven.rank, an_number_words(context->arena, ranks->uneven.min.value, 6),
            an_number_words(context->arena, ranks->uneven.mean.value, 6));
    if (frontier->delay_pct.valid)
        an_finding_note(context, finding,
                        "the delay first appears in %s of rank %" PRId64
                        ": %s, %.1f %% of the step (%.1f at least)",
                        an_stage_key(frontier->stage), frontier->rank,
                        an_time_words(context->arena, frontier->delay_ms.value, 3),
                        frontier->delay_pct.value, frontier->delay_low_pct.value);
    if (row)
        an_finding_note(context, finding, "rank %" PRId64 ": %s of its own in a step of %s",
                        straggler->rank, an_time_words(context->arena, row->own_ms.value, 3),
                        an_time_words(context->arena, row->step_ms.value, 3));
}

/* The option of the reference engine that makes a rank slow on purpose, with what to do; "": the
 * command has none, or another program ran. */
static const char *imitation(struct an_context *context, const char *option)
{
    return an_command_has_option(context, option)
               ? an_finding_text(context, "; here %s imitates it: run without it", option)
               : "";
}

/* The rank is slower because it gets more data. */
static void uneven_data(struct an_context *context, const struct an_ranks *ranks,
                        struct an_finding *finding)
{
    const struct an_straggler *straggler = &ranks->straggler;
    finding->id = "UNEVEN_DATA";
    finding->claim =
        an_finding_text(context,
                        "rank %" PRId64 " gets more %s than the others, and they wait for it: "
                        "its own time is %.1f %% above theirs",
                        straggler->rank, ranks->uneven.what, straggler->excess_pct.value);
    finding->action =
        an_finding_text(context,
                        "give every rank the same amount in each step: batches by tokens instead "
                        "of by samples, sorted or packed sequences%s",
                        imitation(context, "--uneven"));
    finding->effort = "a change of the sampler";
    finding->what_if = "ranks=even";
}

/* The rank is slower with the same data. */
static void straggler_texts(struct an_context *context, const struct an_ranks *ranks,
                            struct an_finding *finding)
{
    const struct an_straggler *straggler = &ranks->straggler;
    bool staged = is_slow_stage(ranks) && ranks->frontier.rank == straggler->rank;
    finding->id = "STRAGGLER";
    finding->claim = an_finding_text(
        context,
        "%s is slower than its peers: its own time is %.1f %% above theirs, and they wait for "
        "it",
        straggler->says, straggler->excess_pct.value);
    const struct an_frontier *frontier = &ranks->frontier;
    const char *imitates = imitation(context, "--slow-rank");
    if (staged)
        finding->action = an_finding_text(
            context,
            "find out why %s of rank %" PRId64 " is %s longer than on the others: look at %s%s",
            stage_words(frontier->stage), straggler->rank,
            an_time_words(context->arena, frontier->delay_ms.value, 3),
            place_words(context, frontier), imitates);
    else
        finding->action = an_finding_text(
            context,
            "compare rank %" PRId64 " with the others: its loader, its share of the work, its "
            "cores or device (clocks, heat, other programs on them)%s",
            straggler->rank, imitates);
    finding->effort = "find out what takes that rank longer";
    finding->what_if = peers_edit(context, ranks);
}

/* A rank that others wait for is UNEVEN_DATA where it only has more to do, else STRAGGLER. */
static void slow_rank(struct an_findings_list *findings, const struct an_ranks *ranks)
{
    struct an_context *context = findings->context;
    const struct an_straggler *straggler = &ranks->straggler;
    struct an_finding *finding = an_findings_add(findings, NULL, NULL);
    if (straggler->by_data) {
        uneven_data(context, ranks, finding);
    } else {
        straggler_texts(context, ranks, finding);
    }
    slow_rank_evidence(context, ranks, finding);
    finding->gain = (struct an_gain){.low = straggler->gain_low_pct,
                                     .expected = straggler->gain_pct,
                                     .high = straggler->gain_high_pct};
    finding->method =
        "each step again with this rank's own time no longer than that of the slowest other one: "
        "sum of steps / (sum - time saved) - 1; 95 % by block bootstrap over steps";
    bool imitated = !straggler->by_data && an_command_has_option(context, "--slow-rank");
    finding->setting = imitated ? "without --slow-rank"
                                : an_finding_text(context, "rank %" PRId64 " as fast as the others",
                                                  straggler->rank);
    finding->verify = an_finding_text(context, "%s, and read the section of the ranks",
                                      an_command_rerun(context, finding->setting));
    finding->wrong_when =
        ranks->missing
            ? "a rank that is not in the file is slower still"
            : "the rank does other work by design (stages of a pipeline, evaluation on one rank)";
}

/* The stage on that rank against the shortest and the longest one of the others. */
static void stage_evidence(struct an_context *context, const struct an_ranks *ranks,
                           struct an_finding *finding)
{
    const struct an_frontier *frontier = &ranks->frontier;
    const struct an_rank_row *slow = row_of(ranks, frontier->rank);
    double least = INFINITY, most = 0;
    if (!slow)
        return;
    for (size_t i = 0; i < ranks->row_count; i++) {
        const struct an_value *stage_ms = &ranks->row[i].stage_ms[frontier->stage];
        if (ranks->row[i].rank == frontier->rank || !stage_ms->valid)
            continue;
        least = fmin(least, stage_ms->value);
        most = fmax(most, stage_ms->value);
    }
    an_finding_note(context, finding, "%s takes %s there, %s to %s on the others",
                    an_stage_key(frontier->stage),
                    an_time_words(context->arena, slow->stage_ms[frontier->stage].value, 3),
                    an_time_words(context->arena, least, 3),
                    an_time_words(context->arena, most, 3));
}

/* Claim and evidence: the delay of the stage, and the stages before it. */
static void slow_stage_evidence(struct an_context *context, const struct an_ranks *ranks,
                                struct an_finding *finding)
{
    const struct an_frontier *frontier = &ranks->frontier;
    const char *stage = stage_words(frontier->stage);
    finding->claim = an_finding_text(
        context,
        "%s of rank %" PRId64
        " is %s longer than on its peers in each step, and makes the rank late",
        stage, frontier->rank, an_time_words(context->arena, frontier->delay_ms.value, 3));
    an_finding_note(
        context, finding,
        "that is %.1f %% of the step (%.1f at least, all ranks and stages together 95 %%), %" PRId64
        " steps, %zu ranks",
        frontier->delay_pct.value, frontier->delay_low_pct.value, ranks->steps, ranks->row_count);
    stage_evidence(context, ranks, finding);
    an_finding_evidence(finding,
                        frontier->stage == 0
                            ? "there is no earlier stage"
                            : "in no earlier stage is a rank slower than its peers by as much");
}

/* A single stage of a step makes the rank late, and the others wait for it. */
static void slow_stage(struct an_findings_list *findings, const struct an_ranks *ranks)
{
    struct an_context *context = findings->context;
    const struct an_frontier *frontier = &ranks->frontier;
    const char *stage = an_stage_key(frontier->stage);
    struct an_finding *finding = an_findings_add(findings, "SLOW_STAGE", NULL);
    slow_stage_evidence(context, ranks, finding);
    finding->action = stage_action(context, ranks);
    finding->effort = "find out what takes that rank longer there";
    finding->certain = true;
    finding->what_if = an_finding_text(context, "rank:%" PRId64 ":%s=peers", frontier->rank, stage);
    an_finding_ceiling(finding, 100, frontier->delay_pct.value, "nothing was replayed");
    finding->method = "ceiling \"the stage as short as its peers'\": step / (step - delay) - 1; "
                      "nothing was replayed";
    finding->verify = an_finding_text(
        context, "%s, and read the stages of the ranks",
        an_command_rerun(context,
                         an_finding_text(context, "%s of rank %" PRId64 " as fast as the others'",
                                         stage, frontier->rank)));
    finding->wrong_when =
        "the rank does other work by design (stages of a pipeline, evaluation on one rank)";
}

/* Claim and evidence: bytes of the rank that moves most, and waiting. */
static void uneven_experts_evidence(struct an_context *context, const struct an_experts *experts,
                                    struct an_finding *finding)
{
    const struct an_communication *communication = &context->result->communication;
    finding->claim = an_finding_text(
        context, "experts are uneven: rank %" PRId64 " moves %s times the mean in all-to-all",
        experts->rank, an_number_words(context->arena, experts->max_over_mean.value, 3));
    an_finding_note(context, finding, "%s a step on that rank, %s on average",
                    an_bytes_text(context, experts->bytes_max.value),
                    an_bytes_text(context, experts->bytes_mean.value));
    if (communication->exposed_waiting_ms.valid)
        an_finding_note(context, finding, "%s of exposed waiting a step (mean over ranks)",
                        an_time_words(context->arena, communication->exposed_waiting_ms.value, 3));
}

/* Looks at all-to-all in which one rank moves much more than the mean: experts that get more tokens
 * than others. */
static void uneven_experts(struct an_findings_list *findings, const struct an_experts *experts)
{
    struct an_context *context = findings->context;
    const struct an_communication *communication = &context->result->communication;
    if (experts->max_over_mean.value < IMBALANCE)
        return;
    const char *none = "an even split was not replayed";
    struct an_finding *finding = an_findings_add(findings, "EXPERT_IMBALANCE", NULL);
    uneven_experts_evidence(context, experts, finding);
    finding->action = "balance the router: a load-balancing loss or bias, a capacity factor, other "
                      "placement of experts; the link is not the cause";
    finding->effort = "a change of the model's router";
    finding->gain = (struct an_gain){.low = an_num_none(none),
                                     .expected = an_num_none(none),
                                     .high = an_num_none(none),
                                     .ceiling = true};
    if (communication->exposed_waiting_ms.valid && context->result->steps.mean_ms.valid)
        an_finding_ceiling(finding, context->result->steps.mean_ms.value,
                           communication->exposed_waiting_ms.value, none);
    finding->method =
        "ceiling \"no exposed waiting\": step / (step - waiting) - 1; nothing was replayed";
    finding->verify = an_finding_text(context, "%s, and read the line Experts",
                                      an_command_rerun(context, "the router changed"));
    finding->wrong_when = "the all-to-all is not that of experts (sequence parallelism)";
}

void an_findings_ranks(struct an_findings_list *findings)
{
    const struct an_ranks *ranks = &findings->context->result->ranks;
    if (ranks->reason)
        return;
    if (!ranks->experts.reason)
        uneven_experts(findings, &ranks->experts);
    if (is_slow_stage(ranks))
        slow_stage(findings, ranks);
    if (ranks->straggler.reason)
        return;
    if (is_straggler(ranks))
        slow_rank(findings, ranks);
}

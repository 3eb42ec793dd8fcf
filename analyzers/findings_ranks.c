/* SPDX-License-Identifier: Apache-2.0
 *
 * STRAGGLER and UNEVEN_DATA: a rank that all others wait for, and whether it only has more to do. EXPERT_IMBALANCE: all-to-all
 * in which one rank moves much more than the mean.
 */
#include <inttypes.h>
#include <stddef.h>

#include "analyzers/findings.h"

#define IMBALANCE 1.2 /* of all-to-all, max / mean */

static const struct an_rank_row *row_of(const struct an_ranks *r, int64_t rank)
{
    for (size_t i = 0; i < r->row_count; i++)
        if (r->row[i].rank == rank)
            return &r->row[i];
    return NULL;
}

static const char *stage_action(struct an_context *c, const struct an_ranks *r)
{
    static const char *const actions[AN_STAGE_COUNT] = {
        [AN_STAGE_INPUT] = "its loader: workers, storage and cores of that machine",
        [AN_STAGE_FORWARD] = "its cores or device: clocks, heat, who else uses them, its share of the work",
        [AN_STAGE_COMPUTE] = "its device: clocks, heat, who else uses it, its share of the work",
        [AN_STAGE_BACKWARD] = "its cores or device: clocks, heat, who else uses them, its share of the work",
        [AN_STAGE_COMM] = "its link",
        [AN_STAGE_OPTIMIZER] = "its optimizer: memory bandwidth, offloading, an uneven share of the parameters",
        [AN_STAGE_OTHER] = "what its host does between the stages: logging, checkpoints, synchronising calls",
    };
    if (r->frontier.stage == AN_STAGE_COUNT || r->frontier.rank != r->straggler.rank)
        return an_arena_format(
            c->a, "compare rank %" PRId64 " with the others: its loader, its share of the work, its cores or device",
            r->straggler.rank);
    return an_arena_format(c->a, "make %s of rank %" PRId64 " as long as the others': look at %s",
                           an_stage_key(r->frontier.stage), r->straggler.rank, actions[r->frontier.stage]);
}

static void slow_rank(struct an_findings_list *l, const struct an_ranks *r)
{
    struct an_context *c = l->c;
    const struct an_straggler *s = &r->straggler;
    const struct an_rank_row *row = row_of(r, s->rank);
    const char *who = an_arena_format(c->a, "rank %" PRId64, s->rank);
    struct an_finding *f = an_findings_add(l, s->by_data ? "UNEVEN_DATA" : "STRAGGLER", NULL);
    f->claim =
        s->by_data
            ? an_arena_format(c->a,
                              "rank %" PRId64
                              " gets more %s than the others, and they wait for it: its own time is %.1f %% above theirs",
                              s->rank, r->uneven.what, s->excess_pct.value)
            : an_arena_format(c->a, "%s is slower than its peers: its own time is %.1f %% above theirs, and they wait for it",
                              s->says, s->excess_pct.value);
    an_finding_evidence(
        f, an_arena_format(
               c->a, "own time (%s): excess %.1f %% (%.1f to %.1f, all ranks together 95 %%), %" PRId64 " steps, %zu ranks",
               r->own_is, s->excess_pct.value, s->excess_low_pct.value, s->excess_high_pct.value, r->steps, r->row_count));
    if (s->by_data || r->uneven.found)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.6g %s a step at most (rank %" PRId64 "), %.6g at least, %.6g on average",
                               r->uneven.max.value, r->uneven.what, r->uneven.rank, r->uneven.min.value, r->uneven.mean.value));
    if (r->frontier.delay_pct.valid)
        an_finding_evidence(f, an_arena_format(c->a,
                                               "the delay first appears in %s of rank %" PRId64
                                               ": %.3g ms, %.1f %% of the step (%.1f at least)",
                                               an_stage_key(r->frontier.stage), r->frontier.rank, r->frontier.delay_ms.value,
                                               r->frontier.delay_pct.value, r->frontier.delay_low_pct.value));
    if (row)
        an_finding_evidence(f, an_arena_format(c->a, "%s: %.3g ms of its own in a step of %.3g ms", who, row->own_ms.value,
                                               row->step_ms.value));
    f->action =
        s->by_data ? "give every rank as much in each step: batches by tokens instead of by samples, sorted or packed sequences"
                   : stage_action(c, r);
    f->effort = s->by_data ? "a change of the sampler" : "find out what that rank does longer";
    f->gain = (struct an_gain){.low = s->gain_low_pct, .expected = s->gain_pct, .high = s->gain_high_pct};
    f->method =
        "each step again with this rank's own time no longer than that of the slowest other one: sum of steps / (sum - what "
        "that takes away) - 1; 95 % by block bootstrap over steps";
    f->verify = an_arena_format(c->a, "%s, and read the section of the ranks",
                                an_findings_rerun(c, an_arena_format(c->a, "%s as fast as the others", who)));
    f->wrong_when = r->missing ? "a rank that is not in the file is slower still"
                               : "the rank does other work by design (stages of a pipeline, evaluation on one rank)";
}

static void experts(struct an_findings_list *l, const struct an_experts *e)
{
    struct an_context *c = l->c;
    const struct an_communication *x = &c->r->communication;
    if (e->max_over_mean.value < IMBALANCE) {
        an_findings_checked(l, "all-to-all in which one rank moves most");
        return;
    }
    const char *none = "what an even split takes was not replayed";
    struct an_finding *f = an_findings_add(l, "EXPERT_IMBALANCE", NULL);
    f->claim = an_arena_format(c->a, "experts are uneven: rank %" PRId64 " moves %.3g times the mean in all-to-all", e->rank,
                               e->max_over_mean.value);
    an_finding_evidence(f,
                        an_arena_format(c->a, "%s a step on that rank, %s on average", an_findings_bytes(c, e->bytes_max.value),
                                        an_findings_bytes(c, e->bytes_mean.value)));
    if (x->exposed_waiting_ms.valid)
        an_finding_evidence(
            f, an_arena_format(c->a, "%.3g ms of exposed waiting a step (mean over ranks)", x->exposed_waiting_ms.value));
    f->action = "balance the router: a load-balancing loss or bias, a capacity factor, other placement of experts; the link is "
                "not the cause";
    f->effort = "a change of the model's router";
    f->gain =
        (struct an_gain){.low = an_num_none(none), .expected = an_num_none(none), .high = an_num_none(none), .ceiling = true};
    if (x->exposed_waiting_ms.valid && c->r->steps.mean_ms.valid)
        an_finding_ceiling(f, c->r->steps.mean_ms.value, x->exposed_waiting_ms.value, none);
    f->method = "ceiling \"no exposed waiting\": step / (step - waiting) - 1; nothing was replayed";
    f->verify = an_arena_format(c->a, "%s, and read the line Experts", an_findings_rerun(c, "the router changed"));
    f->wrong_when = "the all-to-all is not that of experts (sequence parallelism)";
}

void an_findings_ranks(struct an_findings_list *l)
{
    const struct an_ranks *r = &l->c->r->ranks;
    if (r->reason)
        return;
    if (!r->experts.reason)
        experts(l, &r->experts);
    if (r->straggler.reason)
        return;
    if (r->straggler.count && r->straggler.gain_low_pct.valid && r->straggler.gain_low_pct.value >= FINDINGS_NOISE_PCT)
        slow_rank(l, r);
    else
        an_findings_checked(l, r->straggler.count ? "a slow rank that costs 2 % of a step"
                                                  : "a rank that is slower than its peers");
}

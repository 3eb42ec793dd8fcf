/* SPDX-License-Identifier: Apache-2.0
 *
 * STRAGGLER and UNEVEN_DATA: a rank that all others wait for, and whether it only has more to do.
 * SLOW_STAGE: the stage of a step that makes a rank late. EXPERT_IMBALANCE: all-to-all in which one
 * rank moves much more than the mean. The gains of the first three are the replay's
 * (what_if_ranks.c).
 */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/findings/findings.h"

#define IMBALANCE 1.2 /* of all-to-all, max / mean */

static const struct an_rank_row *row_of(const struct an_ranks *r, int64_t rank)
{
    for (size_t i = 0; i < r->row_count; i++)
        if (r->row[i].rank == rank)
            return &r->row[i];
    return NULL;
}

#define EDITS_MOST 8 /* stragglers that one edit names */

static const char *stage_action(struct an_context *c, const struct an_ranks *r)
{
    static const char *const actions[AN_STAGE_COUNT] = {
        [AN_STAGE_INPUT] = "its loader: workers, storage and cores of that machine",
        [AN_STAGE_FORWARD] =
            "its cores or device: clocks, heat, who else uses them, its share of the work",
        [AN_STAGE_COMPUTE] = "its device: clocks, heat, who else uses it, its share of the work",
        [AN_STAGE_BACKWARD] =
            "its cores or device: clocks, heat, who else uses them, its share of the work",
        [AN_STAGE_COMM] = "its link",
        [AN_STAGE_OPTIMIZER] =
            "its optimizer: memory bandwidth, offloading, an uneven share of the parameters",
        [AN_STAGE_OTHER] =
            "what its host does between the stages: logging, checkpoints, synchronising calls",
    };
    return an_arena_format(c->a, "make %s of rank %" PRId64 " as long as the others': look at %s",
                           an_stage_key(r->frontier.stage), r->frontier.rank,
                           actions[r->frontier.stage]);
}

/* The edit that makes the stragglers as fast as their peers. */
static const char *peers_edit(struct an_context *c, const struct an_ranks *r)
{
    const char *list = "";
    size_t n = 0;
    for (size_t i = 0; i < r->row_count && n < EDITS_MOST; i++)
        if (r->row_count == 2 ? r->row[i].rank == r->straggler.rank
                              : !strcmp(r->row[i].verdict, "straggler"))
            list = an_arena_format(c->a, "%s%srank:%" PRId64 "=peers", list, n++ ? "," : "",
                                   r->row[i].rank);
    return list;
}

static bool is_straggler(const struct an_ranks *r)
{
    const struct an_straggler *s = &r->straggler;
    return !r->reason && !s->reason && s->count && s->gain_low_pct.valid &&
           s->gain_low_pct.value >= FINDINGS_NOISE_PCT;
}

/* More data makes all stages longer: that is no slow one. */
static bool is_slow_stage(const struct an_ranks *r)
{
    const struct an_frontier *f = &r->frontier;
    bool data = is_straggler(r) && r->straggler.by_data && r->straggler.rank == f->rank;
    return !r->reason && !f->reason && f->stage != AN_STAGE_COUNT && f->delay_low_pct.valid &&
           f->delay_low_pct.value >= FINDINGS_NOISE_PCT && !data;
}

bool an_findings_slow_rank(const struct an_context *c)
{
    return is_straggler(&c->r->ranks) || is_slow_stage(&c->r->ranks);
}

static void slow_rank(struct an_findings_list *l, const struct an_ranks *r)
{
    struct an_context *c = l->c;
    const struct an_straggler *s = &r->straggler;
    const struct an_rank_row *row = row_of(r, s->rank);
    const char *who = an_arena_format(c->a, "rank %" PRId64, s->rank);
    struct an_finding *f = an_findings_add(l, s->by_data ? "UNEVEN_DATA" : "STRAGGLER", NULL);
    f->claim = s->by_data
                   ? an_arena_format(c->a,
                                     "rank %" PRId64 " gets more %s than the others, and they wait "
                                                     "for it: its own time is %.1f %% above theirs",
                                     s->rank, r->uneven.what, s->excess_pct.value)
                   : an_arena_format(c->a,
                                     "%s is slower than its peers: its own time is %.1f %% above "
                                     "theirs, and they wait for it",
                                     s->says, s->excess_pct.value);
    an_finding_evidence(
        f, an_arena_format(
               c->a,
               "own time (%s): excess %.1f %% (%.1f to %.1f, all ranks together 95 %%), %" PRId64
               " steps, %zu ranks",
               r->own_is, s->excess_pct.value, s->excess_low_pct.value, s->excess_high_pct.value,
               r->steps, r->row_count));
    if (s->by_data || r->uneven.found)
        an_finding_evidence(
            f, an_arena_format(
                   c->a, "%s %s a step at most (rank %" PRId64 "), %s at least, %s on average",
                   an_number_words(c->a, r->uneven.max.value, 6), r->uneven.what, r->uneven.rank,
                   an_number_words(c->a, r->uneven.min.value, 6),
                   an_number_words(c->a, r->uneven.mean.value, 6)));
    if (r->frontier.delay_pct.valid)
        an_finding_evidence(f, an_arena_format(c->a,
                                               "the delay first appears in %s of rank %" PRId64
                                               ": %s, %.1f %% of the step (%.1f at least)",
                                               an_stage_key(r->frontier.stage), r->frontier.rank,
                                               an_time_words(c->a, r->frontier.delay_ms.value, 3),
                                               r->frontier.delay_pct.value,
                                               r->frontier.delay_low_pct.value));
    if (row)
        an_finding_evidence(f, an_arena_format(c->a, "%s: %s of its own in a step of %s", who,
                                               an_time_words(c->a, row->own_ms.value, 3),
                                               an_time_words(c->a, row->step_ms.value, 3)));
    f->action =
        s->by_data
            ? "give every rank as much in each step: batches by tokens instead of by samples, "
              "sorted or packed sequences"
            : an_arena_format(
                  c->a,
                  "compare rank %" PRId64
                  " with the others: its loader, its share of the work, its cores "
                  "or device (clocks, heat, who else uses them)%s",
                  s->rank,
                  is_slow_stage(r) && r->frontier.rank == s->rank ? "; SLOW_STAGE says where" : "");
    f->effort = s->by_data ? "a change of the sampler" : "find out what that rank does longer";
    f->gain =
        (struct an_gain){.low = s->gain_low_pct, .expected = s->gain_pct, .high = s->gain_high_pct};
    f->method = "each step again with this rank's own time no longer than that of the slowest "
                "other one: sum of steps / (sum - what "
                "that takes away) - 1; 95 % by block bootstrap over steps";
    f->what_if = s->by_data ? "ranks=even" : peers_edit(c, r);
    f->verify = an_arena_format(
        c->a, "%s, and read the section of the ranks",
        an_findings_rerun(c, an_arena_format(c->a, "%s as fast as the others", who)));
    f->wrong_when =
        r->missing
            ? "a rank that is not in the file is slower still"
            : "the rank does other work by design (stages of a pipeline, evaluation on one rank)";
}

static void slow_stage(struct an_findings_list *l, const struct an_ranks *r)
{
    struct an_context *c = l->c;
    const struct an_frontier *x = &r->frontier;
    const char *stage = an_stage_key(x->stage), *none = "nothing was replayed";
    const struct an_rank_row *row = row_of(r, x->rank);
    struct an_finding *f = an_findings_add(l, "SLOW_STAGE", NULL);
    f->claim = an_arena_format(
        c->a,
        "%s of rank %" PRId64
        " takes %s longer than that of its peers in each step, and makes the rank late",
        stage, x->rank, an_time_words(c->a, x->delay_ms.value, 3));
    an_finding_evidence(
        f, an_arena_format(
               c->a,
               "that is %.1f %% of the step (%.1f at least, all ranks and stages together 95 %%), "
               "%" PRId64 " steps, %zu ranks",
               x->delay_pct.value, x->delay_low_pct.value, r->steps, r->row_count));
    if (row) {
        double least = INFINITY, most = 0;
        for (size_t i = 0; i < r->row_count; i++)
            if (r->row[i].rank != x->rank && r->row[i].stage_ms[x->stage].valid) {
                least = fmin(least, r->row[i].stage_ms[x->stage].value);
                most = fmax(most, r->row[i].stage_ms[x->stage].value);
            }
        an_finding_evidence(
            f, an_arena_format(c->a, "%s takes %s there, %s to %s on the others", stage,
                               an_time_words(c->a, row->stage_ms[x->stage].value, 3),
                               an_time_words(c->a, least, 3), an_time_words(c->a, most, 3)));
    }
    an_finding_evidence(
        f, x->stage == 0 ? "no stage lies before it"
                         : "no rank is longer than its peers by as much in the stages before it");
    f->action = stage_action(c, r);
    f->effort = "find out what that rank does longer there";
    f->what_if = an_arena_format(c->a, "rank:%" PRId64 ":%s=peers", x->rank, stage);
    an_finding_ceiling(f, 100, x->delay_pct.value, none);
    f->method = "ceiling \"the stage as short as its peers'\": step / (step - delay) - 1; nothing "
                "was replayed";
    f->verify = an_arena_format(
        c->a, "%s, and read the stages of the ranks",
        an_findings_rerun(c, an_arena_format(c->a, "%s of rank %" PRId64 " as fast as the others'",
                                             stage, x->rank)));
    f->wrong_when =
        "the rank does other work by design (stages of a pipeline, evaluation on one rank)";
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
    f->claim = an_arena_format(
        c->a, "experts are uneven: rank %" PRId64 " moves %s times the mean in all-to-all", e->rank,
        an_number_words(c->a, e->max_over_mean.value, 3));
    an_finding_evidence(f, an_arena_format(c->a, "%s a step on that rank, %s on average",
                                           an_findings_bytes(c, e->bytes_max.value),
                                           an_findings_bytes(c, e->bytes_mean.value)));
    if (x->exposed_waiting_ms.valid)
        an_finding_evidence(f,
                            an_arena_format(c->a, "%s of exposed waiting a step (mean over ranks)",
                                            an_time_words(c->a, x->exposed_waiting_ms.value, 3)));
    f->action = "balance the router: a load-balancing loss or bias, a capacity factor, other "
                "placement of experts; the link is "
                "not the cause";
    f->effort = "a change of the model's router";
    f->gain = (struct an_gain){.low = an_num_none(none),
                               .expected = an_num_none(none),
                               .high = an_num_none(none),
                               .ceiling = true};
    if (x->exposed_waiting_ms.valid && c->r->steps.mean_ms.valid)
        an_finding_ceiling(f, c->r->steps.mean_ms.value, x->exposed_waiting_ms.value, none);
    f->method = "ceiling \"no exposed waiting\": step / (step - waiting) - 1; nothing was replayed";
    f->verify = an_arena_format(c->a, "%s, and read the line Experts",
                                an_findings_rerun(c, "the router changed"));
    f->wrong_when = "the all-to-all is not that of experts (sequence parallelism)";
}

void an_findings_ranks(struct an_findings_list *l)
{
    const struct an_ranks *r = &l->c->r->ranks;
    if (r->reason)
        return;
    if (!r->experts.reason)
        experts(l, &r->experts);
    if (is_slow_stage(r))
        slow_stage(l, r);
    if (r->straggler.reason)
        return;
    if (is_straggler(r))
        slow_rank(l, r);
    else
        an_findings_checked(l, r->straggler.count ? "a slow rank that costs 2 % of a step"
                                                  : "a rank that is slower than its peers");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What communication costs a step on the CPU (docs/communication.md). Total is the time in which
 * any thread of a rank is in a collective or the step's thread waits for one; exposed is the
 * budget's class; overlap is the part beside compute on the step's thread. In a matched collective
 * a rank waits until its last participant has come, then transfers: the exposed time is split the
 * same way. A step of which a collective is not matched (a rank is missing, its recording was
 * paused) is left out of the split.
 */
#include "analyzers/collectives/communication.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/budget/budget.h"
#include "analyzers/ranks/ranks_build.h"

#define MISSING_NAMED 8
#define NO_DETAIL     "no counted step has all its ranges in the file"

/* Sums over the detailed steps of a lane, ns; split: over those of which every collective is
 * matched. */
struct lane_sums {
    int64_t steps, split_steps;
    double total, exposed, overlap, bytes;
    double transfer, waiting, exposed_transfer, exposed_waiting;
    double step_ns; /* of the steps, for nothing but to know that there are some */
    int64_t collectives, last;
    double caused;
    bool sized; /* every call says its bytes */
};

struct work {
    struct an_context *c;
    struct an_comm_calls calls;
    struct lane_sums *lane;
    uint8_t *split;           /* of each step: all its collectives are matched */
    struct an_comm_call **of; /* calls by lane and start */
    size_t *first;            /* of[first[k]] .. of[first[k + 1]): calls of lane k */
};

/* ---- which ranks are missing -------------------------------------------------------------------------------------------- */

static bool has_rank(const struct an_context *c, const bool *takes_part, int64_t rank)
{
    for (size_t k = 0; k < c->lane_count; k++)
        if (takes_part[k] && c->lane[k].rank == rank)
            return true;
    return false;
}

static int64_t distinct_ranks(const struct an_context *c, const bool *takes_part)
{
    int64_t n = 0;
    for (size_t k = 0; takes_part && k < c->lane_count; k++) {
        size_t i = 0;
        while (i < k && !(takes_part[i] && c->lane[i].rank == c->lane[k].rank))
            i++;
        n += takes_part[k] && i == k;
    }
    return n;
}

/* "rank 1 of 2 is not in the file: ...": of the largest communicator, or of the job where calls do
 * not say who takes part. NULL: all are there, or its size is not known. */
static const char *missing_words(struct an_context *c, const struct an_comm_calls *x)
{
    int64_t expected = 0, present = 0, listed = 0;
    bool *takes_part = an_arena_zero(c->work, c->lane_count + 1, sizeof *takes_part);
    const char *names = "";
    for (size_t i = 0; i < x->count; i++)
        expected = x->call[i].ranks > expected ? x->call[i].ranks : expected;
    for (size_t i = 0; takes_part && i < x->count; i++)
        if (x->call[i].lane < c->lane_count && x->call[i].ranks == expected)
            takes_part[x->call[i].lane] = true;
    for (size_t k = 0; takes_part && k < c->lane_count; k++)
        present += takes_part[k];
    const char *how =
        an_trace_key(c->t, "source")
            ? "put the traces of all ranks into one folder and report that"
            : "record all ranks (tacho run -- mpirun ...), or merge their files (tacho merge)";
    if (!expected &&
        x->count) { /* the calls do not say who takes part; the job may say how many ranks it has */
        const char *world = an_trace_key(c->t, "world_size");
        expected = world ? strtoll(world, NULL, 10) : 0;
        for (size_t k = 0; takes_part && k < c->lane_count; k++)
            takes_part[k] = c->lane[k].rank >= 0 && c->lane[k].rank < expected;
        present = distinct_ranks(c, takes_part);
    }
    if (!takes_part || !c->lane_count || present >= expected)
        return NULL;
    for (int64_t rank = 0; rank < expected && listed < MISSING_NAMED; rank++)
        if (!has_rank(c, takes_part, rank))
            names = an_arena_format(c->work, "%s%s%" PRId64, names, listed++ ? ", " : "", rank);
    bool more = expected - present > listed;
    return an_arena_format(c->a, "rank%s %s%s of %" PRId64 " %s not in the file: %s",
                           expected - present > 1 ? "s" : "", names, more ? " ..." : "", expected,
                           expected - present > 1 ? "are" : "is", how);
}

/* ---- sets of a lane ----------------------------------------------------------------------------------------------------- */

static int start_order(const void *x, const void *y)
{
    const struct an_comm_call *a = *(struct an_comm_call *const *)x,
                              *b = *(struct an_comm_call *const *)y;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

static int by_lane(struct work *w)
{
    struct an_context *c = w->c;
    w->of = an_arena_zero(c->work, w->calls.count + 1, sizeof *w->of);
    w->first = an_arena_zero(c->work, c->lane_count + 2, sizeof *w->first);
    if (!w->of || !w->first)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < w->calls.count; i++) {
        w->of[i] = &w->calls.call[i];
        if (w->calls.call[i].lane < c->lane_count)
            w->first[w->calls.call[i].lane + 1]++;
    }
    if (w->calls.count)
        qsort(w->of, w->calls.count, sizeof *w->of, start_order);
    for (size_t k = 0; k < c->lane_count; k++)
        w->first[k + 1] += w->first[k];
    return 0;
}

/* Parts of the calls of a lane: which = 0 all of it, 1 transfer, 2 waiting. The set lives in the
 * work arena. */
static int calls_set(struct work *w, size_t lane, int which, struct an_set *out)
{
    size_t n = w->first[lane + 1] - w->first[lane];
    struct an_span *span = an_arena_zero(w->c->work, n + 1, sizeof *span);
    if (!span)
        return TACHO_ENOMEM;
    size_t k = 0;
    for (size_t i = w->first[lane]; i < w->first[lane + 1]; i++) {
        const struct an_comm_call *x = w->of[i];
        int64_t came = an_time_sub(x->end, x->transfer); /* when the last one came */
        if (which && x->transfer < 0)
            continue;
        span[k++] = which == 1   ? (struct an_span){came, x->end}
                    : which == 2 ? (struct an_span){x->start, came}
                                 : (struct an_span){x->start, x->end};
    }
    *out = (struct an_set){span, an_spans_normalize(span, k)};
    return 0;
}

/* Adds the waits of the step's thread to a set of a lane. */
static int add_waits(struct work *w, size_t lane, struct an_set *set)
{
    const struct an_trace *t = w->c->t;
    const struct an_lane *l = &w->c->lane[lane];
    if (l->track == AN_NONE)
        return 0;
    const struct an_track *k = &t->track[l->track];
    struct an_span *span = an_arena_zero(w->c->work, set->count + k->slice_count + 1, sizeof *span);
    if (!span)
        return TACHO_ENOMEM;
    size_t n = set->count;
    memcpy(span, set->span, n * sizeof *span);
    for (size_t i = k->slice_first; i < k->slice_first + k->slice_count; i++)
        if (an_slice_role(t, i) == AN_ROLE_COMM_WAIT && t->slice.dur[i] != AN_OPEN)
            span[n++] = (struct an_span){t->slice.start[i], an_slice_end(t, i)};
    *set = (struct an_set){span, an_spans_normalize(span, n)};
    return 0;
}

static double within(const struct an_set *s, struct an_span x)
{
    return (double)an_spans_within(s->span, s->count, x.start, x.end);
}

/* ---- sums --------------------------------------------------------------------------------------------------------------- */

static void mark_split(struct work *w)
{
    for (size_t i = 0; i < w->calls.count; i++) {
        const struct an_comm_call *x = &w->calls.call[i];
        if (x->step != AN_NONE && x->transfer < 0)
            w->split[x->step] = 0;
    }
}

/* Exposed communication of a step, split: on a thread by its pieces, on a device by the set of what
 * is exposed there. */
struct exposure {
    double overlap, transfer, waiting;
};

static int exposed_on_thread(struct work *w, const struct an_step *x, const struct an_set *set,
                             struct an_class_spans *pieces, struct exposure *e)
{
    int rc = an_budget_spans(w->c, x, pieces);
    for (size_t k = 0; k < pieces->count && !rc; k++) {
        const struct an_class_span *p = &pieces->at[k];
        if (p->class == AN_CLASS_COMPUTE)
            e->overlap += within(&set[0], p->span);
        if (p->class == AN_CLASS_COMM) {
            e->transfer += within(&set[1], p->span);
            e->waiting += within(&set[2], p->span);
        }
    }
    return rc;
}

/* Leaves of the sets of transfer and waiting what nothing hides. */
static int only_exposed(struct work *w, const struct an_lane *l, struct an_set *set)
{
    const struct an_set *e = &w->c->gpu->split[l->device].exposed_comm;
    for (int k = 1; k < 3; k++) {
        struct an_span *out = an_arena_zero(w->c->work, set[k].count + e->count + 1, sizeof *out);
        if (!out)
            return TACHO_ENOMEM;
        set[k] = (struct an_set){
            out, an_spans_intersect(set[k].span, set[k].count, e->span, e->count, out)};
    }
    return 0;
}

static int sum_steps(struct work *w, size_t lane, const struct an_set *set,
                     struct an_class_spans *pieces)
{
    struct an_context *c = w->c;
    const struct an_lane *l = &c->lane[lane];
    struct lane_sums *s = &w->lane[lane];
    int rc = 0;
    for (size_t i = l->first; i < l->first + l->count && !rc; i++) {
        struct an_step *x = &c->step[i];
        struct exposure e = {0};
        if (!an_step_detailed(x))
            continue;
        struct an_span step = {x->start, x->end};
        if (l->device == AN_NONE)
            rc = exposed_on_thread(w, x, set, pieces, &e);
        else
            e = (struct exposure){within(&set[0], step) - (double)x->class_ns[AN_CLASS_COMM],
                                  within(&set[1], step), within(&set[2], step)};
        s->steps++;
        s->total += within(&set[0], step);
        s->exposed += (double)x->class_ns[AN_CLASS_COMM];
        s->overlap += e.overlap;
        if (!w->split[i])
            continue;
        s->split_steps++;
        s->exposed_transfer += e.transfer;
        s->exposed_waiting += e.waiting;
        x->transfer_ns = (int64_t)e.transfer;
        x->waiting_ns = (int64_t)e.waiting;
    }
    return rc;
}

static int sum_lane(struct work *w, size_t lane, struct an_class_spans *pieces)
{
    const struct an_lane *l = &w->c->lane[lane];
    struct lane_sums *s = &w->lane[lane];
    struct an_set set[3]; /* all, transfer, waiting */
    int rc = 0;
    for (int k = 0; k < 3 && !rc; k++)
        rc = calls_set(w, lane, k, &set[k]);
    if (!rc)
        rc = l->device == AN_NONE ? add_waits(w, lane, &set[0]) : only_exposed(w, l, set);
    s->sized = true;
    rc = rc ? rc : sum_steps(w, lane, set, pieces);
    for (size_t i = w->first[lane]; i < w->first[lane + 1] && !rc; i++) {
        const struct an_comm_call *x = w->of[i];
        if (x->step == AN_NONE)
            continue;
        s->sized = s->sized && x->bytes != STORE_ABSENT;
        s->bytes += x->bytes != STORE_ABSENT ? (double)x->bytes : 0;
        if (w->split[x->step]) {
            s->transfer += (double)x->transfer;
            s->waiting += (double)an_time_sub(an_time_sub(x->end, x->start), x->transfer);
        }
    }
    return rc;
}

/* Who came last to each matched collective, and how long the others waited for it. Returns the mean
 * skew in ms. */
static double arrivals(struct work *w, int64_t *collectives)
{
    double skew = 0;
    *collectives = 0;
    for (size_t i = 0, next; i < w->calls.count; i = next) {
        const struct an_comm_call *x = &w->calls.call[i], *last = x;
        int64_t first = x->start, came = x->start;
        bool counted = true;
        next = an_comm_next(&w->calls, i);
        double waited = 0;
        for (size_t k = i; k < next; k++, x++) {
            counted = counted && x->transfer >= 0 && x->step != AN_NONE && w->split[x->step];
            last = x->end - x->start < last->end - last->start ? x : last;
            first = x->start < first ? x->start : first;
            came = x->start > came ? x->start : came;
            waited += (double)an_time_sub(an_time_sub(x->end, x->start), x->transfer);
        }
        if (!counted)
            continue;
        for (size_t k = i; k < next; k++)
            w->lane[w->calls.call[k].lane].collectives++;
        w->lane[last->lane].last += waited > 0;
        w->lane[last->lane].caused += waited;
        skew += (double)an_time_sub(came, first);
        ++*collectives;
    }
    return *collectives ? skew / (double)*collectives / 1e6 : NAN;
}

/* ---- the part ----------------------------------------------------------------------------------------------------------- */

static struct an_value per_step(double ns, int64_t steps, const char *none)
{
    return steps ? an_num(ns / (double)steps / 1e6) : an_num_none(none);
}

static void fill_rank(const struct an_context *c, size_t lane, const struct lane_sums *s,
                      const char *no_split, struct an_comm_rank *out)
{
    *out = (struct an_comm_rank){
        .rank = c->lane[lane].rank,
        .total_ms = per_step(s->total, s->steps, NO_DETAIL),
        .exposed_ms = per_step(s->exposed, s->steps, NO_DETAIL),
        .overlap_pct = s->total > 0 ? an_num(100 * s->overlap / s->total)
                                    : an_num_none("no communication in the counted steps"),
        .transfer_ms = per_step(s->transfer, s->split_steps, no_split),
        .waiting_ms = per_step(s->waiting, s->split_steps, no_split),
        .exposed_transfer_ms = per_step(s->exposed_transfer, s->split_steps, no_split),
        .exposed_waiting_ms = per_step(s->exposed_waiting, s->split_steps, no_split),
        .caused_ms = per_step(s->caused, s->split_steps, no_split),
        .last_pct = s->collectives ? an_num(100 * (double)s->last / (double)s->collectives)
                                   : an_num_none(no_split)};
}

/* Mean over ranks: of sums, so that every step weighs the same. */
static void fill_run(struct an_communication *r, const struct lane_sums *lane, size_t n,
                     const char *no_split)
{
    struct lane_sums s = {.sized = true};
    for (size_t k = 0; k < n; k++) {
        s.steps += lane[k].steps;
        s.split_steps += lane[k].split_steps;
        s.total += lane[k].total;
        s.exposed += lane[k].exposed;
        s.overlap += lane[k].overlap;
        s.bytes += lane[k].bytes;
        s.transfer += lane[k].transfer;
        s.waiting += lane[k].waiting;
        s.exposed_transfer += lane[k].exposed_transfer;
        s.exposed_waiting += lane[k].exposed_waiting;
        s.sized = s.sized && lane[k].sized;
    }
    r->bytes_per_step = !s.sized  ? an_num_none("the calls do not say how many bytes they move")
                        : s.steps ? an_num(s.bytes / (double)s.steps)
                                  : an_num_none(NO_DETAIL);
    r->total_ms = per_step(s.total, s.steps, NO_DETAIL);
    r->exposed_ms = per_step(s.exposed, s.steps, NO_DETAIL);
    r->overlap_pct = s.total > 0 ? an_num(100 * s.overlap / s.total)
                                 : an_num_none("no communication in the counted steps");
    r->transfer_ms = per_step(s.transfer, s.split_steps, no_split);
    r->waiting_ms = per_step(s.waiting, s.split_steps, no_split);
    r->exposed_transfer_ms = per_step(s.exposed_transfer, s.split_steps, no_split);
    r->exposed_waiting_ms = per_step(s.exposed_waiting, s.split_steps, no_split);
    /* The step's thread is in the call, or in a wait for it: what is exposed blocks it, and that
     * range is the proof. */
    r->blocking_proven_ms = r->exposed_ms;
    r->blocking_inferred_ms = r->blocking_unknown_ms = s.steps ? an_num(0) : an_num_none(NO_DETAIL);
}

static int rank_row_order(const void *x, const void *y)
{
    const struct an_comm_rank *a = x, *b = y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool several_hosts(const struct an_context *c)
{
    for (size_t k = 1; k < c->lane_count; k++)
        if (c->lane[k].process != AN_NONE && c->lane[0].process != AN_NONE &&
            strcmp(c->t->process[c->lane[k].process].host, c->t->process[c->lane[0].process].host))
            return true;
    return false;
}

/* Clocks of several hosts agree up to an error, and so do clocks that were put right; what is below
 * it is not known. */
static struct an_value skew_of(struct an_context *c, double ms, const char *no_split)
{
    const struct an_clocks *k = &c->r->ranks.clocks;
    const char *key = an_trace_key(c->t, "clock.fit_error_ns");
    bool corrected = false;
    for (size_t i = 0; i < k->row_count; i++)
        corrected = corrected || k->row[i].corrected;
    if (isnan(ms))
        return an_num_none(no_split);
    if (!corrected && !several_hosts(c))
        return an_num(ms);
    double error = !corrected && key   ? strtod(key, NULL) / 1e6
                   : k->error_ns.valid ? k->error_ns.value / 1e6
                                       : NAN;
    if (isnan(error))
        return an_num_none("the ranks are on several hosts, and the file does not say how well "
                           "their clocks agree");
    if (ms < error)
        return an_num_none(an_arena_format(c->a,
                                           "below %s, up to which the clocks of the ranks agree",
                                           an_time_words(c->a, error, 3)));
    return an_num(ms);
}

static const char *why_no_split(struct an_context *c, const struct an_comm_calls *x,
                                const char *missing)
{
    int64_t ranks = 0;
    for (size_t i = 0; i < x->count; i++)
        ranks = x->call[i].ranks > ranks ? x->call[i].ranks : ranks;
    if (missing)
        return an_arena_format(c->a, "%s cannot tell transfer from waiting for another: %s",
                               c->lane_count > 1 ? "these ranks" : "one rank", missing);
    if (!ranks)
        return "the calls do not say how many ranks take part";
    return "in no counted step all calls could be matched over the ranks by communicator and "
           "sequence number";
}

/* The split of each rank and step, the rows of the ranks and what is missing; lanes of threads and
 * of devices alike. */
static int split(struct work *w, const char **no_split)
{
    struct an_context *c = w->c;
    struct an_communication *r = &c->r->communication;
    struct an_comm_rank *rows = an_arena_zero(c->a, c->lane_count + 1, sizeof *rows);
    struct an_class_spans pieces = {0};
    int64_t collectives;
    w->lane = an_arena_zero(c->work, c->lane_count + 1, sizeof *w->lane);
    w->split = an_arena_zero(c->work, c->step_count + 1, 1);
    int rc = !rows || !w->lane || !w->split ? TACHO_ENOMEM : by_lane(w);
    if (rc)
        return rc;
    memset(w->split, 1, c->step_count);
    mark_split(w);
    r->missing = missing_words(c, &w->calls);
    *no_split = why_no_split(c, &w->calls, r->missing);
    for (size_t k = 0; k < c->lane_count && !rc; k++)
        if (w->first[k + 1] > w->first[k])
            rc = sum_lane(w, k, &pieces);
    free(pieces.at);
    if (rc)
        return rc;
    double skew = arrivals(w, &collectives);
    for (size_t k = 0; k < c->lane_count; k++)
        if (w->first[k + 1] > w->first[k])
            fill_rank(c, k, &w->lane[k], *no_split, &rows[r->rank_count++]);
    if (r->rank_count)
        qsort(rows, r->rank_count, sizeof *rows, rank_row_order);
    r->ranks = rows;
    r->skew_ms = skew_of(c, skew, *no_split);
    return an_ranks_exchanges(c, &w->calls);
}

static int cpu(struct an_context *c, struct work *w)
{
    struct an_communication *r = &c->r->communication;
    const char *no_split = NULL;
    int rc = split(w, &no_split);
    if (rc)
        return rc;
    fill_run(r, w->lane, c->lane_count, no_split);
    for (size_t i = 0; i < w->calls.count; i++)
        if (!c->r->steps.detailed || w->calls.call[i].step != AN_NONE) {
            r->calls++;
            r->matched += w->calls.call[i].transfer >= 0;
        }
    return an_comm_collectives(c, &w->calls);
}

/* Several ranks with devices: what one of them alone cannot tell. */
static int devices(struct an_context *c, struct work *w)
{
    struct an_communication *r = &c->r->communication;
    const char *no_split = NULL;
    struct lane_sums s = {0};
    int rc = split(w, &no_split);
    if (rc)
        return rc;
    for (size_t k = 0; k < c->lane_count; k++) {
        s.split_steps += w->lane[k].split_steps;
        s.transfer += w->lane[k].transfer;
        s.waiting += w->lane[k].waiting;
        s.exposed_transfer += w->lane[k].exposed_transfer;
        s.exposed_waiting += w->lane[k].exposed_waiting;
    }
    for (size_t i = 0; i < w->calls.count; i++)
        r->matched += w->calls.call[i].transfer >= 0;
    if (!r->matched || !s.split_steps) {
        r->rank_count = 0;
        return 0;
    }
    r->transfer_ms = per_step(s.transfer, s.split_steps, no_split);
    r->waiting_ms = per_step(s.waiting, s.split_steps, no_split);
    r->exposed_transfer_ms = per_step(s.exposed_transfer, s.split_steps, no_split);
    r->exposed_waiting_ms = per_step(s.exposed_waiting, s.split_steps, no_split);
    an_comm_device_split(c, &w->calls);
    return 0;
}

void an_comm_rest_absent(struct an_communication *r, const char *reason)
{
    struct an_value *all[] = {&r->bytes_per_step,      &r->total_ms,
                              &r->exposed_ms,          &r->overlap_pct,
                              &r->transfer_ms,         &r->waiting_ms,
                              &r->exposed_transfer_ms, &r->exposed_waiting_ms,
                              &r->blocking_proven_ms,  &r->blocking_inferred_ms,
                              &r->blocking_unknown_ms, &r->skew_ms};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!all[i]->valid && !all[i]->reason)
            *all[i] = an_num_none(reason);
}

static void no_split_yet(struct an_context *c)
{
    for (size_t i = 0; i < c->step_count; i++)
        c->step[i].waiting_ns = c->step[i].transfer_ns = STORE_ABSENT;
}

static void communication_absent(struct an_context *c, const char *reason)
{
    no_split_yet(c);
    an_ranks_no_exchanges(c, reason);
    c->r->communication.reason = reason;
    an_comm_rest_absent(&c->r->communication, reason);
}

static int communication_run(struct an_context *c)
{
    struct work w = {.c = c};
    no_split_yet(c);
    an_ranks_no_exchanges(c, "no communication of several ranks");
    int rc = c->gpu ? an_comm_device(c) : 0;
    rc = rc ? rc : an_comm_find(c, &w.calls);
    if (!rc && c->gpu && w.calls.count)
        rc = devices(c, &w);
    else if (!rc && w.calls.count)
        rc = cpu(c, &w);
    else if (!rc && !c->gpu)
        communication_absent(c, "no collective was recorded (tacho.comm ranges)");
    free(w.calls.call);
    return rc;
}

const struct an_analyzer an_communication = {
    "communication", "collectives: bytes, bandwidth, transfer, waiting, overlap", AN_INPUT_SLICES,
    communication_run, communication_absent};

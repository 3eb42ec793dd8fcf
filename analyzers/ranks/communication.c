/* SPDX-License-Identifier: Apache-2.0
 *
 * What communication costs a step (docs/communication.md). Total is the time in which any thread
 * of a rank is in a collective or the step's thread waits for one; exposed is the class of the
 * budget; overlapped is the part during compute on the step's thread. In a matched collective a
 * rank waits until the last participant arrives, then transfers; the exposed time is split the
 * same way. A step with a collective that is not matched (a rank is missing, or its recording was
 * paused) is excluded from the split.
 */
#include "analyzers/collectives/communication.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/words.h"
#include "analyzers/budget/budget.h"
#include "analyzers/ranks/ranks_compare.h"

#define NO_DETAIL "no counted step has all its ranges in the file"

/* Sums over the detailed steps of a lane, ns; split: over those of which every collective is
 * matched. */
struct lane_sums {
    int64_t steps, split_steps;
    double total, exposed, overlap, unseen, bytes; /* unseen: waits for what no call shows */
    double transfer, waiting, exposed_transfer, exposed_waiting;
    double step_ns; /* of the steps, for nothing but to know that there are some */
    int64_t collectives, last, calls;
    double caused;
    bool sized; /* every call says its bytes */
};

struct work {
    struct an_context *context;
    struct an_comm_calls calls;
    struct lane_sums *lane;
    uint8_t *split;                /* of each step: all its collectives are matched */
    struct an_comm_call **by_lane; /* calls by lane and start */
    size_t *lane_first;            /* of[first[k]] .. of[first[k + 1]): calls of lane k */
};

/* ---- sets of a lane ----------------------------------------------------------------------------------------------------- */

static int start_order(const void *left, const void *right)
{
    const struct an_comm_call *first = *(struct an_comm_call *const *)left,
                              *second = *(struct an_comm_call *const *)right;
    if (first->lane != second->lane)
        return first->lane < second->lane ? -1 : 1;
    return (first->start > second->start) - (first->start < second->start);
}

/* Lists the calls by lane and start. */
static int sort_by_lane(struct work *work)
{
    struct an_context *context = work->context;
    work->by_lane = an_arena_zero(context->scratch, work->calls.count + 1, sizeof *work->by_lane);
    work->lane_first =
        an_arena_zero(context->scratch, context->lane_count + 2, sizeof *work->lane_first);
    if (!work->by_lane || !work->lane_first)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < work->calls.count; i++) {
        work->by_lane[i] = &work->calls.call[i];
        if (work->calls.call[i].lane < context->lane_count)
            work->lane_first[work->calls.call[i].lane + 1]++;
    }
    if (work->calls.count)
        qsort(work->by_lane, work->calls.count, sizeof *work->by_lane, start_order);
    for (size_t lane = 0; lane < context->lane_count; lane++)
        work->lane_first[lane + 1] += work->lane_first[lane];
    return 0;
}

/* The parts of a call that are kept apart, and waits of the step's thread beside which there is no
 * call: those of calls that did not block and were not recorded. */
enum part { ALL, TRANSFER, WAITING, UNSEEN, PARTS };

/* The time of one part of the calls of a lane, as a set in the scratch arena. */
static int calls_set(struct work *work, size_t lane, enum part which, struct an_set *out)
{
    size_t most = work->lane_first[lane + 1] - work->lane_first[lane];
    struct an_span *span = an_arena_zero(work->context->scratch, most + 1, sizeof *span);
    if (!span)
        return TACHO_ENOMEM;
    size_t kept = 0;
    for (size_t i = work->lane_first[lane]; i < work->lane_first[lane + 1]; i++) {
        const struct an_comm_call *call = work->by_lane[i];
        int64_t arrived = an_time_sub(call->end, call->transfer); /* when the last rank did */
        if (which != ALL && call->transfer < 0)
            continue;
        span[kept] = (struct an_span){call->start, call->end};
        if (which == TRANSFER)
            span[kept].start = arrived;
        else if (which == WAITING)
            span[kept].end = arrived;
        kept++;
    }
    *out = (struct an_set){span, an_spans_normalize(span, kept)};
    return 0;
}

static double within(const struct an_set *set, struct an_span span)
{
    return (double)an_spans_within(set->span, set->count, span.start, span.end);
}

/* Adds the waits of the step's thread to the set of all calls of a lane, and lists those that are
 * unseen. */
static int add_waits(struct work *work, size_t lane, struct an_set *set)
{
    const struct an_trace *trace = work->context->trace;
    const struct an_lane *on_lane = &work->context->lane[lane];
    if (on_lane->track == AN_NONE)
        return 0;
    const struct an_track *track = &trace->track[on_lane->track];
    size_t most = set[ALL].count + track->slice_count + 1, count = set[ALL].count, unseen_count = 0;
    struct an_span *span = an_arena_zero(work->context->scratch, most, sizeof *span);
    struct an_span *unseen = an_arena_zero(work->context->scratch, most, sizeof *unseen);
    if (!span || !unseen)
        return TACHO_ENOMEM;
    memcpy(span, set[ALL].span, count * sizeof *span);
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        if (an_slice_role(trace, i) != AN_ROLE_COMM_WAIT || trace->slice.dur[i] == AN_OPEN)
            continue;
        span[count] = (struct an_span){trace->slice.start[i], an_slice_end(trace, i)};
        if (within(&set[ALL], span[count]) <= 0)
            unseen[unseen_count++] = span[count];
        count++;
    }
    set[ALL] = (struct an_set){span, an_spans_normalize(span, count)};
    set[UNSEEN] = (struct an_set){unseen, an_spans_normalize(unseen, unseen_count)};
    return 0;
}

/* ---- sums --------------------------------------------------------------------------------------------------------------- */

/* Marks the steps of which a call is not matched: they are excluded from the split. */
static void mark_split(struct work *work)
{
    for (size_t i = 0; i < work->calls.count; i++) {
        const struct an_comm_call *call = &work->calls.call[i];
        if (call->step != AN_NONE && call->transfer < 0)
            work->split[call->step] = 0;
    }
}

/* Exposed communication of a step, split: on a thread by its pieces, on a device by the set of what
 * is exposed there. */
struct exposure {
    double overlap, transfer, waiting;
};

/* Sums a step on a thread: its pieces of compute overlap communication, its pieces of
 * communication are exposed. */
static int exposed_on_thread(struct work *work, const struct an_step *step,
                             const struct an_set *set, struct an_class_spans *pieces,
                             struct exposure *exposure)
{
    int rc = an_budget_spans(work->context, step, pieces);
    for (size_t i = 0; i < pieces->count && !rc; i++) {
        const struct an_class_span *class_span = &pieces->at[i];
        if (class_span->class == AN_CLASS_COMPUTE)
            exposure->overlap += within(&set[ALL], class_span->span);
        if (class_span->class == AN_CLASS_COMM) {
            exposure->transfer += within(&set[TRANSFER], class_span->span);
            exposure->waiting += within(&set[WAITING], class_span->span);
        }
    }
    return rc;
}

/* Reduces the sets of transfer and waiting to the time that nothing hides. */
static int only_exposed(struct work *work, const struct an_lane *lane, struct an_set *set)
{
    const struct an_set *exposed = &work->context->gpu->split[lane->device].exposed_comm;
    for (enum part which = TRANSFER; which <= WAITING; which++) {
        struct an_span *out = an_arena_zero(work->context->scratch,
                                            set[which].count + exposed->count + 1, sizeof *out);
        if (!out)
            return TACHO_ENOMEM;
        set[which] = (struct an_set){out, an_spans_intersect(set[which].span, set[which].count,
                                                             exposed->span, exposed->count, out)};
    }
    return 0;
}

/* Adds up the detailed steps of a lane: total, exposed and overlapped communication, and the
 * split of those of which every collective is matched. */
static int sum_steps(struct work *work, size_t lane, const struct an_set *set,
                     struct an_class_spans *pieces)
{
    struct an_context *context = work->context;
    const struct an_lane *on_lane = &context->lane[lane];
    struct lane_sums *lane_sums = &work->lane[lane];
    int rc = 0;
    for (size_t i = on_lane->first; i < on_lane->first + on_lane->count && !rc; i++) {
        struct an_step *step = &context->step[i];
        struct exposure exposure = {0};
        if (!an_step_detailed(step))
            continue;
        struct an_span step_span = {step->start, step->end};
        if (on_lane->device == AN_NONE)
            rc = exposed_on_thread(work, step, set, pieces, &exposure);
        else
            exposure = (struct exposure){
                within(&set[ALL], step_span) - (double)step->class_ns[AN_CLASS_COMM],
                within(&set[TRANSFER], step_span), within(&set[WAITING], step_span)};
        lane_sums->steps++;
        lane_sums->total += within(&set[ALL], step_span);
        lane_sums->exposed += (double)step->class_ns[AN_CLASS_COMM];
        lane_sums->overlap += exposure.overlap;
        lane_sums->unseen += within(&set[UNSEEN], step_span);
        if (!work->split[i])
            continue;
        lane_sums->split_steps++;
        lane_sums->exposed_transfer += exposure.transfer;
        lane_sums->exposed_waiting += exposure.waiting;
        step->transfer_ns = (int64_t)exposure.transfer;
        step->waiting_ns = (int64_t)exposure.waiting;
    }
    return rc;
}

/* Adds up the communication of one lane: its steps by their sets of time, then its calls. */
static int sum_lane(struct work *work, size_t lane, struct an_class_spans *pieces)
{
    const struct an_lane *on_lane = &work->context->lane[lane];
    struct lane_sums *lane_sums = &work->lane[lane];
    struct an_set set[PARTS] = {{.count = 0}};
    int rc = 0;
    for (enum part which = ALL; which <= WAITING && !rc; which++)
        rc = calls_set(work, lane, which, &set[which]);
    if (!rc)
        rc = on_lane->device == AN_NONE ? add_waits(work, lane, set)
                                        : only_exposed(work, on_lane, set);
    lane_sums->sized = true;
    rc = rc ? rc : sum_steps(work, lane, set, pieces);
    for (size_t i = work->lane_first[lane]; i < work->lane_first[lane + 1] && !rc; i++) {
        const struct an_comm_call *call = work->by_lane[i];
        if (call->step == AN_NONE)
            continue;
        lane_sums->calls++;
        lane_sums->sized = lane_sums->sized && call->bytes != STORE_ABSENT;
        lane_sums->bytes += call->bytes != STORE_ABSENT ? (double)call->bytes : 0;
        if (work->split[call->step]) {
            lane_sums->transfer += (double)call->transfer;
            lane_sums->waiting +=
                (double)an_time_sub(an_time_sub(call->end, call->start), call->transfer);
        }
    }
    return rc;
}

/* Adds up which rank arrived last at each matched collective, and how long the others waited for
 * it. Returns the mean skew between the arrivals in ms. */
static double sum_arrivals(struct work *work, int64_t *collectives)
{
    double skew = 0;
    *collectives = 0;
    for (size_t i = 0, after; i < work->calls.count; i = after) {
        const struct an_comm_call *call = &work->calls.call[i], *last = call;
        int64_t first = call->start, came = call->start;
        bool counted = true;
        after = an_comm_next(&work->calls, i);
        double waited = 0;
        for (size_t j = i; j < after; j++, call++) {
            counted =
                counted && call->transfer >= 0 && call->step != AN_NONE && work->split[call->step];
            last = call->end - call->start < last->end - last->start ? call : last;
            first = call->start < first ? call->start : first;
            came = call->start > came ? call->start : came;
            waited += (double)an_time_sub(an_time_sub(call->end, call->start), call->transfer);
        }
        if (!counted)
            continue;
        for (size_t j = i; j < after; j++)
            work->lane[work->calls.call[j].lane].collectives++;
        work->lane[last->lane].last += waited > 0;
        work->lane[last->lane].caused += waited;
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

/* A call of unknown size, or a wait without a call, is the end of a collective that other threads
 * have carried out (DistributedDataParallel on the CPU, calls with async_op): what ran beside
 * compute is not recorded, and no overlap found is not an overlap of 0. Where calls are recorded,
 * the few waits that begin after their call has ended are shorter than the overlap and do not hide
 * it. */
static struct an_value overlap_pct(const struct lane_sums *sums)
{
    bool none = sums->overlap <= 0 && !(sums->sized && sums->calls);
    if (sums->total > 0 && (none || sums->unseen > sums->overlap))
        return an_num_none(
            "some calls are recorded as waits only: the overlapped part is not visible");
    return an_num_if(sums->total > 0, 100 * sums->overlap / sums->total,
                     "no communication in the counted steps");
}

/* Mean of transfer and waiting over the steps of which every collective is matched. */
static void fill_split(struct an_communication *communication, const struct lane_sums *sums,
                       const char *no_split)
{
    communication->transfer_ms = per_step(sums->transfer, sums->split_steps, no_split);
    communication->waiting_ms = per_step(sums->waiting, sums->split_steps, no_split);
    communication->exposed_transfer_ms =
        per_step(sums->exposed_transfer, sums->split_steps, no_split);
    communication->exposed_waiting_ms =
        per_step(sums->exposed_waiting, sums->split_steps, no_split);
}

static struct lane_sums sum_lanes(const struct lane_sums *lane, size_t lane_count)
{
    struct lane_sums sums = {.sized = true};
    for (size_t i = 0; i < lane_count; i++) {
        sums.steps += lane[i].steps;
        sums.split_steps += lane[i].split_steps;
        sums.total += lane[i].total;
        sums.exposed += lane[i].exposed;
        sums.overlap += lane[i].overlap;
        sums.unseen += lane[i].unseen;
        sums.bytes += lane[i].bytes;
        sums.calls += lane[i].calls;
        sums.transfer += lane[i].transfer;
        sums.waiting += lane[i].waiting;
        sums.exposed_transfer += lane[i].exposed_transfer;
        sums.exposed_waiting += lane[i].exposed_waiting;
        sums.sized = sums.sized && lane[i].sized;
    }
    return sums;
}

static void fill_rank(const struct an_context *context, size_t lane,
                      const struct lane_sums *lane_sums, const char *no_split,
                      struct an_comm_rank *out)
{
    *out = (struct an_comm_rank){
        .rank = context->lane[lane].rank,
        .total_ms = per_step(lane_sums->total, lane_sums->steps, NO_DETAIL),
        .exposed_ms = per_step(lane_sums->exposed, lane_sums->steps, NO_DETAIL),
        .overlap_pct = overlap_pct(lane_sums),
        .transfer_ms = per_step(lane_sums->transfer, lane_sums->split_steps, no_split),
        .waiting_ms = per_step(lane_sums->waiting, lane_sums->split_steps, no_split),
        .exposed_transfer_ms =
            per_step(lane_sums->exposed_transfer, lane_sums->split_steps, no_split),
        .exposed_waiting_ms =
            per_step(lane_sums->exposed_waiting, lane_sums->split_steps, no_split),
        .caused_ms = per_step(lane_sums->caused, lane_sums->split_steps, no_split),
        .last_pct =
            an_num_if(lane_sums->collectives,
                      100 * (double)lane_sums->last / (double)lane_sums->collectives, no_split)};
}

/* The mean over ranks, of sums, so that every step weighs the same. */
static void fill_run(struct an_communication *communication, const struct lane_sums *lane,
                     size_t lane_count, const char *no_split)
{
    struct lane_sums sums = sum_lanes(lane, lane_count);
    communication->bytes_per_step =
        sums.sized ? an_num_if(sums.steps, sums.bytes / (double)sums.steps, NO_DETAIL)
                   : an_num_none("the calls do not say how many bytes they move");
    communication->total_ms = per_step(sums.total, sums.steps, NO_DETAIL);
    communication->exposed_ms = per_step(sums.exposed, sums.steps, NO_DETAIL);
    communication->overlap_pct = overlap_pct(&sums);
    fill_split(communication, &sums, no_split);
    /* The step's thread is in the call, or in a wait for it: what is exposed blocks it, and that
     * range is the proof. */
    communication->blocking_proven_ms = communication->exposed_ms;
    communication->blocking_inferred_ms = communication->blocking_unknown_ms =
        an_num_if(sums.steps, 0, NO_DETAIL);
}

static int rank_row_order(const void *left, const void *right)
{
    const struct an_comm_rank *first = left, *second = right;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* Did the ranks run on more than one host? Then their clocks may differ. */
static bool several_hosts(const struct an_context *context)
{
    for (size_t lane = 1; lane < context->lane_count; lane++)
        if (context->lane[lane].process != AN_NONE && context->lane[0].process != AN_NONE &&
            strcmp(context->trace->process[context->lane[lane].process].host,
                   context->trace->process[context->lane[0].process].host))
            return true;
    return false;
}

/* The skew between arrivals, unless it is below the error up to which the clocks of several hosts,
 * or corrected clocks, agree. */
static struct an_value skew_of(struct an_context *context, double ms, const char *no_split)
{
    const struct an_clocks *clocks = &context->result->ranks.clocks;
    const char *key = an_trace_key(context->trace, "clock.fit_error_ns");
    bool corrected = false;
    for (size_t i = 0; i < clocks->row_count; i++)
        corrected = corrected || clocks->row[i].corrected;
    if (isnan(ms))
        return an_num_none(no_split);
    if (!corrected && !several_hosts(context))
        return an_num(ms);
    double error = clocks->error_ns.valid ? clocks->error_ns.value / 1e6 : NAN;
    if (!corrected && key)
        error = strtod(key, NULL) / 1e6;
    if (isnan(error))
        return an_num_none("the ranks are on several hosts, and the file does not say how well "
                           "their clocks agree");
    if (ms < error)
        return an_num_none(an_arena_format(context->arena,
                                           "below %s, the precision of the ranks' clocks",
                                           an_time_words(context->arena, error, 3)));
    return an_num(ms);
}

/* Why the exposed time is not split into transfer and waiting. */
static const char *why_no_split(struct an_context *context, const struct an_comm_calls *calls,
                                const char *missing)
{
    int64_t ranks = 0;
    for (size_t i = 0; i < calls->count; i++)
        ranks = calls->call[i].ranks > ranks ? calls->call[i].ranks : ranks;
    if (missing)
        return an_arena_format(context->arena,
                               "%s cannot separate transfer from waiting for peers: %s",
                               context->lane_count > 1 ? "these ranks" : "one rank", missing);
    if (!ranks)
        return "the calls do not say how many ranks take part";
    return "in no counted step could all calls be matched across ranks by communicator and "
           "sequence number";
}

/* Splits the communication of every rank and step into transfer and waiting, lists the ranks, and
 * says which are missing; for lanes of threads and of devices alike. */
static int split_ranks(struct work *work, const char **no_split)
{
    struct an_context *context = work->context;
    struct an_communication *communication = &context->result->communication;
    struct an_comm_rank *rows =
        an_arena_zero(context->arena, context->lane_count + 1, sizeof *rows);
    struct an_class_spans pieces = {0};
    int64_t collectives;
    work->lane = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *work->lane);
    work->split = an_arena_zero(context->scratch, context->step_count + 1, 1);
    int rc = !rows || !work->lane || !work->split ? TACHO_ENOMEM : sort_by_lane(work);
    if (rc)
        return rc;
    memset(work->split, 1, context->step_count);
    mark_split(work);
    communication->missing = an_comm_missing(context, &work->calls);
    *no_split = why_no_split(context, &work->calls, communication->missing);
    for (size_t lane = 0; lane < context->lane_count && !rc; lane++)
        if (work->lane_first[lane + 1] > work->lane_first[lane])
            rc = sum_lane(work, lane, &pieces);
    free(pieces.at);
    if (rc)
        return rc;
    double skew = sum_arrivals(work, &collectives);
    for (size_t lane = 0; lane < context->lane_count; lane++)
        if (work->lane_first[lane + 1] > work->lane_first[lane])
            fill_rank(context, lane, &work->lane[lane], *no_split,
                      &rows[communication->rank_count++]);
    if (communication->rank_count)
        qsort(rows, communication->rank_count, sizeof *rows, rank_row_order);
    communication->ranks = rows;
    communication->skew_ms = skew_of(context, skew, *no_split);
    rc = an_ranks_traffic(context, &work->calls);
    return rc ? rc : an_ranks_exchanges(context, &work->calls);
}

/* Communication between threads of the CPU: everything comes from the calls. */
static int fill_threads(struct an_context *context, struct work *work)
{
    struct an_communication *communication = &context->result->communication;
    const char *no_split = NULL;
    int rc = split_ranks(work, &no_split);
    if (rc)
        return rc;
    fill_run(communication, work->lane, context->lane_count, no_split);
    for (size_t i = 0; i < work->calls.count; i++)
        if (!context->result->steps.detailed || work->calls.call[i].step != AN_NONE) {
            communication->calls++;
            communication->matched += work->calls.call[i].transfer >= 0;
        }
    return an_comm_collectives(context, &work->calls);
}

/* Several ranks with devices: adds what one of them alone does not show. */
static int fill_devices(struct an_context *context, struct work *work)
{
    struct an_communication *communication = &context->result->communication;
    const char *no_split = NULL;
    int rc = split_ranks(work, &no_split);
    if (rc)
        return rc;
    struct lane_sums sums = sum_lanes(work->lane, context->lane_count);
    for (size_t i = 0; i < work->calls.count; i++)
        communication->matched += work->calls.call[i].transfer >= 0;
    if (!communication->matched || !sums.split_steps) {
        communication->rank_count = 0;
        return 0;
    }
    fill_split(communication, &sums, no_split);
    an_comm_device_split(context, &work->calls);
    return 0;
}

/* Until calls are matched, no step knows its waiting and transfer. */
static void no_split_yet(struct an_context *context)
{
    for (size_t i = 0; i < context->step_count; i++)
        context->step[i].waiting_ns = context->step[i].transfer_ns = STORE_ABSENT;
}

static void communication_absent(struct an_context *context, const char *reason)
{
    no_split_yet(context);
    an_ranks_no_exchanges(context, reason);
    context->result->communication.reason = reason;
    context->result->communication.traffic.reason = reason;
    an_comm_rest_absent(&context->result->communication, reason);
}

static int communication_run(struct an_context *context)
{
    struct work work = {.context = context};
    no_split_yet(context);
    an_ranks_no_exchanges(context, "no communication of several ranks");
    context->result->communication.traffic.reason = "no calls of several ranks were recorded";
    int rc = context->gpu ? an_comm_device(context) : 0;
    rc = rc ? rc : an_comm_find(context, &work.calls);
    if (!rc && context->gpu && work.calls.count)
        rc = fill_devices(context, &work);
    else if (!rc && work.calls.count)
        rc = fill_threads(context, &work);
    else if (!rc && !context->gpu)
        communication_absent(context, "no collective was recorded (tacho.comm ranges)");
    free(work.calls.call);
    return rc;
}

const struct an_analyzer an_communication = {
    .name = "communication",
    .help = "collectives: bytes, bandwidth, transfer, waiting, overlap",
    .after = "steps, budget, absent",
    .needs = AN_INPUT_SLICES,
    .run = communication_run,
    .absent = communication_absent,
};

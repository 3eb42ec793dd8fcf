/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions: replays a run under edits (what_if_edits.c) and compares its steps with the replay
 * as recorded. The interval is that of the steps (block bootstrap), widened by the error that the
 * replay was measured to make; that of a new run's step at least by what two runs differ.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/what_if_loader.h"
#include "analyzers/replay/what_if_private.h"
#include "analyzers/steps/command.h"
#include "analyzers/steps/team.h"

#define ERROR_MAX 20.0 /* % of a step: a replay that misses the run by more predicts nothing */
#define RUNS_APART \
    0.003 /* of a step: two runs of one program differ by up to 0.2 % where nothing else runs \
             (49_what_if prints it), which the steps of one run do not show */
#define MOST_GOES \
    0.5 /* share of the step that is left: below it what the rest takes is bounded from below, too \
         */
#define PASSES \
    2.0 /* at worst the bytes of a batch move through memory twice more: received, read cold */

/* ---- the replay of a plan ------------------------------------------------------------------------------------------------------- */

/* Less work lets nothing end later (test_an_replay.c). The steps that count may still sum to more,
 * because the first of them begins earlier by more than the last one ends. */
static void cap_at_recorded(struct an_interval *interval)
{
    interval->low = interval->low < 1 ? interval->low : 1;
    interval->estimate = interval->estimate < 1 ? interval->estimate : 1;
    interval->high = interval->high < 1 ? interval->high : 1;
}

/* What the replays of one plan say of the step, as a share of the recorded one: the hull of all,
 * and the mean of those that are the ends of what is expected. */
struct outcome {
    double low, high, sum;
    double new_low, new_high; /* of a new run's steps */
    int count;
};

static const struct outcome no_outcome = {
    .low = INFINITY, .high = -INFINITY, .new_low = INFINITY, .new_high = -INFINITY};

/* Lengthens all steps alike where together they are shorter than the cores let them be. */
static void keep_busy(struct an_plan *plan, size_t count)
{
    struct an_what_if_state *state = plan->state;
    double share = an_steps_ratio(state->edited_ns, state->base_ns, count);
    for (size_t i = 0; i < count && share < plan->busy; i++)
        state->edited_ns[i] =
            share > 0 ? state->edited_ns[i] * plan->busy / share : plan->busy * state->base_ns[i];
}

/* Is the quota of the run's control group spent? It stops a few steps for long, and the median step
 * may not be one of them. */
static bool is_stopped(const struct an_what_if_state *state)
{
    const struct an_count *cores = &state->replay->context->result->run.cores;
    return state->cores.cores.valid && cores->valid &&
           state->cores.cores.value < (double)cores->value;
}

/* Adds the steps of the last replay to the outcome: over medians and over sums, each with its
 * interval. */
static int add_outcome(struct an_plan *plan, struct outcome *outcome, bool expected)
{
    struct an_what_if_state *state = plan->state;
    struct an_interval interval, other;
    size_t count = an_replay_counted_ns(state->replay, &state->edited, state->edited_ns);
    for (size_t i = 0; i < count; i++)
        state->edited_ns[i] = fmax(state->edited_ns[i], plan->floor[i]);
    keep_busy(plan, count);
    /* Where batches of several workers arrive together, and then none does, no step is typical. */
    bool middle;
    if (an_steps_change_alike(state, plan->route, &middle))
        return TACHO_ENOMEM;
    middle = middle && !plan->of_mean && !is_stopped(state);
    for (int sums = middle ? 0 : 1; sums < 2; sums++) {
        if (an_steps_intervals(state, !sums, plan->others >= 0, &interval, &other))
            return TACHO_ENOMEM;
        if (!plan->more)
            cap_at_recorded(&interval);
        outcome->low = interval.low < outcome->low ? interval.low : outcome->low;
        outcome->high = interval.high > outcome->high ? interval.high : outcome->high;
        outcome->new_low = fmin(outcome->new_low, other.low);
        outcome->new_high = fmax(outcome->new_high, other.high);
        if (expected && sums == (middle ? 0 : 1)) {
            outcome->sum += interval.estimate;
            outcome->count++;
        }
    }
    return 0;
}

/* With the resources shared as the model says, which is what is expected (the mean of the readings,
 * where CPU time can be read in more ways than one), and with every piece of work as slow as it was
 * recorded: the truth lies between, where threads do not share fairly. */
static int replay_shared(struct an_plan *plan, struct outcome *outcome)
{
    struct an_what_if_state *state = plan->state;
    if (state->shares) {
        int rc = 0;
        for (size_t reading = 0; reading < an_shares_readings(state->shares) && !rc; reading++) {
            if (!an_shares_applies(state->shares, reading, plan->cores > 0))
                continue;
            an_shares_read(state->shares, reading);
            rc = an_shares_run(state->shares, &plan->change, plan->cores, plan->others,
                               &state->edited);
            rc = rc ? rc : add_outcome(plan, outcome, true);
        }
        if (rc || plan->cores > 0 || plan->others >= 0)
            return rc;
        if (plan->change.route)
            an_route_reset_slowdown(plan->change.route, 1);
    }
    an_replay_run(state->replay, &plan->change, &state->edited);
    return add_outcome(plan, outcome, !state->shares);
}

/* Replays the loader with the workers and the queue that the run had, once: route_ratio is the same
 * for all edits. It is 1 where the run does not say what a batch costs. */
static int replay_recorded_route(struct an_what_if_state *state, bool engine)
{
    const struct an_replay *replay = state->replay;
    const struct an_route_plan route_plan = {.whoever = engine, .work_factor = 1};
    struct an_change change = {.own = state->own, .latency = 1, .scale_leads = true};
    const char *why;
    if (state->route_ratio > 0)
        return 0;
    state->route_ratio = 1;
    memcpy(state->own, replay->own, replay->graph->node_count * sizeof *state->own);
    int rc = an_route_new(replay, &route_plan, state->own, &change.route, &why);
    if (rc || why)
        return rc;
    if (state->shares) {
        an_shares_read(state->shares, 0);
        rc = an_shares_run(state->shares, &change, 0, -1, &state->edited);
    } else {
        an_replay_run(replay, &change, &state->edited);
    }
    size_t count = an_replay_counted_ns(replay, &state->edited, state->edited_ns);
    double ratio = an_steps_ratio(state->edited_ns, state->base_ns, count);
    state->route_ratio = ratio > 0 ? ratio : 1;
    return rc;
}

/* Widens the outcome by what the route misses of the run as it was: where the loader still limits
 * the edited step, it misses that by as much. */
static void widen_by_ratio(struct outcome *outcome, double ratio)
{
    outcome->low = fmin(outcome->low, outcome->low / ratio);
    outcome->high = fmax(outcome->high, outcome->high / ratio);
    outcome->new_low = fmin(outcome->new_low, outcome->new_low / ratio);
    outcome->new_high = fmax(outcome->new_high, outcome->new_high / ratio);
}

/* Says once what the prediction takes for granted, however many readings of the plan there are. */
static void assume_stops(struct an_plan *plan)
{
    static const char stops[] =
        "its team of threads fills the cores and stops while a worker makes a batch";
    const char *assumed = plan->condition ? plan->condition : "";
    if (!strstr(assumed, stops))
        plan->condition = an_arena_format(plan->state->replay->context->arena, "%s%s%s", assumed,
                                          *assumed ? "; " : "", stops);
}

/* A loader leaves the step's thread, and a team of threads stops while a worker makes a batch
 * (an_shares_stops): that is expected, in the place of what the replay with shared cores has added
 * to `before`; at worst threads are woken, and a batch moves through memory as often more as
 * route_plan says. `kept`: own work before the route. */
static int replay_stopped(struct an_plan *plan, struct an_route_plan route_plan,
                          const int64_t *kept, const struct outcome *before,
                          struct outcome *outcome)
{
    struct an_what_if_state *state = plan->state;
    double batch_ns = route_plan.work_factor * an_route_batch_ns(plan->change.route),
           passes = route_plan.hand_over;
    route_plan.stops = state->shares ? an_shares_stops(state->shares, batch_ns) : 0;
    int64_t wake_ns = an_route_wakes_ns(plan->state->replay, plan->change.route,
                                        route_plan.stops * batch_ns); /* the rest of it sleeps */
    if (route_plan.stops <= 0 || is_stopped(state))
        return 0;
    int rc = 0;
    outcome->sum = before->sum;
    outcome->count = before->count;
    for (int worst = 0; worst < 2 && !rc; worst++) {
        memcpy(state->own, kept, state->replay->graph->node_count * sizeof *kept);
        route_plan.hand_over = worst ? passes : 0;
        route_plan.wake_ns = worst ? wake_ns : 0;
        rc = an_route_new(state->replay, &route_plan, state->own, &plan->change.route,
                          &plan->reason);
        if (rc || plan->reason)
            return rc;
        an_replay_run(state->replay, &plan->change, &state->edited);
        rc = add_outcome(plan, outcome, !worst);
    }
    assume_stops(plan);
    return rc;
}

/* The loader on other threads, handing over for nothing and for what moving the batch through
 * memory takes. */
static int replay_route(struct an_plan *plan, struct outcome *outcome)
{
    struct an_what_if_state *state = plan->state;
    size_t nodes = state->replay->graph->node_count;
    int64_t *kept = malloc((nodes + 1) * sizeof *kept);
    const struct outcome before = *outcome;
    bool in_line = an_plan_leaves_step(plan);
    bool engine = an_command_framework(state->replay->context) == AN_FRAMEWORK_LIBTRAIN;
    double passes = in_line && !engine ? PASSES : 0; /* the engine hands over by address */
    struct an_route_plan route_plan = {.workers = plan->workers,
                                       .ahead = plan->ahead,
                                       .whoever = engine,
                                       /* in line the work that moves is the scaled one */
                                       .work_factor = in_line ? 1 : an_plan_worker_share(state)};
    if (!kept)
        return TACHO_ENOMEM;
    memcpy(kept, state->own, nodes * sizeof *kept);
    int rc = 0;
    for (int worst = 0; worst < (passes > 0 ? 2 : 1) && !rc && !plan->reason; worst++) {
        memcpy(state->own, kept, nodes * sizeof *kept);
        route_plan.hand_over = worst ? passes : 0;
        rc = an_route_new(state->replay, &route_plan, state->own, &plan->change.route,
                          &plan->reason);
        if (!rc && !plan->reason)
            rc = replay_shared(plan, outcome);
    }
    if (in_line && !rc && !plan->reason)
        rc = replay_stopped(plan, route_plan, kept, &before, outcome);
    free(kept);
    if (rc || plan->reason || in_line)
        return rc;
    rc = replay_recorded_route(state, engine);
    widen_by_ratio(outcome, state->route_ratio);
    return rc;
}

/* Adds the steps of the last replay to the low ends only. */
static int add_low(struct an_plan *plan, struct outcome *outcome)
{
    const struct outcome kept = *outcome;
    int rc = add_outcome(plan, outcome, false);
    outcome->high = kept.high;
    outcome->new_high = kept.new_high;
    return rc;
}

static int add_ends(struct an_plan *plan, struct outcome *outcome)
{
    return add_outcome(plan, outcome, false);
}

/* Replays the steps with a part of their work, and adds them; what is expected keeps its times. */
static int replay_scaled(struct an_plan *plan, double part,
                         int (*add)(struct an_plan *, struct outcome *), struct outcome *outcome)
{
    an_plan_scale(plan, part);
    an_replay_run(plan->state->replay, &plan->change, &plan->state->edited);
    int rc = add(plan, outcome);
    an_plan_scale(plan, part > 0 ? 1 / part : 1);
    return rc;
}

/* Work that stays and runs without pauses (what_if_quick.c). Where most of the step goes, half way
 * to its better repeats is expected; the low end is as much below them as the fastest repeats are
 * below the usual ones, or as GEMMs were when they were calibrated. */
static int replay_quick(struct an_plan *plan, struct outcome *outcome, bool most)
{
    const struct outcome kept = *outcome;
    double part = 1, of_sum = 1, curve = 1, usual = most ? an_plan_ratio(plan) : 1;
    int rc = an_plan_quicken(plan, most, &part, &of_sum);
    if (most && !rc) {
        rc = an_plan_curve_share(plan, &curve);
        plan->busy *= of_sum; /* faster work takes less CPU time, too */
        outcome->sum *= (1 + fmin(1, an_plan_ratio(plan) / usual)) / 2;
        rc = rc ? rc : add_low(plan, outcome);
    }
    const double whole = fmin(outcome->low * part, curve * kept.low),
                 new_whole = fmin(outcome->new_low * part, curve * kept.new_low);
    if (most && !rc) { /* a loader that goes on keeps its time */
        double factor = fmin(part, curve / of_sum), arrivals = an_plan_arrivals(plan);
        rc = replay_scaled(plan, factor, add_low, outcome);
        outcome->low = fmin(outcome->low, fmax(whole, outcome->low * arrivals));
        outcome->new_low = fmin(outcome->new_low, fmax(new_whole, outcome->new_low * arrivals));
        return rc;
    }
    outcome->low = whole;
    outcome->new_low = new_whole;
    return rc;
}

/* Both ends of what another number of threads takes, and what is expected. They share no cores, so
 * no slowdown is modelled. */
static int replay_threads(struct an_plan *plan, struct outcome *outcome)
{
    static const enum an_threads_reading readings[] = {AN_THREADS_LOW, AN_THREADS_HIGH,
                                                       AN_THREADS_MIDDLE};
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++) {
        if ((rc = an_plan_fit_threads(plan, readings[i])))
            return rc;
        an_replay_run(plan->state->replay, &plan->change, &plan->state->edited);
        rc = add_outcome(plan, outcome, an_plan_threads_expected(plan, readings[i]));
    }
    return rc;
}

static int replay_work(struct an_plan *plan, struct outcome *outcome)
{
    return plan->route ? replay_route(plan, outcome) : replay_shared(plan, outcome);
}

/* Every reading of the curve of GEMMs; the expected step is their mean. */
static int replay_rescaled(struct an_plan *plan, struct outcome *outcome)
{
    struct an_what_if_state *state = plan->state;
    size_t nodes = state->replay->graph->node_count;
    int64_t *kept = malloc((nodes + 1) * sizeof *kept);
    int rc = kept ? 0 : TACHO_ENOMEM;
    if (!rc)
        memcpy(kept, state->own, nodes * sizeof *kept);
    for (int reading = 0; reading < AN_RESCALE_READINGS && !rc && !plan->reason; reading++) {
        memcpy(state->own, kept, nodes * sizeof *kept);
        an_plan_rescale(plan, reading);
        rc = replay_work(plan, outcome);
    }
    free(kept);
    return rc;
}

/* Transfers that nothing waits for any more; and the same where they take the cores that compute
 * needs, which is what is expected: messages within a machine are copied by its cores. */
static int replay_overlap(struct an_plan *plan, struct outcome *outcome)
{
    int rc = replay_work(plan, outcome);
    if (rc || plan->reason)
        return rc;
    outcome->sum = outcome->count = 0;
    plan->ceiling = NULL;
    plan->condition = "between transfers that need no core, and transfers that take the cores of "
                      "compute, which is what is expected";
    an_plan_hold_cores(plan, an_value_or_0(plan->state->cores.others));
    return replay_work(plan, outcome);
}

/* A loader in line goes to workers, and a quota stops the team: the ranges of the steps' thread do
 * not say what its team works, but a step takes at least the CPU time of that work on the cores of
 * the quota. */
static bool is_in_quota(const struct an_plan *plan)
{
    struct an_context *context = plan->state->replay->context;
    return an_plan_leaves_step(plan) && plan->state->cores.used.valid && is_stopped(plan->state) &&
           an_team_of(context).threads > 1;
}

static int replay_in_quota(struct an_plan *plan, struct outcome *outcome)
{
    static const double of_cpu_time[] = {AN_TEAM_WORK_LEAST, 1, AN_TEAM_WORK_EXPECTED};
    const struct an_core_use *core_use = &plan->state->cores;
    double share = core_use->used.value / core_use->cores.value, busy = plan->busy;
    int rc = 0;
    for (size_t i = 0; i < sizeof of_cpu_time / sizeof *of_cpu_time && !rc && !plan->reason; i++) {
        plan->busy = fmax(busy, fmin(1, share * of_cpu_time[i]));
        outcome->sum = outcome->count = 0; /* the last one is expected */
        rc = replay_work(plan, outcome);
    }
    return rc;
}

/* In the place of what was replayed: the threads of the team have cores of their own, which they
 * did not have after the pauses that go. */
static int part_threads(struct an_plan *plan, struct outcome *outcome)
{
    struct an_shared_core left;
    if (!an_plan_shared_core(plan, &left))
        return 0;
    *outcome = no_outcome;
    int rc = replay_scaled(plan, left.high, add_ends, outcome);
    rc = rc ? rc : replay_scaled(plan, left.low, add_ends, outcome);
    an_plan_scale(plan, left.expected);
    rc = rc ? rc : replay_shared(plan, outcome);
    outcome->low *= an_plan_arrivals(plan);
    outcome->new_low *= an_plan_arrivals(plan);
    if (plan->route)
        widen_by_ratio(outcome, plan->state->route_ratio);
    return rc;
}

static int replay_plan(struct an_plan *plan, struct outcome *outcome)
{
    const struct an_core_use *core_use = &plan->state->cores;
    *outcome = no_outcome;
    if (plan->threads)
        return replay_threads(plan, outcome);
    const double busy = plan->busy;
    if (plan->route || plan->cores > 0 || plan->others >= 0 || an_cores_short(&plan->state->cores))
        an_plan_core_limit(plan);
    if (plan->overlap && an_replay_on_threads(plan->state->replay->context) &&
        core_use->used.valid && core_use->wanted.valid && core_use->cores.valid)
        return replay_overlap(plan, outcome);
    if (is_in_quota(plan)) {
        plan->busy = busy;
        return replay_in_quota(plan, outcome);
    }
    int rc = an_plan_calm(plan);
    if (!rc)
        rc = plan->rescale ? replay_rescaled(plan, outcome) : replay_work(plan, outcome);
    if (!rc && !plan->reason && plan->kept) {
        an_plan_keep_cold(plan);
        rc = replay_shared(plan, outcome);
    }
    if (!rc && !plan->reason)
        rc = part_threads(plan, outcome);
    bool threads = an_replay_on_threads(plan->state->replay->context);
    if (rc || plan->reason || plan->others >= 0 || plan->of_mean || !threads)
        return rc;
    bool most = outcome->sum < MOST_GOES * outcome->count;
    return most || an_plan_leaves_step(plan) ? replay_quick(plan, outcome, most) : 0;
}

/* ---- intervals ------------------------------------------------------------------------------------------------------------------ */

/* As a share: what the replay was seen to miss, of the odd steps with the work of the even ones and
 * of all as they are. */
static double error_of(const struct an_what_if_state *state)
{
    double odd_even = fabs(state->error.pct) / 100, base = fabs(state->base_pct) / 100;
    return isnan(odd_even) || base > odd_even ? base : odd_even;
}

const char *an_what_if_refusal(struct an_context *context, const struct an_what_if_state *state)
{
    double pct = 100 * error_of(state);
    if (pct <= ERROR_MAX)
        return NULL;
    return an_arena_format(context->arena,
                           "the replay misses the recorded steps by %.0f %%, so it predicts "
                           "nothing: the trace lacks what its "
                           "time depends on (calls that launch and synchronise, all threads)",
                           pct);
}

/* The step that the predicted share is one of. What other programs took is known as a mean over all
 * steps, so the share that they cost is of the mean step. */
static double typical_ms(const struct an_plan *plan, double share)
{
    const struct an_what_if_state *state = plan->state;
    double recorded = an_plan_recorded_ms(plan),
           of_others = plan->others >= 0 ? fmax(0, 1 - share) : 0;
    return state->steps ? (1 - of_others) * recorded +
                              of_others * an_mean(state->base_ns, state->steps) / 1e6
                        : recorded;
}

/* The median of the least times of the steps after the edits; 0: nothing is known. */
static double least_ms(const struct an_plan *plan)
{
    const struct an_what_if_state *state = plan->state; /* edited_ns is free after the replays */
    double of_steps =
        state->steps ? an_steps_median(state->edited_ns, plan->floor, state->steps) / 1e6 : 0;
    return fmax(of_steps, plan->busy * an_plan_recorded_ms(plan));
}

/* Fills the prediction: step and gain with their bounds; only the bound where a value cannot be
 * expected. */
static void fill_prediction(struct an_plan *plan, const struct outcome *outcome,
                            struct an_what_if *what_if)
{
    struct an_what_if_state *state = plan->state;
    double share = outcome->sum / outcome->count, recorded = an_plan_recorded_ms(plan),
           before = typical_ms(plan, share);
    const char *none = plan->ceiling;
    if (!none && isnan(state->error.pct))
        none = "too few steps to see how well the replay predicts this run (4 consecutive ones are "
               "needed)";
    /* What has to be done anyway is no matter of chance, so a bound is not widened by the pairs. */
    double error = error_of(state), gain_error = error + (none ? 0 : state->pairs_error),
           least = least_ms(plan), expected = before * share,
           low = fmax(before * outcome->low * fmax(0, 1 - gain_error),
                      fmin(least, before * outcome->low * (1 - error))),
           high = before * outcome->high * (1 + gain_error);
    what_if->ceiling = none;
    what_if->condition = plan->condition;
    what_if->of_mean = plan->of_mean;
    double apart = fmax(error, RUNS_APART);
    double step_low = before * fmin(outcome->low, outcome->new_low) * (1 - apart);
    double step_high = before * fmax(outcome->high, outcome->new_high) * (1 + apart);
    what_if->step_low_ms = what_if->gain.high = an_num_none("no time is left of the step");
    if (low > 0) {
        what_if->step_low_ms = an_num(none ? low : step_low);
        what_if->gain.high = an_num(100 * (recorded / low - 1));
    }
    what_if->gain.ceiling = none != NULL;
    what_if->step_ms = what_if->step_high_ms = what_if->gain.low = what_if->gain.expected =
        an_num_none(none);
    if (none)
        return;
    what_if->step_ms = an_num(expected);
    what_if->step_high_ms = an_num(step_high);
    what_if->gain.low = an_num(100 * (recorded / high - 1));
    what_if->gain.expected = an_num(100 * (recorded / expected - 1));
}

/* The run already is what the edits ask for: no gain, whatever the replay misses. */
static void fill_unchanged(const struct an_what_if_state *state, struct an_what_if *what_if)
{
    what_if->step_ms = what_if->step_low_ms = what_if->step_high_ms = an_num(state->median_ms);
    what_if->gain = (struct an_gain){.low = an_num(0), .expected = an_num(0), .high = an_num(0)};
}

static void set_absent(struct an_what_if *what_if, const char *reason)
{
    what_if->reason = reason;
    what_if->step_ms = what_if->step_low_ms = what_if->step_high_ms = an_num_none(reason);
    what_if->gain = (struct an_gain){
        .low = what_if->step_ms, .expected = what_if->step_ms, .high = what_if->step_ms};
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

/* Edits are of the steps: what they changed of phases is as recorded again. */
static void keep_phases(struct an_what_if_state *state)
{
    const struct an_replay *replay = state->replay;
    for (size_t i = 0; i < replay->node_count; i++)
        if (replay->phase[replay->node[i]])
            state->own[replay->node[i]] = replay->own[replay->node[i]];
}

int an_what_if_run(struct an_what_if_state *state, const struct an_edit *edit, size_t count,
                   struct an_what_if *what_if)
{
    struct an_context *context = state->replay->context;
    struct an_plan plan = {.state = state,
                           .others = -1,
                           .micro = 1,
                           .change = {.own = state->own, .latency = 1, .scale_leads = true}};
    struct outcome outcome;
    const char *text = "";
    for (size_t i = 0; i < count; i++)
        text = an_arena_format(context->arena, "%s%s%s", text, i ? "," : "", edit[i].text);
    *what_if = (struct an_what_if){.edit = text};
    if (!(plan.floor = calloc(state->steps + 1, sizeof *plan.floor)))
        return TACHO_ENOMEM;
    memcpy(state->own, state->replay->own, state->replay->graph->node_count * sizeof *state->own);
    int rc = 0;
    for (size_t i = 0; i < count && !rc && !plan.unknown && !plan.reason; i++)
        rc = an_plan_apply(&plan, &edit[i]);
    if (!rc && !plan.unknown && !plan.reason && plan.overlap)
        an_plan_overlap(&plan);
    keep_phases(state);
    if (!rc && !plan.reason && (plan.micro > 1 || plan.precision))
        rc = an_plan_rescale_open(&plan);
    if (!rc && plan.changes)
        an_plan_busy_limit(&plan, edit, count);
    if (!rc && plan.unknown) {
        what_if->unknown = an_arena_text(context->arena, plan.unknown);
        what_if->known = an_rows_like(&state->rows, plan.unknown, context->arena);
        plan.reason = an_arena_format(
            context->arena, "nothing in the replayed steps is called %.100s", plan.unknown);
    }
    if (!plan.reason && plan.changes)
        plan.reason = state->refusal;
    if (!rc && !plan.reason && plan.changes)
        rc = replay_plan(&plan, &outcome);
    if (!rc && plan.reason)
        set_absent(what_if, plan.reason);
    else if (!rc && !plan.changes)
        fill_unchanged(state, what_if);
    else if (!rc)
        fill_prediction(&plan, &outcome, what_if);
    free(plan.floor);
    return rc;
}

int an_what_if_of(struct an_context *context, const char *text, struct an_what_if *what_if)
{
    struct an_edit edit[AN_EDITS_MOST];
    struct tacho_error err;
    size_t count;
    *what_if = (struct an_what_if){.edit = text};
    if (!context->what_if) {
        set_absent(what_if, context->result->advice.reason ? context->result->advice.reason
                                                           : "nothing was replayed");
        return 0;
    }
    if (an_edits_parse(text, edit, &count, NULL, &err)) {
        set_absent(what_if, an_arena_text(context->arena, err.what));
        what_if->unknown = text;
        return 0;
    }
    return an_what_if_run(context->what_if, edit, count, what_if);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Good and bad events of each objective: from steps of the job, from losses, from time without
 * progress. Nothing is counted until the warm-up has shown what is usual.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/base/words.h"
#include "monitor/private.h"

/* The period of a budget: the objective's, else the length of the run, else 30 days. */
static double period_of(const struct mon_monitor *monitor, const struct mon_objective *objective)
{
    if (objective->period_s > 0)
        return objective->period_s;
    double step_s = mon_progress_median(&monitor->progress);
    return monitor->machine.planned_steps > 0 && step_s > 0
               ? (double)monitor->machine.planned_steps * step_s
               : MON_PERIOD_DAYS_30;
}

/* The warm-up is over: windows are as long as the usual step asks for. */
static void begin(struct mon_monitor *monitor)
{
    const struct mon_slo *slo = &monitor->config->slo;
    monitor->reference_ms = an_quantile_of(monitor->warm_ms, monitor->warm_count, 0.5);
    monitor->reference_flops = an_quantile_of(monitor->warm_flops, monitor->warm_count, 0.5);
    monitor->counting = true;
    for (size_t i = 0; i < slo->count; i++) {
        struct mon_objective objective = slo->objective[i];
        struct tacho_error err = {0};
        objective.period_s = period_of(monitor, &objective);
        monitor->absent[i] = "no event yet";
        /* a run that is too short for any burn rate still has good and bad events: budget.why says
         * why no rate is looked at */
        mon_budget_init(&monitor->budget[i], &objective,
                        mon_seconds((int64_t)(monitor->reference_ms * 1e6)), &err);
    }
}

static void add(struct mon_monitor *monitor, size_t i, int64_t time, double bad, double all)
{
    monitor->absent[i] = NULL;
    mon_budget_add(&monitor->budget[i], mon_seconds(time - monitor->begun_ns), bad, all);
}

static double threshold_of(const struct mon_budget *budget, double reference)
{
    const struct mon_objective *objective = &budget->objective;
    return objective->relative ? objective->threshold * reference : objective->threshold;
}

/* Seconds since what was counted last, as an objective of time sees them. */
static double new_seconds(const struct mon_monitor *monitor, int64_t end)
{
    int64_t from =
        monitor->counted_ns > monitor->last_end ? monitor->counted_ns : monitor->last_end;
    return from == INT64_MIN || end <= from ? 0 : mon_seconds(end - from);
}

static void count_goodput(struct mon_monitor *monitor, size_t i, const struct mon_pending *step)
{
    double all = new_seconds(monitor, step->end);
    double productive = step->repeated ? 0 : fmin(all, step->ms / 1e3);
    if (all > 0)
        add(monitor, i, step->end, all - productive, all);
}

static void count_checkpoint_age(struct mon_monitor *monitor, size_t i, int64_t end)
{
    double all = new_seconds(monitor, end);
    if (monitor->checkpoint_end == INT64_MIN) {
        monitor->absent[i] = "no checkpoint was seen";
        return;
    }
    double over =
        mon_seconds(end - monitor->checkpoint_end) - monitor->budget[i].objective.threshold;
    if (all > 0)
        add(monitor, i, end, fmax(0, fmin(all, over)), all);
}

/* How far the slowest rank's own time is above the median rank's, as a factor; NAN: one rank. */
static double spread_of(const struct mon_pending *step)
{
    double own[MON_RANKS_SPREAD];
    if (step->spread < 2)
        return NAN;
    memcpy(own, step->own_ms, step->spread * sizeof *own);
    an_sort(own, step->spread);
    double median = an_quantile(own, step->spread, 0.5);
    return median > 0 ? own[step->spread - 1] / median : NAN;
}

/* Counts a step for one objective of steps: bad or not, or says why that is not known. */
static void count_one(struct mon_monitor *monitor, size_t i, const struct mon_pending *step)
{
    const struct mon_budget *budget = &monitor->budget[i];
    double spread, speed = step->flops / step->ms;
    switch (budget->objective.sli) {
    case MON_SLI_STEP_TIME:
        if (!step->special)
            add(monitor, i, step->end, step->ms > threshold_of(budget, monitor->reference_ms), 1);
        break;
    case MON_SLI_GOODPUT:
        count_goodput(monitor, i, step);
        break;
    case MON_SLI_HEALTH:
        add(monitor, i, step->end, step->repeated || monitor->step_not_finite, 1);
        break;
    case MON_SLI_CHECKPOINT_AGE:
        count_checkpoint_age(monitor, i, step->end);
        break;
    case MON_SLI_DATA_WAIT:
        if (step->has_phases)
            add(monitor, i, step->end, step->wait_share > budget->objective.threshold, 1);
        else if (monitor->absent[i])
            monitor->absent[i] = "the recording has no totals of ranges";
        break;
    case MON_SLI_MFU:
        if (!(step->flops > 0))
            monitor->absent[i] = "the recording has no FLOPs of the model";
        else if (!step->special)
            add(monitor, i, step->end,
                budget->objective.relative
                    ? speed < budget->objective.threshold * monitor->reference_flops
                    : monitor->mfu < budget->objective.threshold,
                1);
        break;
    case MON_SLI_STRAGGLERS:
        spread = spread_of(step);
        if (isnan(spread))
            monitor->absent[i] = "one rank, or no totals of ranges";
        else
            add(monitor, i, step->end, spread > budget->objective.threshold, 1);
        break;
    default: /* MON_SLI_LOSS_HEALTH: mon_count_loss */
        break;
    }
}

void mon_count_step(struct mon_monitor *monitor, const struct mon_pending *step)
{
    double peak = monitor->machine.peak_flops * (double)step->ranks;
    monitor->straggler = spread_of(step) - 1;
    monitor->mfu = peak > 0 && step->flops > 0 ? step->flops / (step->ms / 1e3) / peak : NAN;
    if (!monitor->counting) {
        if (!step->special) {
            monitor->warm_ms[monitor->warm_count] = step->ms;
            monitor->warm_flops[monitor->warm_count++] = step->flops / step->ms;
        }
        if (monitor->warm_count == MON_WARM_UP)
            begin(monitor);
    } else {
        for (size_t i = 0; i < monitor->config->slo.count; i++)
            count_one(monitor, i, step);
    }
    monitor->step_not_finite = false;
}

void mon_count_loss(struct mon_monitor *monitor, int64_t time, double deviation, bool finite)
{
    for (size_t i = 0; monitor->counting && i < monitor->config->slo.count; i++) {
        const struct mon_objective *objective = &monitor->budget[i].objective;
        if (objective->sli == MON_SLI_LOSS_HEALTH)
            add(monitor, i, time, !finite || deviation > objective->threshold, 1);
    }
}

/* Time in which nothing ended is bad in every objective that counts anything: in seconds, or in
 * as many steps as would have ended. */
void mon_count_stall(struct mon_monitor *monitor, int64_t now)
{
    double seconds = new_seconds(monitor, now), step_s = mon_progress_median(&monitor->progress);
    if (!monitor->counting || !(seconds > 0))
        return;
    for (size_t i = 0; i < monitor->config->slo.count; i++) {
        bool time = mon_sli_counts_seconds(monitor->budget[i].objective.sli);
        double events = time ? seconds : seconds / step_s;
        if (!monitor->absent[i])
            add(monitor, i, now, events, events);
    }
    monitor->counted_ns = now;
}

/* ---- burn rates ------------------------------------------------------------------------------ */

/* The alert of a detector that is open and began last: most likely why the budget burns. */
static const struct mon_alert *reason_of(const struct mon_alerts *alerts)
{
    const struct mon_alert *reason = NULL;
    for (size_t i = 0; i < alerts->count; i++) {
        const struct mon_alert *alert = &alerts->alert[i];
        if (!alert->resolved && alert->symptom.cause != MON_CAUSE_OBJECTIVE &&
            (!reason || alert->begun_s > reason->begun_s))
            reason = alert;
    }
    return reason;
}

static void raise_burn(struct mon_monitor *monitor, size_t i, const struct mon_burn *burn,
                       int64_t now)
{
    const struct mon_budget *budget = &monitor->budget[i];
    const struct mon_objective *objective = &budget->objective;
    double time_s = mon_seconds(now - monitor->begun_ns);
    char code[MON_NAME], first[AN_WORDS], second[AN_WORDS];
    snprintf(code, sizeof code, "BURN_%.50s", objective->name);
    struct mon_symptom symptom =
        mon_symptom_of(monitor, code, burn->page ? MON_PAGE : MON_TICKET, MON_CAUSE_OBJECTIVE);
    const struct mon_alert *reason = reason_of(&monitor->alerts);
    if (reason) {
        symptom.cause = reason->symptom.cause;
        symptom.rank_count = reason->symptom.rank_count;
        memcpy(symptom.rank, reason->symptom.rank, sizeof symptom.rank);
        symptom.since_step = reason->symptom.since_step;
        symptom.since_ns = reason->symptom.since_ns;
        snprintf(symptom.changed, sizeof symptom.changed, "%.250s; %.250s", reason->symptom.text,
                 reason->symptom.changed);
    } else {
        symptom.since_ns = now - (int64_t)(burn->long_s * 1e9);
        snprintf(symptom.changed, sizeof symptom.changed, "no detector says what changed");
    }
    symptom.before = objective->target;
    symptom.after = mon_budget_good(budget);
    snprintf(symptom.text, sizeof symptom.text,
             "objective %s (%.4g %%) burns its error budget more than %.3g times too fast over "
             "%s and %s; %.0f %% of the budget is left",
             objective->name, 100 * objective->target, burn->factor,
             an_time_print(first, 1e3 * burn->long_s, 3),
             an_time_print(second, 1e3 * burn->short_s, 3), 100 * mon_budget_left(budget, time_s));
    mon_raise(monitor, &symptom);
}

void mon_check_budgets(struct mon_monitor *monitor, int64_t now)
{
    double time_s = mon_seconds(now - monitor->begun_ns);
    for (size_t i = 0; monitor->counting && i < monitor->config->slo.count; i++) {
        struct mon_budget *budget = &monitor->budget[i];
        bool burns = false;
        char code[MON_NAME];
        if (monitor->absent[i])
            continue;
        int begun = mon_budget_check(budget, time_s, NULL);
        if (begun >= 0)
            raise_burn(monitor, i, &budget->burn[begun], now);
        for (size_t j = 0; j < budget->burn_count; j++)
            burns = burns || budget->burning[j];
        snprintf(code, sizeof code, "BURN_%.50s", budget->objective.name);
        if (!burns && mon_alerts_has(&monitor->alerts, code))
            mon_clear(monitor, code, -1);
    }
}

/* ---- for those who show it ------------------------------------------------------------------- */

static void fill(const struct mon_monitor *monitor, size_t i, double time_s,
                 struct mon_objective_state *state)
{
    const struct mon_budget *budget = &monitor->budget[i];
    *state = (struct mon_objective_state){.objective = monitor->config->slo.objective[i],
                                          .good = NAN,
                                          .left = NAN,
                                          .absent = "warming up",
                                          .why = ""};
    if (!monitor->counting)
        return;
    state->objective = budget->objective;
    state->burn_count = budget->burn_count;
    state->absent = monitor->absent[i];
    state->why = budget->why;
    memcpy(state->burn, budget->burn, sizeof state->burn);
    if (state->absent)
        return;
    state->good = mon_budget_good(budget);
    state->left = mon_budget_left(budget, time_s);
    state->events = budget->all;
    for (size_t j = 0; j < budget->burn_count; j++)
        state->rate[j] = mon_burn_rate(budget, &budget->ring[j], time_s, budget->burn[j].long_s);
}

void mon_state(const struct mon_monitor *monitor, int64_t now, struct mon_state *state)
{
    double time_s = mon_seconds(now - monitor->begun_ns);
    *state = (struct mon_state){
        .steps = monitor->steps,
        .last_step = monitor->last_step,
        .step_s = mon_progress_median(&monitor->progress),
        .idle_s = mon_progress_idle(&monitor->progress, time_s),
        .bound_s = mon_progress_bound(&monitor->progress),
        .tokens_per_s = monitor->tokens_per_s,
        .loss = monitor->loss,
        .grad_norm = monitor->grad_norm,
        .mfu = monitor->mfu,
        .checkpoint_age_s =
            monitor->checkpoint_end == INT64_MIN ? NAN : mon_seconds(now - monitor->checkpoint_end),
        .straggler_share = monitor->straggler,
        .stalled = monitor->progress.stalled,
        .ranks = monitor->history.rank_count,
        .objective_count = monitor->config->slo.count,
    };
    for (size_t i = 0; i < state->objective_count; i++)
        fill(monitor, i, time_s, &state->objective[i]);
}

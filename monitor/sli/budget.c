/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings of events, burn rates in pairs of windows.
 */
#include "monitor/sli/budget.h"

#include <math.h>

#define EVENTS_SECONDS 60   /* of an SLI that counts seconds, before it says anything */
#define CHANCE         1e-4 /* of as many bad events in a run that just meets its objective */

static void ring_init(struct mon_ring *ring, double window_s)
{
    *ring = (struct mon_ring){.part_s = window_s / MON_RING_PARTS, .head_s = NAN};
}

/* Turns the ring on to a time: parts that are over are kept, those that nothing came in are 0. */
static void ring_turn(struct mon_ring *ring, double time_s)
{
    if (isnan(ring->head_s))
        ring->head_s = time_s + ring->part_s;
    double parts = ceil((time_s - ring->head_s) / ring->part_s);
    if (!(parts > 0))
        return;
    ring->head_s += parts * ring->part_s;
    for (size_t i = 0; i < MON_RING_PARTS && (double)i < parts; i++) {
        ring->newest = (ring->newest + 1) % MON_RING_PARTS;
        ring->bad[ring->newest] = ring->all[ring->newest] = 0;
    }
}

static void ring_add(struct mon_ring *ring, double time_s, double bad, double all)
{
    ring_turn(ring, time_s);
    ring->bad[ring->newest] += bad;
    ring->all[ring->newest] += all;
}

/* Sums of the parts that lie in the newest `window_s` at least in half. */
static void ring_sum(const struct mon_ring *ring, double time_s, double window_s, double *bad,
                     double *all)
{
    *bad = *all = 0;
    for (size_t i = 0; i < MON_RING_PARTS; i++) {
        size_t part = (ring->newest + MON_RING_PARTS - i) % MON_RING_PARTS;
        double end_s = ring->head_s - (double)i * ring->part_s;
        if (i && end_s - ring->part_s / 2 < time_s - window_s)
            break;
        *bad += ring->bad[part];
        *all += ring->all[part];
    }
}

int mon_budget_init(struct mon_budget *budget, const struct mon_objective *objective, double step_s,
                    struct tacho_error *err)
{
    *budget = (struct mon_budget){.objective = *objective};
    int rc = mon_burns(&budget->objective, step_s, budget->burn, &budget->burn_count, budget->why,
                       sizeof budget->why, err);
    for (size_t i = 0; i < budget->burn_count; i++)
        ring_init(&budget->ring[i], budget->burn[i].long_s);
    ring_init(&budget->period, objective->period_s);
    return rc;
}

void mon_budget_add(struct mon_budget *budget, double time_s, double bad, double all)
{
    budget->first_s = budget->all > 0 ? budget->first_s : time_s;
    budget->bad += bad;
    budget->all += all;
    ring_add(&budget->period, time_s, bad, all);
    for (size_t i = 0; i < budget->burn_count; i++)
        ring_add(&budget->ring[i], time_s, bad, all);
}

double mon_burn_rate(const struct mon_budget *budget, const struct mon_ring *ring, double time_s,
                     double window_s)
{
    double bad, all;
    ring_sum(ring, time_s, window_s, &bad, &all);
    return all > 0 ? bad / all / (1 - budget->objective.target) : NAN;
}

/* Are there enough events for a rate? One bad step of three is no rate. */
static bool has_events(const struct mon_budget *budget, const struct mon_ring *ring, double time_s,
                       double window_s)
{
    double bad, all;
    bool seconds = mon_sli_counts_seconds(budget->objective.sli);
    ring_sum(ring, time_s, window_s, &bad, &all);
    return all >= fmin(seconds ? EVENTS_SECONDS : MON_EVENTS_LEAST, window_s);
}

/* Would a run that just meets its objective have so many bad events in a window now and then? Of 20
 * steps, of which one may be bad, four are bad quite often: the binomial distribution says so. */
static bool by_chance(const struct mon_budget *budget, const struct mon_ring *ring, double time_s,
                      double window_s)
{
    double bad, all, may = 1 - budget->objective.target, chance = 0;
    ring_sum(ring, time_s, window_s, &bad, &all);
    for (double count = round(bad); count <= all; count++)
        chance += exp(lgamma(all + 1) - lgamma(count + 1) - lgamma(all - count + 1) +
                      count * log(may) + (all - count) * log1p(-may));
    return chance > CHANCE;
}

/* Does a pair of windows begin to burn? A lengthened one has few steps: there accidents are ruled
 * out. */
static bool begins(const struct mon_budget *budget, size_t i, double time_s)
{
    const struct mon_burn *burn = &budget->burn[i];
    const struct mon_ring *ring = &budget->ring[i];
    bool steps = !mon_sli_counts_seconds(budget->objective.sli);
    return has_events(budget, ring, time_s, burn->long_s) &&
           !(steps && burn->lengthened && by_chance(budget, ring, time_s, burn->long_s));
}

/* The burn rate of a window of which only the part since the first event is known. */
static double used_rate(const struct mon_budget *budget, const struct mon_ring *ring, double time_s,
                        double window_s)
{
    double known = fmin(1, (time_s - budget->first_s) / window_s);
    return known * mon_burn_rate(budget, ring, time_s, window_s);
}

int mon_budget_check(struct mon_budget *budget, double time_s, int *over)
{
    int begun = -1, ended = -1;
    for (size_t i = 0; i < budget->burn_count; i++) {
        const struct mon_burn *burn = &budget->burn[i];
        struct mon_ring *ring = &budget->ring[i];
        ring_turn(ring, time_s);
        double rate_short = used_rate(budget, ring, time_s, burn->short_s);
        double rate_long = used_rate(budget, ring, time_s, burn->long_s);
        bool was = budget->burning[i];
        if (!was && rate_short > burn->factor && rate_long > burn->factor &&
            begins(budget, i, time_s))
            budget->burning[i] = true;
        else if (was && !(rate_short > burn->factor))
            budget->burning[i] = false;
        if (budget->burning[i] && !was && begun < 0)
            begun = (int)i;
        if (was && !budget->burning[i])
            ended = (int)i;
    }
    if (over)
        *over = ended;
    return begun;
}

double mon_budget_good(const struct mon_budget *budget)
{
    return budget->all > 0 ? 1 - budget->bad / budget->all : NAN;
}

double mon_budget_left(const struct mon_budget *budget, double time_s)
{
    double bad, all, period_s = budget->objective.period_s;
    ring_sum(&budget->period, time_s, period_s, &bad, &all);
    double seen_s = fmin(time_s, period_s);
    if (!(all > 0) || !(seen_s > 0))
        return NAN;
    return 1 - bad / (all / seen_s * period_s * (1 - budget->objective.target));
}

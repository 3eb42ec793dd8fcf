/* SPDX-License-Identifier: Apache-2.0
 *
 * A clipped CUSUM about a robust centre (shift.h says how).
 */
#include "monitor/detect/shift.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"

#define MAD_TO_SD   1.4826 /* of a normal distribution */
#define LEARN_EVERY 4      /* values between two looks at the window */
#define BLOCKED     512    /* values after which a window that learned nothing starts again */
#define FOLLOW_CLIP 1.5    /* deviations by which a value moves the centre, at most */
#define HIGH        0.5    /* of the limit: the window waits */

const struct mon_shift_rule mon_shift_time = {.allowance = 0.6,
                                              .limit = 5.5,
                                              .clip = 1.8,
                                              .effect = 0.010,
                                              .effect_deviations = 0.8,
                                              .spread = 0.002,
                                              .gap = 8,
                                              .warm_up = 24,
                                              .memory = 64,
                                              .follow = 0.02,
                                              .young = 16,
                                              .good = 1.6,
                                              .logarithm = true};
const struct mon_shift_rule mon_shift_loss = {.allowance = 0.75,
                                              .limit = 12,
                                              .clip = 4,
                                              .effect = 0.05,
                                              .effect_deviations = 1,
                                              .spread = 0.005,
                                              .gap = 8,
                                              .warm_up = 32,
                                              .memory = 1,
                                              .good = 1,
                                              .logarithm = true};
const struct mon_shift_rule mon_shift_slow = {.allowance = 1,
                                              .limit = 10,
                                              .clip = 4,
                                              .effect = 0.03,
                                              .effect_deviations = 2,
                                              .spread = 0.01,
                                              .gap = 8,
                                              .warm_up = 24,
                                              .memory = 1,
                                              .good = 1,
                                              .logarithm = true};

void mon_shift_init(struct mon_shift *shift, const struct mon_shift_rule *rule, bool bad_up)
{
    *shift = (struct mon_shift){
        .rule = rule, .centre = NAN, .spread = NAN, .deviation = NAN, .bad_up = bad_up};
}

static double to_unit(const struct mon_shift *shift, double value)
{
    return shift->rule->logarithm ? exp(value) : value;
}

/* Median of the newest values as they are kept. */
static double recent_median(const struct mon_shift *shift, size_t count)
{
    double newest[MON_SHIFT_RECENT];
    count = count < shift->recent_held ? count : shift->recent_held;
    for (size_t i = 0; i < count; i++)
        newest[i] =
            shift->recent[(shift->recent_next + MON_SHIFT_RECENT - 1 - i) % MON_SHIFT_RECENT];
    return an_quantile_of(newest, count, 0.5);
}

double mon_shift_recent(const struct mon_shift *shift, size_t count)
{
    return to_unit(shift, recent_median(shift, count));
}

double mon_shift_centre(const struct mon_shift *shift)
{
    return to_unit(shift, shift->centre);
}

/* A centre that follows the values: the more there were, the less each of them moves it. */
static void follow(struct mon_shift *shift, double value)
{
    double off = (value - shift->centre) / shift->spread;
    double gain = fmax(1 / (double)shift->held, shift->rule->follow);
    shift->centre += gain * shift->spread * fmax(-FOLLOW_CLIP, fmin(FOLLOW_CLIP, off));
}

static void learn(struct mon_shift *shift, double value)
{
    bool follows = shift->rule->follow > 0 && !isnan(shift->centre);
    shift->window[shift->next] = value;
    shift->next = (shift->next + 1) % MON_SHIFT_WINDOW;
    shift->held += shift->held < MON_SHIFT_WINDOW;
    if (follows)
        follow(shift, value);
    if (shift->held < shift->rule->warm_up || (!isnan(shift->centre) && shift->added % LEARN_EVERY))
        return;
    double sorted[MON_SHIFT_WINDOW], work[MON_SHIFT_WINDOW];
    memcpy(sorted, shift->window, shift->held * sizeof *sorted);
    an_sort(sorted, shift->held);
    size_t quarter = shift->held / 4;
    if (!follows)
        shift->centre = an_mean(sorted + quarter, shift->held - 2 * quarter);
    double mad = an_mad(sorted, shift->held, shift->centre, work);
    double looks = (double)shift->held / LEARN_EVERY,
           memory = shift->held < MON_SHIFT_WINDOW ? fmin(looks, shift->rule->memory)
                                                   : shift->rule->memory,
           spread = fmax(MAD_TO_SD * mad, shift->rule->spread);
    shift->spread =
        isnan(shift->spread) ? spread : shift->spread + (spread - shift->spread) / fmax(memory, 1);
}

/* Forgets the level; the newest `count` values are the first ones of the next. */
static void start_again(struct mon_shift *shift, size_t count)
{
    count = count < shift->recent_held ? count : shift->recent_held;
    shift->held = shift->next = shift->blocked = 0;
    shift->centre = shift->deviation = NAN;
    shift->spread = shift->rule->memory > 1 ? shift->spread : NAN;
    shift->up = shift->down = (struct mon_shift_sum){0};
    for (size_t i = count; i > 0; i--)
        learn(shift, shift->recent[(shift->recent_next + MON_SHIFT_RECENT - i) % MON_SHIFT_RECENT]);
}

/* One step of a sum; `deviation` counts upwards. */
static void sum_add(struct mon_shift_sum *sum, double deviation, double allowance, int64_t at)
{
    if (sum->sum <= 0) {
        sum->since = at;
        sum->values = 0;
        sum->total = 0;
    }
    sum->values++;
    sum->total += deviation;
    sum->sum = fmax(0, sum->sum + deviation - allowance);
}

/* What a sum has to exceed now. `up`: that of upward deviations. */
static double limit_of(const struct mon_shift *shift, bool up)
{
    const struct mon_shift_rule *rule = shift->rule;
    double few = 1.0 / (double)shift->held - 1.0 / MON_SHIFT_WINDOW;
    return rule->limit * (1 + rule->young * few) * (up == shift->bad_up ? 1 : rule->good);
}

/* Is the level since the sum left 0 far enough off? `sign` 1: up. A sum of many small deviations,
 * as a slow wander gives, starts again. */
static bool confirmed(struct mon_shift *shift, struct mon_shift_sum *sum, double sign,
                      struct mon_shift_found *found)
{
    const struct mon_shift_rule *rule = shift->rule;
    if (sum->sum <= limit_of(shift, sign > 0))
        return false;
    double mean = sum->total / (double)sum->values, after = recent_median(shift, sum->values);
    double off = sign * (after - shift->centre);
    if (mean < rule->effect_deviations || off < rule->effect) {
        *sum = (struct mon_shift_sum){0};
        return false;
    }
    *found = (struct mon_shift_found){.up = sign > 0,
                                      .since = sum->since,
                                      .values = sum->values,
                                      .before = to_unit(shift, shift->centre),
                                      .after = to_unit(shift, after),
                                      .spread = shift->spread};
    return true;
}

static void keep_recent(struct mon_shift *shift, double value)
{
    shift->recent[shift->recent_next] = value;
    shift->recent_next = (shift->recent_next + 1) % MON_SHIFT_RECENT;
    shift->recent_held += shift->recent_held < MON_SHIFT_RECENT;
    shift->added++;
}

/* The window gets the value that has just become old enough, unless a sum is high. */
static void move_window(struct mon_shift *shift)
{
    const struct mon_shift_rule *rule = shift->rule;
    double high = HIGH * limit_of(shift, shift->bad_up);
    bool waits = shift->up.sum > high || shift->down.sum > high;
    shift->blocked = waits ? shift->blocked + 1 : 0;
    if (shift->blocked > BLOCKED)
        start_again(shift, MON_SHIFT_RECENT);
    else if (!waits && shift->recent_held > rule->gap)
        learn(shift, shift->recent[(shift->recent_next + MON_SHIFT_RECENT - 1 - rule->gap) %
                                   MON_SHIFT_RECENT]);
}

bool mon_shift_add(struct mon_shift *shift, double value, int64_t at, struct mon_shift_found *found)
{
    const struct mon_shift_rule *rule = shift->rule;
    shift->deviation = NAN;
    if (!isfinite(value) || (rule->logarithm && value <= 0))
        return false;
    value = rule->logarithm ? log(value) : value;
    keep_recent(shift, value);
    if (isnan(shift->centre)) {
        learn(shift, value);
        return false;
    }
    shift->deviation = (value - shift->centre) / shift->spread;
    double clipped = fmax(-rule->clip, fmin(rule->clip, shift->deviation));
    sum_add(&shift->up, clipped, rule->allowance, at);
    sum_add(&shift->down, -clipped, rule->allowance, at);
    bool moved =
        confirmed(shift, &shift->up, 1, found) || confirmed(shift, &shift->down, -1, found);
    if (moved)
        start_again(shift, found->values);
    else
        move_window(shift);
    return moved;
}

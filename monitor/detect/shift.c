/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of clipped deviations from a robust centre (shift.h says how).
 */
#include "monitor/detect/shift.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"

#define MAD_TO_SD   1.4826 /* of a normal distribution */
#define LEARN_EVERY 4      /* values between two looks at the window */
#define FOLLOW_CLIP 1.5    /* deviations by which a value moves the centre, at most */
#define NEWEST      3      /* values that say whether a move is a far one */
#define BACK        8      /* values after an alarm that can take it back */

const struct mon_shift_rule mon_shift_time = {.allowance = 0.5,
                                              .limit = 5.95,
                                              .clip = 1.3,
                                              .longest = 16,
                                              .far = 5,
                                              .effect = 0.010,
                                              .spread = 0.002,
                                              .gap = 10,
                                              .warm_up = 24,
                                              .memory = 64,
                                              .follow = 0.02,
                                              .young = 10,
                                              .good = 1.6,
                                              .logarithm = true};
const struct mon_shift_rule mon_shift_loss = {.allowance = 0.75,
                                              .limit = 12,
                                              .clip = 3.25,
                                              .longest = 48,
                                              .far = 8,
                                              .effect = 0.05,
                                              .spread = 0.005,
                                              .gap = 24,
                                              .warm_up = 32,
                                              .memory = 1,
                                              .good = 1,
                                              .logarithm = true};
const struct mon_shift_rule mon_shift_slow = {.allowance = 1,
                                              .limit = 10,
                                              .clip = 3,
                                              .longest = 10,
                                              .far = 8,
                                              .effect = 0.03,
                                              .spread = 0.01,
                                              .gap = 8,
                                              .warm_up = 24,
                                              .memory = 1,
                                              .good = 1,
                                              .logarithm = true};

void mon_shift_init(struct mon_shift *shift, const struct mon_shift_rule *rule, bool bad_up)
{
    *shift = (struct mon_shift){.rule = rule,
                                .centre = NAN,
                                .spread = NAN,
                                .deviation = NAN,
                                .bad_up = bad_up,
                                .left = {.centre = NAN}};
}

static double to_unit(const struct mon_shift *shift, double value)
{
    return shift->rule->logarithm ? exp(value) : value;
}

/* The newest value but `age`. */
static const struct mon_shift_value *newest(const struct mon_shift *shift, size_t age)
{
    return &shift->recent[(shift->recent_next + MON_SHIFT_RECENT - 1 - age) % MON_SHIFT_RECENT];
}

/* Median of the newest values as they are kept. */
static double recent_median(const struct mon_shift *shift, size_t count)
{
    double value[MON_SHIFT_RECENT];
    count = count < shift->recent_held ? count : shift->recent_held;
    for (size_t i = 0; i < count; i++)
        value[i] = newest(shift, i)->value;
    return an_quantile_of(value, count, 0.5);
}

double mon_shift_recent(const struct mon_shift *shift, size_t count)
{
    return to_unit(shift, recent_median(shift, count));
}

double mon_shift_centre(const struct mon_shift *shift)
{
    return to_unit(shift, shift->centre);
}

double mon_shift_lasting(const struct mon_shift *shift, size_t count)
{
    return (recent_median(shift, count) - shift->centre) / shift->spread;
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

/* The level moved: the newest values are the first ones of the next. The old one is kept apart. */
static void leave(struct mon_shift *shift, const struct mon_shift_found *found)
{
    shift->left =
        (struct mon_shift_left){.centre = shift->centre,
                                .spread = shift->spread,
                                .middle = (shift->centre + recent_median(shift, found->values)) / 2,
                                .held = shift->held,
                                .values = found->values};
    shift->held = shift->next = shift->compared = 0;
    shift->centre = shift->deviation = NAN;
    shift->spread = shift->rule->memory > 1 ? shift->spread : NAN;
    for (size_t age = found->values; age-- > 0;)
        learn(shift, newest(shift, age)->value);
}

/* Do the values since an alarm lie on the side of the old level? Then that goes on, with its
 * window, most of which is still there. */
static void go_back(struct mon_shift *shift)
{
    const struct mon_shift_left *left = &shift->left;
    size_t since = shift->held - left->values;
    if (isnan(left->centre) || since < BACK ||
        (recent_median(shift, since) > left->middle) != (left->centre > left->middle))
        return;
    shift->centre = left->centre;
    shift->spread = left->spread;
    shift->held = left->held;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Is no other one of its neighbours that far off in this direction (`sign` 1: up)? */
static bool stands_alone(const struct mon_shift *shift, size_t age, double sign)
{
    size_t first = age > MON_SHIFT_ALONE ? age - MON_SHIFT_ALONE : 0;
    for (size_t other = first; other <= age + MON_SHIFT_ALONE && other < shift->compared; other++)
        if (other != age && sign * newest(shift, other)->off > shift->rule->far)
            return false;
    return true;
}

/* The greatest sum over newest values of their deviations beyond an allowance, each clipped:
 * *values of them. 0: all sums are negative. */
static double greatest_sum(const struct mon_shift *shift, double sign, double allowance,
                           double clip, size_t *values)
{
    double sum = 0, greatest = 0;
    *values = 0;
    for (size_t age = 0; age < shift->compared && age < shift->rule->longest; age++) {
        double off = sign * newest(shift, age)->off;
        if (off <= shift->rule->far || !stands_alone(shift, age, sign))
            sum += fmax(-clip, fmin(clip, off - allowance));
        if (sum > greatest) {
            greatest = sum;
            *values = age + 1;
        }
    }
    return greatest;
}

/* How many values a move is old: `values` by its sum, which may have begun with values that were a
 * little high by chance. Of a far move those are told apart by the sum that suits its size. */
static size_t age_of(const struct mon_shift *shift, double sign, size_t values)
{
    double off = sign * mon_shift_lasting(shift, NEWEST);
    if (off > shift->rule->far)
        greatest_sum(shift, sign, off / 2, off / 2, &values);
    return values;
}

/* What a sum has to exceed now. */
static double limit_of(const struct mon_shift *shift, double sign)
{
    const struct mon_shift_rule *rule = shift->rule;
    double few = 1.0 / (double)shift->held - 1.0 / MON_SHIFT_WINDOW;
    bool bad = shift->bad_up == (sign > 0);
    return rule->limit * (1 + rule->young * few) * (bad ? 1 : rule->good);
}

/* Has the level moved in a direction? A far move needs enough values of its own: a few slow steps
 * are no level. A sum without the least effect begins again. */
static bool has_moved(struct mon_shift *shift, double sign, struct mon_shift_found *found)
{
    size_t summed;
    const struct mon_shift_rule *rule = shift->rule;
    double limit = limit_of(shift, sign);
    if (greatest_sum(shift, sign, rule->allowance, rule->clip, &summed) <= limit)
        return false;
    size_t values = age_of(shift, sign, summed);
    if (values < summed && (double)values * rule->clip <= limit)
        return false;
    double after = recent_median(shift, values);
    if (sign * (after - shift->centre) < rule->effect) {
        shift->compared = 0;
        return false;
    }
    *found = (struct mon_shift_found){.up = sign > 0,
                                      .since = newest(shift, values - 1)->at,
                                      .values = values,
                                      .before = to_unit(shift, shift->centre),
                                      .after = to_unit(shift, after),
                                      .spread = shift->spread};
    return true;
}

/* ---- a value --------------------------------------------------------------------------------- */

static void keep_recent(struct mon_shift *shift, double value, int64_t at)
{
    shift->recent[shift->recent_next] =
        (struct mon_shift_value){.value = value, .off = shift->deviation, .at = at};
    shift->recent_next = (shift->recent_next + 1) % MON_SHIFT_RECENT;
    shift->recent_held += shift->recent_held < MON_SHIFT_RECENT;
    shift->compared += shift->compared < MON_SHIFT_RECENT && !isnan(shift->deviation);
    shift->added++;
}

bool mon_shift_add(struct mon_shift *shift, double value, int64_t at, struct mon_shift_found *found)
{
    const struct mon_shift_rule *rule = shift->rule;
    shift->deviation = NAN;
    if (!isfinite(value) || (rule->logarithm && value <= 0))
        return false;
    value = rule->logarithm ? log(value) : value;
    shift->deviation = (value - shift->centre) / shift->spread;
    keep_recent(shift, value, at);
    if (isnan(shift->centre)) {
        learn(shift, value);
        if (isnan(shift->centre))
            go_back(shift);
        return false;
    }
    bool moved = has_moved(shift, 1, found) || has_moved(shift, -1, found);
    if (moved)
        leave(shift, found);
    else if (shift->recent_held > rule->gap)
        learn(shift, newest(shift, rule->gap)->value);
    return moved;
}

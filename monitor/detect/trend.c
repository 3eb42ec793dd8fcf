/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/detect/trend.h"

#include <math.h>

#include "analyzers/base/stats.h"

#define POINTS  32 /* of the last half of a full trail */
#define PAIRS   (POINTS * (POINTS - 1) / 2)
#define TAIL_90 1.645 /* deviations of a normal distribution */
#define CERTAIN 4.0   /* deviations of S of a growth that is no accident */
#define BLOCKS  8     /* points of an eighth */
#define STEADY  0.75  /* of the growth before: what saturates grows by less */

static double quarter_median(const double *value, size_t quarter)
{
    double sorted[POINTS / 4];
    for (size_t i = 0; i < POINTS / 4; i++)
        sorted[i] = value[quarter * (POINTS / 4) + i];
    return an_quantile_of(sorted, POINTS / 4, 0.5);
}

static bool is_steady(const double *value)
{
    double step[3];
    for (size_t i = 0; i < 3; i++) {
        step[i] = quarter_median(value, i + 1) - quarter_median(value, i);
        if (!(step[i] > 0))
            return false;
    }
    return step[2] >= STEADY * (step[0] + step[1]) / 2;
}

/* The line of a slope through the points, at the last one: the median of what each says of it. */
static double value_at_last(const double *place, const double *value, double slope)
{
    double said[POINTS];
    for (size_t i = 0; i < POINTS; i++)
        said[i] = value[i] + slope * (place[POINTS - 1] - place[i]);
    return an_quantile_of(said, POINTS, 0.5);
}

bool mon_growth(const struct mon_trail *trail, struct mon_growth *growth)
{
    double slope[PAIRS];
    size_t count = 0;
    int order = 0;
    if (trail->count < POINTS)
        return false;
    const double *value = trail->value + trail->count - POINTS;
    const double *place = trail->place + trail->count - POINTS;
    for (size_t i = 0; i < POINTS; i++)
        for (size_t j = i + 1; j < POINTS; j++) {
            order += (value[j] > value[i]) - (value[j] < value[i]);
            if (place[j] > place[i])
                slope[count++] = (value[j] - value[i]) / (place[j] - place[i]);
        }
    if (!count)
        return false;
    double points = POINTS, sd = sqrt(points * (points - 1) * (2 * points + 5) / 18);
    an_sort(slope, count);
    double half = TAIL_90 * sd / PAIRS / 2;
    *growth = (struct mon_growth){.per_unit = an_quantile(slope, count, 0.5),
                                  .low = an_quantile(slope, count, 0.5 - half),
                                  .high = an_quantile(slope, count, 0.5 + half),
                                  .deviations = order / sd,
                                  .steady = is_steady(value)};
    growth->last = value_at_last(place, value, growth->per_unit);
    return true;
}

bool mon_forecast(const struct mon_growth *growth, double limit, struct mon_forecast *forecast)
{
    double left = limit - growth->last;
    if (!growth->steady || growth->deviations < CERTAIN || !(growth->low > 0) || !(left > 0))
        return false;
    *forecast = (struct mon_forecast){.at = left / growth->per_unit,
                                      .soonest = left / growth->high,
                                      .latest = left / growth->low};
    return true;
}

bool mon_plateau(const struct mon_trail *trail, double least)
{
    if (trail->count < 3 * BLOCKS)
        return false;
    const double *last = trail->value + trail->count - BLOCKS, *before = last - BLOCKS;
    double mean = an_mean(last, BLOCKS), earlier = an_mean(before, BLOCKS);
    double error = hypot(an_sd(last, BLOCKS), an_sd(before, BLOCKS)) / sqrt((double)BLOCKS);
    return trail->value[0] - earlier > least * earlier &&
           earlier - mean + 2 * error < least * earlier;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: what the last half of a series does in the long run: does it
 * grow steadily (memory that leaks), has it stopped to fall (a loss on a plateau)?
 */
#ifndef MONITOR_TREND_H
#define MONITOR_TREND_H

#include <stdbool.h>

#include "monitor/detect/trail.h"

/* Growth of the last half of a trail that is full enough. */
struct mon_growth {
    double per_unit;   /* median of the slopes of all pairs of points (Theil & Sen) */
    double low, high;  /* 90 % interval of it (Sen 1968: by the ranks of the slopes) */
    double last;       /* value of the fitted line at the last point */
    double deviations; /* of Kendall's S from 0, which a series without trend has */
    bool steady; /* each quarter is above the one before, by three quarters or more of the mean of
                    the steps before: what saturates is not */
};
/* False: too few points. */
bool mon_growth(const struct mon_trail *trail, struct mon_growth *growth);

/* Does the growth lead to `limit`? The time until then from the last point, in units of the
 * place, and its 90 % interval. False: the growth is not steady, or it does not get there. */
struct mon_forecast {
    double at, soonest, latest;
};
bool mon_forecast(const struct mon_growth *growth, double limit, struct mon_forecast *forecast);

/* Has a series that fell (by `least` of itself or more, an eighth of its length ago or earlier)
 * stopped to fall? The mean of its last eighth is compared with that of the eighth before: the
 * fall between them, with two standard errors on top, is below `least`. Values are above 0. False
 * also where there are too few points. */
bool mon_plateau(const struct mon_trail *trail, double least);

#endif

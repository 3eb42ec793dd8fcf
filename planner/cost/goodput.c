/* SPDX-License-Identifier: Apache-2.0
 *
 * Useful share of the time of a job that fails now and then and restarts from its last checkpoint.
 */
#include <math.h>

#include "planner/cost/cost.h"

double plan_goodput_at(const struct plan_failures *failures, double interval)
{
    double mtbf = failures->mtbf_s;
    if (!(mtbf > 0))
        return interval / (interval + failures->checkpoint_s);
    double cost =
        exp(failures->restart_s / mtbf) * expm1((interval + failures->checkpoint_s) / mtbf);
    return interval / (mtbf * cost);
}

/* Golden section over the logarithm of the interval: the share has one maximum. */
struct plan_goodput plan_goodput_of(const struct plan_failures *failures)
{
    static const double golden = 0.6180339887498949;
    struct plan_goodput out = {1, INFINITY, INFINITY};
    if (!(failures->mtbf_s > 0))
        return out;
    out.young_s = sqrt(2 * failures->checkpoint_s * failures->mtbf_s);
    double low = log(fmax(out.young_s, 1e-3) / 1e3), high = log(failures->mtbf_s * 20);
    for (int i = 0; i < 200 && high - low > 1e-9; i++) {
        double left = high - golden * (high - low), right = low + golden * (high - low);
        if (plan_goodput_at(failures, exp(left)) > plan_goodput_at(failures, exp(right)))
            high = right;
        else
            low = left;
    }
    out.interval_s = exp((low + high) / 2);
    out.share = plan_goodput_at(failures, out.interval_s);
    return out;
}

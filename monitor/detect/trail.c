/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/detect/trail.h"

#include "analyzers/base/stats.h"

void mon_trail_init(struct mon_trail *trail, size_t stride)
{
    *trail = (struct mon_trail){.stride = stride};
}

bool mon_trail_add(struct mon_trail *trail, double place, double value)
{
    trail->place_sum += place;
    trail->value_sum += value;
    if (++trail->held < trail->stride)
        return false;
    if (trail->count == MON_TRAIL_POINTS) {
        trail->count = an_halve_points(trail->place, trail->value, trail->count);
        trail->stride *= 2;
    }
    if (trail->held < trail->stride) /* the stride has just doubled */
        return false;
    trail->place[trail->count] = trail->place_sum / (double)trail->held;
    trail->value[trail->count++] = trail->value_sum / (double)trail->held;
    trail->held = 0;
    trail->place_sum = trail->value_sum = 0;
    return true;
}

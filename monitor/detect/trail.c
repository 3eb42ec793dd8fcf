/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/detect/trail.h"

void mon_trail_init(struct mon_trail *trail, size_t stride)
{
    *trail = (struct mon_trail){.stride = stride};
}

/* Merges neighbours, so that there is room for as many points again. */
static void halve(struct mon_trail *trail)
{
    trail->count /= 2;
    for (size_t i = 0; i < trail->count; i++) {
        trail->place[i] = (trail->place[2 * i] + trail->place[2 * i + 1]) / 2;
        trail->value[i] = (trail->value[2 * i] + trail->value[2 * i + 1]) / 2;
    }
    trail->stride *= 2;
}

bool mon_trail_add(struct mon_trail *trail, double place, double value)
{
    trail->place_sum += place;
    trail->value_sum += value;
    if (++trail->held < trail->stride)
        return false;
    if (trail->count == MON_TRAIL_POINTS)
        halve(trail);
    if (trail->held < trail->stride) /* the stride has just doubled */
        return false;
    trail->place[trail->count] = trail->place_sum / (double)trail->held;
    trail->value[trail->count++] = trail->value_sum / (double)trail->held;
    trail->held = 0;
    trail->place_sum = trail->value_sum = 0;
    return true;
}

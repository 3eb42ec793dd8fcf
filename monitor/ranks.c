/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and counters of a run that is watched, read for export.
 */
#include <math.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "monitor/private.h"
#include "monitor/ranks.h"

const struct mon_kept_step *mon_kept_back(const struct mon_kept_rank *kept, size_t back)
{
    if (back >= kept->count)
        return NULL;
    return &kept->step[(kept->next + MON_KEPT_STEPS - 1 - back) % MON_KEPT_STEPS];
}

void mon_rank_medians(const struct mon_rank_state *state, double *step_s, double *work_s)
{
    double step[MON_RANK_STEPS], work[MON_RANK_STEPS];
    size_t steps = 0, works = 0;
    const struct mon_kept_step *kept;
    for (size_t i = 0; state->kept && i < MON_RANK_STEPS; i++) {
        if (!(kept = mon_kept_back(state->kept, i)))
            break;
        step[steps++] = (double)kept->ms / 1e3;
        if (kept->has_phases)
            work[works++] =
                ((double)kept->ms - (double)kept->phase_ms[MON_PHASE_COMMUNICATION]) / 1e3;
    }
    *step_s = steps ? an_quantile_of(step, steps, 0.5) : NAN;
    *work_s = works ? an_quantile_of(work, works, 0.5) : NAN;
}

bool mon_rank_at(const struct mon_monitor *monitor, size_t i, int64_t now,
                 struct mon_rank_state *state)
{
    if (i >= monitor->history.rank_count)
        return false;
    const struct mon_kept_rank *seen = monitor->history.rank[i];
    *state = (struct mon_rank_state){.rank = seen->rank,
                                     .last_step = seen->index,
                                     .age_s = mon_seconds(now - seen->end),
                                     .kept = seen};
    return true;
}

/* The newest value that is kept of a counter; NAN: none. */
static double newest(const struct mon_counter *counter)
{
    const struct mon_kept_series *kept = counter->kept;
    const struct mon_trail *trail = &counter->trail;
    if (kept && kept->count)
        return kept->value[(kept->next + MON_KEPT_SAMPLES - 1) % MON_KEPT_SAMPLES];
    return trail->count ? trail->value[trail->count - 1] : NAN;
}

bool mon_counter_at(const struct mon_monitor *monitor, const char *name, size_t i,
                    struct mon_counter_state *state)
{
    for (size_t j = 0; j < monitor->counter_count; j++) {
        const struct mon_counter *counter = monitor->counter[j];
        if (strcmp(counter->name, name) || i--)
            continue;
        *state = (struct mon_counter_state){counter->rank, counter->device, newest(counter)};
        return true;
    }
    return false;
}

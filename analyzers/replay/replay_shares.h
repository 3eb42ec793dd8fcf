/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: resources that nodes of the replay share (docs/advise.md): the cores of a
 * host, and the links of a rank or device.
 *
 * Threads that are ready at once share the cores fairly (processor sharing, Kleinrock 1967): with a
 * demand of D cores of the run, O of other programs, and C cores, every one of them works at the
 * speed min(1, C / (D + O)). What was recorded holds that slowdown already: the speed at which a
 * node worked when it was recorded, by what else was ready then, says how much work it is; the
 * replay of an edit slows that work down by what is ready at once after the edit. The times after
 * an edit and the slowdown depend on each other: they are found by iterating. As recorded they are
 * what they were, to the nanosecond.
 *
 * A link is shared the same way by the transfers that are on it at once: its capacity is one of
 * them at full speed.
 */
#ifndef ANALYZERS_REPLAY_SHARES_H
#define ANALYZERS_REPLAY_SHARES_H

#include "analyzers/replay/replay.h"

struct an_shares;

/* Finds demands and slowdowns in the replay as recorded, `base`. *out is NULL where nothing is
 * shared or the cores are not known; *use is filled in any case. Lies in the work arena. 0 or
 * TACHO_ENOMEM. */
int an_shares_of(const struct an_replay *replay, const struct an_times *base,
                 struct an_shares **out, struct an_core_use *use);
/* How the run's CPU time can be read: 1, or more where threads kept more cores busy than their
 * ranges account for, which may be work or spinning. `an_shares_read` makes one of them the one
 * that an_shares_run goes by. */
size_t an_shares_readings(const struct an_shares *shares);
void an_shares_read(struct an_shares *shares, size_t index);
/* Is a reading one of a prediction whose edits change the number of cores, or do not? Spinning that
 * gives way to others matters on fewer cores only. */
bool an_shares_applies(const struct an_shares *shares, size_t index, bool cores);
/* May CPU time have been spent waiting for other ranks? */
bool an_shares_may_spin(const struct an_shares *shares);
/* an_replay_run with the resources: after the edit hosts have `cores` (0: as many as there are), of
 * which other programs want `others` (below 0: as much as before). x->own is the edit's own work,
 * as long as it would take with the recorded slowdown. 0 or TACHO_ENOMEM. */
int an_shares_run(struct an_shares *shares, const struct an_change *change, double core_count,
                  double others, struct an_times *times);
/* Was more wanted of the cores than there is for so much of the time (5 %) that it matters? */
static inline bool an_cores_short(const struct an_core_use *core_use)
{
    return core_use->short_pct.valid && core_use->short_pct.value >= 5;
}
/* The share of a batch's worker time for which a team of threads stops, where that takes a worker
 * `batch_ns`: the cores that the batch wants, if the team fills the others and the batch is done
 * before the scheduler would give the worker's core back. 0: a core is free, there is no team, or
 * they take turns. */
double an_shares_stops(const struct an_shares *shares, double batch_ns);
/* Are cores among the resources? */
bool an_shares_has_cores(const struct an_shares *shares);

#endif

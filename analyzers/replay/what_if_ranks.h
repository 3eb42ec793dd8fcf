/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: edits that make ranks alike (docs/advise.md): rank:2=peers,
 * rank:2:backward=peers, ranks=even.
 */
#ifndef ANALYZERS_WHAT_IF_RANKS_H
#define ANALYZERS_WHAT_IF_RANKS_H

#include "analyzers/replay/replay.h"
#include "analyzers/replay/what_if.h"

/* Scales own work in own[] (of every node of the graph) as an edit of ranks says:
 *   AN_EDIT_PEERS  of one rank: in each step down to the median of its peers (pipelines: the ranks
 * of its stage); what is less stays. "ranks": every rank up or down to the mean of all.
 *   AN_EDIT_SCALE  of one rank: times the factor.
 * Thread of the step, device and other threads are scaled apart, the last as one for the whole run,
 * for loaders work ahead. Collectives, and waits that something ends, are no rank's own work and
 * stay. *touched grows by the own work that is named. *reason is set where the edit cannot be done
 * in this run. 0 or TACHO_ENOMEM. */
int an_what_if_ranks(const struct an_replay *replay, const struct an_edit *edit, int64_t *own,
                     int64_t *touched, const char **reason);

#endif

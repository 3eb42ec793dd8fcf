/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: how far the replay misses the run (docs/advise.md).
 */
#ifndef ANALYZERS_REPLAY_ERROR_H
#define ANALYZERS_REPLAY_ERROR_H

#include "analyzers/replay/replay.h"

struct an_replay_error {
    double
        pct; /* predicted median of the even steps / their recorded one - 1; NAN: too few steps */
    double unmatched_pct; /* of the own work of the odd steps, that of nodes without a partner: it
                             stays theirs */
    size_t odd, even;     /* steps of all lanes */
};

/* Predicts the even steps from the graph of the odd ones; `t` are times to work in. 0 or
 * TACHO_ENOMEM. */
int an_replay_odd_even(const struct an_replay *replay, struct an_times *times,
                       struct an_replay_error *replay_error);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what of a collective's time does not depend on its size (docs/advise.md).
 */
#ifndef ANALYZERS_WHAT_IF_LINK_H
#define ANALYZERS_WHAT_IF_LINK_H

#include "analyzers/replay/replay.h"

struct an_latency_fit {
    size_t nodes; /* replayed transfers */
    struct an_value
        latency_ns; /* latency of one; absent: it does not follow from the run's collectives */
};

/* time = latency + bytes / bandwidth (Hockney 1994) of the replayed transfers: the line through the
 * medians of the smallest and the largest size. 0 or TACHO_ENOMEM. */
int an_link_latency(const struct an_replay *replay, struct an_latency_fit *fit);

#endif

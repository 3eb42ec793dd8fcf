/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/cause/: what cause.c asks of the counters.
 */
#ifndef MONITOR_CAUSE_PRIVATE_H
#define MONITOR_CAUSE_PRIVATE_H

#include "monitor/cause/cause.h"

/* Fills finding->moved with the counters whose level in [begin, to) differs from that in [from,
 * begin); ns. */
void mon_evidence_find(const struct mon_history *history, int64_t from, int64_t begin, int64_t to,
                       struct mon_finding *finding);

#endif

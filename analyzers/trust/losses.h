/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to trust/: what the lost events of a run mean for its report.
 */
#ifndef AN_LOSSES_H
#define AN_LOSSES_H

#include "analyzers/steps/context.h"

/* Fills lost_pct, by_process, missing and missing_why of the trust part, whose losses, lost_events
 * and events are known. 0 or TACHO_ENOMEM. */
int an_losses_weigh(struct an_context *context);

#endif

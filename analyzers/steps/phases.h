/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: phases (evaluation, checkpoint, compile) and the steps they interrupt.
 */
#ifndef ANALYZERS_PHASES_H
#define ANALYZERS_PHASES_H

#include "analyzers/steps/context.h"

/* Fills lane.cut, lane.left and step.cut_ns. 0 or TACHO_ENOMEM. */
int an_phases_cut(struct an_context *context);

#endif

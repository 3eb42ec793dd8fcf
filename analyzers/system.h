/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the system layer: counters that the collector samples beside the program.
 */
#ifndef ANALYZERS_SYSTEM_H
#define ANALYZERS_SYSTEM_H

#include "analyzers/analyzer.h"

/* Is the track one that the collector samples (and not a counter of the program)? */
bool an_system_owns(const struct an_track *k);
/* Is it the one with that name that has samples, of the machine or of a process? */
bool an_system_track(const struct an_track *k, const char *name, bool machine);
/* Fills trust.gaps: hardware counters that are missing or limited, and why. 0 or TACHO_ENOMEM. */
int an_system_gaps(struct an_context *c);

#endif

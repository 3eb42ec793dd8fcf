/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the clocks of the ranks of a trace, before anything else looks at its
 * times.
 */
#ifndef ANALYZERS_CLOCKS_H
#define ANALYZERS_CLOCKS_H

#include "analyzers/steps/context.h"

/* Fits the clock of every rank to that of the lowest one by the ends of the collectives that both
 * took part in, and puts the times of ranks whose clock is off right, in place: slices, counters,
 * steps, processes. Files that ran on one host have one clock, which is only touched where a
 * collective would end before it began. Texts and rows of *out come from `a`. 0 or TACHO_ENOMEM. */
int an_clocks_align(struct an_trace *trace, struct an_arena *arena, struct an_clocks *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the system layer: counters that the collector samples beside the program.
 */
#ifndef ANALYZERS_SYSTEM_H
#define ANALYZERS_SYSTEM_H

#include "analyzers/steps/context.h"

/* Is the track one that the collector samples (and not a counter of the program)? */
bool an_system_owns(const struct an_track *track);
/* Is it the one with that name that has samples, of the machine or of a process? */
bool an_system_track(const struct an_track *track, const char *name, bool machine);
/* Fills trust.gaps: hardware counters that are missing or limited, and why. 0 or TACHO_ENOMEM. */
int an_system_gaps(struct an_context *context);

/* Growth of a counter of processes in [from, to), a second, and of `other` (NULL: none), one of the
 * machine; absent if it was not sampled there. A counter of the machine with the processes' name
 * holds other programs too. */
struct an_value an_system_rate(const struct an_context *context, const char *name,
                               const char *other, int64_t from, int64_t to);
/* The same of one process (AN_NONE: of all). */
struct an_value an_system_rate_of(const struct an_context *context, const char *name,
                                  const char *other, uint32_t process, int64_t from, int64_t to);
/* Cores that the threads of the run can use together: the CPUs that they may use, or less where a
 * CPU quota stopped them. 0: not known. */
double an_system_capacity(const struct an_context *context);
/* Memory of a device of a process ("gpu:0") in bytes, as the recording noted it. Absent for "" and
 * for a device whose memory was not noted. */
struct an_count an_system_device_bytes(const struct an_trace *trace, uint32_t process,
                                       const char *device);
/* Mean of the machine's busy CPU time in [from, to), in per cent. */
struct an_value an_system_busy(const struct an_context *context, int64_t from, int64_t to);

#endif

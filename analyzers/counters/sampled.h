/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: counters that something samples now and then (power, clocks, activity of
 * units), seen over a span of time. Times are ns; a value that is not finite is a sample that could
 * not be read, and is passed over.
 */
#ifndef ANALYZERS_SAMPLED_H
#define ANALYZERS_SAMPLED_H

#include "analyzers/trace/trace.h"

/* The counter track `name` of a device ("gpu:0") as the machine counts them (process AN_NONE), or
 * as a process does, or NULL. */
const struct an_track *an_sampled_find(const struct an_trace *trace, uint32_t process,
                                       const char *device, const char *name);

/* Value of a growing total at `time`, linear between the samples around it. False outside of the
 * samples. */
bool an_sampled_at(const struct an_trace *trace, const struct an_track *track, int64_t time,
                   double *value);

/* Mean and maximum of the samples over [start, end). A sample holds for the time since the sample
 * before it; `covered` is the share of the span for which a sample holds, 0..1. */
struct an_sampled {
    double mean, max, covered;
    size_t samples;
};
struct an_sampled an_sampled_over(const struct an_trace *trace, const struct an_track *track,
                                  int64_t start, int64_t end);

/* ns of [start, end) in which a bit of `mask` was set, and ns for which a sample holds; the values
 * are bit sets. */
struct an_sampled_bits {
    double set, all;
};
struct an_sampled_bits an_sampled_bits(const struct an_trace *trace, const struct an_track *track,
                                       int64_t start, int64_t end, uint64_t mask);

#endif

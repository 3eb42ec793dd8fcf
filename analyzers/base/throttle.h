/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: why a device runs below its clocks, by the bits of NVML's
 * nvmlClocksEventReasons (nvml.h).
 */
#ifndef ANALYZERS_THROTTLE_H
#define ANALYZERS_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct an_throttle_reason {
    uint64_t bit;
    const char *name;
    bool fault; /* not as it was set: heat, power supply */
};

#define AN_THROTTLE_REASONS 8
extern const struct an_throttle_reason an_throttle_reasons[AN_THROTTLE_REASONS];

/* The reasons that are in `after` and not in `before`. */
uint64_t an_throttle_new(uint64_t before, uint64_t after);
/* The name of the most severe of these; "none": there is none. */
const char *an_throttle_words(uint64_t before, uint64_t after);

#endif

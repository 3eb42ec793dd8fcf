/* SPDX-License-Identifier: Apache-2.0
 *
 * What time it is on a clock that never steps back (CLOCK_MONOTONIC), for deadlines.
 */
#ifndef TACHO_CLOCK_H
#define TACHO_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t tacho_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double tacho_now_s(void)
{
    return (double)tacho_now_ns() / 1e9;
}

#endif

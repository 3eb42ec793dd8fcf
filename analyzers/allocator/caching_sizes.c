/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of blocks and segments of the caching allocator, as in PyTorch's CUDACachingAllocator.cpp.
 */
#include "analyzers/allocator/caching_sizes.h"

/* The parts that the setting divides each range between two powers of two into. `power`: the lower
 * one of them. */
static int64_t divisions_of(const struct caching_settings *settings, int64_t power)
{
    int interval = 0;
    for (; power >= 2 * CACHING_SMALL_MOST && interval < CACHING_DIVISIONS - 1; power /= 2)
        interval++;
    return settings->divisions[interval];
}

int64_t caching_round(const struct caching_settings *settings, int64_t bytes)
{
    int64_t power = 1;
    if (bytes < CACHING_MIN_BLOCK)
        return CACHING_MIN_BLOCK;
    while (power <= bytes / 2)
        power *= 2;
    int64_t divisions = divisions_of(settings, power);
    if (divisions > 1 && divisions < (bytes + CACHING_MIN_BLOCK - 1) / CACHING_MIN_BLOCK) {
        int64_t part = power / divisions;
        return (bytes + part - 1) / part * part;
    }
    return (bytes + CACHING_MIN_BLOCK - 1) / CACHING_MIN_BLOCK * CACHING_MIN_BLOCK;
}

int64_t caching_large_segment(const struct caching_settings *settings)
{
    return settings->large_segment ? settings->large_segment : CACHING_LARGE_ROOM;
}

int64_t caching_segment_bytes(const struct caching_settings *settings, int64_t bytes)
{
    if (bytes <= CACHING_SMALL_MOST)
        return CACHING_SMALL_ROOM;
    if (bytes < CACHING_LARGE_LEAST)
        return caching_large_segment(settings);
    return (bytes + CACHING_LARGE_ROUND - 1) / CACHING_LARGE_ROUND * CACHING_LARGE_ROUND;
}

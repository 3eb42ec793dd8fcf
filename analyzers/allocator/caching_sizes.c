/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of blocks and segments of the caching allocator, as in PyTorch's CUDACachingAllocator.cpp.
 */
#include "analyzers/allocator/caching_sizes.h"

int64_t caching_round(const struct caching_settings *settings, int64_t bytes)
{
    int64_t divisions = settings->power2_divisions, power = 1;
    if (bytes < CACHING_MIN_BLOCK)
        return CACHING_MIN_BLOCK;
    if (divisions > 1 && bytes > CACHING_MIN_BLOCK * divisions) {
        while (power <= bytes / 2)
            power *= 2;
        if (power == bytes)
            return bytes;
        int64_t part = power / divisions;
        return part ? power + (bytes - power + part - 1) / part * part : 2 * power;
    }
    return (bytes + CACHING_MIN_BLOCK - 1) / CACHING_MIN_BLOCK * CACHING_MIN_BLOCK;
}

int64_t caching_segment_bytes(int64_t bytes)
{
    if (bytes <= CACHING_SMALL_MOST)
        return CACHING_SMALL_ROOM;
    if (bytes < CACHING_LARGE_LEAST)
        return CACHING_LARGE_ROOM;
    return (bytes + CACHING_LARGE_ROUND - 1) / CACHING_LARGE_ROUND * CACHING_LARGE_ROUND;
}

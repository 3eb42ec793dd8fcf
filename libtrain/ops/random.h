/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: random numbers as pure functions of (key, counter). No state is shared, so
 * values do not depend on the number of threads or on the order in which they are drawn, and
 * resuming needs only the counter.
 */
#ifndef LT_RANDOM_H
#define LT_RANDOM_H

#include <math.h>
#include <stdint.h>

/* 64 well mixed bits: the output function of SplitMix64 (Steele, Lea, Flood 2014) over key +
 * counter * odd constant. */
static inline uint64_t lt_random_bits(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Standard normal value (Box-Muller, 24 bits for the angle and 40 for the radius). */
static inline float lt_random_normal(uint64_t key, uint64_t counter)
{
    uint64_t r = lt_random_bits(key, counter);
    float radius = sqrtf(-2.0f * logf(((float)(r >> 24) + 0.5f) * 0x1p-40f));
    return radius * cosf(6.28318531f * ((float)(r & 0xffffff) * 0x1p-24f));
}

/* x[i] = deviation times the standard normal value number first + i of `key`. */
static inline void lt_random_fill_from(float *x, int64_t count, float deviation, uint64_t key,
                                       int64_t first)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        x[i] = deviation * lt_random_normal(key, (uint64_t)(first + i));
}

static inline void lt_random_fill(float *x, int64_t count, float deviation, uint64_t key)
{
    lt_random_fill_from(x, count, deviation, key, 0);
}

/* The image of i under a permutation of 0..n-1 chosen by `key`; needs no table. Four Feistel rounds
 * on the smallest even number of bits that holds n, walked until the value is below n (fewer than
 * four tries on average). i < n. */
static inline uint64_t lt_random_permute(uint64_t key, uint64_t i, uint64_t n)
{
    unsigned half = 1;
    while (half < 31 && (1ull << (2 * half)) < n)
        half++;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (lt_random_bits(key ^ (round << 56), right) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

#endif

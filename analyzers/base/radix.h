/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: a stable sort of many pairs by an integer. Linear in n; bytes that are the
 * same in all keys cost nothing.
 */
#ifndef ANALYZERS_RADIX_H
#define ANALYZERS_RADIX_H

#include <stddef.h>
#include <stdint.h>

struct an_pair {
    uint64_t key; /* an_pair_key of a signed number */
    uint32_t value, extra;
};

/* Order of signed numbers as unsigned ones. */
static inline uint64_t an_pair_key(int64_t x)
{
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

/* Sorts a[0..n) by key; pairs of equal keys stay in their order. `work` has room for n pairs. */
void an_pairs_sort(struct an_pair *pair, struct an_pair *work, size_t count);
/* Index of the first pair of sorted pairs whose key is not below `key`; count: there is none. */
size_t an_pairs_seek(const struct an_pair *pair, size_t count, uint64_t key);

#endif

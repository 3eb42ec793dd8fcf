/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: how something is divided among ranks: share i of `count` things is [i count
 * / N, (i + 1) count / N), rounded down, so shares differ by one at most.
 */
#ifndef LT_SHARE_H
#define LT_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* Where share `index` begins; share `ranks` begins at `count`. */
static inline size_t lt_share(size_t count, int ranks, int index)
{
    return (size_t)((unsigned __int128)count * (unsigned)index / (unsigned)ranks);
}

/* Of a sequence that ranks divide into parts of `count` tokens: the place of token `index` of a
 * rank's part. Parts are neighbours; or, with `folded`, half of a part is chunk `rank` of 2 N
 * chunks and the other half is chunk 2 N - 1 - rank, so that under a causal mask the tokens of all
 * parts see as many tokens. count is even then. Later tokens of a part have later places. */
static inline int64_t lt_share_token(int64_t count, int ranks, int rank, int folded, int64_t index)
{
    int64_t half = count / 2;
    if (!folded)
        return rank * count + index;
    if (index < half)
        return rank * half + index;
    return (2 * ranks - 1 - rank) * half + index - half;
}

#endif

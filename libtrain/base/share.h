/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: how something is divided among ranks: share i of `count` things is [i count
 * / N, (i + 1) count / N), rounded down, so shares differ by one at most.
 */
#ifndef LT_SHARE_H
#define LT_SHARE_H

#include <stddef.h>

/* Where share `index` begins; share `ranks` begins at `count`. */
static inline size_t lt_share(size_t count, int ranks, int index)
{
    return (size_t)((unsigned __int128)count * (unsigned)index / (unsigned)ranks);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: a pool for buffers whose lifetimes are known before they are
 * used: an offset for each, so that no two that live at the same time overlap, in as few bytes as
 * can be found. The smallest pool is NP-hard to find (dynamic storage allocation); what all live
 * buffers have together at one moment is a lower bound.
 */
#ifndef ANALYZERS_ALLOCATOR_POOL_H
#define ANALYZERS_ALLOCATOR_POOL_H

#include <stddef.h>
#include <stdint.h>

#define POOL_BUFFERS_MOST 16384

struct pool_buffer {
    int64_t start, end; /* it lives in [start, end) */
    int64_t bytes;
    int64_t offset; /* out */
};

struct pool_plan {
    int64_t bound;         /* bytes: the most that live at once */
    int64_t bytes;         /* of the pool that was found */
    int64_t orders, moves; /* that were tried */
};

/* Finds offsets. `work` limits the search for a better plan: about as many buffers are looked at
 * (10^9 take about two seconds); the same work gives the same plan. The plan without search is
 * always made. 0, TACHO_ENOMEM, or TACHO_EUSAGE: more than POOL_BUFFERS_MOST, a buffer that ends
 * before it starts, or sizes that add up to more than 62 bits. */
int pool_pack(struct pool_buffer *buffer, size_t count, int64_t work, struct pool_plan *plan);

#endif

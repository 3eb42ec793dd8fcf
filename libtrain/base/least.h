/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the smaller one of two counts, for loops over blocks of which the last one
 * may be short.
 */
#ifndef LT_LEAST_H
#define LT_LEAST_H

#include <stdint.h>

static inline int64_t lt_min64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

#endif

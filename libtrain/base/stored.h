/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: reads and writes of files that are whole, and the checksum of what goes
 * through them.
 */
#ifndef LT_STORED_H
#define LT_STORED_H

#include <stddef.h>
#include <stdint.h>

#define LT_BYTE_ORDER 0x0102030405060708ull /* as the writer's byte order has it */

/* Four interleaved FNV-1a lanes over 64-bit words: as fast as memory, and any flipped bit changes
 * the result. */
struct lt_sum {
    uint64_t lane[4];
};
extern const struct lt_sum lt_sum_start;

/* bytes: a multiple of 8 */
void lt_sum_add(struct lt_sum *sum, const void *data, size_t bytes);
uint64_t lt_sum_end(const struct lt_sum *sum);

/* 0, or -1 with errno. */
int lt_write_all(int fd, const void *data, size_t bytes);
/* 0, or -1 with errno; errno 0 means that the file ended. */
int lt_read_all(int fd, void *data, size_t bytes);

#endif

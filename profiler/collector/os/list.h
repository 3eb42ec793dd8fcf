/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists that grow by doubling, and binary search in sorted rows.
 */
#ifndef COL_LIST_H
#define COL_LIST_H

#include <stddef.h>
#include <stdint.h>

/* Returns `list` with room for at least `needed` elements of `size` bytes, moved if it had to grow,
 * and updates *room. NULL when memory runs out; then `list` and *room are unchanged. */
void *col_list_room(void *list, size_t *room, size_t needed, size_t size);

/* Returns how many rows have a key of at most `value`. Rows are `size` bytes apart and sorted by
 * the uint64_t key; `key` points to the key of the first row. */
size_t col_rows_until(const void *key, size_t count, size_t size, uint64_t value);

#endif

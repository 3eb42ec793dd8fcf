/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/: a map from byte strings to dense ids 1, 2, 3 ... (strings and details of a
 * file that is being written).
 *
 * Ownership: the map copies what it is given; texts stay in one growing arena until
 * store_intern_clear. Errors: TACHO_ENOMEM leaves the map as it was.
 */
#ifndef STORE_INTERN_H
#define STORE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_intern_entry {
    size_t offset, bytes; /* in arena */
    uint64_t hash;
};

struct store_intern {
    struct store_intern_entry *entry; /* entry[id - 1] */
    size_t count, entry_cap;
    uint32_t *slot; /* id or 0, open addressing, power of two */
    size_t slot_count;
    char *arena;
    size_t arena_used, arena_cap;
};

/* Finds or adds; *added says which. Ids are handed out in order of first appearance. */
int store_intern_put(struct store_intern *intern, const void *text, size_t bytes, int64_t *id,
                     bool *added);
/* Forgets all ids above `count`: what a rolled back transaction had added. */
void store_intern_truncate(struct store_intern *intern, size_t count);
void store_intern_clear(struct store_intern *intern);

#endif

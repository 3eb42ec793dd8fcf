/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: a map from two integers to one, for the ids of foreign files. A map
 * that is all zeros is empty.
 */
#ifndef STORE_IMPORT_INPUT_MAP_H
#define STORE_IMPORT_INPUT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct imp_map {
    struct imp_map_slot {
        int64_t first, second, value;
        bool used;
    } * slot;
    size_t count, cap; /* cap: 0 or a power of two */
};

/* NULL: not there. */
int64_t *imp_map_find(const struct imp_map *map, int64_t first, int64_t second);
/* Sets or replaces. 0 or TACHO_ENOMEM. */
int imp_map_put(struct imp_map *map, int64_t first, int64_t second, int64_t value);
void imp_map_free(struct imp_map *map);

#endif

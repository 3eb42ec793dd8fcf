/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from two integers to one: open addressing, at most half full.
 */
#include "store/import/input/map.h"

#include <stdlib.h>

#include "store/keyed_hash.h"
#include "tacho_error.h"

/* The slot that holds the key, or the empty one where it belongs. */
static struct imp_map_slot *map_slot(const struct imp_map *map, int64_t first, int64_t second)
{
    for (size_t i = (size_t)store_hash_pair((uint64_t)first, (uint64_t)second);; i++) {
        struct imp_map_slot *slot = &map->slot[i & (map->cap - 1)];
        if (!slot->used || (slot->first == first && slot->second == second))
            return slot;
    }
}

int64_t *imp_map_find(const struct imp_map *map, int64_t first, int64_t second)
{
    struct imp_map_slot *slot = map->cap ? map_slot(map, first, second) : NULL;
    return slot && slot->used ? &slot->value : NULL;
}

int imp_map_put(struct imp_map *map, int64_t first, int64_t second, int64_t value)
{
    if (2 * (map->count + 1) > map->cap) {
        struct imp_map bigger = {.cap = map->cap ? 2 * map->cap : 64, .count = map->count};
        bigger.slot = calloc(bigger.cap, sizeof *bigger.slot);
        if (!bigger.slot)
            return TACHO_ENOMEM;
        for (size_t i = 0; i < map->cap; i++)
            if (map->slot[i].used)
                *map_slot(&bigger, map->slot[i].first, map->slot[i].second) = map->slot[i];
        free(map->slot);
        *map = bigger;
    }
    struct imp_map_slot *slot = map_slot(map, first, second);
    map->count += !slot->used;
    *slot = (struct imp_map_slot){first, second, value, true};
    return 0;
}

void imp_map_free(struct imp_map *map)
{
    free(map->slot);
    *map = (struct imp_map){0};
}

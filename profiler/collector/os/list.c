/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing and searching plain arrays. The parts that follow the target's code (mappings, symbols,
 * unwind rows) and its open ranges keep their data in such arrays, because records arrive one by
 * one and are looked up far more often than they are added.
 */
#include "profiler/collector/os/list.h"

#include <stdlib.h>
#include <string.h>

void *col_list_room(void *list, size_t *room, size_t needed, size_t size)
{
    if (needed <= *room)
        return list;
    size_t larger = *room ? 2 * *room : 64;
    while (larger < needed)
        larger *= 2;
    void *moved = realloc(list, larger * size);
    if (moved)
        *room = larger;
    return moved;
}

size_t col_rows_until(const void *key, size_t count, size_t size, uint64_t value)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found;
        memcpy(&found, (const char *)key + middle * size, sizeof found);
        if (found <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

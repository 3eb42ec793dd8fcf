/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool file of the agent (profiler/wire.h), mapped and checked. What decides where to read
 * (sizes, offsets) is copied out of the file once: a target that overwrites its own pool cannot
 * lead the reader out of the mapping.
 */
#ifndef COL_POOL_H
#define COL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/wire.h"
#include "tacho_error.h"

struct col_map {
    struct wire_pool *head;
    struct wire_segment *directory;
    uint8_t *arena;
    uint8_t *segments;
    uint64_t bytes;
    uint64_t arena_cap;
    uint32_t segment_bytes, segment_cap;
};

/* Is this a name that the agent or the recorder gives to a file beside the pools? */
bool col_pool_is_name(const char *name);
/* Is `name` in the folder `dirfd` a plain file of the caller that has no second name elsewhere?
 * Nothing else in the folder of a run is read or removed: tacho did not make it. */
bool col_pool_is_own(int dirfd, const char *name);

/* Maps `name` in the folder `dirfd` and checks its header. Errors: TACHO_EIO, _EFORMAT (not a
 * complete pool), _EVERSION. */
int col_map_open(int dirfd, const char *name, struct col_map *map, struct tacho_error *err);
void col_map_close(struct col_map *map);

/* Text of arena entry `id` if there is one of that type; NULL otherwise. Not terminated: `bytes`
 * long. */
const char *col_map_text(const struct col_map *map, uint32_t id, enum wire_text_type type,
                         uint32_t *bytes);

/* How far directory lines have to be looked at. */
uint32_t col_map_peak(const struct col_map *map);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool file of the agent (profiler/wire.h) as its reader sees it. The target may overwrite its
 * own pool at any time. What never changes in a pool is copied once, when it is opened, and
 * checked; what grows is copied at each look and never becomes less than it was.
 */
#ifndef COL_POOL_H
#define COL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/collector/pool/shared.h"
#include "profiler/wire.h"
#include "tacho_error.h"

/* What never changes in a pool. */
struct col_layout {
    uint32_t clock, pid, segment_bytes, segment_cap;
    uint64_t start_ticks, created;
    uint64_t directory_offset, arena_offset, arena_cap, segments_offset;
};

struct col_map {
    struct col_shared file;
    struct col_layout layout;
    struct wire_pool head;     /* of the last look */
    struct wire_segment *line; /* of the last look: the directory up to `peak` */
    uint32_t peak;
    uint32_t used; /* segments that were ever taken, as the header said: the most */
    uint64_t arena_used;
    char *text[2]; /* what col_map_text found last, and before */
    unsigned turn;
};

/* Is this a name that the agent or the recorder gives to a file beside the pools? */
bool col_pool_is_name(const char *name);

/* Opens `name` in the folder `dirfd`. `known` is its layout if the pool was opened before, else
 * NULL: then the header is checked. Errors: TACHO_EFORMAT (not a complete pool), _EVERSION,
 * _ECORRUPT; TACHO_EBUSY (not at the moment), TACHO_ENOMEM, TACHO_EIO. */
int col_map_open(int dirfd, const char *name, const struct col_layout *known, struct col_map *map,
                 struct tacho_error *err);
void col_map_close(struct col_map *map);

/* Copies what has changed in header and directory; with `all`, the whole directory. False: the file
 * has been cut short. */
bool col_map_look(struct col_map *map, bool all);
/* Copies `bytes` of segment `index`, from `position` on. False: the file has been cut short. */
bool col_map_read(const struct col_map *map, uint32_t index, uint32_t position, void *to,
                  uint32_t bytes);
/* Gives a segment back to the agent. */
void col_map_free_segment(const struct col_map *map, uint32_t index);

/* Text of arena entry `id` if there is one of that type; NULL otherwise. Not terminated: `bytes`
 * long. Valid until the next call but one. */
const char *col_map_text(struct col_map *map, uint32_t id, enum wire_text_type type,
                         uint32_t *bytes);

#endif

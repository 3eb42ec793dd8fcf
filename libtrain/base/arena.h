/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: tensors of one class (parameters, gradients, activations ...) in one
 * allocation.
 *
 * A table names each tensor and its element count; lt_arena_create maps one block, carves it in
 * table order and touches every page, so that no page fault falls into a training step and memory
 * is constant afterwards. Each tensor starts at a multiple of LT_ALIGN floats; the padding between
 * tensors is zero and stays zero under every op, so that flat loops may run over it. Ownership: the
 * arena owns the memory; the carved pointers die with it.
 */
#ifndef LT_ARENA_H
#define LT_ARENA_H

#include <stddef.h>

#include "libtrain/base/memory.h"
#include "libtrain/base/space.h"

#define LT_ALIGN ((size_t)16) /* floats: one cache line */

struct lt_tensor {
    const char *name;
    size_t count; /* floats */
    float **slot; /* where the carved pointer goes */
};

struct lt_arena {
    float *base;
    size_t count; /* floats carved, padding included */
    size_t bytes; /* mapped, and entered in the book of memory.h */
    enum lt_memory_tag tag;
    struct lt_space *space; /* NULL: the host's memory */
    int offloaded;          /* it lies in a file */
};

/* Floats that a tensor of `count` floats occupies in an arena. */
static inline size_t lt_arena_padded(size_t count)
{
    return (count + LT_ALIGN - 1) / LT_ALIGN * LT_ALIGN;
}

/* Bytes that an arena of `count` carved floats maps: rounded up to pages of 4 KiB. */
size_t lt_arena_bytes(size_t count);
/* The most floats for which an arena maps at most so many bytes. */
size_t lt_arena_floats(size_t bytes);

/* Fills *arena and the slots of the table; the memory is entered under `tag`. 0 or TACHO_ENOMEM
 * (then *arena is empty). */
int lt_arena_create(struct lt_arena *arena, enum lt_memory_tag tag, const struct lt_tensor *table,
                    size_t tensors);

/* The same in the memory of a device (NULL: the host's); `space` must outlive the arena. */
int lt_arena_create_in(struct lt_arena *arena, struct lt_space *space, enum lt_memory_tag tag,
                       const struct lt_tensor *table, size_t tensors);

/* Arenas of that purpose that are made from now on in the host's memory lie in files without a name
 * in `folder`, whose text must stay (NULL: in memory again). The kernel writes their pages to the
 * disk and reads them as it has room for them; so they are not entered in the book. TACHO_EIO: no
 * such file can be made there. */
int lt_arena_offload(enum lt_memory_tag tag, const char *folder);

/* Accepts an empty arena. */
void lt_arena_destroy(struct lt_arena *arena);

/* Whether children that are forked get the arenas (the usual) or not: a child that keeps pages of
 * the parent makes each first write to them a copy. Holds for the arenas there are. */
void lt_arena_fork(int inherit);

#endif

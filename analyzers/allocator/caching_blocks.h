/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: the blocks of the model of the caching allocator. Blocks of a
 * segment are a list in the order of their addresses; those that are free, and those of expandable
 * segments that have no memory (unmapped), are in the trees.
 */
#ifndef ANALYZERS_ALLOCATOR_CACHING_BLOCKS_H
#define ANALYZERS_ALLOCATOR_CACHING_BLOCKS_H

#include "analyzers/allocator/caching_model.h"

#define CACHING_NONE UINT32_MAX /* no block */

/* By what a block is and serves, then free blocks by size and address, unmapped ones by address;
 * all are in it. By address: free blocks that are segments of their own or of an expandable one. By
 * pool: those of them that can be given back to the driver, as a whole or in pages. */
enum caching_tree { CACHING_BY_SIZE, CACHING_BY_ADDRESS, CACHING_TO_RELEASE, CACHING_TREES };

struct block {
    int64_t address, bytes;
    int64_t base; /* of an expandable segment: its pages are counted from here */
    struct caching_place place;
    uint32_t previous, next; /* in the segment */
    struct {
        uint32_t left, right;
    } in[CACHING_TREES];
    uint32_t priority; /* in the trees */
    bool inside[CACHING_TREES];
    bool large, used, dead;
    bool expandable, unmapped; /* of an expandable segment; without memory */
    bool expected;             /* no block: a segment that a request is to get. Its number is where
                                * others have their address, its address is `base` */
};

struct caching_blocks {
    struct block *at;
    uint32_t count, room, unused; /* unused: first of the dead ones, linked by `next` */
    uint32_t root[CACHING_TREES];
    int64_t page[2]; /* bytes that an expandable segment grows by: a small one, a large one */
    uint64_t random;
};

/* A new block outside of the trees; CACHING_NONE: out of memory. */
uint32_t caching_block_new(struct caching_blocks *blocks, struct block like);
void caching_block_drop(struct caching_blocks *blocks, uint32_t index);
/* The only one of its segment? */
bool caching_block_is_alone(const struct block *block);
/* Bytes of the whole pages of a block of an expandable segment, which begin at *first; 0: it has
 * none. */
int64_t caching_block_pages(const struct caching_blocks *blocks, const struct block *block,
                            int64_t *first);
/* A block in the trees keeps its place, size and address, and whether it has neighbours. */
void caching_tree_insert(struct caching_blocks *blocks, uint32_t index);
void caching_tree_remove(struct caching_blocks *blocks, uint32_t index);
/* By size: the first block that is not below the key, and the last one that is below it, of those
 * that serve what the key serves. CACHING_NONE: no block serves that. */
uint32_t caching_tree_at_least(const struct caching_blocks *blocks, const struct block *key);
uint32_t caching_tree_below(const struct caching_blocks *blocks, const struct block *key);
/* By address: one that begins there, or else the last one before it. CACHING_NONE. */
uint32_t caching_tree_before(const struct caching_blocks *blocks, int64_t address);
/* One of a pool that can be given back. CACHING_NONE. */
uint32_t caching_tree_releasable(const struct caching_blocks *blocks, int64_t pool);
/* Splits a block that is not in the trees: the first `bytes` stay, the rest becomes a block of its
 * own in them. False: out of memory. */
bool caching_block_split(struct caching_blocks *blocks, uint32_t index, int64_t bytes);
/* Puts a block that is in use no longer, or that was mapped or unmapped, into the trees, as one
 * with its neighbours that are alike. What it became part of. */
uint32_t caching_block_merge(struct caching_blocks *blocks, uint32_t index);

#endif

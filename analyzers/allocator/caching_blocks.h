/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/allocator/: the blocks of the model of the caching allocator. Blocks of a
 * segment are a list in the order of their addresses; those that are free, and those of expandable
 * segments that have no memory (unmapped), are in a tree.
 */
#ifndef ANALYZERS_ALLOCATOR_CACHING_BLOCKS_H
#define ANALYZERS_ALLOCATOR_CACHING_BLOCKS_H

#include "analyzers/allocator/caching_model.h"

#define CACHING_NONE UINT32_MAX /* no block */

struct block {
    int64_t address, bytes;
    int64_t base; /* of an expandable segment: its pages are counted from here */
    struct caching_place place;
    uint32_t previous, next;        /* in the segment */
    uint32_t left, right, priority; /* in the tree */
    bool large, used, dead;
    bool expandable, unmapped; /* of an expandable segment; without memory */
};

struct caching_blocks {
    struct block *at;
    uint32_t count, room, root, unused; /* unused: first of the dead ones, linked by `next` */
    uint64_t random;
};

/* A new block outside of the tree; CACHING_NONE: out of memory. */
uint32_t caching_block_new(struct caching_blocks *blocks, struct block like);
void caching_block_drop(struct caching_blocks *blocks, uint32_t index);
/* The tree is ordered by what a block is and serves, then free blocks by size and address, unmapped
 * ones by address. A block in it keeps its place, size and address. */
void caching_tree_insert(struct caching_blocks *blocks, uint32_t index);
void caching_tree_remove(struct caching_blocks *blocks, uint32_t index);
/* The first block of the tree that is not below the key, and the last one that is below it, of
 * those that serve what the key serves. CACHING_NONE: there is none. */
uint32_t caching_tree_at_least(const struct caching_blocks *blocks, const struct block *key);
uint32_t caching_tree_below(const struct caching_blocks *blocks, const struct block *key);
/* Splits a block that is not in the tree: the first `bytes` stay, the rest becomes a block of its
 * own in the tree. False: out of memory. */
bool caching_block_split(struct caching_blocks *blocks, uint32_t index, int64_t bytes);
/* Puts a block that is in use no longer, or that was mapped or unmapped, into the tree, as one with
 * its neighbours that are alike. What it became part of. */
uint32_t caching_block_merge(struct caching_blocks *blocks, uint32_t index);

#endif

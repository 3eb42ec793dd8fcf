/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of the model of the caching allocator: the list of each segment, and a treap of those that
 * are free or unmapped.
 */
#include "analyzers/allocator/caching_blocks.h"

#include <stdlib.h>

/* ---- the tree --------------------------------------------------------------------------------------------------------------- */

/* What a block is and serves: blocks of which this is 0 are of one set. */
static int order_of_sets(const struct block *left, const struct block *right)
{
    if (left->unmapped != right->unmapped)
        return left->unmapped ? 1 : -1;
    if (left->large != right->large)
        return left->large ? 1 : -1;
    if (left->place.pool != right->place.pool)
        return left->place.pool < right->place.pool ? -1 : 1;
    return (left->place.stream > right->place.stream) - (left->place.stream < right->place.stream);
}

static int order(const struct block *left, const struct block *right)
{
    int sets = order_of_sets(left, right);
    if (sets)
        return sets;
    if (!left->unmapped && left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return (left->address > right->address) - (left->address < right->address);
}

/* The order of blocks of the tree, in which no two are equal: parts of a damaged history may lie
 * over each other. */
static int order_inside(const struct block *left, const struct block *right)
{
    int keys = order(left, right);
    return keys ? keys : (left > right) - (left < right);
}

/* Splits the tree `from` into the blocks below `key`, which is a block too, and the others. */
static void tree_split(struct caching_blocks *blocks, uint32_t from, const struct block *key,
                       uint32_t *low, uint32_t *high)
{
    uint32_t *to_low = low, *to_high = high;
    while (from != CACHING_NONE) {
        struct block *block = &blocks->at[from];
        if (order_inside(block, key) < 0) {
            *to_low = from;
            to_low = &block->right;
            from = block->right;
        } else {
            *to_high = from;
            to_high = &block->left;
            from = block->left;
        }
    }
    *to_low = *to_high = CACHING_NONE;
}

void caching_tree_insert(struct caching_blocks *blocks, uint32_t index)
{
    struct block *block = &blocks->at[index], *other;
    uint32_t *place = &blocks->root;
    blocks->random = blocks->random * 6364136223846793005u + 1442695040888963407u;
    block->priority = (uint32_t)(blocks->random >> 32);
    while (*place != CACHING_NONE && blocks->at[*place].priority >= block->priority) {
        other = &blocks->at[*place];
        place = order_inside(other, block) < 0 ? &other->right : &other->left;
    }
    tree_split(blocks, *place, block, &block->left, &block->right);
    *place = index;
}

void caching_tree_remove(struct caching_blocks *blocks, uint32_t index)
{
    struct block *block = &blocks->at[index], *other;
    uint32_t *place = &blocks->root, left = block->left, right = block->right;
    while (*place != CACHING_NONE && *place != index) {
        other = &blocks->at[*place];
        place = order_inside(other, block) < 0 ? &other->right : &other->left;
    }
    if (*place == CACHING_NONE)
        return;
    while (left != CACHING_NONE && right != CACHING_NONE) { /* the higher priority goes up */
        if (blocks->at[left].priority > blocks->at[right].priority) {
            *place = left;
            place = &blocks->at[left].right;
            left = *place;
        } else {
            *place = right;
            place = &blocks->at[right].left;
            right = *place;
        }
    }
    *place = left != CACHING_NONE ? left : right;
}

/* The neighbours of a key in the tree; CACHING_NONE where they are of another set. */
static void tree_around(const struct caching_blocks *blocks, const struct block *key,
                        uint32_t *below, uint32_t *above)
{
    *below = *above = CACHING_NONE;
    for (uint32_t from = blocks->root; from != CACHING_NONE;) {
        if (order(&blocks->at[from], key) < 0) {
            *below = from;
            from = blocks->at[from].right;
        } else {
            *above = from;
            from = blocks->at[from].left;
        }
    }
    if (*below != CACHING_NONE && order_of_sets(&blocks->at[*below], key))
        *below = CACHING_NONE;
    if (*above != CACHING_NONE && order_of_sets(&blocks->at[*above], key))
        *above = CACHING_NONE;
}

uint32_t caching_tree_at_least(const struct caching_blocks *blocks, const struct block *key)
{
    uint32_t below, above;
    tree_around(blocks, key, &below, &above);
    return above;
}

uint32_t caching_tree_below(const struct caching_blocks *blocks, const struct block *key)
{
    uint32_t below, above;
    tree_around(blocks, key, &below, &above);
    return below;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------------- */

uint32_t caching_block_new(struct caching_blocks *blocks, struct block like)
{
    uint32_t index = blocks->unused;
    if (index != CACHING_NONE) {
        blocks->unused = blocks->at[index].next;
    } else {
        if (blocks->count == blocks->room) {
            uint32_t room = blocks->room ? 2 * blocks->room : 1024;
            struct block *bigger =
                room > UINT32_MAX / 2 ? NULL : realloc(blocks->at, room * sizeof *bigger);
            if (!bigger)
                return CACHING_NONE;
            blocks->at = bigger;
            blocks->room = room;
        }
        index = blocks->count++;
    }
    blocks->at[index] = like;
    return index;
}

void caching_block_drop(struct caching_blocks *blocks, uint32_t index)
{
    blocks->at[index].dead = true;
    blocks->at[index].next = blocks->unused;
    blocks->unused = index;
}

bool caching_block_split(struct caching_blocks *blocks, uint32_t index, int64_t bytes)
{
    struct block rest = blocks->at[index];
    if (rest.bytes == bytes)
        return true;
    rest.address += bytes;
    rest.bytes -= bytes;
    rest.previous = index;
    uint32_t made = caching_block_new(blocks, rest);
    if (made == CACHING_NONE)
        return false;
    blocks->at[index].bytes = bytes;
    blocks->at[index].next = made;
    if (rest.next != CACHING_NONE)
        blocks->at[rest.next].previous = made;
    caching_tree_insert(blocks, made);
    return true;
}

/* May two neighbours be one block? */
static bool are_alike(const struct caching_blocks *blocks, uint32_t first, uint32_t second)
{
    if (first == CACHING_NONE || second == CACHING_NONE)
        return false;
    const struct block *left = &blocks->at[first], *right = &blocks->at[second];
    return !left->used && !right->used && left->unmapped == right->unmapped;
}

/* Makes a block and the next one a single block; neither is in the tree. */
static void merge_with_next(struct caching_blocks *blocks, uint32_t index)
{
    struct block *block = &blocks->at[index];
    uint32_t next = block->next;
    block->bytes += blocks->at[next].bytes;
    block->next = blocks->at[next].next;
    if (block->next != CACHING_NONE)
        blocks->at[block->next].previous = index;
    caching_block_drop(blocks, next);
}

uint32_t caching_block_merge(struct caching_blocks *blocks, uint32_t index)
{
    uint32_t next = blocks->at[index].next, previous = blocks->at[index].previous;
    if (are_alike(blocks, index, next)) {
        caching_tree_remove(blocks, next);
        merge_with_next(blocks, index);
    }
    if (are_alike(blocks, previous, index)) {
        caching_tree_remove(blocks, previous);
        merge_with_next(blocks, previous);
        index = previous;
    }
    caching_tree_insert(blocks, index);
    return index;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of the model of the caching allocator: the list of each segment, and treaps of those that
 * are free or unmapped.
 */
#include "analyzers/allocator/caching_blocks.h"

#include <stdlib.h>

/* ---- the trees -------------------------------------------------------------------------------------------------------------- */

/* What a block is and serves: blocks of which this is 0 are of one set. */
static int order_of_sets(const struct block *left, const struct block *right)
{
    if (left->expected != right->expected)
        return left->expected ? 1 : -1;
    if (left->unmapped != right->unmapped)
        return left->unmapped ? 1 : -1;
    if (left->large != right->large)
        return left->large ? 1 : -1;
    if (left->place.pool != right->place.pool)
        return left->place.pool < right->place.pool ? -1 : 1;
    return (left->place.stream > right->place.stream) - (left->place.stream < right->place.stream);
}

static int order_of_addresses(const struct block *left, const struct block *right)
{
    return (left->address > right->address) - (left->address < right->address);
}

static int order_of_pools(const struct block *left, const struct block *right)
{
    return (left->place.pool > right->place.pool) - (left->place.pool < right->place.pool);
}

static int order(enum caching_tree tree, const struct block *left, const struct block *right)
{
    if (tree == CACHING_BY_ADDRESS)
        return order_of_addresses(left, right);
    if (tree == CACHING_TO_RELEASE)
        return order_of_pools(left, right);
    int sets = order_of_sets(left, right);
    if (sets)
        return sets;
    if (!left->unmapped && left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return order_of_addresses(left, right);
}

/* The order of blocks of a tree, in which no two are equal: parts of a damaged history may lie
 * over each other. */
static int order_inside(enum caching_tree tree, const struct block *left, const struct block *right)
{
    int keys = order(tree, left, right);
    return keys ? keys : (left > right) - (left < right);
}

/* Splits the tree `from` into the blocks below `key`, which is a block too, and the others. */
static void tree_split(struct caching_blocks *blocks, enum caching_tree tree, uint32_t from,
                       const struct block *key, uint32_t *low, uint32_t *high)
{
    uint32_t *to_low = low, *to_high = high;
    while (from != CACHING_NONE) {
        struct block *block = &blocks->at[from];
        if (order_inside(tree, block, key) < 0) {
            *to_low = from;
            to_low = &block->in[tree].right;
            from = block->in[tree].right;
        } else {
            *to_high = from;
            to_high = &block->in[tree].left;
            from = block->in[tree].left;
        }
    }
    *to_low = *to_high = CACHING_NONE;
}

static void insert_into(struct caching_blocks *blocks, enum caching_tree tree, uint32_t index)
{
    struct block *block = &blocks->at[index], *other;
    uint32_t *place = &blocks->root[tree];
    while (*place != CACHING_NONE && blocks->at[*place].priority >= block->priority) {
        other = &blocks->at[*place];
        place =
            order_inside(tree, other, block) < 0 ? &other->in[tree].right : &other->in[tree].left;
    }
    tree_split(blocks, tree, *place, block, &block->in[tree].left, &block->in[tree].right);
    *place = index;
}

static void remove_from(struct caching_blocks *blocks, enum caching_tree tree, uint32_t index)
{
    struct block *block = &blocks->at[index], *other;
    uint32_t *place = &blocks->root[tree], left = block->in[tree].left,
             right = block->in[tree].right;
    while (*place != CACHING_NONE && *place != index) {
        other = &blocks->at[*place];
        place =
            order_inside(tree, other, block) < 0 ? &other->in[tree].right : &other->in[tree].left;
    }
    if (*place == CACHING_NONE)
        return;
    while (left != CACHING_NONE && right != CACHING_NONE) { /* the higher priority goes up */
        if (blocks->at[left].priority > blocks->at[right].priority) {
            *place = left;
            place = &blocks->at[left].in[tree].right;
            left = *place;
        } else {
            *place = right;
            place = &blocks->at[right].in[tree].left;
            right = *place;
        }
    }
    *place = left != CACHING_NONE ? left : right;
}

bool caching_block_is_alone(const struct block *block)
{
    return block->previous == CACHING_NONE && block->next == CACHING_NONE;
}

int64_t caching_block_pages(const struct caching_blocks *blocks, const struct block *block,
                            int64_t *first)
{
    int64_t page = blocks->page[block->large], begin = block->address - block->base;
    int64_t from = (begin + page - 1) / page * page, to = (begin + block->bytes) / page * page;
    *first = block->base + from;
    return to > from ? to - from : 0;
}

/* Does a block belong into a tree? */
static bool belongs(const struct caching_blocks *blocks, enum caching_tree tree,
                    const struct block *block)
{
    int64_t first;
    if (tree == CACHING_BY_SIZE)
        return true;
    if (block->unmapped || block->expected)
        return false;
    if (!block->expandable)
        return caching_block_is_alone(block);
    return tree == CACHING_BY_ADDRESS || caching_block_pages(blocks, block, &first);
}

void caching_tree_insert(struct caching_blocks *blocks, uint32_t index)
{
    struct block *block = &blocks->at[index];
    blocks->random = blocks->random * 6364136223846793005u + 1442695040888963407u;
    block->priority = (uint32_t)(blocks->random >> 32);
    for (enum caching_tree tree = CACHING_BY_SIZE; tree < CACHING_TREES; tree++) {
        block->inside[tree] = belongs(blocks, tree, block);
        if (block->inside[tree])
            insert_into(blocks, tree, index);
    }
}

void caching_tree_remove(struct caching_blocks *blocks, uint32_t index)
{
    bool *inside = blocks->at[index].inside;
    for (enum caching_tree tree = CACHING_BY_SIZE; tree < CACHING_TREES; tree++) {
        if (inside[tree])
            remove_from(blocks, tree, index);
        inside[tree] = false;
    }
}

/* The neighbours of a key in a tree: the last block below it, the first one that is not. */
static void tree_around(const struct caching_blocks *blocks, enum caching_tree tree,
                        const struct block *key, uint32_t *below, uint32_t *above)
{
    *below = *above = CACHING_NONE;
    for (uint32_t from = blocks->root[tree]; from != CACHING_NONE;) {
        if (order(tree, &blocks->at[from], key) < 0) {
            *below = from;
            from = blocks->at[from].in[tree].right;
        } else {
            *above = from;
            from = blocks->at[from].in[tree].left;
        }
    }
}

/* The block if it serves what the key serves; CACHING_NONE. */
static uint32_t of_set(const struct caching_blocks *blocks, uint32_t index, const struct block *key)
{
    return index == CACHING_NONE || order_of_sets(&blocks->at[index], key) ? CACHING_NONE : index;
}

uint32_t caching_tree_at_least(const struct caching_blocks *blocks, const struct block *key)
{
    uint32_t below, above;
    tree_around(blocks, CACHING_BY_SIZE, key, &below, &above);
    return of_set(blocks, above, key);
}

uint32_t caching_tree_below(const struct caching_blocks *blocks, const struct block *key)
{
    uint32_t below, above;
    tree_around(blocks, CACHING_BY_SIZE, key, &below, &above);
    return of_set(blocks, below, key);
}

uint32_t caching_tree_before(const struct caching_blocks *blocks, int64_t address)
{
    uint32_t below, above;
    tree_around(blocks, CACHING_BY_ADDRESS, &(struct block){.address = address}, &below, &above);
    return above != CACHING_NONE && blocks->at[above].address == address ? above : below;
}

uint32_t caching_tree_releasable(const struct caching_blocks *blocks, int64_t pool)
{
    const struct block key = {.place.pool = pool};
    uint32_t below, above;
    tree_around(blocks, CACHING_TO_RELEASE, &key, &below, &above);
    return above == CACHING_NONE || order_of_pools(&blocks->at[above], &key) ? CACHING_NONE : above;
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

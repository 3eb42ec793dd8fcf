/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the caching allocator: blocks in a list for each segment, free blocks in a tree by
 * stream, pool, size and address.
 */
#include "analyzers/allocator/caching_model.h"

#include <stdlib.h>

#include "analyzers/allocator/caching_sizes.h"

#define NONE    UINT32_MAX
#define MADE_UP (1ll << 50) /* addresses of segments that no history names begin here */

struct block {
    int64_t address, bytes, requested;
    struct caching_place place;
    uint32_t previous, next;        /* in the segment */
    uint32_t left, right, priority; /* in the tree of free blocks */
    bool large, used, dead;
};

struct expected {
    int64_t address, bytes;
    bool taken;
};

struct caching_model {
    struct caching_settings settings;
    struct block *block;
    uint32_t count, room, root, hint, unused; /* unused: first of the dead ones, linked by `next` */
    uint64_t random;
    struct expected *expected;
    size_t expected_count, expected_room, expected_first;
    int64_t made_up;
    /* With expandable segments each stream and pool has one, which grows at its end. */
    struct tail {
        struct caching_place place;
        bool large;
        uint32_t last; /* block at its end */
    } * tail;
    size_t tail_count, tail_room;
    struct caching_totals totals;
};

struct caching_model *caching_new(const struct caching_settings *settings)
{
    struct caching_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->settings = *settings;
    model->root = model->unused = NONE;
    model->random = 0x9e3779b97f4a7c15u;
    model->made_up = MADE_UP;
    return model;
}

void caching_free_all(struct caching_model *model)
{
    if (!model)
        return;
    free(model->block);
    free(model->expected);
    free(model->tail);
    free(model);
}

static bool is_same_place(struct caching_place left, struct caching_place right)
{
    return left.stream == right.stream && left.pool == right.pool;
}

/* Does a segment of this pool grow? */
static bool expands(const struct caching_model *model, int64_t pool)
{
    return model->settings.expandable && (!pool || model->settings.private_expandable);
}

/* ---- the tree of free blocks: a treap ------------------------------------------------------------------------------------- */

static int order(const struct block *left, const struct block *right)
{
    if (left->large != right->large)
        return left->large ? 1 : -1;
    if (left->place.pool != right->place.pool)
        return left->place.pool < right->place.pool ? -1 : 1;
    if (left->place.stream != right->place.stream)
        return left->place.stream < right->place.stream ? -1 : 1;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    return (left->address > right->address) - (left->address < right->address);
}

/* Splits the tree `at` into the blocks below `key` and the others. */
static void tree_split(struct caching_model *model, uint32_t at, const struct block *key,
                       uint32_t *low, uint32_t *high)
{
    uint32_t *to_low = low, *to_high = high;
    while (at != NONE) {
        struct block *block = &model->block[at];
        if (order(block, key) < 0) {
            *to_low = at;
            to_low = &block->right;
            at = block->right;
        } else {
            *to_high = at;
            to_high = &block->left;
            at = block->left;
        }
    }
    *to_low = *to_high = NONE;
}

static void tree_insert(struct caching_model *model, uint32_t index)
{
    struct block *block = &model->block[index];
    uint32_t *place = &model->root;
    model->random = model->random * 6364136223846793005u + 1442695040888963407u;
    block->priority = (uint32_t)(model->random >> 32);
    while (*place != NONE && model->block[*place].priority >= block->priority)
        place = order(&model->block[*place], block) < 0 ? &model->block[*place].right
                                                        : &model->block[*place].left;
    tree_split(model, *place, block, &block->left, &block->right);
    *place = index;
}

static void tree_remove(struct caching_model *model, uint32_t index)
{
    uint32_t *place = &model->root, left, right;
    while (*place != NONE && *place != index)
        place = order(&model->block[*place], &model->block[index]) < 0 ? &model->block[*place].right
                                                                       : &model->block[*place].left;
    if (*place == NONE)
        return;
    left = model->block[index].left;
    right = model->block[index].right;
    while (left != NONE && right != NONE) { /* merges the two subtrees, the higher priority up */
        if (model->block[left].priority > model->block[right].priority) {
            *place = left;
            place = &model->block[left].right;
            left = *place;
        } else {
            *place = right;
            place = &model->block[right].left;
            right = *place;
        }
    }
    *place = left != NONE ? left : right;
}

/* The smallest free block that is not below the key; NONE. */
static uint32_t tree_at_least(const struct caching_model *model, const struct block *key)
{
    uint32_t best = NONE;
    for (uint32_t at = model->root; at != NONE;) {
        if (order(&model->block[at], key) < 0) {
            at = model->block[at].right;
        } else {
            best = at;
            at = model->block[at].left;
        }
    }
    return best;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------------- */

/* A new block; NONE: out of memory. */
static uint32_t block_new(struct caching_model *model, struct block like)
{
    uint32_t index = model->unused;
    if (index != NONE) {
        model->unused = model->block[index].next;
    } else {
        if (model->count == model->room) {
            uint32_t room = model->room ? 2 * model->room : 1024;
            struct block *bigger =
                room > UINT32_MAX / 2 ? NULL : realloc(model->block, room * sizeof *bigger);
            if (!bigger)
                return NONE;
            model->block = bigger;
            model->room = room;
        }
        index = model->count++;
    }
    model->block[index] = like;
    return index;
}

static void block_drop(struct caching_model *model, uint32_t index)
{
    model->block[index].dead = true;
    model->block[index].next = model->unused;
    model->unused = index;
}

/* Splits a free block that is not in the tree: the first `bytes` stay, the rest becomes a free
 * block of its own. False: out of memory. */
static bool split(struct caching_model *model, uint32_t index, int64_t bytes)
{
    struct block rest = model->block[index];
    if (rest.bytes == bytes)
        return true;
    rest.address += bytes;
    rest.bytes -= bytes;
    rest.used = false;
    rest.previous = index;
    uint32_t made = block_new(model, rest);
    if (made == NONE)
        return false;
    model->block[index].bytes = bytes;
    model->block[index].next = made;
    if (rest.next != NONE)
        model->block[rest.next].previous = made;
    for (size_t i = 0; i < model->tail_count; i++)
        if (model->tail[i].last == index)
            model->tail[i].last = made;
    tree_insert(model, made);
    return true;
}

/* Merges a free block into the free one before it, which is in the tree; both become one outside of
 * the tree. */
static uint32_t merge_with_next(struct caching_model *model, uint32_t index)
{
    struct block *block = &model->block[index];
    uint32_t next = block->next;
    block->bytes += model->block[next].bytes;
    block->next = model->block[next].next;
    if (block->next != NONE)
        model->block[block->next].previous = index;
    for (size_t i = 0; i < model->tail_count; i++)
        if (model->tail[i].last == next)
            model->tail[i].last = index;
    block_drop(model, next);
    return index;
}

static void take(struct caching_model *model, uint32_t index, int64_t requested)
{
    struct block *block = &model->block[index];
    struct caching_totals *totals = &model->totals;
    block->used = true;
    block->requested = requested;
    totals->allocated += block->bytes;
    totals->requested += requested;
    if (totals->allocated > totals->allocated_peak)
        totals->allocated_peak = totals->allocated;
}

static void reserve(struct caching_model *model, int64_t bytes)
{
    struct caching_totals *totals = &model->totals;
    totals->reserved += bytes;
    if (totals->reserved > totals->reserved_peak)
        totals->reserved_peak = totals->reserved;
}

void caching_free(struct caching_model *model, int64_t handle)
{
    uint32_t index = (uint32_t)handle;
    if (handle < 0 || index >= model->count || !model->block[index].used)
        return;
    struct block *block = &model->block[index];
    block->used = false;
    model->totals.allocated -= block->bytes;
    model->totals.requested -= block->requested;
    uint32_t next = block->next, previous = block->previous;
    if (next != NONE && !model->block[next].used) {
        tree_remove(model, next);
        merge_with_next(model, index);
    }
    if (previous != NONE && !model->block[previous].used) {
        tree_remove(model, previous);
        index = merge_with_next(model, previous);
    }
    tree_insert(model, index);
}

/* ---- segments --------------------------------------------------------------------------------------------------------------- */

/* The expandable segment of a stream and pool; NULL: there is none. */
static struct tail *tail_of(const struct caching_model *model, struct caching_place place,
                            bool large)
{
    for (size_t i = 0; i < model->tail_count; i++)
        if (is_same_place(model->tail[i].place, place) && model->tail[i].large == large)
            return &model->tail[i];
    return NULL;
}

/* Lets the expandable segment of the block's stream and pool end with it. False: out of memory. */
static bool set_tail(struct caching_model *model, uint32_t index)
{
    const struct block *block = &model->block[index];
    struct tail *tail = tail_of(model, block->place, block->large);
    if (tail) {
        tail->last = index;
        return true;
    }
    if (model->tail_count == model->tail_room) {
        size_t room = model->tail_room ? 2 * model->tail_room : 8;
        struct tail *bigger = realloc(model->tail, room * sizeof *bigger);
        if (!bigger)
            return false;
        model->tail = bigger;
        model->tail_room = room;
    }
    model->tail[model->tail_count++] = (struct tail){block->place, block->large, index};
    return true;
}

static int64_t end_of(const struct caching_model *model, uint32_t index)
{
    return model->block[index].address + model->block[index].bytes;
}

int caching_segment_given(struct caching_model *model, int64_t address, int64_t bytes,
                          struct caching_place place, bool large, bool expandable)
{
    expandable = expandable && expands(model, place.pool);
    struct tail *tail = expandable ? tail_of(model, place, large) : NULL;
    reserve(model, bytes);
    if (tail && end_of(model, tail->last) == address && !model->block[tail->last].used) {
        tree_remove(model, tail->last);
        model->block[tail->last].bytes += bytes;
        tree_insert(model, tail->last);
        return 0;
    }
    uint32_t index = block_new(model, (struct block){.address = address,
                                                     .bytes = bytes,
                                                     .place = place,
                                                     .previous = NONE,
                                                     .next = NONE,
                                                     .large = large});
    if (index == NONE || (expandable && !set_tail(model, index)))
        return -1;
    tree_insert(model, index);
    return 0;
}

int caching_segment_expected(struct caching_model *model, int64_t address, int64_t bytes)
{
    if (model->expected_count == model->expected_room) {
        size_t room = model->expected_room ? 2 * model->expected_room : 256;
        struct expected *bigger = realloc(model->expected, room * sizeof *bigger);
        if (!bigger)
            return -1;
        model->expected = bigger;
        model->expected_room = room;
    }
    model->expected[model->expected_count++] = (struct expected){address, bytes, false};
    return 0;
}

/* Takes the next segment of a size that the history names. False: it names none. */
static bool take_expected(struct caching_model *model, int64_t bytes, int64_t *address)
{
    for (size_t i = model->expected_first; i < model->expected_count; i++) {
        struct expected *expected = &model->expected[i];
        if (expected->taken || expected->bytes != bytes)
            continue;
        expected->taken = true;
        while (model->expected_first < model->expected_count &&
               model->expected[model->expected_first].taken)
            model->expected_first++;
        *address = expected->address;
        return true;
    }
    return false;
}

/* The address of a new segment: that of the next one of this size that the history names. */
static int64_t segment_address(struct caching_model *model, int64_t bytes)
{
    int64_t address = model->made_up;
    if (take_expected(model, bytes, &address))
        return address;
    model->made_up += bytes + CACHING_LARGE_ROUND;
    return address;
}

static bool is_free_at(const struct caching_model *model, uint32_t index, int64_t address)
{
    const struct block *block = &model->block[index];
    return !block->dead && !block->used && address >= block->address &&
           address < block->address + block->bytes;
}

/* The free block that covers an address; NONE. Only for what is there at the beginning: blocks are
 * given by address, so the rest of the block before is looked at first. */
static uint32_t free_at(const struct caching_model *model, int64_t address)
{
    if (model->hint < model->count && is_free_at(model, model->hint, address))
        return model->hint;
    for (uint32_t i = 0; i < model->count; i++) {
        if (is_free_at(model, i, address))
            return i;
    }
    return NONE;
}

int64_t caching_block_given(struct caching_model *model, int64_t address, int64_t requested,
                            int64_t bytes)
{
    uint32_t index = free_at(model, address);
    if (index == NONE)
        return -1;
    tree_remove(model, index);
    int64_t before = address - model->block[index].address;
    if (before > 0) {
        if (!split(model, index, before))
            return -1;
        tree_insert(model, index);
        index = model->block[index].next;
        tree_remove(model, index);
    }
    int64_t room = model->block[index].bytes;
    bytes = bytes > 0 ? bytes : caching_round(&model->settings, requested);
    if (bytes < room && !split(model, index, bytes))
        return -1;
    take(model, index, requested);
    model->hint = model->block[index].next;
    return index;
}

void caching_release(struct caching_model *model, int64_t address, int64_t pool)
{
    bool found = false;
    for (int all = 0; all < 2 && !found; all++)
        for (uint32_t i = 0; i < model->count; i++) {
            struct block *block = &model->block[i];
            if (block->dead || block->used || block->previous != NONE || block->next != NONE ||
                (!all && block->address != address) || (all && block->place.pool != pool))
                continue;
            found = true;
            tree_remove(model, i);
            model->totals.reserved -= block->bytes;
            for (size_t k = 0; k < model->tail_count; k++)
                if (model->tail[k].last == i)
                    model->tail[k--] = model->tail[--model->tail_count];
            block_drop(model, i);
            if (!all)
                return;
        }
}

void caching_unmap(struct caching_model *model, int64_t address, int64_t bytes, int64_t pool)
{
    struct tail *tail = NULL;
    if (!expands(model, pool)) {
        caching_release(model, address, pool);
        return;
    }
    model->totals.reserved -= bytes;
    for (size_t i = 0; i < model->tail_count; i++)
        if (end_of(model, model->tail[i].last) == address + bytes)
            tail = &model->tail[i];
    if (!tail || model->block[tail->last].used || model->block[tail->last].bytes < bytes)
        return;
    uint32_t last = tail->last;
    tree_remove(model, last);
    model->block[last].bytes -= bytes;
    if (model->block[last].bytes > 0) {
        tree_insert(model, last);
        return;
    }
    tail->last = model->block[last].previous;
    if (tail->last != NONE)
        model->block[tail->last].next = NONE;
    else
        *tail = model->tail[--model->tail_count];
    block_drop(model, last);
}

/* ---- requests --------------------------------------------------------------------------------------------------------------- */

/* The free block that a request gets; NONE: a segment is needed. */
static uint32_t find_free(const struct caching_model *model, int64_t bytes,
                          struct caching_place place, bool large)
{
    struct block key = {.bytes = bytes, .place = place, .large = large, .address = INT64_MIN};
    uint32_t index = tree_at_least(model, &key);
    int64_t most = model->settings.max_split;
    if (index == NONE || !is_same_place(model->block[index].place, place) ||
        model->block[index].large != large)
        return NONE;
    int64_t found = model->block[index].bytes;
    if (bytes < most && found >= most) /* kept for requests that are as large */
        return NONE;
    int64_t rounding = model->settings.non_split_rounding;
    rounding = rounding ? rounding : CACHING_LARGE_ROOM;
    return bytes >= most && found >= bytes + rounding ? NONE : index;
}

static bool should_split(const struct caching_model *model, const struct block *block,
                         int64_t bytes)
{
    int64_t rest = block->bytes - bytes;
    if (!block->large || expands(model, block->place.pool))
        return rest >= CACHING_MIN_BLOCK;
    return bytes < model->settings.max_split && rest > CACHING_SMALL_MOST;
}

/* Makes the segment of a stream and pool longer, so that its end holds the request. NONE: out of
 * memory. */
static uint32_t expand(struct caching_model *model, int64_t bytes, struct caching_place place,
                       bool large)
{
    int64_t granule = large ? caching_large_segment(&model->settings) : CACHING_SMALL_ROOM;
    int64_t address = 0;
    struct tail *tail = tail_of(model, place, large);
    bool at_end = tail && !model->block[tail->last].used;
    int64_t missing = bytes - (at_end ? model->block[tail->last].bytes : 0);
    missing = (missing + granule - 1) / granule * granule;
    reserve(model, missing);
    model->totals.requests++;
    bool told = take_expected(model, missing, &address);
    if (at_end) {
        tree_remove(model, tail->last);
        model->block[tail->last].bytes += missing;
        return tail->last;
    }
    uint32_t before = tail ? tail->last : NONE;
    if (tail)
        address = end_of(model, before);
    else if (!told)
        address = model->made_up + (int64_t)model->tail_count * (1ll << 45);
    uint32_t index = block_new(model, (struct block){.address = address,
                                                     .bytes = missing,
                                                     .place = place,
                                                     .large = large,
                                                     .previous = before,
                                                     .next = NONE});
    if (index == NONE || !set_tail(model, index))
        return NONE;
    if (before != NONE)
        model->block[before].next = index;
    return index;
}

/* A new segment as one free block outside of the tree. */
static uint32_t ask_driver(struct caching_model *model, int64_t bytes, struct caching_place place,
                           bool large)
{
    if (expands(model, place.pool))
        return expand(model, bytes, place, large);
    int64_t room = caching_segment_bytes(&model->settings, bytes);
    reserve(model, room);
    model->totals.requests++;
    return block_new(model, (struct block){.address = segment_address(model, room),
                                           .bytes = room,
                                           .place = place,
                                           .large = large,
                                           .previous = NONE,
                                           .next = NONE});
}

int64_t caching_alloc(struct caching_model *model, int64_t requested, struct caching_place place,
                      int64_t *at)
{
    int64_t bytes = caching_round(&model->settings, requested);
    bool large = bytes > CACHING_SMALL_MOST;
    uint32_t index = find_free(model, bytes, place, large);
    if (index != NONE)
        tree_remove(model, index);
    else
        index = ask_driver(model, bytes, place, large);
    if (index == NONE ||
        (should_split(model, &model->block[index], bytes) && !split(model, index, bytes)))
        return -1;
    take(model, index, requested);
    *at = model->block[index].address;
    return index;
}

struct caching_totals caching_totals(const struct caching_model *model)
{
    struct caching_totals totals = model->totals;
    for (uint32_t i = 0; i < model->count; i++) {
        const struct block *block = &model->block[i];
        if (block->dead || block->used)
            continue;
        totals.free += block->bytes;
        totals.largest_free =
            block->bytes > totals.largest_free ? block->bytes : totals.largest_free;
        if (block->previous != NONE || block->next != NONE)
            totals.inactive_split += block->bytes;
    }
    return totals;
}

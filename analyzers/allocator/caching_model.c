/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of the caching allocator: what a request gets, what the driver is asked for, and what
 * is given back to it.
 */
#include "analyzers/allocator/caching_model.h"

#include <stdlib.h>

#include "analyzers/allocator/caching_blocks.h"
#include "analyzers/allocator/caching_sizes.h"

#define NONE         CACHING_NONE
#define MADE_UP      (1ll << 50) /* addresses of segments that no history names begin here */
#define ADDRESS_MOST (1ll << 60)
#define RANGE        (1ll << 40) /* addresses of an expandable segment: more than any device has */
#define SEARCH_MOST  1000        /* places in expandable segments that a request is tried at */

struct caching_model {
    struct caching_settings settings;
    struct caching_blocks blocks;
    uint32_t rest;         /* of the segment, after the last block that was given; NONE */
    int64_t expected;      /* segments that were expected so far */
    int64_t expected_page; /* where the history maps memory for the next request; -1: nowhere */
    int64_t made_up, capacity;
    bool failed; /* out of memory */
    struct caching_totals totals;
};

struct caching_model *caching_new(const struct caching_settings *settings)
{
    struct caching_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->settings = *settings;
    for (size_t i = 0; i < CACHING_TREES; i++)
        model->blocks.root[i] = NONE;
    model->blocks.unused = model->rest = NONE;
    model->blocks.page[false] = CACHING_SMALL_ROOM;
    model->blocks.page[true] = caching_large_segment(settings);
    model->blocks.random = 0x9e3779b97f4a7c15u;
    model->made_up = MADE_UP;
    model->expected_page = -1;
    model->capacity = CACHING_UNLIMITED;
    return model;
}

void caching_free_all(struct caching_model *model)
{
    if (!model)
        return;
    free(model->blocks.at);
    free(model);
}

void caching_set_capacity(struct caching_model *model, int64_t bytes)
{
    model->capacity = bytes;
}

/* Does a segment of this pool grow? */
static bool expands(const struct caching_model *model, int64_t pool)
{
    return model->settings.expandable && (!pool || model->settings.private_expandable);
}

static struct block *block_at(const struct caching_model *model, uint32_t index)
{
    return &model->blocks.at[index];
}

static int64_t end_of(const struct block *block)
{
    return block->address + block->bytes;
}

/* A block that a request could get. */
static bool is_free(const struct caching_model *model, uint32_t index)
{
    return index != NONE && !block_at(model, index)->used && !block_at(model, index)->unmapped;
}

static uint32_t new_block(struct caching_model *model, struct block like)
{
    like.previous = like.next = NONE;
    uint32_t index = caching_block_new(&model->blocks, like);
    model->failed |= index == NONE;
    return index;
}

/* Splits a block that is not in the tree. False: out of memory. */
static bool split(struct caching_model *model, uint32_t index, int64_t bytes)
{
    bool done = caching_block_split(&model->blocks, index, bytes);
    model->failed |= !done;
    return done;
}

/* Splits a block of the tree where it reaches below an address. What begins there, outside of the
 * tree; NONE: out of memory. */
static uint32_t cut_before(struct caching_model *model, uint32_t index, int64_t address)
{
    int64_t before = address - block_at(model, index)->address;
    caching_tree_remove(&model->blocks, index);
    if (before <= 0)
        return index;
    if (!split(model, index, before))
        return NONE;
    caching_tree_insert(&model->blocks, index);
    index = block_at(model, index)->next;
    caching_tree_remove(&model->blocks, index);
    return index;
}

static void take(struct caching_model *model, uint32_t index)
{
    struct caching_totals *totals = &model->totals;
    block_at(model, index)->used = true;
    totals->allocated += block_at(model, index)->bytes;
    if (totals->allocated > totals->allocated_peak)
        totals->allocated_peak = totals->allocated;
}

void caching_free(struct caching_model *model, int64_t handle)
{
    uint32_t index = (uint32_t)handle;
    if (handle < 0 || index >= model->blocks.count || !block_at(model, index)->used)
        return;
    block_at(model, index)->used = false;
    model->totals.allocated -= block_at(model, index)->bytes;
    caching_block_merge(&model->blocks, index);
}

/* ---- memory of the driver --------------------------------------------------------------------------------------------------- */

static void reserve(struct caching_model *model, int64_t bytes)
{
    struct caching_totals *totals = &model->totals;
    totals->reserved += bytes;
    if (totals->reserved > totals->reserved_peak)
        totals->reserved_peak = totals->reserved;
}

/* Asks the driver for memory. False: the device has no more. */
static bool request(struct caching_model *model, int64_t bytes)
{
    if (bytes > model->capacity - model->totals.reserved)
        return false;
    model->totals.requests++;
    reserve(model, bytes);
    return true;
}

/* An address that no history names. */
static int64_t make_address(struct caching_model *model, int64_t bytes)
{
    int64_t address = model->made_up < ADDRESS_MOST ? model->made_up : MADE_UP;
    model->made_up = address + bytes + CACHING_LARGE_ROUND;
    return address;
}

/* Gives memory to the first bytes of an unmapped block. The free block that they are in then; NONE:
 * out of memory. */
static uint32_t map(struct caching_model *model, uint32_t index, int64_t bytes)
{
    caching_tree_remove(&model->blocks, index);
    if (!split(model, index, bytes))
        return NONE;
    block_at(model, index)->unmapped = false;
    return caching_block_merge(&model->blocks, index);
}

/* Takes the memory of a part of a free block of an expandable segment. */
static void unmap(struct caching_model *model, uint32_t index, int64_t address, int64_t bytes)
{
    index = cut_before(model, index, address);
    if (index == NONE || !split(model, index, bytes))
        return;
    model->totals.reserved -= bytes;
    block_at(model, index)->unmapped = true;
    index = caching_block_merge(&model->blocks, index);
    if (caching_block_is_alone(block_at(model, index))) { /* nothing of the segment is left */
        caching_tree_remove(&model->blocks, index);
        caching_block_drop(&model->blocks, index);
    }
}

/* Gives a segment back that is one free block. */
static void release_segment(struct caching_model *model, uint32_t index)
{
    caching_tree_remove(&model->blocks, index);
    model->totals.reserved -= block_at(model, index)->bytes;
    caching_block_drop(&model->blocks, index);
}

/* Gives all of a pool back that can be: free segments, and free pages of expandable ones. */
static void release_free(struct caching_model *model, int64_t pool)
{
    uint32_t index;
    while ((index = caching_tree_releasable(&model->blocks, pool)) != NONE) {
        const struct block *block = block_at(model, index);
        int64_t first, bytes = caching_block_pages(&model->blocks, block, &first);
        if (block->expandable)
            unmap(model, index, first, bytes);
        else
            release_segment(model, index);
    }
}

/* Gives blocks back that may not be split: the smallest one that is as large as the request, or the
 * largest ones until they are so together. False: there are too few. */
static bool release_oversize(struct caching_model *model, int64_t bytes, struct caching_place place,
                             bool large)
{
    int64_t most = model->settings.max_split, least = bytes > most ? bytes : most, released = 0;
    struct block key = {.bytes = least, .place = place, .large = large, .address = INT64_MIN};
    if (most == CACHING_UNLIMITED)
        return false;
    uint32_t index = caching_tree_at_least(&model->blocks, &key);
    if (index != NONE && caching_block_is_alone(block_at(model, index))) {
        release_segment(model, index);
        return true;
    }
    while (released < least) {
        index = caching_tree_below(&model->blocks, &key);
        if (index == NONE || block_at(model, index)->bytes < most)
            return false;
        key = *block_at(model, index);
        if (!caching_block_is_alone(&key))
            continue;
        released += key.bytes;
        release_segment(model, index);
    }
    return true;
}

/* ---- segments of the history ------------------------------------------------------------------------------------------------ */

/* A new expandable segment, without memory. NONE: out of memory. */
static uint32_t new_range(struct caching_model *model, int64_t address, int64_t bytes,
                          struct caching_place place, bool large)
{
    uint32_t index = new_block(model, (struct block){.address = address,
                                                     .bytes = bytes,
                                                     .base = address,
                                                     .place = place,
                                                     .large = large,
                                                     .expandable = true,
                                                     .unmapped = true});
    if (index != NONE)
        caching_tree_insert(&model->blocks, index);
    return index;
}

/* A part of an expandable segment that has memory already. False: out of memory. */
static bool part_given(struct caching_model *model, int64_t address, int64_t bytes,
                       struct caching_place place, bool large)
{
    struct block key = {.place = place, .large = large, .unmapped = true, .address = address + 1};
    uint32_t index = caching_tree_below(&model->blocks, &key);
    if (index == NONE || end_of(block_at(model, index)) < address + bytes)
        index = new_range(model, address, bytes + RANGE, place, large);
    if (index == NONE)
        return false;
    index = cut_before(model, index, address);
    if (index == NONE)
        return false;
    caching_tree_insert(&model->blocks, index);
    return map(model, index, bytes) != NONE;
}

int caching_segment_given(struct caching_model *model, int64_t address, int64_t bytes,
                          struct caching_place place, bool large, bool expandable)
{
    if (address < 0 || address > ADDRESS_MOST)
        address = make_address(model, bytes);
    reserve(model, bytes);
    if (expandable && bytes > 0 && expands(model, place.pool))
        return part_given(model, address, bytes, place, large) ? 0 : -1;
    uint32_t index = new_block(
        model, (struct block){.address = address, .bytes = bytes, .place = place, .large = large});
    if (index == NONE)
        return -1;
    caching_tree_insert(&model->blocks, index);
    return 0;
}

int caching_segment_expected(struct caching_model *model, int64_t address, int64_t bytes,
                             bool expandable)
{
    if (address < 0 || address > ADDRESS_MOST)
        return 0;
    if (expandable && expands(model, 0)) {
        if (model->expected_page < 0)
            model->expected_page = address;
        return 0;
    }
    uint32_t index = new_block(model, (struct block){.address = model->expected++,
                                                     .bytes = bytes,
                                                     .base = address,
                                                     .expected = true});
    if (index == NONE)
        return -1;
    caching_tree_insert(&model->blocks, index);
    return 0;
}

/* The address of a new segment: that of the next one of this size that the history names. */
static int64_t segment_address(struct caching_model *model, int64_t bytes)
{
    const struct block key = {.bytes = bytes, .expected = true};
    uint32_t index = caching_tree_at_least(&model->blocks, &key);
    if (index == NONE || block_at(model, index)->bytes != bytes)
        return make_address(model, bytes);
    caching_tree_remove(&model->blocks, index);
    caching_block_drop(&model->blocks, index);
    return block_at(model, index)->base;
}

static bool covers(const struct block *block, int64_t address)
{
    return address >= block->address && address < end_of(block);
}

/* The free block that covers an address and is a segment, or of an expandable one; NONE. */
static uint32_t free_at(const struct caching_model *model, int64_t address)
{
    uint32_t index = caching_tree_before(&model->blocks, address);
    return index != NONE && covers(block_at(model, index), address) ? index : NONE;
}

/* Blocks are given by address: each lies in the rest of the segment of the one before, or in one
 * that none was given of yet. NONE: in neither. */
static uint32_t free_for_given(const struct caching_model *model, int64_t address)
{
    uint32_t rest = model->rest;
    bool holds = is_free(model, rest) && !block_at(model, rest)->dead &&
                 covers(block_at(model, rest), address);
    return holds ? rest : free_at(model, address);
}

int64_t caching_block_given(struct caching_model *model, int64_t address, int64_t requested,
                            int64_t bytes)
{
    uint32_t index = free_for_given(model, address);
    if (index == NONE)
        return -1;
    index = cut_before(model, index, address);
    if (index == NONE)
        return -1;
    bytes = bytes > 0 ? bytes : caching_round(&model->settings, requested);
    if (bytes < block_at(model, index)->bytes && !split(model, index, bytes))
        return -1;
    take(model, index);
    model->rest = block_at(model, index)->next;
    return index;
}

void caching_release(struct caching_model *model, int64_t address, int64_t pool)
{
    uint32_t index = free_at(model, address);
    if (index != NONE && block_at(model, index)->address == address &&
        !block_at(model, index)->expandable)
        release_segment(model, index);
    else
        release_free(model, pool);
}

void caching_unmap(struct caching_model *model, int64_t address, int64_t bytes, int64_t pool)
{
    uint32_t index = free_at(model, address);
    if (index == NONE || !block_at(model, index)->expandable || bytes <= 0 ||
        bytes > end_of(block_at(model, index)) - address)
        caching_release(model, address, pool);
    else
        unmap(model, index, address, bytes);
}

/* ---- requests --------------------------------------------------------------------------------------------------------------- */

/* The next larger free block that serves the same; NONE. */
static uint32_t next_free(const struct caching_model *model, uint32_t index)
{
    struct block key = *block_at(model, index);
    key.address++;
    return caching_tree_at_least(&model->blocks, &key);
}

/* What a free block can grow to. */
static int64_t grown_bytes(const struct caching_model *model, uint32_t index)
{
    const struct block *block = block_at(model, index);
    bool grows = block->next != NONE && block_at(model, block->next)->unmapped;
    return block->bytes + (grows ? block_at(model, block->next)->bytes : 0);
}

/* The free block that a request gets: the smallest one, but of an expandable segment the one that
 * can grow least. NONE: a segment is needed. */
static uint32_t find_free(const struct caching_model *model, int64_t bytes,
                          struct caching_place place, bool large)
{
    const struct caching_settings *settings = &model->settings;
    struct block key = {.bytes = bytes, .place = place, .large = large, .address = INT64_MIN};
    uint32_t index = caching_tree_at_least(&model->blocks, &key), next;
    if (index == NONE)
        return NONE;
    while (block_at(model, index)->expandable && (next = next_free(model, index)) != NONE &&
           grown_bytes(model, next) < grown_bytes(model, index))
        index = next;
    int64_t found = block_at(model, index)->bytes, most = settings->max_split,
            rounding =
                settings->non_split_rounding ? settings->non_split_rounding : CACHING_LARGE_ROOM;
    if (bytes < most && found >= most) /* kept for requests that are as large */
        return NONE;
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

/* Is there room for a request from this block on, free or unmapped? */
static bool has_room(const struct caching_model *model, uint32_t index, int64_t bytes)
{
    for (; bytes > 0 && index != NONE && !block_at(model, index)->used;
         index = block_at(model, index)->next)
        bytes -= block_at(model, index)->bytes;
    return bytes <= 0;
}

/* The first place in expandable segments that has room for a request, part of which has no memory
 * yet: a free or an unmapped block. NONE: there is none. */
static uint32_t find_room(const struct caching_model *model, int64_t bytes,
                          struct caching_place place, bool large)
{
    struct block key = {.place = place, .large = large, .unmapped = true, .address = INT64_MIN};
    for (int searched = 0; searched < SEARCH_MOST; searched++) {
        uint32_t index = caching_tree_at_least(&model->blocks, &key);
        if (index == NONE)
            return NONE;
        const struct block *block = block_at(model, index);
        key.address = block->address + 1;
        index = is_free(model, block->previous) ? block->previous : index;
        if (has_room(model, index, bytes))
            return index;
    }
    return NONE;
}

/* Maps memory in an expandable segment until a free block holds the request, and takes that out of
 * the tree. NONE: the device is full, or out of memory. */
static uint32_t expand(struct caching_model *model, int64_t bytes, struct caching_place place,
                       bool large)
{
    int64_t page = model->blocks.page[large];
    uint32_t index = find_room(model, bytes, place, large);
    if (index == NONE) {
        int64_t range = RANGE + bytes, address = model->expected_page;
        address = address >= 0 ? address : make_address(model, range);
        index = new_range(model, address, range, place, large);
    }
    while (index != NONE) {
        const struct block *block = block_at(model, index);
        int64_t missing = block->unmapped ? bytes : bytes - block->bytes;
        if (missing <= 0) {
            caching_tree_remove(&model->blocks, index);
            return index;
        }
        index = block->unmapped ? index : block->next;
        int64_t room = block_at(model, index)->bytes, mapped = (missing + page - 1) / page * page;
        mapped = mapped < room ? mapped : room;
        index = request(model, mapped) ? map(model, index, mapped) : NONE;
    }
    return NONE;
}

/* A new segment, or a longer one: a free block outside of the tree. NONE: the device is full, or
 * out of memory. */
static uint32_t ask_driver(struct caching_model *model, int64_t bytes, struct caching_place place,
                           bool large)
{
    if (expands(model, place.pool))
        return expand(model, bytes, place, large);
    int64_t room = caching_segment_bytes(&model->settings, bytes);
    if (!request(model, room))
        return NONE;
    return new_block(model, (struct block){.address = segment_address(model, room),
                                           .bytes = room,
                                           .place = place,
                                           .large = large});
}

/* A free block for a request, outside of the tree. Where the device is full what is not in use is
 * given back first, as PyTorch does. NONE: that is not enough, or out of memory. */
static uint32_t find_block(struct caching_model *model, int64_t bytes, struct caching_place place,
                           bool large)
{
    uint32_t index = find_free(model, bytes, place, large);
    if (index != NONE) {
        caching_tree_remove(&model->blocks, index);
        return index;
    }
    index = ask_driver(model, bytes, place, large);
    if (index == NONE && !model->failed && release_oversize(model, bytes, place, large))
        index = ask_driver(model, bytes, place, large);
    if (index == NONE && !model->failed) {
        release_free(model, 0);
        index = ask_driver(model, bytes, place, large);
    }
    return index;
}

int64_t caching_alloc(struct caching_model *model, int64_t requested, struct caching_place place,
                      int64_t *at)
{
    int64_t bytes = caching_round(&model->settings, requested);
    uint32_t index = find_block(model, bytes, place, bytes > CACHING_SMALL_MOST);
    model->expected_page = -1;
    if (index != NONE && should_split(model, block_at(model, index), bytes))
        split(model, index, bytes);
    if (model->failed)
        return CACHING_NO_MEMORY;
    if (index == NONE)
        return CACHING_FULL;
    take(model, index);
    *at = block_at(model, index)->address;
    return index;
}

struct caching_totals caching_totals(const struct caching_model *model)
{
    struct caching_totals totals = model->totals;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        const struct block *block = block_at(model, i);
        if (block->dead || block->expected || !is_free(model, i))
            continue;
        totals.free += block->bytes;
        totals.largest_free =
            block->bytes > totals.largest_free ? block->bytes : totals.largest_free;
        if (!block->expandable && !caching_block_is_alone(block))
            totals.inactive_split += block->bytes;
    }
    return totals;
}

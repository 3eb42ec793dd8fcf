/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table from byte strings to ids, with open addressing; the bytes are in one arena.
 */
#include "store/intern.h"

#include <stdlib.h>
#include <string.h>

#include "store/keyed_hash.h"
#include "tacho_error.h"

/* Puts an id into the first free slot for its hash. */
static void slot_insert(struct store_intern *intern, uint64_t hash, uint32_t id)
{
    size_t i = hash & (intern->slot_count - 1);
    while (intern->slot[i])
        i = (i + 1) & (intern->slot_count - 1);
    intern->slot[i] = id;
}

/* Fills the slots anew, after they grew or entries were removed. */
static void slots_rebuild(struct store_intern *intern)
{
    memset(intern->slot, 0, intern->slot_count * sizeof *intern->slot);
    for (size_t i = 0; i < intern->count; i++)
        slot_insert(intern, intern->entry[i].hash, (uint32_t)(i + 1));
}

/* Makes room for one more entry of `bytes` bytes. */
static int reserve(struct store_intern *intern, size_t bytes)
{
    if (intern->count >= UINT32_MAX - 1)
        return TACHO_ENOMEM;
    if (intern->count == intern->entry_cap) {
        size_t cap = intern->entry_cap ? 2 * intern->entry_cap : 256;
        struct store_intern_entry *intern_entry =
            realloc(intern->entry, cap * sizeof *intern_entry);
        if (!intern_entry)
            return TACHO_ENOMEM;
        intern->entry = intern_entry;
        intern->entry_cap = cap;
    }
    if (intern->arena_cap - intern->arena_used < bytes) {
        size_t cap = intern->arena_cap ? intern->arena_cap : 4096;
        while (cap - intern->arena_used < bytes)
            cap *= 2;
        char *arena = realloc(intern->arena, cap);
        if (!arena)
            return TACHO_ENOMEM;
        intern->arena = arena;
        intern->arena_cap = cap;
    }
    if ((intern->count + 1) * 2 > intern->slot_count) { /* at most half full: probes stay short */
        size_t slots = intern->slot_count ? 2 * intern->slot_count : 512;
        uint32_t *slot = malloc(slots * sizeof *slot);
        if (!slot)
            return TACHO_ENOMEM;
        free(intern->slot);
        intern->slot = slot;
        intern->slot_count = slots;
        slots_rebuild(intern);
    }
    return 0;
}

int store_intern_put(struct store_intern *intern, const void *text, size_t bytes, int64_t *id,
                     bool *added)
{
    uint64_t hash = store_hash_bytes(text, bytes);
    *added = false;
    if (intern->slot_count) {
        for (size_t i = hash & (intern->slot_count - 1); intern->slot[i];
             i = (i + 1) & (intern->slot_count - 1)) {
            const struct store_intern_entry *intern_entry = &intern->entry[intern->slot[i] - 1];
            if (intern_entry->hash == hash && intern_entry->bytes == bytes &&
                (!bytes || !memcmp(intern->arena + intern_entry->offset, text, bytes))) {
                *id = intern->slot[i];
                return 0;
            }
        }
    }
    int status = reserve(intern, bytes);
    if (status)
        return status;
    intern->entry[intern->count] =
        (struct store_intern_entry){.offset = intern->arena_used, .bytes = bytes, .hash = hash};
    if (bytes)
        memcpy(intern->arena + intern->arena_used, text, bytes);
    intern->arena_used += bytes;
    intern->count++;
    slot_insert(intern, hash, (uint32_t)intern->count);
    *id = (int64_t)intern->count;
    *added = true;
    return 0;
}

void store_intern_truncate(struct store_intern *intern, size_t count)
{
    if (count >= intern->count)
        return;
    intern->arena_used = intern->entry[count].offset;
    intern->count = count;
    slots_rebuild(intern);
}

void store_intern_clear(struct store_intern *intern)
{
    free(intern->entry);
    free(intern->slot);
    free(intern->arena);
    memset(intern, 0, sizeof *intern);
}

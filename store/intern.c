/* SPDX-License-Identifier: Apache-2.0 */
#include "store/intern.h"

#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

/* FNV-1a over 8-byte words with a final mix: names are tens of bytes, so a table-driven or vector
 * hash would not pay. */
static uint64_t hash_bytes(const void *text, size_t bytes)
{
    const unsigned char *p = text;
    uint64_t h = 0xcbf29ce484222325u ^ bytes;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x100000001b3u;
        h ^= h >> 29;
    }
    for (; bytes; p++, bytes--)
        h = (h ^ *p) * 0x100000001b3u;
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static void slot_insert(struct store_intern *m, uint64_t hash, uint32_t id)
{
    size_t i = hash & (m->slot_count - 1);
    while (m->slot[i])
        i = (i + 1) & (m->slot_count - 1);
    m->slot[i] = id;
}

static void slots_rebuild(struct store_intern *m)
{
    memset(m->slot, 0, m->slot_count * sizeof *m->slot);
    for (size_t i = 0; i < m->count; i++)
        slot_insert(m, m->entry[i].hash, (uint32_t)(i + 1));
}

/* Makes room for one more entry of `bytes` bytes. */
static int reserve(struct store_intern *m, size_t bytes)
{
    if (m->count >= UINT32_MAX - 1)
        return TACHO_ENOMEM;
    if (m->count == m->entry_cap) {
        size_t cap = m->entry_cap ? 2 * m->entry_cap : 256;
        struct store_intern_entry *e = realloc(m->entry, cap * sizeof *e);
        if (!e)
            return TACHO_ENOMEM;
        m->entry = e;
        m->entry_cap = cap;
    }
    if (m->arena_cap - m->arena_used < bytes) {
        size_t cap = m->arena_cap ? m->arena_cap : 4096;
        while (cap - m->arena_used < bytes)
            cap *= 2;
        char *a = realloc(m->arena, cap);
        if (!a)
            return TACHO_ENOMEM;
        m->arena = a;
        m->arena_cap = cap;
    }
    if ((m->count + 1) * 2 > m->slot_count) { /* at most half full: probes stay short */
        size_t n = m->slot_count ? 2 * m->slot_count : 512;
        uint32_t *slot = malloc(n * sizeof *slot);
        if (!slot)
            return TACHO_ENOMEM;
        free(m->slot);
        m->slot = slot;
        m->slot_count = n;
        slots_rebuild(m);
    }
    return 0;
}

int store_intern_put(struct store_intern *m, const void *text, size_t bytes, int64_t *id,
                     bool *added)
{
    uint64_t hash = hash_bytes(text, bytes);
    *added = false;
    if (m->slot_count) {
        for (size_t i = hash & (m->slot_count - 1); m->slot[i]; i = (i + 1) & (m->slot_count - 1)) {
            const struct store_intern_entry *e = &m->entry[m->slot[i] - 1];
            if (e->hash == hash && e->bytes == bytes &&
                (!bytes || !memcmp(m->arena + e->offset, text, bytes))) {
                *id = m->slot[i];
                return 0;
            }
        }
    }
    int rc = reserve(m, bytes);
    if (rc)
        return rc;
    m->entry[m->count] =
        (struct store_intern_entry){.offset = m->arena_used, .bytes = bytes, .hash = hash};
    if (bytes)
        memcpy(m->arena + m->arena_used, text, bytes);
    m->arena_used += bytes;
    m->count++;
    slot_insert(m, hash, (uint32_t)m->count);
    *id = (int64_t)m->count;
    *added = true;
    return 0;
}

void store_intern_truncate(struct store_intern *m, size_t count)
{
    if (count >= m->count)
        return;
    m->arena_used = m->entry[count].offset;
    m->count = count;
    slots_rebuild(m);
}

void store_intern_clear(struct store_intern *m)
{
    free(m->entry);
    free(m->slot);
    free(m->arena);
    memset(m, 0, sizeof *m);
}

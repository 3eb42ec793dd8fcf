/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: an append-only arena in the pool, and private tables that find in it what is known
 * already. Look-ups take no lock: an entry is one 64-bit word, stored after what it stands for is
 * complete. Insertions hold the lock of the process.
 */
#include <string.h>
#include <wchar.h>

#include "profiler/agent/core/agent.h"

#define TABLE_SLOTS 65536u
/* Names met in events take at most half of the table, registered ones three quarters. An entry is
 * there for good, so a program that makes up names without end must leave room for registrations.
 */
#define TABLE_FILL    (TABLE_SLOTS / 2)
#define TABLE_KEEP    (TABLE_SLOTS / 4 * 3)
#define ARENA_FILL(b) ((b) / 4 * 3)

#define MAP_SLOTS 4096u
#define MAP_FILL  (MAP_SLOTS / 4 * 3)

static _Atomic uint64_t table[TABLE_SLOTS]; /* upper half of the hash, arena id; 0 = empty */
static _Atomic uint32_t table_used;
static _Atomic uint32_t table_full; /* no more names of events */

static struct {
    _Atomic uint64_t key, value;
} map[MAP_SLOTS];
static uint32_t map_used;

/* ---- arena ---- */

/* A hash over words of eight bytes with one multiplication each; texts of the same bytes but
 * another type differ. */
static uint64_t hash_text(uint32_t type, const char *text, size_t bytes)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    uint64_t hash = (bytes + type) * factor, word = 0;
    for (; bytes > 8; text += 8, bytes -= 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
    }
    word = 0;
    if (bytes == 8) {
        memcpy(&word, text, 8);
    } else if (bytes >= 4) {
        uint32_t head, tail;
        memcpy(&head, text, 4);
        memcpy(&tail, text + bytes - 4, 4);
        word = head | (uint64_t)tail << 32;
    } else if (bytes) {
        word = (uint64_t)(unsigned char)text[0] | (uint64_t)(unsigned char)text[bytes / 2] << 8 |
               (uint64_t)(unsigned char)text[bytes - 1] << 16;
    }
    hash = (hash ^ word) * factor;
    return hash ^ hash >> 32;
}

static const struct wire_text *text_at(const char *arena, uint32_t id)
{
    return (const struct wire_text *)(const void *)(arena + (uint64_t)id * 8);
}

const struct wire_text *agent_name_text(uint32_t id)
{
    const char *arena = atomic_load_explicit(&agent_process->arena, memory_order_acquire);
    return arena ? text_at(arena, id) : NULL;
}

/* Id of a known text, else 0 with the empty slot in *slot (TABLE_SLOTS: none). */
static uint32_t table_find(const char *arena, uint64_t hash, uint32_t type, const char *text,
                           size_t bytes, uint32_t *slot)
{
    uint32_t i = (uint32_t)hash & (TABLE_SLOTS - 1);
    for (uint32_t probes = 0; probes < TABLE_SLOTS; probes++, i = (i + 1) & (TABLE_SLOTS - 1)) {
        uint64_t entry = atomic_load_explicit(&table[i], memory_order_acquire);
        if (!entry) {
            *slot = i;
            return 0;
        }
        if (entry >> 32 != hash >> 32)
            continue;
        const struct wire_text *known = text_at(arena, (uint32_t)entry);
        if (known->bytes == bytes && known->type == type && !memcmp(known->text, text, bytes))
            return (uint32_t)entry;
    }
    *slot = TABLE_SLOTS;
    return 0;
}

/* Appends a text; 0 when the arena is full. Lock held. */
static uint32_t arena_add(uint32_t type, const char *text, size_t bytes, bool keep)
{
    struct wire_pool *pool = relaxed_load(&agent_process->pool);
    uint64_t used = relaxed_load(&pool->arena_used);
    uint64_t size = (sizeof(struct wire_text) + bytes + 1 + 7) & ~(uint64_t)7;
    if (used + size > (keep ? pool->arena_cap : ARENA_FILL(pool->arena_cap)) ||
        !agent_pool_back_arena(used + size))
        return 0;
    char *place = relaxed_load(&agent_process->arena) + used;
    struct wire_text head = {.bytes = (uint32_t)bytes, .type = type};
    memcpy(place, &head, sizeof head);
    memcpy(place + sizeof head, text, bytes);
    place[sizeof head + bytes] = 0;
    atomic_store_explicit(&pool->arena_used, used + size, memory_order_release);
    return (uint32_t)(used / 8);
}

/* Enters a text that the look-up did not find. Another thread may have entered it in between, so
 * the table is asked again under the lock. */
static uint32_t intern_new(uint64_t hash, uint32_t type, const char *text, size_t bytes, bool keep)
{
    uint32_t slot = 0, id = 0;
    if (!agent_pool_open())
        return 0;
    const char *arena = relaxed_load(&agent_process->arena);
    id = table_find(arena, hash, type, text, bytes, &slot);
    if (id)
        return id;
    uint32_t used = relaxed_load(&table_used);
    if (!keep && used >= TABLE_FILL) {
        relaxed_store(&table_full, 1);
        return 0;
    }
    id = arena_add(type, text, bytes, keep);
    if (id && used < TABLE_KEEP &&
        slot < TABLE_SLOTS) { /* a registered text works without an entry too */
        atomic_store_explicit(&table[slot], (hash >> 32) << 32 | id, memory_order_release);
        relaxed_store(&table_used, used + 1);
    }
    return id;
}

uint32_t agent_name_intern(uint32_t type, const char *text, size_t bytes, bool keep)
{
    if (!bytes)
        return 0;
    uint64_t hash = hash_text(type, text, bytes);
    const char *arena = atomic_load_explicit(&agent_process->arena, memory_order_acquire);
    uint32_t slot, id = arena ? table_find(arena, hash, type, text, bytes, &slot) : 0;
    if (agent_likely(id))
        return id;
    if (keep || !relaxed_load(&table_full)) {
        struct agent_quiet quiet;
        agent_quiet_begin(&quiet);
        agent_lock();
        id = intern_new(hash, type, text, bytes, keep);
        agent_unlock();
        agent_quiet_end(&quiet);
    }
    if (!id)
        agent_lose(WIRE_LOSS_STRING_FULL, 1);
    return id;
}

/* Cuts before a character, not inside it. */
static size_t cut_utf8(const char *text, size_t bytes)
{
    agent_lose(WIRE_LOSS_STRING_CUT, 1);
    size_t cut = bytes;
    while (cut > bytes - 4 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--;
    return cut;
}

uint32_t agent_name(const char *text, bool keep)
{
    if (!text)
        return 0;
    size_t bytes = strnlen(text, WIRE_STRING_MAX + 1);
    if (agent_unlikely(bytes > WIRE_STRING_MAX))
        bytes = cut_utf8(text, WIRE_STRING_MAX);
    return agent_name_intern(WIRE_TEXT_NAME, text, bytes, keep);
}

void agent_name_clean(char *text)
{
    for (; *text; text++)
        if (*text == '\t' || *text == '\n')
            *text = ' ';
}

/* Writes one character as UTF-8 and returns its bytes; what is no character becomes U+FFFD. */
static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        if (code >= 0xd800 && code < 0xe000)
            code = 0xfffd;
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    if (code > 0x10ffff)
        return put_utf8(out, 0xfffd);
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

uint32_t agent_name_wide(const wchar_t *text, bool keep)
{
    char utf8[WIRE_STRING_MAX + 8];
    size_t bytes = 0;
    if (!text)
        return 0;
    while (*text && bytes <= WIRE_STRING_MAX)
        bytes += put_utf8(utf8 + bytes, (uint32_t)*text++);
    utf8[bytes] = 0;
    return agent_name(utf8, keep);
}

/* ---- domains ---- */

/* Lock held. Domains of one name are one domain: two libraries may both create it. */
static uint32_t domain_find(uint32_t name, uint32_t other)
{
    uint32_t count = agent_domain_count(), i = 1;
    while (i < count && agent_domain_name(i) != name)
        i++;
    if (i < count)
        return i;
    if (count >= WIRE_DOMAINS - 1) { /* the last index is for all that do not fit */
        agent_lose(WIRE_LOSS_DOMAIN_FULL, 1);
        i = WIRE_DOMAINS - 1;
        name = other;
    }
    if (i >= count)
        agent_domain_add(i, name);
    return i;
}

nvtxDomainHandle_t agent_domain_create(uint32_t name)
{
    static const char other_text[] = "(other domains)";
    struct agent_quiet quiet;
    uint32_t other =
        agent_domain_count() >= WIRE_DOMAINS - 1
            ? agent_name_intern(WIRE_TEXT_NAME, other_text, sizeof other_text - 1, true)
            : 0;
    agent_quiet_begin(&quiet);
    agent_lock();
    uint32_t index = domain_find(name, other);
    agent_unlock();
    agent_quiet_end(&quiet);
    return (nvtxDomainHandle_t)(AGENT_DOMAIN_TAG | index);
}

/* ---- map ---- */

/* Slot of the key, or of the first empty one; MAP_SLOTS when neither exists. */
static uint32_t map_find(uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(hash >> 40) & (MAP_SLOTS - 1);
    for (uint32_t probes = 0; probes < MAP_SLOTS; probes++, i = (i + 1) & (MAP_SLOTS - 1)) {
        uint64_t found = atomic_load_explicit(&map[i].key, memory_order_acquire);
        if (found == key || !found)
            return i;
    }
    return MAP_SLOTS;
}

/* Kinds and domains above, 48 bits of the user's key below: ids given out fit, and static ones are
 * below 2^32. */
static uint64_t map_key(enum agent_map_kind kind, uint32_t domain, uint64_t key)
{
    return (uint64_t)kind << 56 | (uint64_t)domain << 48 | (key & 0xffffffffffffu);
}

uint64_t agent_map_get(enum agent_map_kind kind, uint32_t domain, uint64_t key)
{
    uint64_t full = map_key(kind, domain, key);
    uint32_t i = map_find(full);
    if (i == MAP_SLOTS || atomic_load_explicit(&map[i].key, memory_order_acquire) != full)
        return 0;
    return relaxed_load(&map[i].value);
}

bool agent_map_set(enum agent_map_kind kind, uint32_t domain, uint64_t key, uint64_t value)
{
    uint64_t full = map_key(kind, domain, key);
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    uint32_t i = map_find(full);
    bool ok = i < MAP_SLOTS && (map_used < MAP_FILL || relaxed_load(&map[i].key) == full);
    if (ok) {
        map_used += relaxed_load(&map[i].key) == 0;
        relaxed_store(&map[i].value, value);
        atomic_store_explicit(&map[i].key, full, memory_order_release);
    }
    agent_unlock();
    agent_quiet_end(&quiet);
    return ok;
}

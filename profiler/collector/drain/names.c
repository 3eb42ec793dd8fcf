/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and payloads of events, each looked up in the store once and remembered: the file's ids by
 * the pool's.
 */
#include "profiler/collector/drain/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_SETS 2048u /* of 2 */

struct cache_entry {
    const struct col_pool *pool;
    uint64_t key; /* schema, size, paused */
    uint64_t data[WIRE_PAYLOAD_MAX / 8];
    int64_t detail;
};

struct col_payload_cache {
    struct cache_entry entry[CACHE_SETS][2];
};

int col_decode_open(struct col_drain *d)
{
    d->cache = calloc(1, sizeof *d->cache);
    return d->cache ? 0 : TACHO_ENOMEM;
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

int col_ids_room(int64_t **ids, uint64_t *cap, uint64_t index)
{
    if (index < *cap)
        return 0;
    uint64_t more = *cap ? *cap * 2 : 4096;
    while (more <= index)
        more *= 2;
    int64_t *list = realloc(*ids, more * sizeof *list);
    if (!list)
        return TACHO_ENOMEM;
    memset(list + *cap, 0, (more - *cap) * sizeof *list);
    *ids = list;
    *cap = more;
    return 0;
}

int64_t col_pool_string(struct col_drain *d, struct col_pool *p, uint32_t arena, int *rc)
{
    if (arena < p->string_cap && p->string[arena])
        return p->string[arena];
    if (arena >= p->map.arena_cap / 8)
        arena = 0;
    if (col_ids_room(&p->string, &p->string_cap, arena)) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    uint32_t bytes = 0;
    const char *text = arena ? col_map_text(&p->map, arena, WIRE_TEXT_NAME, &bytes) : "";
    int64_t id = 0;
    int r = store_string(d->db, text ? text : "", text ? bytes : 0, &id);
    if (r) {
        *rc = r;
        return 0;
    }
    return p->string[arena] = id;
}

static int64_t domain_category(struct col_drain *d, struct col_pool *p, uint8_t domain, int *rc)
{
    if (p->domain[domain])
        return p->domain[domain];
    uint32_t bytes = 0;
    uint32_t arena = atomic_load_explicit(&p->map.head->domain_name[domain], memory_order_acquire);
    const char *text = arena ? col_map_text(&p->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    if (!text || bytes == 0) {
        text = domain == 0 ? "nvtx" : "(unnamed domain)";
        bytes = (uint32_t)strlen(text);
    }
    int64_t id = 0;
    int r = store_string(d->db, text, bytes, &id);
    if (r) {
        *rc = r;
        return 0;
    }
    return p->domain[domain] = id;
}

/* "domain:category", remembered: a program has few of them. */
int64_t col_event_category(struct col_drain *d, struct col_pool *p, const struct col_event *e,
                           int *rc)
{
    if (!e->category)
        return domain_category(d, p, e->record->domain, rc);
    uint32_t category = e->category[0], name = e->category[1];
    uint64_t key = (uint64_t)e->record->domain << 32 | (name ? name : category);
    key |= name ? 1ull << 62 : 1ull << 63;
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15ull) >> 60);
    if (p->category[slot].key == key)
        return p->category[slot].category;
    char text[2 * WIRE_STRING_MAX + 32];
    uint32_t domain_bytes = 0, name_bytes = 0;
    uint32_t arena =
        atomic_load_explicit(&p->map.head->domain_name[e->record->domain], memory_order_acquire);
    const char *domain = arena ? col_map_text(&p->map, arena, WIRE_TEXT_NAME, &domain_bytes) : NULL;
    const char *label = name ? col_map_text(&p->map, name, WIRE_TEXT_NAME, &name_bytes) : NULL;
    if (!domain || !domain_bytes) {
        domain = "nvtx";
        domain_bytes = 4;
    }
    int n;
    if (label)
        n = snprintf(text, sizeof text, "%.*s:%.*s", (int)domain_bytes, domain, (int)name_bytes,
                     label);
    else
        n = snprintf(text, sizeof text, "%.*s:%u", (int)domain_bytes, domain, category);
    int64_t id = 0;
    int r = store_string(d->db, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, &id);
    if (r) {
        *rc = r;
        return 0;
    }
    p->category[slot].key = key;
    p->category[slot].category = id;
    return id;
}

/* ---- payloads ------------------------------------------------------------------------------------------------------------ */

/* The parsed schema of an arena entry, NULL if there is none or it is not understood. */
static const struct col_schema *pool_schema(struct col_pool *p, uint32_t arena)
{
    for (uint32_t i = 0; i < p->schema_count; i++)
        if (p->schema_arena[i] == arena)
            return p->schema[i];
    uint32_t bytes;
    const char *text = col_map_text(&p->map, arena, WIRE_TEXT_SCHEMA, &bytes);
    if (!arena || !text)
        return NULL;
    struct col_schema **list = realloc(p->schema, (p->schema_count + 1) * sizeof *list);
    if (!list)
        return NULL;
    p->schema = list;
    uint32_t *ids = realloc(p->schema_arena, (p->schema_count + 1) * sizeof *ids);
    struct col_schema *s = ids ? calloc(1, sizeof *s) : NULL;
    if (ids)
        p->schema_arena = ids;
    if (!s)
        return NULL;
    if (col_schema_parse(text, bytes, s) != 0) {
        free(s);
        s = NULL;
    }
    p->schema[p->schema_count] = s;
    p->schema_arena[p->schema_count++] = arena;
    return s;
}

static int cached_detail(struct col_drain *d, const struct col_pool *p, uint64_t key,
                         const uint64_t *data, uint32_t words, const struct col_schema *schema,
                         struct col_payload *decoded, uint32_t bytes, int64_t *detail)
{
    uint64_t h = key * 0x9e3779b97f4a7c15ull ^ (uint64_t)(uintptr_t)p;
    for (uint32_t i = 0; i < words; i++)
        h = (h ^ data[i]) * 0xbf58476d1ce4e5b9ull, h ^= h >> 32;
    struct cache_entry *set = d->cache->entry[(h >> 20) % CACHE_SETS];
    for (int i = 0; i < 2; i++)
        if (set[i].key == key && set[i].pool == p && memcmp(set[i].data, data, words * 8) == 0) {
            *detail = set[i].detail;
            return 0;
        }
    if (d->volume.no_detail) {
        *detail = STORE_ABSENT;
        col_count_cut(d, COL_CUT_DETAIL, d->last_commit);
        return 0;
    }
    struct col_payload local;
    if (!decoded) {
        decoded = &local;
        col_payload_decode(schema, data, bytes, decoded);
    }
    int rc = store_detail_intern(d->db, &decoded->detail, detail);
    if (rc)
        return rc;
    set[1] = set[0];
    set[0].pool = p;
    set[0].key = key;
    memset(set[0].data, 0, sizeof set[0].data);
    memcpy(set[0].data, data, words * 8);
    set[0].detail = *detail;
    return 0;
}

int col_event_extra(struct col_drain *d, struct col_pool *p, const struct col_event *e,
                    struct col_extra *x)
{
    x->detail = x->correlation = x->index = x->tokens = x->samples = STORE_ABSENT;
    if (!e->payload) {
        if (!e->value)
            return 0;
        if (d->volume.no_detail) {
            col_count_cut(d, COL_CUT_DETAIL, e->time);
            return 0;
        }
        struct col_payload value;
        uint64_t word;
        memcpy(&word, e->value, sizeof word);
        col_payload_value(word, &value);
        return store_detail_intern(d->db, &value.detail, &x->detail);
    }
    uint64_t data[WIRE_PAYLOAD_MAX / 8] = {0};
    uint32_t bytes = e->bytes < sizeof data ? e->bytes : (uint32_t)sizeof data,
             words = (bytes + 7) / 8;
    memcpy(data, e->payload, bytes);
    const struct col_schema *schema = pool_schema(p, e->schema);
    uint64_t key = (uint64_t)e->schema << 32 | (uint64_t)bytes << 8 | 1;
    if (!schema || (schema->kind != COL_SCHEMA_STEP && schema->kind != COL_SCHEMA_COMM))
        return cached_detail(d, p, key, data, words, schema, NULL, bytes, &x->detail);
    struct col_payload decoded;
    col_payload_decode(schema, data, bytes, &decoded);
    x->correlation = decoded.correlation;
    if (schema->kind == COL_SCHEMA_STEP) {
        x->index = decoded.index;
        x->tokens = decoded.tokens;
        x->samples = decoded.samples;
        if (e->record->kind & WIRE_PAUSED) {
            decoded.detail.flags |= STORE_DETAIL_PAUSED;
            key |= 2;
        }
    }
    col_payload_normalize(schema, data, bytes);
    return cached_detail(d, p, key, data, words, schema, &decoded, bytes, &x->detail);
}

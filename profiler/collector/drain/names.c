/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and payloads of events, each stored once and remembered: the ids of the file by those of
 * the pool, and the details of payloads by their bytes, because most events repeat a payload.
 */
#include "profiler/collector/drain/decode_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_hash.h"

#define CACHE_SETS 2048u /* of 2 */

struct cache_entry {
    uint64_t pool; /* its number, 0: empty: the memory of one that has ended is used again */
    uint64_t key;  /* schema, size, paused */
    uint64_t data[WIRE_PAYLOAD_MAX / 8];
    int64_t detail, operands;
};

struct col_payload_cache {
    struct cache_entry entry[CACHE_SETS][2];
};

int col_decode_open(struct col_drain *drain)
{
    drain->cache = calloc(1, sizeof *drain->cache);
    return drain->cache ? 0 : TACHO_ENOMEM;
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

/* Tables double, because ids of arenas grow steadily while a run is read. */
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

int64_t col_string(struct col_drain *drain, const char *text, size_t bytes, int *rc)
{
    int64_t id = 0;
    if (*rc == 0)
        *rc = store_string(drain->db, text, bytes, &id);
    return *rc ? 0 : id;
}

/* Ids by place in the arena are kept in a table, so that a name that was seen before costs one
 * look-up. */
int64_t col_pool_string(struct col_drain *drain, struct col_pool *pool, uint32_t arena, int *rc)
{
    if (arena < pool->string_cap && pool->string[arena])
        return pool->string[arena];
    if (arena >= pool->map.arena_used / 8)
        arena = 0;
    if (col_ids_room(&pool->string, &pool->string_cap, arena)) {
        *rc = TACHO_ENOMEM;
        return 0;
    }
    uint32_t bytes = 0;
    const char *text = arena ? col_map_text(&pool->map, arena, WIRE_TEXT_NAME, &bytes) : NULL;
    return pool->string[arena] = col_string(drain, text ? text : "", bytes, rc);
}

const char *col_domain_text(struct col_pool *pool, uint8_t domain, uint32_t *bytes)
{
    uint32_t arena = pool->map.head.domain_name[domain];
    const char *text = arena ? col_map_text(&pool->map, arena, WIRE_TEXT_NAME, bytes) : NULL;
    return text && *bytes ? text : NULL;
}

static int64_t domain_category(struct col_drain *drain, struct col_pool *pool, uint8_t domain,
                               int *rc)
{
    if (pool->domain[domain])
        return pool->domain[domain];
    uint32_t bytes;
    const char *text = col_domain_text(pool, domain, &bytes);
    if (!text) {
        text = domain == 0 ? "nvtx" : "(unnamed domain)";
        bytes = (uint32_t)strlen(text);
    }
    return pool->domain[domain] = col_string(drain, text, bytes, rc);
}

/* The category of an event is "domain:category", or the domain alone. A program has few of them, so
 * sixteen are remembered by a hash; a collision only costs a look-up in the store. */
int64_t col_event_category(struct col_drain *drain, struct col_pool *pool,
                           const struct col_event *event, int *rc)
{
    if (!event->category)
        return domain_category(drain, pool, event->record->domain, rc);
    uint32_t category = event->category[0], name = event->category[1];
    uint64_t key = (uint64_t)event->record->domain << 32 | (name ? name : category);
    key |= name ? 1ull << 62 : 1ull << 63;
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15ull) >> 60);
    if (pool->category[slot].key == key)
        return pool->category[slot].category;
    char text[2 * WIRE_STRING_MAX + 32];
    uint32_t domain_bytes = 0, name_bytes = 0;
    const char *domain = col_domain_text(pool, event->record->domain, &domain_bytes);
    const char *label = name ? col_map_text(&pool->map, name, WIRE_TEXT_NAME, &name_bytes) : NULL;
    if (!domain) {
        domain = "nvtx";
        domain_bytes = 4;
    }
    int length;
    if (label)
        length = snprintf(text, sizeof text, "%.*s:%.*s", (int)domain_bytes, domain,
                          (int)name_bytes, label);
    else
        length = snprintf(text, sizeof text, "%.*s:%u", (int)domain_bytes, domain, category);
    size_t bytes = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    int64_t id = col_string(drain, text, bytes, rc);
    if (id) {
        pool->category[slot].key = key;
        pool->category[slot].category = id;
    }
    return id;
}

/* ---- payloads ------------------------------------------------------------------------------------------------------------ */

/* The schema of an arena entry, parsed at its first use. NULL if none exists or it is malformed.
 */
static const struct col_schema *pool_schema(struct col_pool *pool, uint32_t arena)
{
    for (uint32_t i = 0; i < pool->schema_count; i++)
        if (pool->schema_arena[i] == arena)
            return pool->schema[i];
    uint32_t bytes;
    const char *text = col_map_text(&pool->map, arena, WIRE_TEXT_SCHEMA, &bytes);
    if (!arena || !text)
        return NULL;
    struct col_schema **list = realloc(pool->schema, (pool->schema_count + 1) * sizeof *list);
    if (!list)
        return NULL;
    pool->schema = list;
    uint32_t *ids = realloc(pool->schema_arena, (pool->schema_count + 1) * sizeof *ids);
    struct col_schema *schema = ids ? calloc(1, sizeof *schema) : NULL;
    if (ids)
        pool->schema_arena = ids;
    if (!schema)
        return NULL;
    if (col_schema_parse(text, bytes, schema) != 0) {
        free(schema);
        schema = NULL;
    }
    pool->schema[pool->schema_count] = schema;
    pool->schema_arena[pool->schema_count++] = arena;
    return schema;
}

#define OPERANDS_BIT ((int64_t)1 << 30) /* no launch has such a number */

/* The number of a text that names operands (docs/schema.md); a detail has both. It follows from the
 * text alone, so that it is the same in every process and after files were merged. Absent: another
 * text. */
static int operands_number(struct col_drain *drain, struct col_pool *pool, uint32_t arena,
                           int64_t *number)
{
    char json[WIRE_STRING_MAX + 64];
    struct store_detail detail;
    uint32_t bytes = 0;
    const char *text = col_map_text(&pool->map, arena, WIRE_TEXT_NAME, &bytes);
    *number = STORE_ABSENT;
    if (!text || !bytes || bytes > WIRE_STRING_MAX)
        return 0;
    for (uint32_t i = 0; i < bytes; i++)
        if (!text[i] || !strchr("rwu0123456789abcdef+ ", text[i]))
            return 0;
    uint64_t hash = tacho_hash_bytes(TACHO_HASH_BEGIN, text, bytes);
    int64_t found = (int64_t)((hash ^ hash >> 32) & (OPERANDS_BIT - 1)) | OPERANDS_BIT;
    snprintf(json, sizeof json, "{\"number\":%lld,\"operands\":\"%.*s\"}", (long long)found,
             (int)bytes, text);
    col_detail_clear(&detail);
    detail.schema = "tacho.operands";
    detail.payload = json;
    int64_t id;
    int rc = store_detail_intern(drain->db, &detail, &id);
    *number = rc ? STORE_ABSENT : found;
    return rc;
}

/* The detail of a payload, and the number of the operands that it names. Its bytes are looked up in
 * a two-way cache first: most payloads repeat, and decoding and storing one costs far more than
 * hashing it. `decoded` is the payload if it has been decoded already, else NULL. */
static int cached_detail(struct col_drain *drain, struct col_pool *pool, uint64_t key,
                         const uint64_t *data, uint32_t words, const struct col_schema *schema,
                         struct col_payload *decoded, uint32_t bytes, struct col_extra *extra)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15ull ^ pool->number * 0xd6e8feb86659fd93ull;
    for (uint32_t i = 0; i < words; i++)
        hash = (hash ^ data[i]) * 0xbf58476d1ce4e5b9ull, hash ^= hash >> 32;
    struct cache_entry *set = drain->cache->entry[(hash >> 20) % CACHE_SETS];
    for (int i = 0; i < 2; i++)
        if (set[i].key == key && set[i].pool == pool->number &&
            memcmp(set[i].data, data, words * 8) == 0) {
            extra->detail = set[i].detail;
            if (set[i].operands != STORE_ABSENT)
                extra->correlation = set[i].operands;
            return 0;
        }
    if (drain->volume.no_detail) {
        col_count_cut(drain, COL_CUT_DETAIL, drain->last_commit);
        return 0;
    }
    struct col_payload local;
    int64_t operands = STORE_ABSENT;
    if (!decoded) {
        decoded = &local;
        col_payload_decode(schema, data, bytes, decoded);
    }
    int rc = store_detail_intern(drain->db, &decoded->detail, &extra->detail);
    if (!rc && decoded->operands)
        rc = operands_number(drain, pool, decoded->operands, &operands);
    if (rc)
        return rc;
    if (operands != STORE_ABSENT)
        extra->correlation = operands;
    set[1] = set[0];
    set[0] = (struct cache_entry){
        .pool = pool->number, .key = key, .detail = extra->detail, .operands = operands};
    memcpy(set[0].data, data, words * 8);
    return 0;
}

/* Reads the payload of an event. A bare 64-bit value becomes a detail of its own. What differs in
 * every event (step index, sequence number) is taken out before the detail is looked up. */
int col_event_extra(struct col_drain *drain, struct col_pool *pool, const struct col_event *event,
                    struct col_extra *extra)
{
    extra->detail = extra->correlation = extra->index = extra->tokens = extra->samples =
        STORE_ABSENT;
    if (!event->payload) {
        if (!event->value)
            return 0;
        if (drain->volume.no_detail) {
            col_count_cut(drain, COL_CUT_DETAIL, event->time);
            return 0;
        }
        struct col_payload value;
        uint64_t word;
        memcpy(&word, event->value, sizeof word);
        col_payload_value(word, &value);
        return store_detail_intern(drain->db, &value.detail, &extra->detail);
    }
    uint64_t data[WIRE_PAYLOAD_MAX / 8] = {0};
    uint32_t bytes = event->bytes < sizeof data ? event->bytes : (uint32_t)sizeof data,
             words = (bytes + 7) / 8;
    memcpy(data, event->payload, bytes);
    const struct col_schema *schema = pool_schema(pool, event->schema);
    uint64_t key = (uint64_t)event->schema << 32 | (uint64_t)bytes << 8 | 1;
    if (!schema || (schema->kind != COL_SCHEMA_STEP && schema->kind != COL_SCHEMA_COMM))
        return cached_detail(drain, pool, key, data, words, schema, NULL, bytes, extra);
    struct col_payload decoded;
    col_payload_decode(schema, data, bytes, &decoded);
    extra->correlation = decoded.correlation;
    if (schema->kind == COL_SCHEMA_STEP) {
        extra->index = decoded.index;
        extra->tokens = decoded.tokens;
        extra->samples = decoded.samples;
        if (event->record->kind & WIRE_PAUSED) {
            decoded.detail.flags |= STORE_DETAIL_PAUSED;
            key |= 2;
        }
    }
    col_payload_normalize(schema, data, bytes);
    return cached_detail(drain, pool, key, data, words, schema, &decoded, bytes, extra);
}

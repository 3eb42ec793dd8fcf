/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload schemas become text in the arena (wire.h): the reader then needs nothing of NVTX. C types
 * are replaced by their exact widths, nested schemas and short arrays are written out as fields of
 * their own ("outer.inner", "dims[1]"), and a field whose place is not fixed (pointers into the
 * payload, arrays of variable length) is omitted: absent is better than wrong. A line may have a
 * fourth column: the number of characters or bytes of an embedded string.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/agent/core/agent.h"

#define SCHEMA_TEXT   8192u
#define SCHEMA_UNFOLD 16u /* elements of an array written out */

struct schema_type {
    uint8_t type;  /* NVTX_PAYLOAD_ENTRY_TYPE_* */
    uint8_t exact; /* the type it is written as */
    uint8_t size;
    const char *name;
};

#define T(type) NVTX_PAYLOAD_ENTRY_TYPE_##type
static const struct schema_type types[] = {
    {T(CHAR), T(CHAR), 1, "char"},
    {T(UCHAR), T(UINT8), 1, "uint8"},
    {T(SHORT), T(INT16), 2, "int16"},
    {T(USHORT), T(UINT16), 2, "uint16"},
    {T(INT), T(INT32), 4, "int32"},
    {T(UINT), T(UINT32), 4, "uint32"},
    {T(LONG), sizeof(long) == 8 ? T(INT64) : T(INT32), sizeof(long), "long"},
    {T(ULONG), sizeof(long) == 8 ? T(UINT64) : T(UINT32), sizeof(long), "ulong"},
    {T(LONGLONG), T(INT64), 8, "int64"},
    {T(ULONGLONG), T(UINT64), 8, "uint64"},
    {T(INT8), T(INT8), 1, "int8"},
    {T(UINT8), T(UINT8), 1, "uint8"},
    {T(INT16), T(INT16), 2, "int16"},
    {T(UINT16), T(UINT16), 2, "uint16"},
    {T(INT32), T(INT32), 4, "int32"},
    {T(UINT32), T(UINT32), 4, "uint32"},
    {T(INT64), T(INT64), 8, "int64"},
    {T(UINT64), T(UINT64), 8, "uint64"},
    {T(FLOAT), T(FLOAT), 4, "float"},
    {T(DOUBLE), T(DOUBLE), 8, "double"},
    {T(LONGDOUBLE), T(LONGDOUBLE), sizeof(long double), "longdouble"},
    {T(SIZE), sizeof(size_t) == 8 ? T(UINT64) : T(UINT32), sizeof(size_t), "size"},
    {T(ADDRESS), T(ADDRESS), sizeof(void *), "address"},
    {T(WCHAR), T(CHAR32), 4, "wchar"},
    {T(CHAR8), T(CHAR), 1, "char8"},
    {T(CHAR16), T(CHAR16), 2, "char16"},
    {T(CHAR32), T(CHAR32), 4, "char32"},
    {T(BYTE), T(BYTE), 1, "byte"},
    {T(FLOAT16), T(FLOAT16), 2, "float16"},
    {T(FLOAT32), T(FLOAT), 4, "float"},
    {T(FLOAT64), T(DOUBLE), 8, "double"},
    {T(BF16), T(BF16), 2, "bf16"},
    {T(CATEGORY), T(UINT32), 4, "category"},
    {T(COLOR_ARGB), T(UINT32), 4, "color"},
    {T(SCOPE_ID), T(UINT64), 8, "scope"},
    {T(PID_UINT32), T(UINT32), 4, "pid"},
    {T(PID_UINT64), T(UINT64), 8, "pid"},
    {T(TID_UINT32), T(UINT32), 4, "tid"},
    {T(TID_UINT64), T(UINT64), 8, "tid"},
    {T(CSTRING), T(CSTRING), 1, "cstring"},
    {T(CSTRING_UTF8), T(CSTRING_UTF8), 1, "cstring"},
    {T(CSTRING_UTF16), T(CSTRING_UTF16), 2, "cstring16"},
    {T(CSTRING_UTF32), T(CSTRING_UTF32), 4, "cstring32"},
    {T(NVTX_REGISTERED_STRING_HANDLE), T(NVTX_REGISTERED_STRING_HANDLE), sizeof(void *), "string"},
    {T(UNION_SELECTOR), T(UINT32), 4, "selector"},
};

static const struct schema_type *type_find(uint64_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

static bool type_is_text(uint64_t type)
{
    return type == T(CSTRING) || type == T(CSTRING_UTF8) || type == T(CSTRING_UTF16) ||
           type == T(CSTRING_UTF32);
}

size_t agent_schema_type_size(uint64_t type)
{
    const struct schema_type *known = type_find(type);
    return known && !type_is_text(type) ? known->size : 0;
}

/* ---- reading ---- */

/* Goes to the line of the first field. */
static bool find_fields(uint32_t schema, struct agent_field *field)
{
    const struct wire_text *text = agent_name_text(schema);
    if (!schema || !text || text->type != WIRE_TEXT_SCHEMA)
        return false;
    field->stop = text->text + text->bytes;
    field->next = memchr(text->text, '\n', text->bytes);
    if (!field->next)
        return false;
    field->next++;
    return true;
}

bool agent_schema_field(uint32_t schema, struct agent_field *field)
{
    if ((!field->next && !find_fields(schema, field)) || field->next >= field->stop)
        return false;
    const char *end = memchr(field->next, '\n', (size_t)(field->stop - field->next)), *tab;
    if (!end)
        end = field->stop;
    tab = memchr(field->next, '\t', (size_t)(end - field->next));
    if (!tab)
        return false;
    snprintf(field->name, sizeof field->name, "%.*s", (int)(tab - field->next), field->next);
    char *rest;
    field->type = strtoull(tab + 1, &rest, 10);
    field->offset = strtoull(rest + 1, &rest, 10);
    field->count = *rest == '\t' ? strtoull(rest + 1, &rest, 10) : 1;
    field->next = end + 1;
    return true;
}

static size_t schema_static_size(uint32_t schema)
{
    const struct wire_text *text = agent_name_text(schema);
    if (!schema || !text || text->type != WIRE_TEXT_SCHEMA)
        return 0;
    const char *tab = memchr(text->text, '\t', text->bytes);
    return tab ? strtoull(tab + 1, NULL, 10) : 0;
}

/* ---- writing ---- */

struct schema_text {
    uint32_t domain;
    size_t used;
    uint64_t offset; /* where the next field starts by its natural alignment */
    bool placed;     /* `offset` is known */
    uint64_t pack;
    uint64_t align; /* largest alignment seen */
    uint64_t message;
    char text[SCHEMA_TEXT];
};

/* Names come from the program: what separates fields here must not be in them. */
static int put_field(struct schema_text *out, const char *outer, const char *name, int index,
                     uint64_t type, uint64_t offset, uint64_t count)
{
    char full[64], line[128];
    int length = 0;
    if (outer)
        length = snprintf(full, sizeof full, "%s.", outer);
    if (length < (int)sizeof full)
        length += snprintf(full + length, sizeof full - (size_t)length, "%s", name ? name : "");
    if (index >= 0 && length < (int)sizeof full)
        snprintf(full + length, sizeof full - (size_t)length, "[%d]", index);
    agent_name_clean(full);
    length = snprintf(line, sizeof line, "\n%s\t%llu\t%llu", full, (unsigned long long)type,
                      (unsigned long long)offset);
    if (count > 1)
        length += snprintf(line + length, sizeof line - (size_t)length, "\t%llu",
                           (unsigned long long)count);
    if (out->used + (size_t)length >= sizeof out->text)
        return -1;
    memcpy(out->text + out->used, line, (size_t)length);
    out->used += (size_t)length;
    return 0;
}

/* Where an entry starts: at the offset that the schema gives, else after the one before, by
 * natural alignment or the pack size. */
static uint64_t place(struct schema_text *out, const nvtxPayloadSchemaEntry_t *entry, bool first,
                      uint64_t align)
{
    if (out->pack && align > out->pack)
        align = out->pack;
    align = align ? align : 1;
    if (align > out->align)
        out->align = align;
    if (entry->offset || first) {
        out->placed = true;
        return entry->offset;
    }
    return (out->offset + align - 1) / align * align;
}

/* The fields of a schema inside another one, named "outer.inner". */
static void put_nested(struct schema_text *out, const nvtxPayloadSchemaEntry_t *entry, bool first,
                       uint32_t schema)
{
    size_t size = schema_static_size(schema);
    uint64_t start = place(out, entry, first, 8);
    struct agent_field field = {0};
    if (!out->placed)
        return;
    while (agent_schema_field(schema, &field))
        put_field(out, entry->name ? entry->name : "", field.name, -1, field.type,
                  start + field.offset, field.count);
    out->offset = start + size;
    out->placed = size != 0;
}

/* Type and number of elements of an entry. False where its place is not fixed: arrays of variable
 * length, offsets in the payload, text without a length. */
static bool entry_type(const struct schema_text *out, const nvtxPayloadSchemaEntry_t *entry,
                       uint64_t *type, uint64_t *count)
{
    uint64_t array = NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_TYPE(entry->flags);
    uint64_t as_enum = agent_map_get(AGENT_MAP_ENUM, out->domain, entry->type);
    const uint64_t elsewhere =
        NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE;
    *type = as_enum ? as_enum : entry->type;
    *count = 1;
    bool text = type_is_text(*type);
    if (entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_POINTER)
        *type = T(ADDRESS);
    else if (array == NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE ||
             (text && !array && entry->arrayOrUnionDetail))
        *count = entry->arrayOrUnionDetail;
    else if (array || (entry->flags & elsewhere) ||
             (text && !(entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE)))
        return false;
    else if (text) /* the event's message by pointer */
        *type = T(ADDRESS);
    return true;
}

/* Writes one entry of a schema as a field. Where its place is not known, the rest of the schema is
 * not known either, and nothing more is written. */
static void put_entry(struct schema_text *out, const nvtxPayloadSchemaEntry_t *entry, bool first)
{
    uint64_t type, count;
    if (!entry_type(out, entry, &type, &count)) {
        out->placed = false;
        return;
    }
    if (type >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START) {
        put_nested(out, entry, first, (uint32_t)agent_schema_find(out->domain, type));
        return;
    }
    const struct schema_type *known = type_find(type);
    if (!known) {
        out->placed = false;
        return;
    }
    uint64_t start = place(out, entry, first, known->size);
    if (!out->placed)
        return;
    if (entry->flags & NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE) {
        uint64_t kind = type == T(NVTX_REGISTERED_STRING_HANDLE) ? type : T(CHAR);
        if (type == T(ADDRESS))
            kind = T(CSTRING);
        out->message =
            (uint64_t)1 << 62 | kind << 48 | (count & 0xffffff) << 24 | (start & 0xffffff);
    } else if (count > 1 && known->size > 1 && !type_is_text(type)) {
        for (uint64_t i = 0; i < count && i < SCHEMA_UNFOLD; i++)
            put_field(out, NULL, entry->name, (int)i, known->exact, start + i * known->size, 1);
    } else {
        put_field(out, NULL, entry->name, -1, known->exact, start, count);
    }
    out->offset = start + known->size * count;
}

/* Enters the text of the schema in the arena and returns its id: the program's own if it chose
 * one. */
static uint64_t schema_publish(struct schema_text *body, uint64_t static_id, const char *name)
{
    uint32_t id = agent_name_intern(WIRE_TEXT_SCHEMA, body->text, body->used, true);
    if (!id)
        return 0;
    uint64_t ours =
        AGENT_ID_DYNAMIC | id | (name && !strcmp(name, "tacho.step") ? AGENT_ID_STEP : 0);
    if (body->message)
        agent_map_set(AGENT_MAP_MESSAGE, 0, id, body->message);
    if (static_id >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START &&
        static_id < NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START) {
        agent_map_set(AGENT_MAP_SCHEMA, body->domain, static_id, ours);
        return static_id;
    }
    return ours;
}

static size_t put_head(char *to, size_t size, const char *name, size_t bytes)
{
    char clean[128];
    snprintf(clean, sizeof clean, "%s", name ? name : "");
    agent_name_clean(clean);
    return (size_t)snprintf(to, size, "%s\t%llu", clean, (unsigned long long)bytes);
}

uint64_t agent_schema_register(uint32_t domain, const nvtxPayloadSchemaAttr_t *schema)
{
    struct schema_text out;
    char body[SCHEMA_TEXT];
    uint64_t mask = schema ? schema->fieldMask : 0;
    if (!schema || !(mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES) ||
        !(mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES) || !schema->entries)
        return 0;
    memset(&out, 0, offsetof(struct schema_text, text));
    out.domain = domain;
    out.placed = true;
    out.pack = mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT ? schema->packAlign : 0;
    bool fixed = !(mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE) ||
                 schema->type == NVTX_PAYLOAD_SCHEMA_TYPE_STATIC ||
                 schema->type == NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC;
    for (size_t i = 0; fixed && i < schema->numEntries; i++)
        put_entry(&out, &schema->entries[i], i == 0);
    const char *name = mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME ? schema->name : NULL;
    uint64_t bytes =
        out.placed && out.align ? (out.offset + out.align - 1) / out.align * out.align : 0;
    if (mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE)
        bytes = schema->payloadStaticSize;
    size_t head = put_head(body, 256, name, bytes), tail = out.used;
    if (head + tail > sizeof body)
        tail = sizeof body - head;
    memcpy(body + head, out.text, tail);
    memcpy(out.text, body, head + tail);
    out.used = head + tail;
    return schema_publish(
        &out, mask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID ? schema->schemaId : 0, name);
}

/* One field named "value" of a plain type. */
static uint64_t schema_of_type(uint32_t domain, uint64_t static_id, const char *name, uint64_t type,
                               size_t bytes)
{
    struct schema_text out;
    memset(&out, 0, offsetof(struct schema_text, text));
    out.domain = domain;
    out.used = put_head(out.text, sizeof out.text, name, bytes);
    put_field(&out, NULL, "value", -1, type, 0, 1);
    return schema_publish(&out, static_id, name);
}

uint64_t agent_schema_register_enum(uint32_t domain, const nvtxPayloadEnumAttr_t *attributes)
{
    if (!attributes)
        return 0;
    size_t bytes =
        attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE ? attributes->sizeOfEnum : 4;
    uint64_t type = T(INT32);
    if (bytes == 1)
        type = T(UINT8);
    else if (bytes == 2)
        type = T(UINT16);
    else if (bytes == 8)
        type = T(UINT64);
    const char *name = attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME && attributes->name
                           ? attributes->name
                           : "enum";
    uint64_t id = schema_of_type(
        domain,
        attributes->fieldMask & NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID ? attributes->schemaId : 0,
        name, type, bytes);
    if (id)
        agent_map_set(AGENT_MAP_ENUM, domain, id, type);
    return id;
}

uint64_t agent_schema_find(uint32_t domain, uint64_t id)
{
    if (id >= NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START)
        return id;
    if (id >= NVTX_PAYLOAD_SCHEMA_ID_STATIC_START)
        return agent_map_get(AGENT_MAP_SCHEMA, domain, id);
    const struct schema_type *type = type_find(id);
    if (!type)
        return 0;
    uint64_t known = agent_map_get(AGENT_MAP_SCHEMA, 0, id);
    if (!known) {
        char name[32];
        snprintf(name, sizeof name, "nvtx.%s", type->name);
        known = schema_of_type(0, 0, name, type->exact, agent_schema_type_size(id));
        if (known)
            agent_map_set(AGENT_MAP_SCHEMA, 0, id, known);
    }
    return known;
}

size_t agent_schema_size(uint64_t id, const void *data)
{
    uint32_t schema = (uint32_t)id;
    size_t bytes = schema_static_size(schema);
    struct agent_field field = {0};
    if (!bytes && data && agent_schema_field(schema, &field) &&
        (field.type == T(CSTRING) || field.type == T(CSTRING_UTF8)) && !field.offset)
        bytes = strnlen(data, WIRE_PAYLOAD_MAX);
    return bytes;
}

uint32_t agent_schema_message(uint64_t id, const void *data, size_t bytes)
{
    uint32_t schema = (uint32_t)id;
    uint64_t message = agent_map_get(AGENT_MAP_MESSAGE, 0, schema);
    const char *text_start = (const char *)data + (message & 0xffffff);
    uint64_t kind = message >> 48 & 0xff, count = message >> 24 & 0xffffff;
    if (message && data && kind == T(CHAR) && (message & 0xffffff) + count <= bytes)
        return agent_name_intern(
            WIRE_TEXT_NAME, text_start,
            strnlen(text_start, count < WIRE_STRING_MAX ? count : WIRE_STRING_MAX), false);
    if (message && data && kind != T(CHAR) && (message & 0xffffff) + sizeof(void *) <= bytes) {
        uintptr_t word;
        memcpy(&word, text_start, sizeof word);
        return kind == T(CSTRING) ? agent_name((const char *)word, false) : (uint32_t)word;
    }
    const struct wire_text *text = schema ? agent_name_text(schema) : NULL;
    if (!text || text->type != WIRE_TEXT_SCHEMA)
        return 0;
    const char *tab = memchr(text->text, '\t', text->bytes);
    return tab ? agent_name_intern(WIRE_TEXT_NAME, text->text, (size_t)(tab - text->text), false)
               : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX payloads. An extended payload is a blob: a header of four little-endian 64-bit words
 * (domain, schema, bytes of the payload, bytes in all), then the fields at the offsets that
 * NVTX_PAYLOAD_SCHEMA_ENTRIES gives for that schema. NCCL describes its calls that way since 2.19.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/nsight/nsight_private.h"

#define HEADER_BYTES 32
#define BLOB_MAX     65536
#define ENUM_FIRST   (1 << 24) /* types from here on are enumerations and schemas of the program */

/* Columns of an NVTX row that the tables of nsight_nvtx.c select, in this order. */
enum {
    COL_DOMAIN = 8,
    COL_UINT64,
    COL_INT64,
    COL_DOUBLE,
    COL_UINT32,
    COL_INT32,
    COL_FLOAT,
    COL_JSON,
    COL_JSON_ID,
    COL_BINARY
};

/* ---- schemas ------------------------------------------------------------------------------------------------------------------ */

/* Reads one field of a payload schema. Each process of the capture repeats them. */
static int field(struct nsight *nsight, sqlite3_stmt *st)
{
    const char *name = nsight_text(st, 4);
    int64_t offset = nsight_int(st, 3);
    struct nsight_field nsight_field = {.domain = nsight_int(st, 0),
                                        .schema = nsight_int(st, 1),
                                        .type = nsight_int(st, 2),
                                        .offset = offset == STORE_ABSENT ? 0 : offset};
    if (!name || nsight_field.domain == STORE_ABSENT || nsight_field.schema == STORE_ABSENT ||
        nsight_field.offset < 0 || nsight_field.offset > BLOB_MAX)
        return 0;
    for (size_t i = 0; i < nsight->field_count; i++)
        if (nsight->field[i].domain == nsight_field.domain &&
            nsight->field[i].schema == nsight_field.schema &&
            nsight->field[i].offset == nsight_field.offset)
            return 0;
    if (nsight->field_count >= 4096)
        return 0;
    if (nsight->field_count == nsight->field_cap) {
        size_t cap = nsight->field_cap ? 2 * nsight->field_cap : 64;
        struct nsight_field *bigger = realloc(nsight->field, cap * sizeof *bigger);
        if (!bigger)
            return TACHO_ENOMEM;
        nsight->field = bigger;
        nsight->field_cap = cap;
    }
    nsight_field.name = strdup(name);
    if (!nsight_field.name)
        return TACHO_ENOMEM;
    nsight->field[nsight->field_count++] = nsight_field;
    return 0;
}

int nsight_payload_schemas(struct nsight *nsight)
{
    static const struct nsight_table entries = {
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", field, {"domainId", "schemaId", "type", "offset", "name"}};
    return nsight_read(nsight, &entries);
}

void nsight_payload_free(struct nsight *nsight)
{
    for (size_t i = 0; i < nsight->field_count; i++)
        free(nsight->field[i].name);
    free(nsight->field);
}

bool nsight_domain_is_nccl(const struct nsight *nsight, int64_t domain)
{
    for (size_t i = 0; i < nsight->field_count; i++)
        if (nsight->field[i].domain == domain && !strncmp(nsight->field[i].name, "NCCL ", 5))
            return true;
    return false;
}

/* ---- values --------------------------------------------------------------------------------------------------------------------- */

/* by NVTX payload entry type: bytes, and 's'igned, 'u'nsigned, 'f'loating or nothing that has a
 * number */
static const struct {
    uint8_t bytes;
    char kind;
} types[] = {{0, 0},   {1, 's'}, {1, 'u'}, {2, 's'}, {2, 'u'}, {4, 's'}, {4, 'u'}, {8, 's'},
             {8, 'u'}, {8, 's'}, {8, 'u'}, {1, 's'}, {1, 'u'}, {2, 's'}, {2, 'u'}, {4, 's'},
             {4, 'u'}, {8, 's'}, {8, 'u'}, {4, 'f'}, {8, 'f'}, {0, 0},   {8, 'u'}};

/* A little-endian number. */
static uint64_t little(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | data[bytes];
    return value;
}

struct value {
    char kind; /* 0: none */
    uint64_t bits;
    double number;
};

/* Reads a field by its type; sign-extends short integers. */
static struct value value_of(const unsigned char *data, size_t room, int64_t type)
{
    struct value value = {0};
    size_t bytes = 0;
    char kind = 0;
    if (type >= ENUM_FIRST) {
        bytes = 4;
        kind = 's';
    } else if (type > 0 && type < (int64_t)(sizeof types / sizeof *types)) {
        bytes = types[type].bytes;
        kind = types[type].kind;
    }
    if (!bytes || bytes > room)
        return value;
    value.kind = kind;
    value.bits = little(data, bytes);
    if (value.kind == 's' && bytes < 8 && value.bits >> (8 * bytes - 1))
        value.bits |= UINT64_MAX << (8 * bytes);
    if (value.kind == 'f' && bytes == 4) {
        uint32_t low = (uint32_t)value.bits;
        float single;
        memcpy(&single, &low, 4);
        value.number = (double)single;
    } else if (value.kind == 'f') {
        memcpy(&value.number, &value.bits, 8);
    }
    return value;
}

/* ---- JSON text in n->text ------------------------------------------------------------------------------------------------------ */

/* Makes room for `bytes` bytes of JSON. */
static int text_room(struct nsight *nsight, size_t bytes)
{
    if (bytes <= nsight->text_cap)
        return 0;
    char *bigger = realloc(nsight->text, bytes + 256);
    if (!bigger)
        return TACHO_ENOMEM;
    nsight->text = bigger;
    nsight->text_cap = bytes + 256;
    return 0;
}

/* "name":value behind the text so far; *at counts. */
static int text_member(struct nsight *nsight, size_t *used, const char *name,
                       const struct value *value)
{
    int code = text_room(nsight, *used + 2 * strlen(name) + 64);
    if (code || !value->kind || (value->kind == 'f' && !isfinite(value->number)))
        return code;
    nsight->text[*used] = *used ? ',' : '{';
    ++*used;
    nsight->text[(*used)++] = '"';
    for (; *name; name++)
        if ((unsigned char)*name >= 0x20) {
            if (*name == '"' || *name == '\\')
                nsight->text[(*used)++] = '\\';
            nsight->text[(*used)++] = *name;
        }
    char *to = nsight->text + *used;
    if (value->kind == 'u')
        *used += (size_t)sprintf(to, "\":%" PRIu64, value->bits);
    else if (value->kind == 's')
        *used += (size_t)sprintf(to, "\":%" PRId64, (int64_t)value->bits);
    else
        *used += (size_t)sprintf(to, "\":%.17g", value->number);
    return 0;
}

/* ---- blobs ---------------------------------------------------------------------------------------------------------------------- */

/* Copies the bytes of a blob, or of one written as hexadecimal text. *bytes 0: there is none. -1:
 * it is damaged or too large. */
static int blob(sqlite3_stmt *st, unsigned char *to, size_t *bytes)
{
    int type = sqlite3_column_type(st, COL_BINARY);
    bool text = type == SQLITE_TEXT;
    *bytes = 0;
    if (!text && type != SQLITE_BLOB)
        return 0;
    const unsigned char *data = sqlite3_column_blob(st, COL_BINARY);
    size_t size = data ? (size_t)sqlite3_column_bytes(st, COL_BINARY) : 0;
    if (size > (size_t)BLOB_MAX << text || (text && size % 2))
        return -1;
    if (!text) {
        if (size)
            memcpy(to, data, size);
        *bytes = size;
        return 0;
    }
    for (size_t i = 0; i < size; i += 2) {
        char digits[3] = {(char)data[i], (char)data[i + 1], 0};
        if (!isxdigit(data[i]) || !isxdigit(data[i + 1]))
            return -1;
        to[i / 2] = (unsigned char)strtoul(digits, NULL, 16);
    }
    *bytes = size / 2;
    return 0;
}

/* A field of NCCL's that a detail has a column for. True: it needs no place in the payload. */
static bool nccl_field(struct store_detail *detail, const char *name, const struct value *value,
                       int64_t *rank)
{
    if (!strcmp(name, "NCCL communicator ID"))
        detail->communicator = (int64_t)value->bits;
    else if (!strcmp(name, "Message size [bytes]"))
        detail->bytes = value->bits > INT64_MAX ? STORE_ABSENT : (int64_t)value->bits;
    else if (!strcmp(name, "No. of ranks"))
        detail->ranks = (int64_t)value->bits;
    else if (!strcmp(name, "Rank"))
        *rank = (int64_t)value->bits;
    else
        return false;
    return strcmp(name, "Rank") != 0;
}

/* -1: it does not fit its schema. */
static int decode(struct nsight *nsight, const unsigned char *blob, size_t bytes,
                  struct store_detail *detail, size_t *used, int64_t *rank)
{
    if (bytes < HEADER_BYTES)
        return -1;
    int64_t domain = (int64_t)little(blob, 8), schema = (int64_t)little(blob + 8, 8);
    uint64_t size = little(blob + 16, 8);
    bool any = false;
    if (size > bytes - HEADER_BYTES)
        return -1;
    for (size_t i = 0; i < nsight->field_count; i++) {
        const struct nsight_field *nsight_field = &nsight->field[i];
        if (nsight_field->domain != domain || nsight_field->schema != schema)
            continue;
        any = true;
        if ((uint64_t)nsight_field->offset >= size)
            return -1;
        struct value value =
            value_of(blob + HEADER_BYTES + nsight_field->offset,
                     (size_t)(size - (uint64_t)nsight_field->offset), nsight_field->type);
        if (value.kind && nccl_field(detail, nsight_field->name, &value, rank))
            continue;
        int code = text_member(nsight, used, nsight_field->name, &value);
        if (code)
            return code;
    }
    return any ? 0 : -1;
}

/* ---- NCCL's calls ---------------------------------------------------------------------------------------------------------------- */

/* The name of a collective by the call of NCCL; NULL: another call. */
static const char *collective_of(const char *name)
{
    size_t bytes = strlen(name), used = 0;
    const char *collective = NULL;
    if (bytes > 4 && !strncmp(name, "nccl", 4))
        collective = store_collective(name + 4, bytes - 4, &used);
    return used == bytes - 4 ? collective : NULL;
}

/* The number that an old-style payload holds. */
static int plain(struct nsight *nsight, sqlite3_stmt *st, size_t *used)
{
    for (int column = COL_UINT64; column <= COL_FLOAT; column++) {
        struct value value = {0};
        int type = sqlite3_column_type(st, column);
        if (type == SQLITE_INTEGER) {
            value.kind = column == COL_UINT64 ? 'u' : 's';
            value.bits = (uint64_t)sqlite3_column_int64(st, column);
        } else if (type == SQLITE_FLOAT) {
            value.kind = 'f';
            value.number = sqlite3_column_double(st, column);
        }
        if (value.kind)
            return text_member(nsight, used, "value", &value);
    }
    return 0;
}

/* A rank of the biggest communicator is the process's rank. */
static void remember_rank(struct nsight *nsight, size_t process, int64_t rank, int64_t ranks)
{
    struct nsight_process *nsight_process = &nsight->process[process];
    if (rank >= 0 && ranks > nsight_process->ranks && rank < ranks) {
        nsight_process->rank = rank;
        nsight_process->ranks = ranks;
    }
}

/* Takes a payload that is JSON already; its closing brace is left out. */
static int json_payload(struct nsight *nsight, sqlite3_stmt *st, size_t *used)
{
    const char *json = nsight_text(st, COL_JSON);
    if (!json)
        json = nsight_string(nsight, nsight_int(st, COL_JSON_ID));
    size_t bytes = json ? strlen(json) : 0;
    if (!bytes || *json != '{' || json[bytes - 1] != '}')
        return 0;
    int code = text_room(nsight, bytes + 8);
    if (code)
        return code;
    memcpy(nsight->text, json, bytes - 1); /* the closing brace is added at the end */
    *used = bytes - 1;
    return 0;
}

int nsight_payload(struct nsight *nsight, sqlite3_stmt *st, const char *name, bool nccl,
                   size_t process, int64_t *detail)
{
    struct store_detail row = STORE_DETAIL_NONE;
    unsigned char bytes[BLOB_MAX];
    size_t size = 0, used = 0;
    int64_t rank = STORE_ABSENT;
    int code = 0;
    bool has_binary = sqlite3_column_type(st, COL_BINARY) != SQLITE_NULL;
    if (has_binary && (blob(st, bytes, &size) ||
                       (size && (code = decode(nsight, bytes, size, &row, &used, &rank)) == -1))) {
        nsight->lost[NSIGHT_LOSS_PAYLOAD]++;
        row = (struct store_detail)STORE_DETAIL_NONE;
        used = 0;
        code = 0;
    }
    if (!code && !used)
        code = json_payload(nsight, st, &used);
    if (!code && !used)
        code = plain(nsight, st, &used);
    if (code)
        return code;
    if (nccl) {
        row.collective = collective_of(name);
        remember_rank(nsight, process, rank, row.ranks);
    }
    if (used) {
        nsight->text[used] = '}';
        nsight->text[used + 1] = 0;
        row.payload = nsight->text;
    }
    if (!used && !row.collective && row.communicator == STORE_ABSENT && row.bytes == STORE_ABSENT &&
        row.ranks == STORE_ABSENT)
        return 0;
    row.schema = nccl ? "nccl" : "nvtx";
    return store_detail_intern(nsight->out, &row, detail);
}

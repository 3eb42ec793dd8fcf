/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX payloads to columns. The agent keeps the text of each schema: the names, types and offsets
 * of its fields. A field of one of tacho's own schemas fills the column that FIELD_MAP gives it;
 * fields of other schemas become JSON text.
 */
#include "profiler/collector/pool/payload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tacho_nvtx.h"

/* What a field of one of tacho's schemas fills. schema, field, target */
#define FIELD_MAP(X) \
    X(WORK, flops, FLOPS) \
    X(WORK, bytes_read, BYTES_READ) \
    X(WORK, bytes_written, BYTES_WRITTEN) \
    X(WORK, model_flops, MODEL_FLOPS) \
    X(WORK, palm_flops, PALM_FLOPS) \
    X(WORK, dtype, DTYPE) \
    X(WORK, pass, PASS) \
    X(WORK, kind, WORK_KIND) \
    X(WORK, operands, OPERANDS) \
    X(STEP, index, INDEX) \
    X(STEP, tokens, TOKENS) \
    X(STEP, samples, SAMPLES) \
    X(COMM, bytes, BYTES) \
    X(COMM, communicator, COMMUNICATOR) \
    X(COMM, sequence, SEQUENCE) \
    X(COMM, op, OP) \
    X(COMM, ranks, RANKS) \
    X(RANGE, bytes, BYTES) \
    X(RANGE, samples, SAMPLES) \
    X(RANGE, kind, RANGE_KIND)

enum target {
    TARGET_FLOPS,
    TARGET_BYTES_READ,
    TARGET_BYTES_WRITTEN,
    TARGET_MODEL_FLOPS,
    TARGET_PALM_FLOPS,
    TARGET_DTYPE,
    TARGET_PASS,
    TARGET_WORK_KIND,
    TARGET_OPERANDS,
    TARGET_INDEX,
    TARGET_TOKENS,
    TARGET_SAMPLES,
    TARGET_BYTES,
    TARGET_COMMUNICATOR,
    TARGET_SEQUENCE,
    TARGET_OP,
    TARGET_RANKS,
    TARGET_RANGE_KIND,
    TARGET_COUNT,
};

static const struct {
    enum col_schema_kind kind;
    const char *field;
    enum target target;
} field_targets[] = {
#define FIELD_ROW(schema, field, target) {COL_SCHEMA_##schema, #field, TARGET_##target},
    FIELD_MAP(FIELD_ROW)
#undef FIELD_ROW
};

static const struct {
    const char *name;
    enum col_schema_kind kind;
} schema_kinds[] = {
    {"tacho.work", COL_SCHEMA_WORK},
    {"tacho.step", COL_SCHEMA_STEP},
    {"tacho.comm", COL_SCHEMA_COMM},
    {"tacho.range", COL_SCHEMA_RANGE},
};

#define TEXT_ROW(name, value, text) [value] = text,
static const char *const dtype_text[] = {TACHO_DTYPE_MAP(TEXT_ROW)};
static const char *const pass_text[] = {TACHO_PASS_MAP(TEXT_ROW)};
static const char *const work_text[] = {TACHO_WORK_MAP(TEXT_ROW)};
static const char *const range_text[] = {TACHO_RANGE_MAP(TEXT_ROW)};
static const char *const comm_text[] = {TACHO_COMM_MAP(TEXT_ROW)};
#undef TEXT_ROW
#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* Text of an enum value; NULL (absent) for "none" and for values of a newer header. */
static const char *enum_text(const char *const *table, size_t count, int64_t value)
{
    if (value < 0 || (uint64_t)value >= count || !table[value] || !*table[value])
        return NULL;
    return table[value];
}

/* ---- schemas ----------------------------------------------------------------------------------------------------------- */

/* Copies a name, cut where it is too long. */
static void copy_name(char *name, const char *text, size_t bytes)
{
    if (bytes >= COL_SCHEMA_NAME)
        bytes = COL_SCHEMA_NAME - 1;
    memcpy(name, text, bytes);
    name[bytes] = 0;
}

/* Cuts one decimal number that ends at `end` or at a tab. */
static const char *cut_number(const char *text, const char *end, uint32_t *out)
{
    uint64_t value = 0;
    const char *start = text;
    while (text < end && *text >= '0' && *text <= '9' && value <= UINT32_MAX)
        value = value * 10 + (uint64_t)(*text++ - '0');
    if (text == start || value > UINT32_MAX || (text < end && *text != '\t'))
        return NULL;
    *out = (uint32_t)value;
    return text < end ? text + 1 : text;
}

/* The column of a field; -1: none. */
static int field_target(enum col_schema_kind kind, const char *name)
{
    for (size_t i = 0; i < LENGTH(field_targets); i++)
        if (field_targets[i].kind == kind && strcmp(field_targets[i].field, name) == 0)
            return (int)field_targets[i].target;
    return -1;
}

/* The first line is the name of the schema, each further line a field: name, type, offset. */
int col_schema_parse(const char *text, size_t bytes, struct col_schema *out)
{
    memset(out, 0, sizeof *out);
    const char *end = text + bytes;
    const char *line = text;
    const char *stop = memchr(line, '\n', bytes);
    if (!stop)
        stop = end;
    const char *tab = memchr(line, '\t', (size_t)(stop - line));
    copy_name(out->name, line, (size_t)((tab ? tab : stop) - line));
    for (size_t i = 0; i < LENGTH(schema_kinds); i++)
        if (strcmp(schema_kinds[i].name, out->name) == 0)
            out->kind = schema_kinds[i].kind;
    while (stop < end && out->count < COL_SCHEMA_FIELDS) {
        line = stop + 1;
        if (line >= end)
            break;
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        if (stop == line)
            continue;
        struct col_field *field = &out->field[out->count];
        /* a field name may be anything but a tab or a newline; type and offset are the last two
         * columns */
        tab = memchr(line, '\t', (size_t)(stop - line));
        const char *number = tab ? cut_number(tab + 1, stop, &field->type) : NULL;
        if (!number || !cut_number(number, stop, &field->offset))
            return TACHO_EFORMAT;
        copy_name(field->name, line, (size_t)(tab - line));
        field->target = field_target(out->kind, field->name);
        out->count++;
    }
    return 0;
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

enum shape { SHAPE_NONE, SHAPE_SIGNED, SHAPE_UNSIGNED, SHAPE_FLOAT, SHAPE_CHAR };

/* How a scalar of an NVTX type is read. Types of unknown size (schemas within schemas, strings in
 * the target's memory) are not.
 */
static enum shape type_shape(uint32_t type, unsigned *size)
{
    switch (type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_CHAR8:
        return *size = 1, SHAPE_CHAR;
    case NVTX_PAYLOAD_ENTRY_TYPE_INT8:
        return *size = 1, SHAPE_SIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_SHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT16:
        return *size = 2, SHAPE_SIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_INT:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT32:
        return *size = 4, SHAPE_SIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_LONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
        return *size = 8, SHAPE_SIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_UCHAR:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT8:
    case NVTX_PAYLOAD_ENTRY_TYPE_BYTE:
        return *size = 1, SHAPE_UNSIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_USHORT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT16:
        return *size = 2, SHAPE_UNSIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY:
    case NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32:
        return *size = 4, SHAPE_UNSIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG:
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_SIZE:
    case NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS:
    case NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID:
    case NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64:
    case NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64:
        return *size = 8, SHAPE_UNSIGNED;
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32:
        return *size = 4, SHAPE_FLOAT;
    case NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE:
    case NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64:
        return *size = 8, SHAPE_FLOAT;
    default:
        return *size = 0, SHAPE_NONE;
    }
}

struct scalar {
    enum shape shape;
    int64_t integer;
    uint64_t raw;
    double real;
};

/* Reads a field of a payload. False where its type is not a scalar or it lies outside of the bytes:
 * the schema comes from the target and may be wrong. */
static bool read_scalar(const struct col_field *field, const uint8_t *data, size_t size,
                        struct scalar *scalar)
{
    unsigned bytes;
    scalar->shape = type_shape(field->type, &bytes);
    if (scalar->shape == SHAPE_NONE || field->offset > size || bytes > size - field->offset)
        return false;
    uint64_t raw = 0;
    memcpy(&raw, data + field->offset, bytes);
    if (scalar->shape == SHAPE_FLOAT) {
        float narrow;
        memcpy(&narrow, &raw, sizeof narrow);
        if (bytes == 4)
            scalar->real = (double)narrow;
        else
            memcpy(&scalar->real, &raw, sizeof scalar->real);
        scalar->integer = fabs(scalar->real) < 9e18 ? (int64_t)scalar->real : 0;
        return true;
    }
    scalar->raw = raw;
    unsigned unused = 64 - 8 * bytes;
    scalar->integer = (int64_t)(raw << unused) >> unused;
    if (scalar->shape != SHAPE_SIGNED)
        scalar->integer = raw <= INT64_MAX ? (int64_t)raw : INT64_MAX;
    return true;
}

void col_detail_clear(struct store_detail *detail)
{
    *detail = (struct store_detail)STORE_DETAIL_NONE;
    detail->id = STORE_ABSENT;
}

/* Appends formatted text; what does not fit is cut. */
__attribute__((format(printf, 4, 5))) static void put(char *buffer, size_t size, size_t *used,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer + *used, size - *used, format, arguments);
    va_end(arguments);
    if (length > 0)
        *used = *used + (size_t)length < size ? *used + (size_t)length : size - 1;
}

static void put_json_text(char *buffer, size_t size, size_t *used, const char *text)
{
    put(buffer, size, used, "\"");
    for (const unsigned char *letter = (const unsigned char *)text; *letter; letter++) {
        if (*letter == '"' || *letter == '\\')
            put(buffer, size, used, "\\%c", *letter);
        else if (*letter < 0x20)
            put(buffer, size, used, "\\u%04x", *letter);
        else
            put(buffer, size, used, "%c", *letter);
    }
    put(buffer, size, used, "\"");
}

/* A value as JSON; numbers that JSON cannot express become null. */
static void put_json_scalar(char *buffer, size_t size, size_t *used, const struct scalar *scalar)
{
    if (scalar->shape == SHAPE_SIGNED)
        put(buffer, size, used, "%lld", (long long)scalar->integer);
    else if (scalar->shape == SHAPE_FLOAT && isfinite(scalar->real))
        put(buffer, size, used, "%.17g", scalar->real);
    else if (scalar->shape == SHAPE_FLOAT)
        put(buffer, size, used, "null");
    else if (scalar->shape == SHAPE_CHAR)
        put_json_text(buffer, size, used, (char[2]){(char)scalar->raw, 0});
    else
        put(buffer, size, used, "%llu", (unsigned long long)scalar->raw);
}

/* The fields that fill no column. A member is written whole or not at all, so the text is JSON
 * whatever its size. */
static void foreign_json(const struct col_schema *schema, const uint8_t *data, size_t size,
                         char *json, size_t json_size)
{
    size_t used = 0;
    unsigned members = 0;
    put(json, json_size, &used, "{");
    for (unsigned i = 0; i < schema->count; i++) {
        struct scalar scalar;
        if (schema->field[i].target >= 0 || !read_scalar(&schema->field[i], data, size, &scalar))
            continue;
        char member[7 * COL_SCHEMA_NAME];
        size_t length = 0;
        put(member, sizeof member, &length, members ? "," : "");
        put_json_text(member, sizeof member, &length, schema->field[i].name);
        put(member, sizeof member, &length, ":");
        put_json_scalar(member, sizeof member, &length, &scalar);
        if (used + length + 2 > json_size)
            break;
        put(json, json_size, &used, "%s", member);
        members++;
    }
    put(json, json_size, &used, "}");
}

static int64_t absent_if_zero(int64_t value)
{
    return value ? value : STORE_ABSENT;
}

/* Puts the value of a field into its column. Columns whose field has a special value for "none"
 * come last. */
static void set_target(struct col_payload *out, enum col_schema_kind kind, enum target target,
                       const struct scalar *scalar)
{
    struct store_detail *detail = &out->detail;
    int64_t *const numbers[TARGET_COUNT] = {
        [TARGET_FLOPS] = &detail->flops,
        [TARGET_BYTES_READ] = &detail->bytes_read,
        [TARGET_BYTES_WRITTEN] = &detail->bytes_written,
        [TARGET_MODEL_FLOPS] = &detail->model_flops,
        [TARGET_PALM_FLOPS] = &detail->palm_flops,
        [TARGET_INDEX] = &out->index,
        [TARGET_TOKENS] = &out->tokens,
        [TARGET_SEQUENCE] = &out->correlation,
        [TARGET_RANKS] = &detail->ranks,
    };
    const struct {
        const char **column, *const *table;
        size_t count;
    } texts[TARGET_COUNT] = {
        [TARGET_DTYPE] = {&detail->dtype, dtype_text, LENGTH(dtype_text)},
        [TARGET_PASS] = {&detail->pass, pass_text, LENGTH(pass_text)},
        [TARGET_WORK_KIND] = {&detail->kind, work_text, LENGTH(work_text)},
        [TARGET_OP] = {&detail->collective, comm_text, LENGTH(comm_text)},
        [TARGET_RANGE_KIND] = {&detail->kind, range_text, LENGTH(range_text)},
    };
    if (numbers[target])
        *numbers[target] = scalar->integer;
    else if (texts[target].column)
        *texts[target].column =
            enum_text(texts[target].table, texts[target].count, scalar->integer);
    else if (target == TARGET_COMMUNICATOR)
        detail->communicator = (int64_t)scalar->raw; /* an identifier: all 64 bits count */
    else if (target == TARGET_SAMPLES && kind == COL_SCHEMA_STEP)
        out->samples = scalar->integer;
    else if (target == TARGET_SAMPLES)
        detail->samples = absent_if_zero(scalar->integer);
    else if (target == TARGET_BYTES)
        detail->bytes =
            kind == COL_SCHEMA_RANGE ? absent_if_zero(scalar->integer) : scalar->integer;
}

static void payload_clear(struct col_payload *out)
{
    col_detail_clear(&out->detail);
    out->correlation = out->index = out->tokens = out->samples = STORE_ABSENT;
    out->operands = 0;
    out->json[0] = 0;
}

/* Completes the conventions of FLOPs. Where a program gives only `flops`, the model needs all of
 * them, except where it recomputes something or updates weights. */
static void complete_work(struct store_detail *detail)
{
    if (detail->flops == STORE_ABSENT)
        return;
    bool extra =
        detail->pass && (!strcmp(detail->pass, "recompute") || !strcmp(detail->pass, "optimizer"));
    if (detail->model_flops == STORE_ABSENT)
        detail->model_flops = extra ? 0 : detail->flops;
    if (detail->palm_flops == STORE_ABSENT)
        detail->palm_flops = detail->model_flops;
}

/* Fills the columns that NCCL's own payloads have a field for (src/include/nvtx_payload_schemas.h
 * of NCCL 2.28). */
static void nccl_columns(const struct col_schema *schema, const uint8_t *data, size_t size,
                         struct store_detail *detail)
{
    for (unsigned i = 0; i < schema->count; i++) {
        struct scalar scalar;
        bool bytes = !strcmp(schema->field[i].name, "Message size [bytes]");
        if ((!bytes && strcmp(schema->field[i].name, "NCCL communicator ID") != 0) ||
            !read_scalar(&schema->field[i], data, size, &scalar))
            continue;
        if (bytes)
            detail->bytes = scalar.integer;
        else if (scalar.raw) /* 0: a call without communicator, which NCCL rejects */
            detail->communicator = (int64_t)scalar.raw;
    }
}

/* The arena id in a field that is a registered string; 0: none. */
static uint32_t read_string_id(const struct col_field *field, const uint8_t *data, size_t size)
{
    uint64_t handle = 0;
    if (field->type == NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE &&
        field->offset <= size && sizeof handle <= size - field->offset)
        memcpy(&handle, data + field->offset, sizeof handle);
    return handle <= UINT32_MAX ? (uint32_t)handle : 0;
}

/* An unknown layout is kept as hexadecimal text, so that at least equal payloads can be
 * distinguished from different ones. */
void col_payload_decode(const struct col_schema *schema, const void *data, size_t size,
                        struct col_payload *out)
{
    payload_clear(out);
    if (!schema) {
        size_t used = 0;
        put(out->json, sizeof out->json, &used, "\"");
        for (size_t i = 0; i < size && i < 256; i++)
            put(out->json, sizeof out->json, &used, "%02x", ((const uint8_t *)data)[i]);
        put(out->json, sizeof out->json, &used, "\"");
        out->detail.schema = "unknown";
        out->detail.payload = out->json;
        return;
    }
    out->detail.schema = schema->name;
    if (schema->kind == COL_SCHEMA_FOREIGN) {
        foreign_json(schema, data, size, out->json, sizeof out->json);
        out->detail.payload = out->json;
        nccl_columns(schema, data, size, &out->detail);
        return;
    }
    for (unsigned i = 0; i < schema->count; i++) {
        struct scalar scalar;
        if (schema->field[i].target == TARGET_OPERANDS)
            out->operands = read_string_id(&schema->field[i], data, size);
        if (!read_scalar(&schema->field[i], data, size, &scalar))
            continue;
        if (schema->field[i].target >= 0)
            set_target(out, schema->kind, (enum target)schema->field[i].target, &scalar);
        else if (schema->kind == COL_SCHEMA_WORK)
            out->detail.payload = out->json; /* shapes, for instance */
    }
    if (out->detail.payload)
        foreign_json(schema, data, size, out->json, sizeof out->json);
    if (schema->kind == COL_SCHEMA_WORK)
        complete_work(&out->detail);
}

void col_payload_value(uint64_t value, struct col_payload *out)
{
    payload_clear(out);
    snprintf(out->json, sizeof out->json, "{\"value\":%llu}", (unsigned long long)value);
    out->detail.schema = "nvtx.value";
    out->detail.payload = out->json;
}

/* The fields are zeroed in the copy of the bytes by which details are looked up. */
void col_payload_normalize(const struct col_schema *schema, void *data, size_t size)
{
    if (schema->kind != COL_SCHEMA_STEP && schema->kind != COL_SCHEMA_COMM)
        return;
    for (unsigned i = 0; i < schema->count; i++) {
        const struct col_field *field = &schema->field[i];
        bool varies = schema->kind == COL_SCHEMA_STEP || field->target == TARGET_SEQUENCE;
        unsigned bytes;
        if (varies && type_shape(field->type, &bytes) != SHAPE_NONE && field->offset <= size &&
            bytes <= size - field->offset)
            memset((uint8_t *)data + field->offset, 0, bytes);
    }
}

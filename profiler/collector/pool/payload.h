/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX payloads decoded by the names of their schema and its fields (include/tacho_nvtx.h), never
 * by position.
 *
 * tacho.work, tacho.step, tacho.comm and tacho.range fill the columns of a detail; what a schema
 * does not have stays absent. Any other schema becomes JSON text in detail.payload. What differs
 * for every event (index, tokens of a step, sequence number of a collective) is kept out of the
 * detail, so that details stay few.
 */
#ifndef COL_PAYLOAD_H
#define COL_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "tacho_error.h"

#define COL_SCHEMA_FIELDS 32
#define COL_SCHEMA_NAME   64

enum col_schema_kind {
    COL_SCHEMA_FOREIGN,
    COL_SCHEMA_WORK,
    COL_SCHEMA_STEP,
    COL_SCHEMA_COMM,
    COL_SCHEMA_RANGE,
};

struct col_field {
    char name[COL_SCHEMA_NAME];
    uint32_t type;   /* NVTX_PAYLOAD_ENTRY_TYPE_* */
    uint32_t offset; /* in the payload */
    int target;      /* which column it fills, private to payload.c; -1 = none */
};

struct col_schema {
    enum col_schema_kind kind;
    char name[COL_SCHEMA_NAME];
    unsigned count;
    struct col_field field[COL_SCHEMA_FIELDS];
};

/* Parses the text of a WIRE_TEXT_SCHEMA entry. Returns 0 or TACHO_EFORMAT; fields beyond
 * COL_SCHEMA_FIELDS are omitted. */
int col_schema_parse(const char *text, size_t bytes, struct col_schema *out);

/* What a payload says. Texts point to static storage, or into `json` of this struct. */
struct col_payload {
    struct store_detail detail;
    int64_t correlation;            /* tacho.comm sequence; else absent */
    int64_t index, tokens, samples; /* tacho.step; else absent */
    uint32_t operands;              /* tacho.work: arena id of the text that names them; 0: none */
    char json[640];
};

void col_detail_clear(struct store_detail *detail); /* every field absent */
/* Decodes `size` bytes laid out as `schema` (NULL: unknown layout, kept as hexadecimal text). */
void col_payload_decode(const struct col_schema *schema, const void *data, size_t size,
                        struct col_payload *out);
/* The detail of an event that carries a bare 64-bit NVTX payload value. */
void col_payload_value(uint64_t value, struct col_payload *out);

/* Blanks in data what col_payload_decode keeps out of the detail, so that equal details have equal
 * bytes. */
void col_payload_normalize(const struct col_schema *schema, void *data, size_t size);

#endif

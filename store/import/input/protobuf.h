/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/import/: the wire format of protocol buffers, read in place. A message is a span
 * of bytes; pb_next hands out its fields one by one. Damage ends the message early and sets `bad`:
 * nothing is ever read beyond its end.
 */
#ifndef STORE_IMPORT_INPUT_PROTOBUF_H
#define STORE_IMPORT_INPUT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pb_span {
    const unsigned char *data;
    size_t bytes;
};

struct pb {
    const unsigned char *at, *end;
    bool bad; /* it is cut off or no message */
};

enum pb_wire { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    uint64_t value;      /* of a varint or a fixed number: its bits; else 0 */
    struct pb_span span; /* of PB_BYTES; else empty */
};

static inline struct pb pb_of(struct pb_span span)
{
    return (struct pb){span.data, span.data + span.bytes, false};
}

/* A varint of at most ten bytes. */
static inline bool pb_varint(struct pb *pb, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && pb->at < pb->end; shift += 7) {
        unsigned char byte = *pb->at++;
        value |= (uint64_t)(byte & 0x7f) << (shift & 63);
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    pb->bad = true;
    return false;
}

/* Reads the next field; false at the end of the message and at damage. */
static inline bool pb_next(struct pb *pb, struct pb_field *field)
{
    uint64_t key, bytes;
    if (pb->at >= pb->end || pb->bad || !pb_varint(pb, &key))
        return false;
    *field = (struct pb_field){.number = (uint32_t)(key >> 3), .wire = (enum pb_wire)(key & 7)};
    switch (key & 7) {
    case PB_VARINT:
        return pb_varint(pb, &field->value);
    case PB_FIXED64:
    case PB_FIXED32:
        bytes = (key & 7) == PB_FIXED64 ? 8 : 4;
        if ((size_t)(pb->end - pb->at) < bytes)
            break;
        memcpy(&field->value, pb->at,
               bytes); /* little-endian, as all machines that tacho runs on */
        pb->at += bytes;
        return true;
    case PB_BYTES:
        if (!pb_varint(pb, &bytes) || bytes > (size_t)(pb->end - pb->at))
            break;
        field->span = (struct pb_span){pb->at, (size_t)bytes};
        pb->at += bytes;
        return true;
    default:
        break;
    }
    pb->bad = true;
    return false;
}

/* What is there of the field `number` in whose bytes a message was cut off. False: it ends at the
 * end of a field, or in another one. */
static inline bool pb_cut(struct pb_span message, uint32_t number, struct pb_span *rest)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    const unsigned char *whole = message.data; /* the end of the last field that is whole */
    uint64_t key, bytes;
    while (pb_next(&pb, &field))
        whole = pb.at;
    struct pb last = {whole, pb.end, false};
    if (!pb.bad || !pb_varint(&last, &key) || key != ((uint64_t)number << 3 | PB_BYTES) ||
        !pb_varint(&last, &bytes))
        return false;
    *rest = (struct pb_span){last.at, (size_t)(last.end - last.at)};
    return true;
}

/* The double whose bits a fixed64 field holds. */
static inline double pb_double(const struct pb_field *field)
{
    double value;
    memcpy(&value, &field->value, sizeof value);
    return value;
}

#endif

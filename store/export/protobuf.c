/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire format of protocol buffers: a key (number and kind of the field) and a value.
 */
#include "store/export/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

#define VARINT_MOST 10 /* bytes */

static void put(struct exp_message *message, const void *data, size_t bytes)
{
    if (message->failed || !bytes)
        return;
    if (message->room - message->bytes < bytes) {
        size_t room = 2 * (message->room + bytes);
        unsigned char *bigger = realloc(message->data, room);
        if (!bigger) {
            message->failed = true;
            return;
        }
        message->data = bigger;
        message->room = room;
    }
    memcpy(message->data + message->bytes, data, bytes);
    message->bytes += bytes;
}

static size_t encode(uint64_t value, unsigned char out[VARINT_MOST])
{
    size_t bytes = 0;
    for (; value > 127; value >>= 7)
        out[bytes++] = (unsigned char)(value | 128);
    out[bytes++] = (unsigned char)value;
    return bytes;
}

static void put_varint(struct exp_message *message, uint64_t value)
{
    unsigned char bytes[VARINT_MOST];
    put(message, bytes, encode(value, bytes));
}

static void put_key(struct exp_message *message, uint32_t field, unsigned wire)
{
    put_varint(message, (uint64_t)field << 3 | wire);
}

void exp_pb_varint(struct exp_message *message, uint32_t field, uint64_t value)
{
    put_key(message, field, WIRE_VARINT);
    put_varint(message, value);
}

void exp_pb_fixed64(struct exp_message *message, uint32_t field, uint64_t value)
{
    put_key(message, field, WIRE_FIXED64);
    put(message, &value, sizeof value); /* little-endian, as all machines that tacho runs on */
}

void exp_pb_double(struct exp_message *message, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    exp_pb_fixed64(message, field, bits);
}

void exp_pb_bytes(struct exp_message *message, uint32_t field, const void *data, size_t bytes)
{
    put_key(message, field, WIRE_BYTES);
    put_varint(message, bytes);
    put(message, data, bytes);
}

void exp_pb_text(struct exp_message *message, uint32_t field, const char *text)
{
    exp_pb_bytes(message, field, text, strlen(text));
}

void exp_pb_message(struct exp_message *message, uint32_t field, struct exp_message *inner)
{
    message->failed |= inner->failed;
    exp_pb_bytes(message, field, inner->data, inner->bytes);
    inner->bytes = 0;
}

void exp_pb_packed(struct exp_message *message, uint32_t field, const uint64_t *value, size_t count)
{
    unsigned char bytes[VARINT_MOST];
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += encode(value[i], bytes);
    put_key(message, field, WIRE_BYTES);
    put_varint(message, length);
    for (size_t i = 0; i < count; i++)
        put_varint(message, value[i]);
}

bool exp_pb_write(FILE *out, uint32_t field, struct exp_message *message)
{
    unsigned char head[2 * VARINT_MOST];
    size_t bytes = encode((uint64_t)field << 3 | WIRE_BYTES, head);
    bytes += encode(message->bytes, head + bytes);
    bool written = !message->failed && fwrite(head, 1, bytes, out) == bytes &&
                   fwrite(message->data, 1, message->bytes, out) == message->bytes;
    message->bytes = 0;
    return written;
}

void exp_pb_free(struct exp_message *message)
{
    free(message->data);
    *message = (struct exp_message){0};
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to store/export/: messages of protocol buffers, written into memory. A failed allocation
 * sets `failed` and drops what is put from then on.
 */
#ifndef STORE_EXPORT_PROTOBUF_H
#define STORE_EXPORT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct exp_message {
    unsigned char *data;
    size_t bytes, room;
    bool failed;
};

/* Fields, by their number. */
void exp_pb_varint(struct exp_message *message, uint32_t field, uint64_t value);
void exp_pb_fixed64(struct exp_message *message, uint32_t field, uint64_t value);
void exp_pb_double(struct exp_message *message, uint32_t field, double value);
void exp_pb_bytes(struct exp_message *message, uint32_t field, const void *data, size_t bytes);
void exp_pb_text(struct exp_message *message, uint32_t field, const char *text);
/* A message as a field; it is emptied for the next one. */
void exp_pb_message(struct exp_message *message, uint32_t field, struct exp_message *inner);
/* Integers as one field (packed). */
void exp_pb_packed(struct exp_message *message, uint32_t field, const uint64_t *value,
                   size_t count);
/* Writes a message as a field of the file, and empties it. False: the stream or memory failed. */
bool exp_pb_write(FILE *out, uint32_t field, struct exp_message *message);
void exp_pb_free(struct exp_message *message);

#endif

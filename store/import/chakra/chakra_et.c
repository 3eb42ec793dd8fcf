/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of Chakra in protocol buffers (.et): messages, each after its length; the first is a
 * GlobalMetadata, the others are nodes. et_def.proto has the numbers of the fields.
 */
#include <ctype.h>
#include <string.h>

#include "store/import/chakra/chakra_private.h"
#include "store/import/input/protobuf.h"

#define METADATA_MOST   65536 /* bytes */
#define NODE_TYPES_MOST 16

enum { METADATA_VERSION = 1, METADATA_ATTRIBUTE = 2 };
enum {
    NODE_ID = 1,
    NODE_NAME,
    NODE_TYPE,
    NODE_CTRL_DEPS,
    NODE_DATA_DEPS,
    NODE_START,
    NODE_DURATION,
    NODE_INPUTS,
    NODE_OUTPUTS,
    NODE_ATTRIBUTE
};
enum { VALUES = 1 }; /* of inputs and outputs: a text */
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FIRST_VALUE = 3 };

/* The next message of a file; false: there is none, or it is cut off (`bad`). */
static bool next_message(struct pb *file, struct pb_span *message)
{
    uint64_t bytes;
    if (file->at >= file->end || !pb_varint(file, &bytes))
        return false;
    if (bytes > (uint64_t)(file->end - file->at)) {
        file->bad = true;
        return false;
    }
    *message = (struct pb_span){file->at, (size_t)bytes};
    file->at += bytes;
    return true;
}

/* Is it a text of letters, digits and signs that names and versions have? */
static bool is_word(struct pb_span text)
{
    for (size_t i = 0; i < text.bytes; i++)
        if (!isalnum(text.data[i]) && !strchr(".-_ ", text.data[i]))
            return false;
    return text.bytes > 0 && text.bytes < 64;
}

/* Is it a GlobalMetadata: a version, attributes that have a name, or both? The converter of
 * PyTorch's traces writes attributes alone. */
static bool is_metadata(struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field, name;
    bool any = false;
    while (pb_next(&pb, &field)) {
        struct pb_span word = field.span;
        if (field.wire != PB_BYTES || field.number > METADATA_ATTRIBUTE || !field.number)
            return false;
        struct pb attribute = pb_of(field.span);
        if (field.number == METADATA_ATTRIBUTE) {
            if (!pb_next(&attribute, &name) || name.number != ATTRIBUTE_NAME ||
                name.wire != PB_BYTES)
                return false;
            word = name.span;
        }
        if (!is_word(word))
            return false;
        any = true;
    }
    return any && !pb.bad;
}

static bool is_node(struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    bool named = false, typed = false;
    while (pb_next(&pb, &field)) {
        named |= field.number == NODE_NAME && field.wire == PB_BYTES;
        typed |=
            field.number == NODE_TYPE && field.wire == PB_VARINT && field.value <= NODE_TYPES_MOST;
    }
    return named && typed && !pb.bad;
}

bool chakra_et_recognises(const unsigned char *head, size_t bytes)
{
    struct pb file = pb_of((struct pb_span){head, bytes});
    struct pb_span message, second;
    if (!next_message(&file, &message) || message.bytes >= METADATA_MOST ||
        !next_message(&file, &second) || !is_node(second))
        return false;
    /* Some generators leave the metadata empty: then a second node has to show what it is. */
    return is_metadata(message) ||
           (!message.bytes && next_message(&file, &second) && is_node(second));
}

/* One id, or several in one field (packed). */
static int read_needs(struct chakra *chakra, const struct pb_field *field)
{
    struct pb pb = pb_of(field->span);
    uint64_t id;
    int rc = 0;
    if (field->wire == PB_VARINT)
        return chakra_need_add(chakra, (int64_t)field->value);
    if (field->wire != PB_BYTES)
        return 0;
    while (!rc && pb.at < pb.end && pb_varint(&pb, &id))
        rc = chakra_need_add(chakra, (int64_t)id);
    chakra->damaged |= pb.bad;
    return rc;
}

static bool is_text(struct pb_span span, const char *text)
{
    return span.bytes == strlen(text) && !memcmp(span.data, text, span.bytes);
}

/* One attribute: a name and a value of one of many types. */
static void read_attribute(struct chakra_node *node, struct pb_span message)
{
    struct pb pb = pb_of(message);
    struct pb_field field;
    struct pb_span name = {NULL, 0};
    int64_t value = STORE_ABSENT;
    while (pb_next(&pb, &field)) {
        if (field.number == ATTRIBUTE_NAME && field.wire == PB_BYTES)
            name = field.span;
        else if (field.number >= ATTRIBUTE_FIRST_VALUE && field.wire == PB_VARINT)
            value = (int64_t)field.value;
    }
    if (pb.bad || !name.bytes)
        return;
    if (is_text(name, "is_cpu_op")) /* false is not written */
        node->host = value > 0;
    else if (is_text(name, "comm_type"))
        node->collective = value == STORE_ABSENT ? 0 : value;
    else if (is_text(name, "comm_size") || (is_text(name, "tensor_size") && node->bytes < 0))
        node->bytes = value;
    else if (is_text(name, "num_ops"))
        node->flops = value;
    else if (is_text(name, "stream"))
        node->stream = value;
}

/* Needs of a node that are data; only if they follow each other. */
static int read_data_needs(struct chakra *chakra, struct chakra_node *node,
                           const struct pb_field *field)
{
    size_t before = chakra->need_count;
    int rc = read_needs(chakra, field);
    if (!node->data_needs)
        node->first_data_need = before;
    if (node->first_data_need + node->data_needs == before)
        node->data_needs = chakra->need_count - node->first_data_need;
    return rc;
}

static void read_values(const struct pb_field *from, struct chakra_values *values)
{
    struct pb pb = pb_of(from->span);
    struct pb_field field;
    while (from->wire == PB_BYTES && pb_next(&pb, &field))
        if (field.number == VALUES && field.wire == PB_BYTES)
            *values = (struct chakra_values){(const char *)field.span.data, field.span.bytes};
}

static int64_t ns_of(uint64_t us)
{
    return us <= (uint64_t)IMP_TIME_MAX / 1000 ? (int64_t)us * 1000 : STORE_ABSENT;
}

static int read_node(struct chakra *chakra, struct pb_span message)
{
    struct chakra_node *node = chakra_node_add(chakra);
    struct pb pb = pb_of(message);
    struct pb_field field;
    int rc = 0;
    if (!node)
        return TACHO_ENOMEM;
    node->id = 0; /* a field of 0 is not written */
    while (!rc && pb_next(&pb, &field)) {
        if (field.number == NODE_ID)
            node->id = (int64_t)field.value;
        else if (field.number == NODE_NAME && field.wire == PB_BYTES) {
            node->name = (const char *)field.span.data;
            node->name_bytes = field.span.bytes;
        } else if (field.number == NODE_TYPE)
            node->type = (int64_t)field.value;
        else if (field.number == NODE_CTRL_DEPS)
            rc = read_needs(chakra, &field);
        else if (field.number == NODE_DATA_DEPS)
            rc = read_data_needs(chakra, node, &field);
        else if (field.number == NODE_INPUTS)
            read_values(&field, &node->inputs);
        else if (field.number == NODE_OUTPUTS)
            read_values(&field, &node->outputs);
        else if (field.number == NODE_START && field.wire == PB_VARINT)
            node->start = ns_of(field.value);
        else if (field.number == NODE_DURATION && field.wire == PB_VARINT)
            node->dur = ns_of(field.value);
        else if (field.number == NODE_ATTRIBUTE && field.wire == PB_BYTES)
            read_attribute(node, field.span);
    }
    chakra->damaged |= pb.bad;
    return rc;
}

int chakra_et_read(struct chakra *chakra, const unsigned char *data, size_t bytes)
{
    struct pb file = pb_of((struct pb_span){data, bytes});
    struct pb_span message;
    int rc = 0;
    bool first = true;
    while (!rc && next_message(&file, &message)) {
        if (!first)
            rc = read_node(chakra, message);
        first = false;
    }
    chakra->damaged |= file.bad;
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node reads, writes and needs, as the payload of its slice (docs/schema.md, graph.op).
 *
 * The values of inputs and outputs are lists, in JSON or as Python prints them. A tensor is a list
 * of numbers and its device: [tensor, storage, offset, elements, bytes of an element, "cuda:0"]
 * (PyTorch's execution trace observer); other values are scalars, and lists of tensors hold such
 * lists. Tensors without memory (storage 0 and no elements) are left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/import/chakra/chakra_private.h"

#define PAYLOAD_MOST 60000 /* bytes */
#define PLACE_MOST   100   /* bytes of one number or tensor in it */

enum { TENSOR, STORAGE, OFFSET, ELEMENTS, ITEM, NUMBERS };

/* The text behind a quoted one that begins here. */
static const char *skip_quoted(const char *at, const char *end)
{
    char quote = *at++;
    for (; at < end && *at != quote; at++)
        at += *at == '\\' && at + 1 < end;
    return at < end ? at + 1 : end;
}

/* The number that begins here; the text is not terminated. */
static const char *read_number(const char *at, const char *end, int64_t *number)
{
    bool negative = *at == '-';
    at += negative;
    *number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        *number = *number < INT64_MAX / 100 ? *number * 10 + (*at - '0') : *number;
    *number = negative ? -*number : *number;
    return at;
}

/* Adds a tensor to the payload. */
static size_t put_tensor(char *payload, size_t used, const int64_t *number, bool first)
{
    int64_t id = number[STORAGE] ? number[STORAGE] : number[TENSOR], bytes;
    if (number[ELEMENTS] <= 0 || __builtin_mul_overflow(number[ELEMENTS], number[ITEM], &bytes) ||
        used + PLACE_MOST > PAYLOAD_MOST)
        return used;
    return used + (size_t)sprintf(payload + used, "%s[%" PRId64 ", %" PRId64 ", %" PRId64 "]",
                                  first ? "" : ", ", id, bytes, number[OFFSET]);
}

/* Adds the tensors of a list of values. A list begins anew at each bracket, so that lists of lists
 * need no stack. */
static size_t put_tensors(char *payload, size_t used, const struct chakra_values *values)
{
    const char *at = values->text, *end = at + values->bytes;
    int64_t number[NUMBERS];
    size_t count = 0, begun = used;
    while (at && at < end) {
        char character = *at;
        if (character == '"' || character == '\'') {
            at = skip_quoted(at, end);
        } else if (character == '-' || (character >= '0' && character <= '9')) {
            int64_t value;
            const char *before = at;
            at = read_number(at, end, &value);
            at += at == before;
            if (count < NUMBERS)
                number[count] = value;
            count++;
        } else {
            if (character == ']' && count == NUMBERS)
                used = put_tensor(payload, used, number, used == begun);
            count = character == '[' || character == ']' ? 0 : count;
            at++;
        }
    }
    return used;
}

char *chakra_payload(const struct chakra *chakra, size_t index)
{
    const struct chakra_node *node = &chakra->node[index];
    bool placed = chakra->path_ns != STORE_ABSENT, any = false;
    if (!node->data_needs && !node->inputs.bytes && !node->outputs.bytes)
        return NULL;
    char *payload = malloc(PAYLOAD_MOST + 3 * PLACE_MOST);
    if (!payload)
        return NULL;
    size_t used = (size_t)sprintf(payload, "{\"node\":%" PRId64 ", \"needs\":[",
                                  placed ? (int64_t)index : node->id);
    for (size_t i = 0; i < node->data_needs && used + PLACE_MOST < PAYLOAD_MOST; i++) {
        int64_t need = chakra->need[node->first_data_need + i];
        if (placed && need < 0)
            continue;
        used += (size_t)sprintf(payload + used, "%s%" PRId64, any ? ", " : "", need);
        any = true;
    }
    used += (size_t)sprintf(payload + used, "], \"reads\":[");
    used = put_tensors(payload, used, &node->inputs);
    used += (size_t)sprintf(payload + used, "], \"writes\":[");
    used = put_tensors(payload, used, &node->outputs);
    sprintf(payload + used, "]}");
    return payload;
}

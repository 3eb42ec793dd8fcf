/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to ops_operands*.c: the list that a row fills, and the rows of the other file.
 */
#ifndef LT_OPERANDS_LIST_H
#define LT_OPERANDS_LIST_H

#include "libtrain/ops/operands.h"

enum { READS = LT_OPERAND_READ, WRITES = LT_OPERAND_WRITTEN, UPDATES = READS | WRITES };

struct list {
    struct lt_operand *operand;
    size_t count, width; /* width: bytes of an element of the context's type */
    enum lt_op_id op;
};

/* An operand that is there twice, as the gradient of an operation in place, is one. */
static inline void add(struct list *list, unsigned how, const void *at, int64_t bytes)
{
    if (!at || bytes <= 0)
        return;
    for (size_t i = 0; i < list->count; i++)
        if (list->operand[i].at == at && list->operand[i].bytes == (uint64_t)bytes) {
            list->operand[i].how |= how;
            return;
        }
    if (list->count < LT_OPERANDS_MOST)
        list->operand[list->count++] = (struct lt_operand){at, (uint64_t)bytes, how};
}

/* Elements of the context's type; words of four bytes. */
static inline void typed(struct list *list, unsigned how, const void *at, int64_t count)
{
    add(list, how, at, count * (int64_t)list->width);
}

static inline void words(struct list *list, unsigned how, const void *at, int64_t count)
{
    add(list, how, at, count * (int64_t)sizeof(float));
}

/* ops_operands_net.c: id, function suffix. */
#define LT_OPERANDS_NET(X) \
    X(IMAGE_FORWARD, image_forward) \
    X(CONV_FORWARD, conv_forward) \
    X(CONV_BACKWARD, conv_backward) \
    X(BATCHNORM_FORWARD, batchnorm_forward) \
    X(BATCHNORM_BACKWARD, batchnorm_backward) \
    X(RELU_FORWARD, relu_forward) \
    X(RELU_BACKWARD, relu_backward) \
    X(MAXPOOL_FORWARD, maxpool_forward) \
    X(MAXPOOL_BACKWARD, maxpool_backward) \
    X(AVGPOOL_FORWARD, avgpool_forward) \
    X(AVGPOOL_BACKWARD, avgpool_backward) \
    X(ROUTE_FORWARD, route_forward) \
    X(ROUTE_BACKWARD, route_backward) \
    X(DISPATCH_FORWARD, dispatch_forward) \
    X(DISPATCH_BACKWARD, dispatch_backward) \
    X(EXPERTS_FORWARD, experts_forward) \
    X(EXPERTS_BACKWARD, experts_backward) \
    X(COMBINE_FORWARD, combine_forward) \
    X(COMBINE_BACKWARD, combine_backward)
#define LT_OPERANDS_DECLARE(id, function) \
    void lt_operands_##function(struct list *list, const union lt_args *args);
LT_OPERANDS_NET(LT_OPERANDS_DECLARE)
#undef LT_OPERANDS_DECLARE

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of operations: what they read and write adds up to the bytes of lt_op_work, which
 * follow from the shapes alone; an operand that is there twice is one.
 */
#include "lt_support.h"

#include <string.h>

#include "libtrain/ops/operands.h"
#include "tacho_nvtx.h"

/* Memory that is only pointed at. */
static char memory[1 << 16];
#define AT(number) ((void *)(memory + 4096 * (number)))

enum { ROWS = 6, CHANNELS = 32, WIDE = 48, HEADS = 4, GROUPS = 2, BATCH = 2, TIME = 3 };

struct call {
    enum lt_op_id op;
    size_t operands;
    union lt_args args;
};

static const struct call calls[] = {
    {LT_OP_LAYERNORM_FORWARD,
     6,
     {.layernorm_forward = {.out = AT(0),
                            .mean = AT(1),
                            .rstd = AT(2),
                            .in = AT(3),
                            .weight = AT(4),
                            .bias = AT(5),
                            .rows = ROWS,
                            .c = CHANNELS}}},
    {LT_OP_LAYERNORM_BACKWARD,
     8,
     {.layernorm_backward = {.in = AT(0),
                             .mean = AT(1),
                             .rstd = AT(2),
                             .weight = AT(3),
                             .dout = AT(4),
                             .din = AT(5),
                             .dweight = AT(6),
                             .dbias = AT(7),
                             .rows = ROWS,
                             .c = CHANNELS}}},
    {LT_OP_MATMUL_FORWARD,
     4,
     {.matmul_forward = {.out = AT(0),
                         .in = AT(1),
                         .weight = AT(2),
                         .bias = AT(3),
                         .rows = ROWS,
                         .n = WIDE,
                         .k = CHANNELS}}},
    {LT_OP_MATMUL_BACKWARD,
     6,
     {.matmul_backward = {.in = AT(0),
                          .weight = AT(1),
                          .dout = AT(2),
                          .din = AT(3),
                          .dweight = AT(4),
                          .dbias = AT(5),
                          .rows = ROWS,
                          .n = WIDE,
                          .k = CHANNELS,
                          .accumulate = 1,
                          .add = 1}}},
    {LT_OP_MATMUL_BACKWARD,
     3,
     {.matmul_backward = {.in = AT(0),
                          .weight = AT(1),
                          .dout = AT(2),
                          .dweight = AT(4),
                          .rows = ROWS,
                          .n = WIDE,
                          .k = CHANNELS}}},
    {LT_OP_ATTENTION_FORWARD,
     3,
     {.attention_forward = {.out = AT(0),
                            .lse = AT(1),
                            .qkv = AT(2),
                            .scratch = AT(3),
                            .b = BATCH,
                            .t = TIME,
                            .c = CHANNELS,
                            .h = HEADS}}},
    {LT_OP_ATTENTION_BACKWARD,
     5,
     {.attention_backward = {.out = AT(0),
                             .lse = AT(1),
                             .qkv = AT(2),
                             .dout = AT(3),
                             .dqkv = AT(4),
                             .b = BATCH,
                             .t = TIME,
                             .c = CHANNELS,
                             .h = HEADS}}},
    {LT_OP_GELU_FORWARD, 2, {.gelu_forward = {.out = AT(0), .in = AT(1), .count = 77}}},
    {LT_OP_GELU_BACKWARD,
     3,
     {.gelu_backward = {.in = AT(0), .dout = AT(1), .din = AT(2), .count = 77}}},
    {LT_OP_GELU_BACKWARD, /* in place */
     2,
     {.gelu_backward = {.in = AT(0), .dout = AT(1), .din = AT(1), .count = 77}}},
    {LT_OP_RESIDUAL_FORWARD,
     3,
     {.residual_forward = {.out = AT(0), .a = AT(1), .b = AT(2), .count = 77}}},
    {LT_OP_RMSNORM_FORWARD,
     4,
     {.rmsnorm_forward = {.out = AT(0),
                          .rstd = AT(1),
                          .in = AT(2),
                          .weight = AT(3),
                          .rows = ROWS,
                          .c = CHANNELS}}},
    {LT_OP_RMSNORM_BACKWARD,
     6,
     {.rmsnorm_backward = {.rstd = AT(0),
                           .in = AT(1),
                           .weight = AT(2),
                           .dout = AT(3),
                           .din = AT(4),
                           .dweight = AT(5),
                           .rows = ROWS,
                           .c = CHANNELS,
                           .add = 1}}},
    {LT_OP_ROPE_FORWARD,
     3,
     {.rope_forward = {.out = AT(0),
                       .in = AT(1),
                       .turn = AT(2),
                       .b = BATCH,
                       .t = TIME,
                       .c = CHANNELS,
                       .h = HEADS,
                       .groups = GROUPS}}},
    {LT_OP_ROPE_BACKWARD,
     3,
     {.rope_backward = {.dout = AT(0),
                        .din = AT(1),
                        .turn = AT(2),
                        .b = BATCH,
                        .t = TIME,
                        .c = CHANNELS,
                        .h = HEADS,
                        .groups = GROUPS}}},
    {LT_OP_SWIGLU_FORWARD,
     2,
     {.swiglu_forward = {.out = AT(0), .in = AT(1), .rows = ROWS, .f = CHANNELS}}},
    {LT_OP_SWIGLU_BACKWARD,
     3,
     {.swiglu_backward = {.in = AT(0), .dout = AT(1), .din = AT(2), .rows = ROWS, .f = CHANNELS}}},
    {LT_OP_CLASSIFIER,
     3,
     {.classifier = {.logits = AT(0),
                     .losses = AT(1),
                     .targets = AT(2),
                     .rows = ROWS,
                     .v = WIDE,
                     .backward = 1}}},
    {LT_OP_CLASSIFIER_PART,
     3,
     {.classifier_part =
          {.logits = AT(0), .stats = AT(1), .targets = AT(2), .rows = ROWS, .v = WIDE}}},
    {LT_OP_CLASSIFIER_JOIN,
     4,
     {.classifier_join = {.logits = AT(0),
                          .losses = AT(1),
                          .stats = AT(2),
                          .targets = AT(3),
                          .rows = ROWS,
                          .v = WIDE,
                          .ranks = 2,
                          .backward = 1}}},
    {LT_OP_NORM, 1, {.norm = {.x = AT(0), .count = 77}}},
    {LT_OP_CLIP, 1, {.clip = {.x = AT(0), .count = 77}}},
    {LT_OP_CENTRE, 1, {.centre = {.x = AT(0), .rows = 7, .columns = 11}}},
    {LT_OP_ROUNDING, 2, {.rounding = {.x = AT(0), .shadow = AT(1), .count = 77}}},
    {LT_OP_ZERO, 1, {.zero = {.x = AT(0), .count = 77}}},
    {LT_OP_ADAMW,
     5,
     {.adamw =
          {.param = AT(0), .state = {AT(1), AT(2)}, .shadow = AT(3), .grad = AT(4), .count = 77}}},
    {LT_OP_SGD, 2, {.sgd = {.param = AT(0), .grad = AT(1), .count = 77}}},
    {LT_OP_EXCHANGE, 2, {.exchange = {.param = AT(0), .other = AT(1), .count = 77}}},
    {LT_OP_IMAGE_FORWARD, 2, {.image_forward = {.out = AT(0), .in = AT(1), .count = 77}}},
    {LT_OP_CONV_FORWARD,
     3,
     {.conv_forward = {.out = AT(0),
                       .in = AT(1),
                       .weight = AT(2),
                       .scratch = AT(3),
                       .b = BATCH,
                       .h = 9,
                       .w = 7,
                       .c = 3,
                       .n = 5,
                       .k = 3,
                       .stride = 2,
                       .pad = 1}}},
    {LT_OP_CONV_BACKWARD,
     5,
     {.conv_backward = {.in = AT(1),
                        .weight = AT(2),
                        .dout = AT(3),
                        .din = AT(4),
                        .dweight = AT(5),
                        .b = BATCH,
                        .h = 9,
                        .w = 7,
                        .c = 3,
                        .n = 5,
                        .k = 3,
                        .stride = 2,
                        .pad = 1,
                        .accumulate = 1,
                        .add = 1}}},
    {LT_OP_BATCHNORM_FORWARD,
     8,
     {.batchnorm_forward = {.out = AT(0),
                            .mean = AT(1),
                            .rstd = AT(2),
                            .running_mean = AT(3),
                            .running_variance = AT(4),
                            .in = AT(5),
                            .weight = AT(6),
                            .bias = AT(7),
                            .rows = ROWS,
                            .c = CHANNELS,
                            .update = 1}}},
    {LT_OP_BATCHNORM_BACKWARD,
     8,
     {.batchnorm_backward = {.mean = AT(1),
                             .rstd = AT(2),
                             .in = AT(3),
                             .weight = AT(4),
                             .dout = AT(5),
                             .din = AT(6),
                             .dweight = AT(7),
                             .dbias = AT(8),
                             .rows = ROWS,
                             .c = CHANNELS}}},
    {LT_OP_RELU_FORWARD, 2, {.relu_forward = {.out = AT(0), .in = AT(1), .count = 77}}},
    {LT_OP_RELU_BACKWARD,
     3,
     {.relu_backward = {.out = AT(0), .dout = AT(1), .din = AT(2), .count = 77}}},
    {LT_OP_MAXPOOL_FORWARD,
     3,
     {.maxpool_forward = {.out = AT(0),
                          .where = AT(1),
                          .in = AT(2),
                          .b = BATCH,
                          .h = 9,
                          .w = 7,
                          .c = 3,
                          .k = 3,
                          .stride = 2,
                          .pad = 1}}},
    {LT_OP_MAXPOOL_BACKWARD,
     3,
     {.maxpool_backward = {.where = AT(1),
                           .dout = AT(2),
                           .din = AT(3),
                           .b = BATCH,
                           .h = 9,
                           .w = 7,
                           .c = 3,
                           .k = 3,
                           .stride = 2,
                           .pad = 1}}},
    {LT_OP_AVGPOOL_FORWARD,
     2,
     {.avgpool_forward = {.out = AT(0), .in = AT(1), .b = BATCH, .pixels = 12, .c = 5}}},
    {LT_OP_AVGPOOL_BACKWARD,
     2,
     {.avgpool_backward = {.dout = AT(0), .din = AT(1), .b = BATCH, .pixels = 12, .c = 5}}},
    {LT_OP_ROUTE_FORWARD,
     5,
     {.route_forward = {.gate = AT(0),
                        .share = AT(1),
                        .load = AT(2),
                        .slot = AT(3),
                        .in = AT(4),
                        .rows = ROWS,
                        .experts = 4,
                        .k = 2,
                        .capacity = 3}}},
    {LT_OP_ROUTE_BACKWARD,
     6,
     {.route_backward = {.gate = AT(0),
                         .share = AT(1),
                         .load = AT(2),
                         .slot = AT(3),
                         .dgate = AT(4),
                         .din = AT(5),
                         .rows = ROWS,
                         .experts = 4,
                         .k = 2,
                         .capacity = 3}}},
    {LT_OP_DISPATCH_FORWARD,
     3,
     {.dispatch_forward = {.out = AT(0),
                           .in = AT(1),
                           .slot = AT(2),
                           .rows = ROWS,
                           .k = 2,
                           .slots = 2 * ROWS,
                           .c = CHANNELS}}},
    {LT_OP_DISPATCH_BACKWARD,
     3,
     {.dispatch_backward = {.dout = AT(0),
                            .slot = AT(1),
                            .din = AT(2),
                            .rows = ROWS,
                            .k = 2,
                            .slots = 2 * ROWS,
                            .c = CHANNELS,
                            .add = 1}}},
    {LT_OP_EXPERTS_FORWARD,
     3,
     {.experts_forward = {.out = AT(0),
                          .in = AT(1),
                          .weight = AT(2),
                          .experts = 4,
                          .capacity = 3,
                          .n = 5,
                          .k = CHANNELS}}},
    {LT_OP_EXPERTS_BACKWARD,
     5,
     {.experts_backward = {.in = AT(0),
                           .weight = AT(1),
                           .dout = AT(2),
                           .din = AT(3),
                           .dweight = AT(4),
                           .experts = 4,
                           .capacity = 3,
                           .n = 5,
                           .k = CHANNELS}}},
    {LT_OP_COMBINE_FORWARD,
     4,
     {.combine_forward = {.out = AT(0),
                          .in = AT(1),
                          .slot = AT(2),
                          .gate = AT(3),
                          .rows = ROWS,
                          .k = 2,
                          .slots = 2 * ROWS,
                          .c = CHANNELS}}},
    {LT_OP_COMBINE_BACKWARD,
     6,
     {.combine_backward = {.in = AT(0),
                           .slot = AT(1),
                           .gate = AT(2),
                           .dout = AT(3),
                           .din = AT(4),
                           .dgate = AT(5),
                           .rows = ROWS,
                           .k = 2,
                           .slots = 2 * ROWS,
                           .c = CHANNELS}}},
};

static void operands_are_the_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int dtype = 0; dtype < LT_DTYPE_COUNT; dtype++) {
            struct lt_context context = {.backend = LT_BACKEND_CPU, .dtype = (enum lt_dtype)dtype};
            struct lt_operand operand[LT_OPERANDS_MOST];
            struct tacho_work work;
            uint64_t read = 0, written = 0;
            size_t count = lt_op_operands(calls[i].op, &context, &calls[i].args, operand);
            lt_op_work(calls[i].op, &context, &calls[i].args, &work);
            for (size_t k = 0; k < count; k++) {
                read += operand[k].how & LT_OPERAND_READ ? operand[k].bytes : 0;
                written += operand[k].how & LT_OPERAND_WRITTEN ? operand[k].bytes : 0;
            }
            if (count != calls[i].operands || read != work.bytes_read ||
                written != work.bytes_written)
                fail_msg("%s, call %zu: %zu operands, %llu and %llu bytes, not %llu and %llu",
                         lt_op_names()[calls[i].op], i, count, (unsigned long long)read,
                         (unsigned long long)written, (unsigned long long)work.bytes_read,
                         (unsigned long long)work.bytes_written);
        }
}

/* All of a table that is looked up, and the words of the batch. */
static void a_table_is_named_whole(void **state)
{
    (void)state;
    struct lt_context context = {.backend = LT_BACKEND_CPU};
    struct lt_operand operand[LT_OPERANDS_MOST];
    union lt_args args = {.embedding_forward = {.out = AT(0),
                                                .word = AT(1),
                                                .tokens = AT(2),
                                                .b = BATCH,
                                                .t = TIME,
                                                .c = CHANNELS,
                                                .v = 100}};
    size_t count = lt_op_operands(LT_OP_EMBEDDING_FORWARD, &context, &args, operand);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        if (operand[i].at == AT(1))
            assert_int_equal(operand[i].bytes, 4 * 100 * CHANNELS);
        assert_int_equal(operand[i].how,
                         operand[i].at == AT(0) ? LT_OPERAND_WRITTEN : LT_OPERAND_READ);
    }
}

/* Every operation has a row. */
static void every_operation_has_operands(void **state)
{
    (void)state;
    struct lt_context context = {.backend = LT_BACKEND_CPU};
    struct lt_operand operand[LT_OPERANDS_MOST];
    for (int op = 0; op < LT_OP_COUNT; op++) {
        union lt_args args;
        memset(&args, 0, sizeof args);
        if (op == LT_OP_ROPE_FORWARD || op == LT_OP_ROPE_BACKWARD)
            args.rope_forward.h = 1;
        if (op == LT_OP_CONV_FORWARD || op == LT_OP_CONV_BACKWARD)
            args.conv_forward.stride = 1;
        if (op == LT_OP_MAXPOOL_FORWARD || op == LT_OP_MAXPOOL_BACKWARD)
            args.maxpool_forward.stride = 1;
        assert_int_equal(lt_op_operands((enum lt_op_id)op, &context, &args, operand), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_the_bytes),
        cmocka_unit_test(a_table_is_named_whole),
        cmocka_unit_test(every_operation_has_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

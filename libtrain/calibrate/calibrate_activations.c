/* SPDX-License-Identifier: Apache-2.0
 *
 * The activation functions of activations.h, forward and backward: at the hidden layer of GPT-2
 * 124M's MLP, softmax at its attention's probabilities, with four samples of 64 and of 256 tokens.
 */
#include <stdio.h>
#include <string.h>

#include "libtrain/base/arena.h"
#include "libtrain/calibrate/activations.h"
#include "libtrain/calibrate/calibrate_making.h"

#define BATCH  4
#define HEADS  12
#define HIDDEN (4 * LT_MAKING_CHANNELS)
#define MOST   ((size_t)1 << 29) /* bytes of all sets of operands */

/* One function at one shape. The arrays of a set lie one after the other: input, result, and for
 * backward between them the gradient of the result. */
struct calls {
    enum lt_activation activation;
    enum lt_dtype dtype;
    int backward;
    int64_t rows, columns;
    char *base;
    size_t array; /* bytes of one, a multiple of a cache line */
};

static void call(const void *arg, int set)
{
    const struct calls *calls = arg;
    char *in = calls->base + (size_t)set * calls->array * (size_t)(2 + calls->backward);
    if (calls->backward)
        lt_activation_backward(calls->activation, calls->dtype, in, in + calls->array,
                               in + 2 * calls->array, calls->rows, calls->columns);
    else
        lt_activation_forward(calls->activation, calls->dtype, in, in + calls->array, calls->rows,
                              calls->columns);
}

static int one(struct lt_calibration *calibration, struct calls *calls,
               const struct lt_calibrate_options *options)
{
    int64_t count = calls->rows * calls->columns;
    uint64_t bytes = (uint64_t)count * lt_dtype_bytes(calls->dtype);
    struct lt_op_time row = {
        .op = lt_activation_name(calls->activation),
        .pass = calls->backward ? "backward" : "forward",
        .kind = "other",
        .dtype = lt_dtype_name(calls->dtype),
        .flops = (uint64_t)(count * lt_activation_flops(calls->activation, calls->backward)),
        .bytes_read = bytes * (uint64_t)(1 + calls->backward),
        .bytes_written = bytes};
    struct lt_arena arena;
    float *base;
    calls->array = (bytes + 63) / 64 * 64;
    size_t set = calls->array * (size_t)(2 + calls->backward),
           sets = lt_calibrate_cold_sets(options, row.bytes_read + row.bytes_written);
    int is_cold = sets * set <= MOST;
    sets = is_cold ? sets : 1;
    struct lt_tensor tensors[] = {{"operands", sets * set / sizeof(float), &base}};
    int rc = lt_arena_create(&arena, LT_MEMORY_WORKSPACE, tensors, 1);
    if (rc)
        return rc;
    lt_calibrate_fill(base, sets * set);
    calls->base = (char *)base;
    snprintf(row.shape, sizeof row.shape, "%lld x %lld", (long long)calls->rows,
             (long long)calls->columns);
    rc = lt_calibrate_subject(calibration, &row, &(struct lt_subject){call, calls, (int)sets},
                              is_cold, options);
    lt_arena_destroy(&arena);
    return rc;
}

int lt_calibrate_activations(struct lt_calibration *out, const struct lt_calibrate_options *options)
{
    static const int64_t tokens[] = {64, 256};
    int rc = 0, shapes = options->quick ? 1 : 2;
    for (int activation = 0; activation < LT_ACTIVATION_COUNT; activation++)
        for (int dtype = 0; dtype < LT_DTYPE_EMULATED; dtype++)
            for (int i = 0; i < 2 * shapes && rc == 0; i++) {
                struct calls calls = {.activation = (enum lt_activation)activation,
                                      .dtype = (enum lt_dtype)dtype,
                                      .backward = i % 2,
                                      .rows = BATCH * tokens[i / 2],
                                      .columns = HIDDEN};
                if (activation == LT_ACTIVATION_SOFTMAX) {
                    calls.rows = BATCH * HEADS * tokens[i / 2];
                    calls.columns = tokens[i / 2];
                }
                rc = one(out, &calls, options);
            }
    return rc;
}

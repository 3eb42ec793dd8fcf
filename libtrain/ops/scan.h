/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: looks at what operations have written, and spoils it on request.
 *
 * Both hang on the context (ops.h): with `scan`, lt_op looks at every output of every operation of
 * forward and backward; with `fault`, it writes a value into the first output of one operation.
 * Without them lt_op does nothing of this. Only backends whose arrays the processor can read
 * support it.
 */
#ifndef LT_SCAN_H
#define LT_SCAN_H

#include "libtrain/ops/ops.h"

#define LT_OUTPUTS     3
#define LT_SCAN_LAYERS 4096

/* What an operation writes: `floats` in every dtype, or elements of the context's. */
struct lt_written {
    void *at;
    int64_t count;
    int floats;
};

/* The outputs of a call of forward or backward; how many. Passes of the optimizer have none. */
int lt_op_outputs(enum lt_op_id op, const union lt_args *args, struct lt_written out[LT_OUTPUTS]);

/* What was seen. Layers count from 1, 0 is what belongs to none. */
struct lt_scan {
    int found;        /* an output that is not finite */
    enum lt_op_id op; /* the first one that wrote such */
    int layer;
    /* Gradients of activations by layer: elements, and those that are exactly 0. */
    struct {
        uint64_t elements, zeros;
    } gradient[LT_SCAN_LAYERS + 1];
};

/* Adds what this call wrote. */
void lt_scan_op(struct lt_scan *scan, const struct lt_context *context, enum lt_op_id op,
                const union lt_args *args);

/* A value that is written into the first output of `op` in that layer. */
struct lt_fault {
    enum lt_op_id op;
    int layer;
    float value;
};

void lt_fault_op(const struct lt_fault *fault, const struct lt_context *context, enum lt_op_id op,
                 const union lt_args *args);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: what one call of a framework's operator must compute and move, from its
 * recorded shapes (payload torch.op of docs/schema.md: keys shapes, types, concrete, stack).
 *
 * FLOPs: a multiply-add is 2. Of GEMMs and convolutions only the multiply-adds count, not bias
 * or scaling; they agree with torch.utils.flop_counter (tests/unit/analyzers/work/test_an_op_cost.c
 * holds its numbers) except where that one is wrong: weights of grouped convolutions, and masks of
 * attention, which it ignores. Of attention there are three numbers:
 * - model: what the model needs, two products forward and four backward, with the pairs of query
 * and key exact for the mask;
 * - palm: the same with all pairs;
 * - executed: what a fused kernel multiplies, five products backward, because it computes the
 * scores again. It skips what is fully masked (the masked part of blocks on the diagonal is not
 * counted: the block size is not recorded). Element-wise work, norms and reductions count one FLOP
 * an arithmetic operation or elementary function of the operator's definition; they are in no model
 * FLOPs. Copies, fills and look-ups have 0 FLOPs. Bytes are a model: each tensor is read or written
 * once, whatever the caches do. An operator that is not in the tables has no cost; what its payload
 * does not tell is absent with the reason. Nothing is guessed.
 */
#ifndef ANALYZERS_OP_COST_H
#define ANALYZERS_OP_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzers/base/arena.h"

#define AN_OP_RANK_MAX 8

struct an_op_tensor {
    int rank;
    int64_t dim[AN_OP_RANK_MAX];
    /* "fp32", "bf16", "int64" ...; "" where the trace does not say (lists of tensors). */
    const char *dtype;
    int bytes; /* of an element; 0: not known */
};

/* One argument of the call. */
struct an_op_input {
    const struct an_op_tensor *tensor; /* of a list all of them */
    size_t count;                      /* 0: no tensor */
    bool list;
    const char *concrete; /* value of a scalar or a list of scalars as text, "" = not recorded */
};

struct an_op_args {
    const struct an_op_input *input;
    size_t count;
    bool shapes;              /* shapes were recorded */
    bool concrete;            /* values of scalars were recorded */
    const char *const *frame; /* Python stack, innermost first, "file.py(12): f" */
    size_t frames;
};

enum an_op_kind { AN_OP_OTHER, AN_OP_MATRIX, AN_OP_ATTENTION, AN_OP_CONVOLUTION };

/* STORE_ABSENT: not known. */
struct an_op_cost {
    enum an_op_kind kind;
    /* Executed, of the model, with full attention; only for attention they differ. */
    int64_t flops, model_flops, palm_flops;
    int64_t bytes;
    const char *dtype;  /* of the operands, "" = not known */
    const char *reason; /* why flops are absent, static; NULL where they are known */
};

/* What is known from other operators where the payload of a call does not suffice. */
struct an_op_context {
    const struct an_op_tensor
        *output; /* shape of the result, from the gradient that came back; NULL */
    const struct an_op_args *outer; /* arguments of the enclosing operator; NULL */
};

/* Parses a payload; `out` lies in the arena. A text that is not JSON, or of other keys, has no
 * shapes. Shapes with negative sizes or more than AN_OP_RANK_MAX dimensions count as not recorded.
 * 0 or TACHO_ENOMEM. */
int an_op_args_parse(struct an_arena *arena, const char *payload, struct an_op_args *out);

/* Number of the operator in the tables, -1: not known. */
int an_op_find(const char *name);
/* Cost of one call of operator `op` (of an_op_find). */
struct an_op_cost an_op_cost(int op, const struct an_op_args *args,
                             const struct an_op_context *context);
/* Is the operator a GEMM, attention or a convolution? */
bool an_op_is_product(int op);

/* ---- between the files of op_cost ------------------------------------------------------------ */

/* Sizes that do not fit int64, or are not known, are STORE_ABSENT and stay so. */
int64_t an_op_mul(int64_t left, int64_t right);
int64_t an_op_add(int64_t left, int64_t right);
int64_t an_op_elements(const struct an_op_tensor *op_tensor);
/* A dimension counted from the end (1: the last one); 1 where the tensor has fewer. */
int64_t an_op_dim(const struct an_op_tensor *op_tensor, int from_end);
int64_t an_op_bytes(const struct an_op_tensor *op_tensor);
/* The i-th argument as one tensor, NULL: it is none. */
const struct an_op_tensor *an_op_tensor_at(const struct an_op_args *args, int i);
/* Values of a concrete list "[1, 2]" or scalar; returns how many were there (at most `room` are
 * stored), -1: not recorded. */
int an_op_integers(const struct an_op_args *args, int i, int64_t *out, int room);
/* 1, 0; -1: not recorded. */
int an_op_flag(const struct an_op_args *args, int i);

struct an_op_row {
    const char *name;
    struct an_op_cost (*cost)(const struct an_op_row *r, const struct an_op_args *args,
                              const struct an_op_context *context);
    int a[6]; /* positions of arguments or counts, by the function */
};

/* Tables end with name NULL. */
extern const struct an_op_row an_op_products[], an_op_others[];
struct an_op_cost an_op_absent(enum an_op_kind kind, const char *reason);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to ops.c and the backends: one function an operation and a backend, all of the same
 * shape, declared from the list.
 */
#ifndef LT_KERNELS_H
#define LT_KERNELS_H

#include "libtrain/ops/ops.h"

#define LT_ATTENTION_BLOCK 64    /* query rows that the cpu backend's attention handles at a time */
#define LT_NORM_BLOCK      65536 /* elements summed into one partial sum */
#define LT_ADAMW8_BLOCK    256   /* elements that share a magnitude */
#define LT_LAYERNORM_EPS   1e-5f
#define LT_RMSNORM_EPS     1e-5f /* of Llama 2 */
#define LT_BATCHNORM_EPS   1e-5f
#define LT_BATCHNORM_PARTS 32        /* parts of the rows that are summed apart */
#define LT_CONV_COLUMNS    (4 << 20) /* bytes of the columns of some images; at least of one */
#define LT_GELU_CUBIC      0.044715f
#define LT_GELU_SCALE      0.797884561f /* sqrt(2 / pi) */

/* An operation has one function a backend and dtype, but for those of the optimizer, which work on
 * floats in all of them: LT_KERNEL(FORWARD, lt_cpu_gelu_forward, bf16) is lt_cpu_gelu_forward_bf16,
 * LT_KERNEL(OPTIMIZER, lt_cpu_norm, bf16) is lt_cpu_norm. */
#define LT_KERNEL_FORWARD(function, type)   function##_##type
#define LT_KERNEL_BACKWARD(function, type)  function##_##type
#define LT_KERNEL_OPTIMIZER(function, type) function
#define LT_KERNEL(pass, function, type)     LT_KERNEL_##pass(function, type)

#define LT_DECLARE(id, function, name, pass, kind) \
    void LT_KERNEL(pass, lt_reference_##function, fp32)(const union lt_args *args); \
    void LT_KERNEL(pass, lt_reference_##function, bf16)(const union lt_args *args); \
    void LT_KERNEL(pass, lt_reference_##function, fp16)(const union lt_args *args); \
    void LT_KERNEL(pass, lt_cpu_##function, fp32)(const union lt_args *args); \
    void LT_KERNEL(pass, lt_cpu_##function, bf16)(const union lt_args *args); \
    void LT_KERNEL(pass, lt_cpu_##function, fp16)(const union lt_args *args); \
    void lt_cost_##function(const struct lt_context *x, const union lt_args *args, \
                            struct tacho_work *work);
LT_OP_MAP(LT_DECLARE)
#undef LT_DECLARE

static inline uint64_t lt_u(int64_t count)
{
    return (uint64_t)count;
}

/* The running statistics of column c, a tenth of the way to those of this batch. */
static inline void lt_batchnorm_run(const struct lt_batchnorm *norm, int64_t c, float mean,
                                    float variance)
{
    if (!norm->update)
        return;
    norm->running_mean[c] += 0.1f * (mean - norm->running_mean[c]);
    norm->running_variance[c] += 0.1f * (variance - norm->running_variance[c]);
}

/* The expert of a choice, from its slot (struct lt_route). */
static inline int64_t lt_route_chosen(const struct lt_route *route, int32_t slot)
{
    return slot >= 0 ? slot / route->capacity : -1 - (int64_t)slot;
}

/* slot[r,:] = the k largest of `logits`, as numbers of experts. For both backends. */
void lt_route_choose(const struct lt_route *route, int64_t r, const float *logits);
/* Numbers of experts in all of slot[rows,k] become slots; counts the choices in `load`. */
void lt_route_places(const struct lt_route *route);

/* AdamW with moments of a byte, for both backends; it is not written twice. */
void lt_adamw8(const struct lt_update *update, int parallel);

#endif

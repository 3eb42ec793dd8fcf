/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the two files of attention: where the rows of a head are, and reductions over the
 * lanes that share a row. attention.cu is for every device and type; attention_hopper.cu for bf16
 * heads of 64 channels on devices with wgmma.
 */
#ifndef LT_CUDA_ATTENTION_H
#define LT_CUDA_ATTENTION_H

#include "libtrain/cuda/launch.h"
#include "libtrain/cuda/tile.h"

/* One head of one sequence. */
template <class T> struct head {
    const T *q, *k, *v;
    int64_t row, t; /* elements between rows of q, k, v; their number */
};

/* The head of the block: blockIdx.y counts the heads of all sequences. */
template <class T>
__device__ inline head<T> head_of(const T *qkv, int64_t t, int64_t c, int64_t heads, int D)
{
    int64_t sequence = blockIdx.y / heads, index = blockIdx.y % heads;
    const T *q = qkv + sequence * t * 3 * c + index * D;
    return {q, q + c, q + 2 * c, 3 * c, t};
}

/* Offset of the block's head in an array whose rows have the c channels of all heads. */
__device__ inline int64_t head_at(int64_t t, int64_t heads, int D)
{
    return (blockIdx.y / heads * t * heads + blockIdx.y % heads) * D;
}

/* Largest value, or sum, over the four lanes that share a row. */
__device__ inline float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(whole_warp, x, 1));
    return fmaxf(x, __shfl_xor_sync(whole_warp, x, 2));
}

__device__ inline float row_sum(float x)
{
    x += __shfl_xor_sync(whole_warp, x, 1);
    return x + __shfl_xor_sync(whole_warp, x, 2);
}

/* The same operations as those of attention.cu, on bf16 and heads of 64 channels; delta: dO.O of
 * each row of each head. */
void hopper_attention_forward(struct cuda_queue *queue, const struct lt_attention *a);
void hopper_attention_backward(struct cuda_queue *queue, const struct lt_attention *a,
                               const float *delta);

#endif

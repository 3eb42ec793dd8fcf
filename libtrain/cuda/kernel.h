/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/cuda: what kernels are written with. Elements are float or lt_bf16; they are
 * read and written in packs (16 bytes where the shapes allow it), computed with as floats, and
 * rounded once. Sums over a warp or a block have a fixed order, so that a result is the same bits
 * each time.
 *
 * The same text compiles with nvcc and, for tests, with a C++ compiler and the headers of
 * tests/gpu/shim: what is not plain C++ stands here between __CUDACC__ and else.
 */
#ifndef LT_CUDA_KERNEL_H
#define LT_CUDA_KERNEL_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <type_traits>

#include "libtrain/base/dtype.h"

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, bytes, stream, ...) \
    kernel<<<grid, block, bytes, stream>>>(__VA_ARGS__)
#endif

static const int lanes = 32;
static const unsigned whole_warp = 0xffffffffu;

/* ---- elements ---- */

template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T at[N];
};

template <class T, int N> __device__ inline pack<T, N> load(const T *from)
{
    return *reinterpret_cast<const pack<T, N> *>(from);
}

template <class T, int N> __device__ inline void store(T *to, const pack<T, N> &values)
{
    *reinterpret_cast<pack<T, N> *>(to) = values;
}

__device__ inline float get(float x)
{
    return x;
}

__device__ inline float get(lt_bf16 x)
{
    return __uint_as_float((unsigned)x << 16);
}

template <class T> __device__ inline T put(float x)
{
    return x;
}

template <> __device__ inline lt_bf16 put<lt_bf16>(float x)
{
#ifdef __CUDACC__
    lt_bf16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return rounded;
#else
    return lt_bf16_round(x);
#endif
}

__device__ inline float fast_exp(float x)
{
#ifdef __CUDACC__
    return __expf(x);
#else
    return expf(x);
#endif
}

static const float log2_e = 1.44269504088896340736f;

/* 2^x: exponentials of a scaled and shifted number cost one instruction less this way. */
__device__ inline float power_of_two(float x)
{
#ifdef __CUDACC__
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return exp2f(x);
#endif
}

/* ---- a block ---- */

/* The block's shared memory, as large as its launch says; it holds anything at first. */
template <class T> __device__ inline T *shared_memory()
{
#ifdef __CUDACC__
    extern __shared__ __align__(16) unsigned char lt_shared[];
    return reinterpret_cast<T *>(lt_shared);
#else
    return static_cast<T *>(shim_shared());
#endif
}

template <class T> __device__ inline T warp_sum(T x)
{
    for (int i = lanes / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(whole_warp, x, i);
    return x;
}

__device__ inline float warp_max(float x)
{
    for (int i = lanes / 2; i > 0; i /= 2)
        x = fmaxf(x, __shfl_xor_sync(whole_warp, x, i));
    return x;
}

/* Sum, or largest value, over a block of one dimension, for all of its threads. scratch: a place
 * in shared memory for each warp, which nothing else in the kernel uses. All threads have come to
 * the call when one returns from it. */
template <class T> __device__ inline T block_sum(T x, T *scratch)
{
    T total = 0;
    x = warp_sum(x);
    if (threadIdx.x % lanes == 0)
        scratch[threadIdx.x / lanes] = x;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / lanes; i++)
        total += scratch[i];
    return total;
}

__device__ inline float block_max(float x, float *scratch)
{
    float most = -INFINITY;
    x = warp_max(x);
    if (threadIdx.x % lanes == 0)
        scratch[threadIdx.x / lanes] = x;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / lanes; i++)
        most = fmaxf(most, scratch[i]);
    return most;
}

/* ---- launches ---- */

static inline unsigned blocks_of(int64_t count, int64_t each)
{
    return (unsigned)((count + each - 1) / each);
}

/* Calls launch(T()) with the element type. */
template <class F> static inline void by_type(enum lt_dtype dtype, F launch)
{
    if (dtype == LT_DTYPE_BF16)
        launch(lt_bf16());
    else
        launch(float());
}

/* Calls launch(n), n the elements of a pack as a constant: those of 16 bytes where rows of `count`
 * elements are whole packs of them, else 1. */
template <class T, class F> static inline void by_width(int64_t count, F launch)
{
    const int whole = 16 / sizeof(T);
    if (count % whole == 0)
        launch(std::integral_constant<int, 16 / sizeof(T)>());
    else
        launch(std::integral_constant<int, 1>());
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on single elements: GELU and its gradient, the residual sum, biases, zeros.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"
#include "libtrain/ops/kernels.h"

template <class T, int N> __global__ void gelu_out(T *out, const T *in, int64_t count)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (at >= count)
        return;
    pack<T, N> value = load<T, N>(in + at);
    for (int j = 0; j < N; j++) {
        float x = get(value.at[j]);
        value.at[j] =
            put<T>(0.5f * x * (1 + tanhf(LT_GELU_SCALE * (x + LT_GELU_CUBIC * x * x * x))));
    }
    store(out + at, value);
}

/* Beyond 16 the slope is 0 or 1 to the last bit; further out its factors would overflow. */
template <class T, int N>
__global__ void gelu_din(T *din, const T *dout, const T *in, int64_t count)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (at >= count)
        return;
    pack<T, N> value = load<T, N>(in + at), slope = load<T, N>(dout + at);
    for (int j = 0; j < N; j++) {
        float x = fminf(fmaxf(get(value.at[j]), -16.0f), 16.0f);
        float t = tanhf(LT_GELU_SCALE * (x + LT_GELU_CUBIC * x * x * x));
        float inner = LT_GELU_SCALE * (1 + 3 * LT_GELU_CUBIC * x * x);
        slope.at[j] = put<T>(get(slope.at[j]) * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner));
    }
    store(din + at, slope);
}

template <class T, int N>
__global__ void residual_out(T *out, const T *a, const T *b, int64_t count)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (at >= count)
        return;
    pack<T, N> left = load<T, N>(a + at), right = load<T, N>(b + at);
    for (int j = 0; j < N; j++)
        left.at[j] = put<T>(get(left.at[j]) + get(right.at[j]));
    store(out + at, left);
}

template <class T, int N>
__global__ void bias_add(T *out, const float *bias, int64_t count, int64_t n)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (at >= count)
        return;
    pack<T, N> value = load<T, N>(out + at);
    pack<float, N> shift = load<float, N>(bias + at % n);
    for (int j = 0; j < N; j++)
        value.at[j] = put<T>(get(value.at[j]) + shift.at[j]);
    store(out + at, value);
}

void cuda_gelu_forward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_gelu a = args->gelu_forward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.count, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((gelu_out<T, N>), blocks_of(a.count, 256 * N), 256, 0, queue->stream, (T *)a.out,
                   (const T *)a.in, a.count);
        });
    });
}

void cuda_gelu_backward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_gelu a = args->gelu_backward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.count, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((gelu_din<T, N>), blocks_of(a.count, 256 * N), 256, 0, queue->stream, (T *)a.din,
                   (const T *)a.dout, (const T *)a.in, a.count);
        });
    });
}

void cuda_residual_forward(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_residual a = args->residual_forward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.count, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((residual_out<T, N>), blocks_of(a.count, 256 * N), 256, 0, queue->stream,
                   (T *)a.out, (const T *)a.a, (const T *)a.b, a.count);
        });
    });
}

void cuda_bias(struct cuda_queue *queue, enum lt_dtype dtype, void *out, const float *bias,
               int64_t rows, int64_t n)
{
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(n, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((bias_add<T, N>), blocks_of(rows * n, 256 * N), 256, 0, queue->stream, (T *)out,
                   bias, rows * n, n);
        });
    });
}

void cuda_zero(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    (void)dtype;
    cudaError_t error =
        cudaMemsetAsync(args->zero.x, 0, (size_t)args->zero.count * sizeof(float), queue->stream);
    if (error != cudaSuccess)
        queue->fail(queue, "gradient.zero", cudaGetErrorString(error));
}

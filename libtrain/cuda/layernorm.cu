/* SPDX-License-Identifier: Apache-2.0
 *
 * Layernorm: a warp for each row, whose elements stay in the first-level cache between the passes
 * over it. The sums over rows, dweight and dbias, are made by columns.cu.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"
#include "libtrain/ops/kernels.h"

static const int warps = 4; /* of a block */

/* With ADDED the input is a + b, which is also left in sum; else it is a. */
template <class T, int N, bool ADDED>
__global__ void layernorm_out(T *out, float *mean, float *rstd, T *sum, const T *a, const T *b,
                              const float *weight, const float *bias, int64_t rows, int64_t c)
{
    int64_t row = (int64_t)blockIdx.x * warps + threadIdx.y, first = (int64_t)threadIdx.x * N;
    float total = 0, squares = 0;
    if (row >= rows)
        return;
    const T *x = (ADDED ? sum : a) + row * c;
    for (int64_t i = first; i < c; i += lanes * N) {
        pack<T, N> value = load<T, N>(a + row * c + i);
        if (ADDED) {
            pack<T, N> other = load<T, N>(b + row * c + i);
            for (int j = 0; j < N; j++)
                value.at[j] = put<T>(get(value.at[j]) + get(other.at[j]));
            store(sum + row * c + i, value);
        }
        for (int j = 0; j < N; j++)
            total += get(value.at[j]);
    }
    float middle = warp_sum(total) / (float)c;
    for (int64_t i = first; i < c; i += lanes * N) {
        pack<T, N> value = load<T, N>(x + i);
        for (int j = 0; j < N; j++)
            squares += (get(value.at[j]) - middle) * (get(value.at[j]) - middle);
    }
    float scale = 1 / sqrtf(warp_sum(squares) / (float)c + LT_LAYERNORM_EPS);
    for (int64_t i = first; i < c; i += lanes * N) {
        pack<T, N> value = load<T, N>(x + i);
        pack<float, N> w = load<float, N>(weight + i), shift = load<float, N>(bias + i);
        for (int j = 0; j < N; j++)
            value.at[j] = put<T>((get(value.at[j]) - middle) * scale * w.at[j] + shift.at[j]);
        store(out + row * c + i, value);
    }
    if (threadIdx.x == 0) {
        mean[row] = middle;
        rstd[row] = scale;
    }
}

/* din += rstd (g - mean of g - hat * mean of g hat), with g = dout weight. */
template <class T, int N>
__global__ void layernorm_din(T *din, const T *dout, const T *in, const float *mean,
                              const float *rstd, const float *weight, int64_t rows, int64_t c)
{
    int64_t row = (int64_t)blockIdx.x * warps + threadIdx.y, first = (int64_t)threadIdx.x * N;
    float sum = 0, sum_hat = 0;
    if (row >= rows)
        return;
    float middle = mean[row], scale = rstd[row];
    for (int64_t i = row * c + first; i < row * c + c; i += lanes * N) {
        pack<T, N> slope = load<T, N>(dout + i), value = load<T, N>(in + i);
        pack<float, N> w = load<float, N>(weight + i - row * c);
        for (int j = 0; j < N; j++) {
            float g = get(slope.at[j]) * w.at[j];
            sum += g;
            sum_hat += g * (get(value.at[j]) - middle) * scale;
        }
    }
    sum = warp_sum(sum) / (float)c;
    sum_hat = warp_sum(sum_hat) / (float)c;
    for (int64_t i = row * c + first; i < row * c + c; i += lanes * N) {
        pack<T, N> slope = load<T, N>(dout + i), value = load<T, N>(in + i),
                   so_far = load<T, N>(din + i);
        pack<float, N> w = load<float, N>(weight + i - row * c);
        for (int j = 0; j < N; j++) {
            float hat = (get(value.at[j]) - middle) * scale, g = get(slope.at[j]) * w.at[j];
            so_far.at[j] = put<T>(get(so_far.at[j]) + scale * (g - sum - hat * sum_hat));
        }
        store(din + i, so_far);
    }
}

template <bool ADDED>
static void forward(struct cuda_queue *queue, enum lt_dtype dtype, const struct lt_layernorm &a,
                    const struct lt_residual &residual)
{
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.c, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((layernorm_out<T, N, ADDED>), blocks_of(a.rows, warps), dim3(lanes, warps), 0,
                   queue->stream, (T *)a.out, a.mean, a.rstd, (T *)residual.out,
                   (const T *)residual.a, (const T *)residual.b, a.weight, a.bias, a.rows, a.c);
        });
    });
}

void cuda_layernorm_forward(struct cuda_queue *queue, enum lt_dtype dtype,
                            const union lt_args *args)
{
    struct lt_residual plain = {};
    plain.a = args->layernorm_forward.in;
    forward<false>(queue, dtype, args->layernorm_forward, plain);
}

void cuda_residual_layernorm(struct cuda_queue *queue, enum lt_dtype dtype,
                             const struct lt_residual *residual,
                             const struct lt_layernorm *layernorm)
{
    forward<true>(queue, dtype, *layernorm, *residual);
}

void cuda_layernorm_backward(struct cuda_queue *queue, enum lt_dtype dtype,
                             const union lt_args *args)
{
    const struct lt_layernorm a = args->layernorm_backward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.c, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((layernorm_din<T, N>), blocks_of(a.rows, warps), dim3(lanes, warps), 0,
                   queue->stream, (T *)a.din, (const T *)a.dout, (const T *)a.in, a.mean, a.rstd,
                   a.weight, a.rows, a.c);
        });
    });
    cuda_columns(queue, dtype, a.dbias, a.dout, &a, a.rows, a.c, 1);
}

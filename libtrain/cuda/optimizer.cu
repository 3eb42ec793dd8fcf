/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over all parameters: the norm of the gradient, and AdamW with clipping and the bf16 copy
 * of the weights. What changes from step to step is read from the device's memory (struct lt_late),
 * so a captured step takes the numbers of the step that runs, and the host never waits for the
 * norm.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"
#include "libtrain/ops/kernels.h"

static const int threads = 256;

/* partial[blockIdx.x] = sum of squares of a block of LT_NORM_BLOCK elements: floats add up a
 * thread's, doubles the rest. */
__global__ void norm_partials(double *partial, const float *x, int64_t count)
{
    double *scratch = shared_memory<double>();
    int64_t from = (int64_t)blockIdx.x * LT_NORM_BLOCK,
            end = from + LT_NORM_BLOCK < count ? from + LT_NORM_BLOCK : count;
    float sum = 0;
    for (int64_t i = from + (int64_t)threadIdx.x * 4; i < end; i += threads * 4) {
        if (i + 4 <= end) {
            pack<float, 4> value = load<float, 4>(x + i);
            for (int j = 0; j < 4; j++)
                sum += value.at[j] * value.at[j];
        } else {
            for (int64_t j = i; j < end; j++)
                sum += x[j] * x[j];
        }
    }
    double total = block_sum((double)sum, scratch);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = total;
}

/* One block. */
__global__ void norm_total(struct lt_late *late, const double *partial, int64_t blocks)
{
    double *scratch = shared_memory<double>(), sum = 0;
    for (int64_t i = threadIdx.x; i < blocks; i += threads)
        sum += partial[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        late->squares = sum;
}

/* The numbers of an update as floats. */
struct adamw_terms {
    float scale, beta1, rest1, beta2, rest2, rate, decay, step, inverse2, eps;
};

/* By one thread of a block: arithmetic in double is slow on some devices. */
__device__ inline void adamw_read(struct adamw_terms *to, const struct lt_late *late)
{
    double norm = sqrt(late->squares), scale = late->terms.scale;
    if (late->clip > 0 && norm > late->clip)
        scale *= late->clip / norm;
    to->scale = (float)scale;
    to->beta1 = (float)late->terms.beta1;
    to->rest1 = (float)(1 - late->terms.beta1);
    to->beta2 = (float)late->terms.beta2;
    to->rest2 = (float)(1 - late->terms.beta2);
    to->rate = (float)late->terms.rate;
    to->decay = (float)late->terms.decay;
    to->step = (float)(late->terms.rate / late->terms.correction1);
    to->inverse2 = (float)(1 / late->terms.correction2);
    to->eps = (float)late->terms.eps;
}

/* The new value of a parameter (update_rules.h has the formula); changes its moments. */
__device__ inline float adamw_step(const struct adamw_terms &k, float p, float *m, float *v,
                                   float g, float decay)
{
    g *= k.scale;
    *m = k.beta1 * *m + k.rest1 * g;
    *v = k.beta2 * *v + k.rest2 * g * g;
    return p * (1 - k.rate * decay) - k.step * *m / (sqrtf(*v * k.inverse2) + k.eps);
}

/* Arrays with room for whole packs of N, as arenas have it. */
template <int N>
__global__ void adamw(float *param, float *first, float *second, lt_bf16 *shadow, const float *grad,
                      int64_t count, int64_t decayed, const struct lt_late *late)
{
    struct adamw_terms *k = shared_memory<struct adamw_terms>();
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (threadIdx.x == 0)
        adamw_read(k, late);
    __syncthreads();
    if (at >= count)
        return;
    pack<float, N> p = load<float, N>(param + at), m = load<float, N>(first + at),
                   v = load<float, N>(second + at), g = load<float, N>(grad + at);
    pack<lt_bf16, N> rounded;
    for (int j = 0; j < N; j++) {
        p.at[j] = adamw_step(*k, p.at[j], &m.at[j], &v.at[j], g.at[j],
                             at + j < decayed ? k->decay : 0.0f);
        rounded.at[j] = put<lt_bf16>(p.at[j]);
    }
    store(param + at, p);
    store(first + at, m);
    store(second + at, v);
    if (shadow)
        store(shadow + at, rounded);
}

void cuda_norm(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_norm a = args->norm;
    double *partial = (double *)queue->workspace;
    unsigned blocks = blocks_of(a.count, LT_NORM_BLOCK);
    size_t scratch = sizeof(double) * threads / lanes;
    (void)dtype;
    LAUNCH(norm_partials, blocks, threads, scratch, queue->stream, partial, a.x, a.count);
    LAUNCH(norm_total, 1, threads, scratch, queue->stream, queue->late, (const double *)partial,
           (int64_t)blocks);
}

void cuda_adamw(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_update a = args->adamw;
    (void)dtype;
    by_width<float>(a.count, [&](auto width) {
        const int N = decltype(width)::value;
        LAUNCH((adamw<N>), blocks_of(a.count, threads * N), threads, sizeof(struct adamw_terms),
               queue->stream, a.param, a.state[0], a.state[1], (lt_bf16 *)a.shadow, a.grad, a.count,
               a.decayed, (const struct lt_late *)queue->late);
    });
}

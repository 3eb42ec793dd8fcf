/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy: a block for each row, which reads its logits once for the loss and
 * once more, from the L2 cache, to write their gradient in their place. Blocks are large, so that
 * the rows in progress at one time (three per multiprocessor, 100 kB each in GPT-2) fit in that
 * cache. Probabilities are never stored.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"

static const int threads = 256, row_threads = 512;

/* Updates the largest value so far, and the sum of exponentials relative to it, with a pack. */
template <class T, int N>
__device__ inline void sum_pack(const pack<T, N> &value, float *most, float *sum)
{
    float higher = *most, part = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
        higher = fmaxf(higher, get(value.at[j]));
    float base = higher * log2_e, shrink = power_of_two(*most * log2_e - base);
#pragma unroll
    for (int j = 0; j < N; j++)
        part += power_of_two(get(value.at[j]) * log2_e - base);
    *sum = *sum * shrink + part;
    *most = higher;
}

template <class T, int N>
__global__ void __launch_bounds__(row_threads, 3)
    classifier_row(T *logits, float *losses, const int32_t *targets, int64_t v, float scale,
                   int backward)
{
    float *scratch = shared_memory<float>();
    T *x = logits + blockIdx.x * v;
    int target = targets[blockIdx.x], end = (int)v, first = (int)threadIdx.x * N;
    float most = -INFINITY, sum = 0, wanted = get(x[target]);
    for (int i = first; i < end; i += row_threads * N)
        sum_pack(load<T, N>(x + i), &most, &sum);
    float top = block_max(most, scratch);
    /* all threads have come here, so `wanted` was read before anything is overwritten */
    float total = block_sum(sum * fast_exp(most - top), scratch + row_threads / lanes),
          loss = top + logf(total); /* before the target's logit is taken off */
    if (threadIdx.x == 0)
        losses[blockIdx.x] = loss - wanted;
    if (!backward)
        return;
    for (int i = first; i < end; i += row_threads * N) {
        pack<T, N> value = load<T, N>(x + i);
        float slope[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            slope[j] = scale * power_of_two(get(value.at[j]) * log2_e - loss * log2_e);
        if (i <= target && target < i + N)
#pragma unroll
            for (int j = 0; j < N; j++)
                slope[j] -= i + j == target ? scale : 0;
#pragma unroll
        for (int j = 0; j < N; j++)
            value.at[j] = put<T>(slope[j]);
        store(x + i, value);
    }
}

/* Adds the mean of the rows' losses to that of the step. One block. */
__global__ void mean_loss(struct lt_late *late, const float *losses, int64_t rows)
{
    double *scratch = shared_memory<double>(), sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += threads)
        sum += (double)losses[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0)
        late->loss += sum / (double)rows;
}

void cuda_classifier(struct cuda_queue *queue, enum lt_dtype dtype, const union lt_args *args)
{
    const struct lt_classifier a = args->classifier;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.v, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((classifier_row<T, N>), (unsigned)a.rows, row_threads,
                   2 * sizeof(float) * row_threads / lanes, queue->stream, (T *)a.logits, a.losses,
                   a.targets, a.v, a.scale, a.backward);
        });
    });
    LAUNCH(mean_loss, 1, threads, sizeof(double) * threads / lanes, queue->stream, queue->late,
           (const float *)a.losses, a.rows);
}

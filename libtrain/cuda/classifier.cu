/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and cross-entropy: a block for each row, which reads its logits once for the loss and
 * once more, from the cache, to write their gradient in their place. Probabilities are never
 * stored.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"

static const int threads = 256;

template <class T, int N>
__global__ void classifier_row(T *logits, float *losses, const int32_t *targets, int64_t v,
                               float scale, int backward)
{
    float *scratch = shared_memory<float>();
    T *x = logits + blockIdx.x * v;
    int64_t target = targets[blockIdx.x];
    float most = -INFINITY, sum = 0, wanted = get(x[target]);
    for (int64_t i = (int64_t)threadIdx.x * N; i < v; i += (int64_t)threads * N) {
        pack<T, N> value = load<T, N>(x + i);
        float higher = most;
        for (int j = 0; j < N; j++)
            higher = fmaxf(higher, get(value.at[j]));
        sum *= fast_exp(most - higher);
        for (int j = 0; j < N; j++)
            sum += fast_exp(get(value.at[j]) - higher);
        most = higher;
    }
    float top = block_max(most, scratch);
    /* all threads have come here, so `wanted` was read before anything is overwritten */
    float total = block_sum(sum * fast_exp(most - top), scratch + threads / lanes);
    if (threadIdx.x == 0)
        losses[blockIdx.x] = top + logf(total) - wanted;
    if (!backward)
        return;
    for (int64_t i = (int64_t)threadIdx.x * N; i < v; i += (int64_t)threads * N) {
        pack<T, N> value = load<T, N>(x + i);
        for (int j = 0; j < N; j++) {
            float hit = i + j == target ? 1.0f : 0.0f;
            value.at[j] = put<T>(scale * (fast_exp(get(value.at[j]) - top) / total - hit));
        }
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
            LAUNCH((classifier_row<T, N>), (unsigned)a.rows, threads,
                   2 * sizeof(float) * threads / lanes, queue->stream, (T *)a.logits, a.losses,
                   a.targets, a.v, a.scale, a.backward);
        });
    });
    LAUNCH(mean_loss, 1, threads, sizeof(double) * threads / lanes, queue->stream, queue->late,
           (const float *)a.losses, a.rows);
}

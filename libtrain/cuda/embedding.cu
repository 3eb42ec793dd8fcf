/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups, and their gradient. A word's gradient is the sum over the places where it stands; the
 * places come sorted by word (lt_embedding.order), so that one block adds up one word, in a fixed
 * order and without atomic operations.
 */
#include "libtrain/cuda/kernel.h"
#include "libtrain/cuda/launch.h"

static const int place_lanes = 8; /* places of a word that are read side by side */

template <class T, int N>
__global__ void embedding_out(T *out, const T *word, const T *position, const int32_t *tokens,
                              int64_t rows, int64_t t, int64_t c)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, packs = c / N;
    if (i >= rows * packs)
        return;
    int64_t row = i / packs, at = i % packs * N;
    pack<T, N> words = load<T, N>(word + tokens[row] * c + at),
               places = load<T, N>(position + row % t * c + at);
    for (int j = 0; j < N; j++)
        words.at[j] = put<T>(get(words.at[j]) + get(places.at[j]));
    store(out + row * c + at, words);
}

/* Block (lanes, place_lanes): word number blockIdx.x of those that occur, columns from blockIdx.y
 * on. */
template <class T, int N>
__global__ void embedding_dword(float *dword, const T *dout, const int32_t *tokens,
                                const int32_t *order, const int32_t *starts, int64_t c)
{
    float *sums = shared_memory<float>();
    int from = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    int64_t column = ((int64_t)blockIdx.y * lanes + threadIdx.x) * N;
    float sum[N] = {};
    if (from == end)
        return;
    for (int i = from + (int)threadIdx.y; i < end && column < c; i += place_lanes) {
        pack<T, N> slope = load<T, N>(dout + order[i] * c + column);
        for (int j = 0; j < N; j++)
            sum[j] += get(slope.at[j]);
    }
    for (int j = 0; j < N; j++)
        sums[(threadIdx.y * lanes + threadIdx.x) * N + j] = sum[j];
    __syncthreads();
    if (threadIdx.y || column >= c)
        return;
    float *to = dword + tokens[order[from]] * c + column;
    for (int j = 0; j < N; j++) {
        float total = 0;
        for (int i = 0; i < place_lanes; i++)
            total += sums[(i * lanes + threadIdx.x) * N + j];
        to[j] += total;
    }
}

template <class T, int N>
__global__ void embedding_dposition(float *dposition, const T *dout, int64_t b, int64_t t,
                                    int64_t c)
{
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
    float sum[N] = {};
    if (at >= t * c)
        return;
    for (int64_t i = 0; i < b; i++) {
        pack<T, N> slope = load<T, N>(dout + i * t * c + at);
        for (int j = 0; j < N; j++)
            sum[j] += get(slope.at[j]);
    }
    for (int j = 0; j < N; j++)
        dposition[at + j] += sum[j];
}

void cuda_embedding_forward(struct cuda_queue *queue, enum lt_dtype dtype,
                            const union lt_args *args)
{
    const struct lt_embedding a = args->embedding_forward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.c, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((embedding_out<T, N>), blocks_of(a.b * a.t * (a.c / N), 256), 256, 0,
                   queue->stream, (T *)a.out, (const T *)a.word, (const T *)a.position, a.tokens,
                   a.b * a.t, a.t, a.c);
        });
    });
}

void cuda_embedding_backward(struct cuda_queue *queue, enum lt_dtype dtype,
                             const union lt_args *args)
{
    const struct lt_embedding a = args->embedding_backward;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_width<T>(a.c, [&](auto width) {
            const int N = decltype(width)::value;
            LAUNCH((embedding_dword<T, N>), dim3((unsigned)(a.b * a.t), blocks_of(a.c, lanes * N)),
                   dim3(lanes, place_lanes), sizeof(float) * lanes * place_lanes * N, queue->stream,
                   a.dword, (const T *)a.dout, a.tokens, a.order, a.starts, a.c);
            LAUNCH((embedding_dposition<T, N>), blocks_of(a.t * a.c, 256 * N), 256, 0,
                   queue->stream, a.dposition, (const T *)a.dout, a.b, a.t, a.c);
        });
    });
}

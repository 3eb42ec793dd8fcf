/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention that keeps no scores: a block has 64 queries (or, for the gradients of keys and
 * values, 64 keys), 16 for each of its warps, and goes through the other side in tiles of shared
 * memory. Forward keeps a running maximum and sum of each row (Milakov and Gimelshein 2018; Dao et
 * al. 2022); backward makes the probabilities again from the saved logarithm of the sums, once for
 * dq and once for dk and dv, so that no two blocks add to one place and results are the same bits
 * each time.
 */
#include "libtrain/cuda/attention.h"

static const int block_rows = 64, threads = 128;

/* From scores s to exponentials of scale s less the running maximum; what was summed before is
 * shrunk to it. from: the tile's first key; query: of the warp's first row. */
template <int COLUMNS, int D>
__device__ inline void softmax_tile(float (*s)[4], float (*o)[4], float most[2], float sum[2],
                                    int64_t from, int64_t query, int64_t t, float scale)
{
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        int64_t row = query + lane_group() + 8 * lower;
        float higher = most[lower], total = 0;
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
            for (int j = 2 * lower; j < 2 * lower + 2; j++) {
                int64_t key = from + 8 * i + 2 * lane_pair() + j % 2;
                s[i][j] = key <= row && key < t ? s[i][j] * scale : -INFINITY;
                higher = fmaxf(higher, s[i][j]);
            }
        higher = row_max(higher);
        float shrink = fast_exp(most[lower] - higher);
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
            for (int j = 2 * lower; j < 2 * lower + 2; j++) {
                s[i][j] = fast_exp(s[i][j] - higher);
                total += s[i][j];
            }
#pragma unroll
        for (int i = 0; i < D / 8; i++)
#pragma unroll
            for (int j = 2 * lower; j < 2 * lower + 2; j++)
                o[i][j] *= shrink;
        sum[lower] = sum[lower] * shrink + total;
        most[lower] = higher;
    }
}

/* Grid: blocks of queries, the last ones first because they have most keys; heads of sequences. */
template <class T, int D>
__global__ void __launch_bounds__(threads)
    attention_out(T *out, float *lse, const T *qkv, int64_t t, int64_t c, int64_t heads,
                  float scale)
{
    const int COLUMNS = shape<T>::columns;
    T *keys = shared_memory<T>(), *values = keys + COLUMNS * tile<T, D>::row;
    head<T> a = head_of(qkv, t, c, heads, D);
    int64_t first = (int64_t)(gridDim.x - 1 - blockIdx.x) * block_rows,
            query = first + threadIdx.x / lanes * 16,
            end = first + block_rows < t ? first + block_rows : t;
    left<T> q[D / shape<T>::k];
    float s[COLUMNS / 8][4], o[D / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    load_left<T, D>(q, a.q, a.row, query, t);
    for (int64_t from = 0; from < end; from += COLUMNS) {
        __syncthreads();
        load_tile<T, D, COLUMNS>(keys, a.k, a.row, from, t);
        load_tile<T, D, COLUMNS>(values, a.v, a.row, from, t);
        __syncthreads();
        products<T, D, COLUMNS>(s, q, keys);
        softmax_tile<COLUMNS, D>(s, o, most, sum, from, query, t, scale);
        accumulate<T, D, COLUMNS>(o, s, values);
    }
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        int64_t row = query + lane_group() + 8 * lower;
        float total = row_sum(sum[lower]);
        if (row < t && lane_pair() == 0)
            lse[blockIdx.y * t + row] = most[lower] + logf(total);
        sum[lower] = 1 / total;
    }
    store_rows<T, D>(out + head_at(t, heads, D), c, query, t, o, sum);
}

/* delta = dO.O of each row of each head, by as many lanes as a row has packs. */
template <class T, int D>
__global__ void attention_delta(float *delta, const T *out, const T *dout, int64_t b, int64_t t,
                                int64_t heads)
{
    const int N = 16 / sizeof(T), packs = D / N;
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / packs, token = i / heads;
    float sum = 0;
    if (token < b * t) {
        int64_t at = i * D + threadIdx.x % packs * N;
        pack<T, N> one = load<T, N>(out + at), two = load<T, N>(dout + at);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += get(one.at[j]) * get(two.at[j]);
    }
#pragma unroll
    for (int j = packs / 2; j > 0; j /= 2)
        sum += __shfl_xor_sync(whole_warp, sum, j);
    if (token < b * t && threadIdx.x % packs == 0)
        delta[(token / t * heads + i % heads) * t + token % t] = sum;
}

/* Of scores s and of dp = dO.v: s becomes p, dp becomes p (dp - delta) scale; 0 where a query does
 * not see a key. KEYS: rows are keys and columns queries. stats: lse and delta of the queries. */
template <int COLUMNS, bool KEYS>
__device__ inline void slopes(float (*s)[4], float (*dp)[4], const float *lse, const float *delta,
                              int64_t from, int64_t row, int64_t t, float scale)
{
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int64_t mine = row + lane_group() + 8 * (j / 2),
                    other = from + 8 * i + 2 * lane_pair() + j % 2;
            int64_t query = KEYS ? other : mine, key = KEYS ? mine : other;
            bool seen = key <= query && query < t;
            float p = seen ? fast_exp(s[i][j] * scale - lse[query]) : 0.0f;
            dp[i][j] = seen ? p * (dp[i][j] - delta[query]) * scale : 0.0f;
            s[i][j] = p;
        }
}

/* KEYS: dk and dv of 64 keys, from all queries that see them; else dq of 64 queries. */
template <class T, int D, bool KEYS>
__global__ void __launch_bounds__(threads)
    attention_dqkv(T *dqkv, const T *qkv, const T *dout, const float *lse, const float *delta,
                   int64_t t, int64_t c, int64_t heads, float scale)
{
    const int COLUMNS = shape<T>::columns;
    T *one = shared_memory<T>(), *two = one + COLUMNS * tile<T, D>::row;
    head<T> a = head_of(qkv, t, c, heads, D);
    const T *slope = dout + head_at(t, heads, D);
    T *to = dqkv + (a.q - qkv);
    int64_t first = (int64_t)(KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * block_rows,
            row = first + threadIdx.x / lanes * 16,
            end = KEYS || first + block_rows > t ? t : first + block_rows;
    left<T> x[D / shape<T>::k], y[D / shape<T>::k];
    float s[COLUMNS / 8][4], dp[COLUMNS / 8][4], sum[D / 8][4] = {}, dv[KEYS ? D / 8 : 1][4] = {};
    const float whole[2] = {1, 1};
    load_left<T, D>(x, KEYS ? a.k : a.q, a.row, row, t);
    load_left<T, D>(y, KEYS ? a.v : slope, KEYS ? a.row : c, row, t);
    for (int64_t from = KEYS ? first : 0; from < end; from += COLUMNS) {
        __syncthreads();
        load_tile<T, D, COLUMNS>(one, KEYS ? a.q : a.k, a.row, from, t);
        load_tile<T, D, COLUMNS>(two, KEYS ? slope : a.v, KEYS ? c : a.row, from, t);
        __syncthreads();
        products<T, D, COLUMNS>(s, x, one);
        products<T, D, COLUMNS>(dp, y, two);
        slopes<COLUMNS, KEYS>(s, dp, lse + blockIdx.y * t, delta + blockIdx.y * t, from, row, t,
                              scale);
        accumulate<T, D, COLUMNS>(sum, dp, one);
        if (KEYS)
            accumulate<T, D, COLUMNS>(dv, s, two);
    }
    store_rows<T, D>(KEYS ? to + c : to, a.row, row, t, sum, whole);
    if (KEYS)
        store_rows<T, D>(to + 2 * c, a.row, row, t, dv, whole);
}

/* ---- launches ---- */

/* Calls launch(D) with the channels of a head as a constant. */
template <class F> static bool by_channels(int64_t channels, F launch)
{
    if (channels == 32)
        launch(std::integral_constant<int, 32>());
    else if (channels == 64) /* GPT-2 of every size */
        launch(std::integral_constant<int, 64>());
    else
        return false;
    return true;
}

int cuda_attention_has(int64_t channels)
{
    return by_channels(channels, [](auto) {});
}

template <class T, int D> static size_t tile_bytes()
{
    return 2 * sizeof(T) * shape<T>::columns * tile<T, D>::row;
}

/* Says what is in the way of this attention. */
static bool fits(struct cuda_queue *queue, const struct lt_attention &a)
{
    size_t rows = (size_t)(a.b * a.h * a.t);
    if (!cuda_attention_has(a.c / a.h))
        queue->fail(queue, "attention", "no kernel for heads of these channels");
    else if (rows * sizeof(float) > cuda_workspace_bytes || a.b * a.h > 65535)
        queue->fail(queue, "attention", "a batch of more rows than it is made for");
    else
        return true;
    return false;
}

/* Is this attention one of attention_hopper.cu? */
static bool by_groups(const struct cuda_queue *queue, enum lt_dtype dtype,
                      const struct lt_attention &a)
{
    return queue->warpgroups && dtype == LT_DTYPE_BF16 && a.c / a.h == 64;
}

void cuda_attention_forward(struct cuda_queue *queue, enum lt_dtype dtype,
                            const union lt_args *args)
{
    const struct lt_attention a = args->attention_forward;
    float scale = 1 / sqrtf((float)(a.c / a.h));
    dim3 grid(blocks_of(a.t, block_rows), (unsigned)(a.b * a.h));
    if (!fits(queue, a))
        return;
    if (by_groups(queue, dtype, a)) {
        hopper_attention_forward(queue, &a);
        return;
    }
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_channels(a.c / a.h, [&](auto channels) {
            const int D = decltype(channels)::value;
            LAUNCH((attention_out<T, D>), grid, threads, (tile_bytes<T, D>()), queue->stream,
                   (T *)a.out, a.lse, (const T *)a.qkv, a.t, a.c, a.h, scale);
        });
    });
}

void cuda_attention_backward(struct cuda_queue *queue, enum lt_dtype dtype,
                             const union lt_args *args)
{
    const struct lt_attention a = args->attention_backward;
    float scale = 1 / sqrtf((float)(a.c / a.h)), *delta = (float *)queue->workspace;
    dim3 grid(blocks_of(a.t, block_rows), (unsigned)(a.b * a.h));
    if (!fits(queue, a))
        return;
    by_type(dtype, [&](auto element) {
        typedef decltype(element) T;
        by_channels(a.c / a.h, [&](auto channels) {
            const int D = decltype(channels)::value;
            LAUNCH((attention_delta<T, D>), blocks_of(a.b * a.t * a.c * sizeof(T) / 16, 256), 256,
                   0, queue->stream, delta, (const T *)a.out, (const T *)a.dout, a.b, a.t, a.h);
            if (by_groups(queue, dtype, a)) {
                hopper_attention_backward(queue, &a, delta);
                return;
            }
            LAUNCH((attention_dqkv<T, D, true>), grid, threads, (tile_bytes<T, D>()), queue->stream,
                   (T *)a.dqkv, (const T *)a.qkv, (const T *)a.dout, (const float *)a.lse,
                   (const float *)delta, a.t, a.c, a.h, scale);
            LAUNCH((attention_dqkv<T, D, false>), grid, threads, (tile_bytes<T, D>()),
                   queue->stream, (T *)a.dqkv, (const T *)a.qkv, (const T *)a.dout,
                   (const float *)a.lse, (const float *)delta, a.t, a.c, a.h, scale);
        });
    });
}

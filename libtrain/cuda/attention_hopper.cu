/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal attention of attention.cu for bf16 heads of 64 channels on Hopper. A warpgroup (four
 * warps) has 64 rows; its wgmma instructions read both factors, or only the right one, from shared
 * memory (warpgroup.h). The tiles of the other side arrive while earlier ones are worked on.
 * Exponentials are powers of two. Only the tile on the diagonal needs a mask, also at the end of a
 * sequence: keys beyond it come after every query. Rows beyond it are zeros and are not stored.
 */
#include "libtrain/cuda/attention.h"
#include "libtrain/cuda/warpgroup.h"

static const int forward_groups = 2, forward_stages = 3, backward_stages = 2;

/* Replaces each score by 2^(scale * (score - largest so far)), and scales the earlier sums to a new
 * largest score. row: this lane's upper row less the tile's first key. */
template <bool DIAGONAL>
__device__ inline void softmax_tile(float (*s)[4], float (*o)[4], float most[2], float sum[2],
                                    int row, float scale)
{
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        float higher = most[lower], total = 0;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 2 * lower; j < 2 * lower + 2; j++) {
                if (DIAGONAL && 8 * i + 2 * lane_pair() + j % 2 > row + 8 * lower)
                    s[i][j] = -INFINITY;
                higher = fmaxf(higher, s[i][j]);
            }
        higher = row_max(higher);
        float base = higher * scale, shrink = power_of_two(most[lower] * scale - base);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 2 * lower; j < 2 * lower + 2; j++) {
                s[i][j] = power_of_two(s[i][j] * scale - base);
                total += s[i][j];
                o[i][j] *= shrink;
            }
        sum[lower] = sum[lower] * shrink + total;
        most[lower] = higher;
    }
}

static const size_t stage_elements = 2 * tile_elements; /* of shared memory */

/* Grid: blocks of 128 queries, the last ones first because they have most keys; heads of
 * sequences. */
__global__ void __launch_bounds__(forward_groups *group_threads, 2)
    hopper_out(lt_bf16 *out, float *lse, const lt_bf16 *qkv, int t, int c, int heads, float scale)
{
#if LT_WARPGROUPS
    const int rows = forward_groups * group_rows, threads = forward_groups * group_threads;
    lt_bf16 *queries = shared_tiles(), *stages = queries + forward_groups * tile_elements;
    head<lt_bf16> a = head_of(qkv, t, c, heads, 64);
    int first = (int)(gridDim.x - 1 - blockIdx.x) * rows,
        group = __shfl_sync(whole_warp, (int)threadIdx.x / group_threads, 0), /* known as uniform */
        mine = first + group * group_rows, warp = (int)threadIdx.x / lanes % 4,
        row = 16 * warp + lane_group(),
        tiles = ((first + rows < t ? first + rows : t) + group_rows - 1) / group_rows;
    float s[8][4], o[8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    left<lt_bf16> p[4];
    auto fetch = [&](int tile) {
        lt_bf16 *to = stages + tile % forward_stages * stage_elements;
        if (tile < tiles) {
            copy_rows<threads, 64>(to, a.k, a.row, tile * group_rows, t);
            copy_rows<threads, 64>(to + tile_elements, a.v, a.row, tile * group_rows, t);
        }
        copies_closed();
    };
    copy_rows<threads, rows>(queries, a.q, a.row, first, t);
    for (int tile = 0; tile < forward_stages - 1; tile++)
        fetch(tile);
    for (int tile = 0; tile < tiles; tile++) {
        const lt_bf16 *keys = stages + tile % forward_stages * stage_elements;
        copies_done<forward_stages - 2>();
        __syncthreads();
        fetch(tile + forward_stages - 1);
        if (tile * group_rows > mine)
            continue;
        begin_products(s, queries + group * tile_elements, keys);
        products_done<0>(s);
        if (tile * group_rows == mine)
            softmax_tile<true>(s, o, most, sum, row, scale * log2_e);
        else
            softmax_tile<false>(s, o, most, sum, row, scale * log2_e);
        round_left(p, s);
        begin_accumulate(o, p, keys + tile_elements);
        products_done<0>(o);
    }
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        float total = row_sum(sum[lower]);
        int query = mine + row + 8 * lower;
        if (query < t && lane_pair() == 0)
            lse[(int64_t)blockIdx.y * t + query] = most[lower] * scale + logf(total);
        sum[lower] = 1 / total;
    }
    store_rows<lt_bf16, 64>(out + head_at(t, heads, 64), c, mine + 16 * warp, t, o, sum);
#endif
}

/* KEYS: dk and dv of 64 keys, from all queries that see them; else dq of 64 queries. Rows are the
 * block's own: x (k, or q) and y (v, or dO); columns are those of the tiles one (q, or k) and two
 * (dO, or v). */
template <bool KEYS>
__global__ void __launch_bounds__(group_threads, KEYS ? 2 : 3)
    hopper_dqkv(lt_bf16 *dqkv, const lt_bf16 *qkv, const lt_bf16 *dout, const float *lse,
                const float *delta, int t, int c, int heads, float scale)
{
#if LT_WARPGROUPS
    lt_bf16 *x = shared_tiles(), *y = x + tile_elements, *stages = y + tile_elements;
    head<lt_bf16> a = head_of(qkv, t, c, heads, 64);
    const lt_bf16 *slope = dout + head_at(t, heads, 64);
    lt_bf16 *to = dqkv + (a.q - qkv);
    float *numbers = reinterpret_cast<float *>(stages + backward_stages * stage_elements);
    int first = (int)(KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * group_rows,
        warp = (int)threadIdx.x / lanes, row = 16 * warp + lane_group(),
        tiles = KEYS ? (t - first + group_rows - 1) / group_rows : first / group_rows + 1;
    float s[8][4], dp[8][4], sum[8][4] = {}, dv[8][4] = {}, base[2], middle[2];
    const float whole[2] = {1, 1}, scaled[2] = {scale, scale};
    left<lt_bf16> p[4];
    lse += (int64_t)blockIdx.y * t;
    delta += (int64_t)blockIdx.y * t;
    /* the first tile is the one on the diagonal for keys, the last one for queries */
    auto fetch = [&](int tile) {
        lt_bf16 *one = stages + tile % backward_stages * stage_elements;
        int from = (KEYS ? first : 0) + tile * group_rows;
        if (tile < tiles) {
            copy_rows<group_threads, 64>(one, KEYS ? a.q : a.k, a.row, from, t);
            copy_rows<group_threads, 64>(one + tile_elements, KEYS ? slope : a.v, KEYS ? c : a.row,
                                         from, t);
            if (KEYS) { /* lse and delta of 64 queries */
                int i = (int)threadIdx.x % 64;
                copy_later<4>(numbers + tile % backward_stages * 128 + threadIdx.x,
                              (threadIdx.x < 64 ? lse : delta) + from + i, from + i < t);
            }
        }
        copies_closed();
    };
    copy_rows<group_threads, 64>(x, KEYS ? a.k : a.q, a.row, first, t);
    copy_rows<group_threads, 64>(y, KEYS ? a.v : slope, KEYS ? a.row : c, first, t);
    for (int tile = 0; tile < backward_stages - 1; tile++)
        fetch(tile);
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        int query = first + row + 8 * lower;
        base[lower] = !KEYS && query < t ? lse[query] * log2_e : 0;
        middle[lower] = !KEYS && query < t ? delta[query] : 0;
    }
    for (int tile = 0; tile < tiles; tile++) {
        const lt_bf16 *one = stages + tile % backward_stages * stage_elements,
                      *two = one + tile_elements;
        const float *high = numbers + tile % backward_stages * 128 + 2 * lane_pair();
        bool diagonal = tile == (KEYS ? 0 : tiles - 1);
        copies_done<backward_stages - 2>();
        __syncthreads();
        fetch(tile + backward_stages - 1);
        begin_products(s, x, one);
        begin_products(dp, y, two);
        products_done<1>(s);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float less = KEYS ? high[8 * i + j % 2] * log2_e : base[j / 2];
                s[i][j] = power_of_two(s[i][j] * (scale * log2_e) - less);
            }
        if (diagonal) /* a query does not see the keys after it */
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int past = 8 * i + 2 * lane_pair() + j % 2 - row - 8 * (j / 2);
                    if (KEYS ? past < 0 : past > 0)
                        s[i][j] = 0;
                }
        if (KEYS) {
            round_left(p, s);
            begin_accumulate(dv, p, two);
            products_done<1>(dp);
        } else {
            products_done<0>(dp);
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float less = KEYS ? high[64 + 8 * i + j % 2] : middle[j / 2];
                dp[i][j] = s[i][j] * (dp[i][j] - less);
            }
        if (KEYS)
            products_done<0>(dv);
        round_left(p, dp);
        begin_accumulate(sum, p, one);
        products_done<0>(sum);
    }
    store_rows<lt_bf16, 64>(KEYS ? to + c : to, a.row, first + 16 * warp, t, sum, scaled);
    if (KEYS)
        store_rows<lt_bf16, 64>(to + 2 * c, a.row, first + 16 * warp, t, dv, whole);
#endif
}

/* ---- launches ---- */

static const size_t aligned = 1024; /* what shared_tiles may pass over */

void hopper_attention_forward(struct cuda_queue *queue, const struct lt_attention *a)
{
    const size_t bytes =
        aligned +
        (forward_groups * tile_elements + forward_stages * stage_elements) * sizeof(lt_bf16);
    dim3 grid(blocks_of(a->t, forward_groups * group_rows), (unsigned)(a->b * a->h));
    float scale = 1 / sqrtf((float)(a->c / a->h));
    cudaFuncSetAttribute((const void *)hopper_out, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)bytes);
    LAUNCH(hopper_out, grid, forward_groups * group_threads, bytes, queue->stream,
           (lt_bf16 *)a->out, a->lse, (const lt_bf16 *)a->qkv, (int)a->t, (int)a->c, (int)a->h,
           scale);
}

template <bool KEYS>
static void launch_dqkv(struct cuda_queue *queue, const struct lt_attention *a, const float *delta)
{
    const size_t bytes = aligned +
                         (2 * tile_elements + backward_stages * stage_elements) * sizeof(lt_bf16) +
                         backward_stages * 128 * sizeof(float);
    dim3 grid(blocks_of(a->t, group_rows), (unsigned)(a->b * a->h));
    float scale = 1 / sqrtf((float)(a->c / a->h));
    cudaFuncSetAttribute((const void *)hopper_dqkv<KEYS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    LAUNCH((hopper_dqkv<KEYS>), grid, group_threads, bytes, queue->stream, (lt_bf16 *)a->dqkv,
           (const lt_bf16 *)a->qkv, (const lt_bf16 *)a->dout, (const float *)a->lse, delta,
           (int)a->t, (int)a->c, (int)a->h, scale);
}

void hopper_attention_backward(struct cuda_queue *queue, const struct lt_attention *a,
                               const float *delta)
{
    launch_dqkv<true>(queue, a, delta);
    launch_dqkv<false>(queue, a, delta);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to attention.cu: products of small matrices by one warp. A product multiplies 16 rows by
 * 8 columns over shape<T>::k terms; each lane holds a few elements of the factors (of the left one:
 * struct left, of the right one: struct right) and four sums. bf16 uses the tensor cores; float the
 * other units, with the factors held in the same places, so that one text serves both.
 *
 * Where a lane's elements stand: with group = lane / 4 and pair = lane % 4, of the left factor rows
 * group and group + 8, of the right one column group; of each half of eight terms the terms 2 pair
 * and 2 pair + 1. Sums: rows group (0, 1) and group + 8 (2, 3), columns 2 pair and 2 pair + 1.
 * These are the fragments of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16").
 */
#ifndef LT_CUDA_TILE_H
#define LT_CUDA_TILE_H

#include <string.h>

#include "libtrain/cuda/kernel.h"

template <class T> struct shape;
template <> struct shape<lt_bf16> {
    /* columns: of a tile in shared memory; together: right factors that are read at once */
    static constexpr int k = 16, halves = 2, columns = 64, together = 2;
};
template <> struct shape<float> {
    static constexpr int k = 8, halves = 1, columns = 32, together = 1;
};

template <class T> struct left {
    pack<T, 2> at[2 * shape<T>::halves]; /* [2 half + (row >= 8)] */
};

template <class T> struct right {
    pack<T, 2> at[shape<T>::halves];
};

__device__ inline int lane_group()
{
    return (int)(threadIdx.x % lanes) / 4;
}

__device__ inline int lane_pair()
{
    return (int)(threadIdx.x % lanes) % 4;
}

#ifdef __CUDACC__
__device__ inline void multiply(float sum[4], const left<lt_bf16> &a, const right<lt_bf16> &b)
{
    const uint32_t *x = reinterpret_cast<const uint32_t *>(&a),
                   *y = reinterpret_cast<const uint32_t *>(&b);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}

__device__ inline void multiply(float sum[4], const left<float> &a, const right<float> &b)
{
    const int row = 4 * lane_group(), column = 8 * lane_pair();
#pragma unroll 1 /* this path is not the fast one: less code is worth more */
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float upper = __shfl_sync(whole_warp, a.at[0].at[j], row + i),
                  lower = __shfl_sync(whole_warp, a.at[1].at[j], row + i),
                  first = __shfl_sync(whole_warp, b.at[0].at[j], column + i),
                  second = __shfl_sync(whole_warp, b.at[0].at[j], column + 4 + i);
            sum[0] += upper * first;
            sum[1] += upper * second;
            sum[2] += lower * first;
            sum[3] += lower * second;
        }
}
#else
/* The same by the table of places above. */
template <class T> inline void multiply(float sum[4], const left<T> &a, const right<T> &b)
{
    struct factors {
        left<T> a;
        right<T> b;
    } mine = {a, b};
    const struct factors *all = (const struct factors *)shim_gather(&mine, sizeof mine);
    const int row = 4 * lane_group(), column = 8 * lane_pair();
#pragma unroll
    for (int half = 0; half < shape<T>::halves; half++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float upper = get(all[row + i / 2].a.at[2 * half].at[i % 2]),
                  lower = get(all[row + i / 2].a.at[2 * half + 1].at[i % 2]),
                  first = get(all[column + i / 2].b.at[half].at[i % 2]),
                  second = get(all[column + 4 + i / 2].b.at[half].at[i % 2]);
            sum[0] += upper * first;
            sum[1] += upper * second;
            sum[2] += lower * first;
            sum[3] += lower * second;
        }
}
#endif

/* A tile of shared memory holds rows of D elements; 16 bytes between them keep the lanes of a
 * fragment on different banks. */
template <class T, int D> struct tile {
    static constexpr int row = D + 16 / (int)sizeof(T);
};

/* Rows [from, from + ROWS) of x, whose rows are `stride` elements apart, by all threads of the
 * block; rows from `limit` on are 0. */
template <class T, int D, int ROWS>
__device__ inline void load_tile(T *to, const T *x, int64_t stride, int64_t from, int64_t limit)
{
    const int N = 16 / sizeof(T), packs = D / N;
    for (int i = (int)threadIdx.x; i < ROWS * packs; i += (int)blockDim.x) {
        pack<T, N> values = {};
        int64_t row = from + i / packs;
        if (row < limit)
            values = load<T, N>(x + row * stride + i % packs * N);
        store(to + i / packs * tile<T, D>::row + i % packs * N, values);
    }
}

/* The warp's 16 rows from `row` on, as left factors over D terms. */
template <class T, int D>
__device__ inline void load_left(left<T> *to, const T *x, int64_t stride, int64_t row,
                                 int64_t limit)
{
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        int64_t mine = row + lane_group() + 8 * lower;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            pack<T, 2> values = {};
            if (mine < limit)
                values = load<T, 2>(x + mine * stride + 8 * i + 2 * lane_pair());
            to[i / shape<T>::halves].at[2 * (i % shape<T>::halves) + lower] = values;
        }
    }
}

/* Four matrices of 8 x 8 elements in shared memory: lanes 8 i to 8 i + 7 name the rows of matrix i.
 * Of each a lane gets two elements: of row `group` columns 2 pair and 2 pair + 1; turned: of column
 * `group` those rows (PTX ISA, "ldmatrix"). */
template <bool TURNED>
__device__ inline void load_matrices(right<lt_bf16> to[2], const lt_bf16 *row)
{
    uint32_t part[4];
#ifdef __CUDACC__
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(part[0]), "=r"(part[1]), "=r"(part[2]), "=r"(part[3])
                     : "r"(at));
#else
    const lt_bf16 *const *rows = (const lt_bf16 *const *)shim_gather(&row, sizeof row);
    const int group = lane_group(), pair = 2 * lane_pair();
    for (int i = 0; i < 4; i++)
        part[i] = TURNED
                      ? rows[8 * i + pair][group] | (uint32_t)rows[8 * i + pair + 1][group] << 16
                      : rows[8 * i + group][pair] | (uint32_t)rows[8 * i + group][pair + 1] << 16;
#endif
    memcpy(to, part, sizeof part);
}

/* The right factor whose column is a row of the tile: terms run along the row. */
template <int D>
__device__ inline void along(right<float> *part, const float *from, int column_block, int step)
{
    part->at[0] = load<float, 2>(from + (8 * column_block + lane_group()) * tile<float, D>::row +
                                 step * shape<float>::k + 2 * lane_pair());
}

/* The right factor whose column is a column of the tile: terms run from row to row. */
template <int D>
__device__ inline void across(right<float> *part, const float *from, int column_block, int step)
{
#pragma unroll
    for (int i = 0; i < 2; i++)
        part->at[0].at[i] =
            from[(step * shape<float>::k + 2 * lane_pair() + i) * tile<float, D>::row +
                 8 * column_block + lane_group()];
}

/* The same of this step and the next one; matrices: the halves of the terms of both. */
template <int D>
__device__ inline void along(right<lt_bf16> part[2], const lt_bf16 *from, int column_block,
                             int step)
{
    const int lane = (int)threadIdx.x % lanes;
    load_matrices<false>(part, from + (8 * column_block + lane % 8) * tile<lt_bf16, D>::row +
                                   step * shape<lt_bf16>::k + lane / 8 * 8);
}

/* The same of this block of columns and the next one; matrices: the halves of the terms in both. */
template <int D>
__device__ inline void across(right<lt_bf16> part[2], const lt_bf16 *from, int column_block,
                              int step)
{
    const int lane = (int)threadIdx.x % lanes;
    load_matrices<true>(part, from +
                                  (step * shape<lt_bf16>::k + lane % 16) * tile<lt_bf16, D>::row +
                                  8 * (column_block + lane / 16));
}

/* s[16 x COLUMNS] = x (16 rows of D terms) times the rows of the tile. */
template <class T, int D, int COLUMNS>
__device__ inline void products(float (*s)[4], const left<T> *x, const T *from)
{
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++) {
        s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
#pragma unroll
        for (int step = 0; step < D / shape<T>::k; step += shape<T>::together) {
            right<T> b[shape<T>::together];
            along<D>(b, from, i, step);
#pragma unroll
            for (int j = 0; j < shape<T>::together; j++)
                multiply(s[i], x[step + j], b[j]);
        }
    }
}

/* sum[16 x D] += s[16 x COLUMNS], rounded to elements, times the tile. The sums of a product stand
 * where the left factor of the next one is wanted. */
template <class T, int D, int COLUMNS>
__device__ inline void accumulate(float (*sum)[4], const float (*s)[4], const T *from)
{
#pragma unroll
    for (int step = 0; step < COLUMNS / shape<T>::k; step++) {
        left<T> a;
#pragma unroll
        for (int half = 0; half < shape<T>::halves; half++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a.at[2 * half + i / 2].at[i % 2] = put<T>(s[step * shape<T>::halves + half][i]);
#pragma unroll
        for (int i = 0; i < D / 8; i += shape<T>::together) {
            right<T> b[shape<T>::together];
            across<D>(b, from, i, step);
#pragma unroll
            for (int j = 0; j < shape<T>::together; j++)
                multiply(sum[i + j], a, b[j]);
        }
    }
}

/* Rounds the sums of 16 rows of D columns to elements. */
template <class T, int D>
__device__ inline void store_rows(T *to, int64_t stride, int64_t row, int64_t limit,
                                  const float (*sum)[4], const float scale[2])
{
#pragma unroll
    for (int lower = 0; lower < 2; lower++) {
        int64_t mine = row + lane_group() + 8 * lower;
#pragma unroll
        for (int i = 0; i < D / 8 && mine < limit; i++) {
            pack<T, 2> values;
#pragma unroll
            for (int j = 0; j < 2; j++)
                values.at[j] = put<T>(sum[i][2 * lower + j] * scale[lower]);
            store(to + mine * stride + 8 * i + 2 * lane_pair(), values);
        }
    }
}

#endif

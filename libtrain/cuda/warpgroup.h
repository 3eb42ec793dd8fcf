/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to attention_hopper.cu: products of 64 x 64 x 64 by a warpgroup (four warps, wgmma), and
 * asynchronous copies to shared memory. Both are begun, closed as a batch, and waited for. Each
 * warp of a group has 16 of the 64 rows; the places of the sums are those of tile.h, and so are
 * those of a left factor that is held in registers (PTX ISA, "wgmma.mma_async", compute capability
 * 9.0 and no other). Empty assembly keeps the compiler from moving the sums.
 *
 * A tile of shared memory has rows of 64 bf16 elements, 128 bytes, and begins at a multiple of 1024
 * bytes. In row r, pack p of 16 bytes is at p ^ (r % 8) ("128-byte swizzle"): then eight packs
 * of a column are on different banks, as are eight of a row.
 */
#ifndef LT_CUDA_WARPGROUP_H
#define LT_CUDA_WARPGROUP_H

#include "libtrain/cuda/tile.h"

/* The code for a device without such products is empty: it is not launched there. */
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LT_WARPGROUPS 1
#else
#define LT_WARPGROUPS 0
#endif

static const int group_rows = 64, group_threads = 128, tile_packs = 8;
static const size_t tile_elements = 64 * 64;

/* The block's shared memory from the first place on where a tile may begin: up to 1008 bytes less
 * than the launch says. */
__device__ inline lt_bf16 *shared_tiles()
{
    lt_bf16 *base = shared_memory<lt_bf16>();
#ifdef __CUDACC__
    uintptr_t at = __cvta_generic_to_shared(base);
#else
    uintptr_t at = reinterpret_cast<uintptr_t>(base);
#endif
    return base + (1024 - at % 1024) % 1024 / sizeof *base;
}

__device__ inline lt_bf16 *pack_at(lt_bf16 *tile, int row, int packs)
{
    return tile + row * 64 + (packs ^ row % 8) * 8;
}

/* ---- copies ---- */

#ifdef __CUDACC__
__device__ inline unsigned shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}

/* BYTES (4 or 16) of global memory, or zeros where they are not wanted. */
template <int BYTES> __device__ inline void copy_later(void *to, const void *from, bool wanted)
{
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(wanted ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
                     "l"(from), "r"(wanted ? 4 : 0)
                     : "memory");
}

__device__ inline void copies_closed()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for this thread's batches but the last LEFT; after a barrier of the block products may read
 * what all threads have copied. */
template <int LEFT> __device__ inline void copies_done()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#else
template <int BYTES> inline void copy_later(void *to, const void *from, bool wanted)
{
    shim_copy_later(to, wanted ? from : nullptr, BYTES);
}

inline void copies_closed()
{
    shim_copies_closed();
}

template <int LEFT> inline void copies_done()
{
    shim_copies_done(LEFT);
}
#endif

/* Rows [from, from + ROWS) of x, whose rows are `stride` elements apart, by the THREADS of the
 * block; rows from `limit` on are 0. */
template <int THREADS, int ROWS>
__device__ inline void copy_rows(lt_bf16 *to, const lt_bf16 *x, int64_t stride, int from, int limit)
{
#pragma unroll
    for (int n = 0; n < ROWS * tile_packs / THREADS; n++) {
        int row = ((int)threadIdx.x + n * THREADS) / tile_packs,
            packs = (int)threadIdx.x % tile_packs;
        copy_later<16>(pack_at(to, row, packs), x + (from + row) * stride + packs * 8,
                       from + row < limit);
    }
}

/* ---- products ---- */

#ifdef __CUDACC__
/* Keeps the compiler from touching or copying sums before the batch that works on them is done. */
__device__ inline void hold(float (*sum)[4])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            asm volatile("" : "+f"(sum[i][j])::"memory");
}

/* Waits for the group's batches of products but the last LEFT; these are sums of one that is done.
 */
template <int LEFT> __device__ inline void products_done(float (*sum)[4])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
    hold(sum);
}

/* The matrix descriptor of a tile: its place, 1024 bytes between groups of eight rows, 128-byte
 * swizzle (PTX ISA, "Matrix descriptor format"). One more is 16 bytes further. */
__device__ inline uint64_t descriptor(const lt_bf16 *tile)
{
    return (uint64_t)(shared_address(tile) & 0x3ffff) >> 4 | (uint64_t)1 << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define LT_FOUR(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define LT_SUMS \
    LT_FOUR(0), LT_FOUR(1), LT_FOUR(2), LT_FOUR(3), LT_FOUR(4), LT_FOUR(5), LT_FOUR(6), LT_FOUR(7)
#define LT_PLACES \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

/* sum = x y^T over the 64 terms of the rows of two tiles. */
__device__ inline void begin_products(float (*sum)[4], const lt_bf16 *x, const lt_bf16 *y)
{
    uint64_t left_tile = descriptor(x), right_tile = descriptor(y);
    hold(sum);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < 4; step++) /* 16 terms, 32 bytes of each row */
        asm volatile("{ .reg .pred add; setp.ne.b32 add, %34, 0; "
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LT_PLACES
                     ", %32, %33, add, 1, 1, 0, 0; }"
                     : LT_SUMS
                     : "l"(left_tile + 2 * step), "l"(right_tile + 2 * step), "r"(step));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* sum += p y over the 64 rows of a tile; p: 64 columns, four left factors of 16. */
__device__ inline void begin_accumulate(float (*sum)[4], const left<lt_bf16> *p, const lt_bf16 *y)
{
    uint64_t tile = descriptor(y);
    hold(sum);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < 4; step++) { /* 16 rows of the tile, 2048 bytes */
        const uint32_t *part = reinterpret_cast<const uint32_t *>(&p[step]);
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " LT_PLACES
                     ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                     : LT_SUMS
                     : "r"(part[0]), "r"(part[1]), "r"(part[2]), "r"(part[3]),
                       "l"(tile + 128 * step));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Rounds sums to left factors of the next product. */
__device__ inline void round_left(left<lt_bf16> *to, const float (*s)[4])
{
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *pair = s[2 * step + i / 2] + 2 * (i % 2);
            uint32_t *part = reinterpret_cast<uint32_t *>(&to[step]) + i;
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(*part) : "f"(pair[1]), "f"(pair[0]));
        }
}

#else
/* The same on the substitute runtime: what is begun is done at once. */
template <int LEFT> inline void products_done(float (*)[4])
{
}

inline float tile_value(const lt_bf16 *tile, int row, int column)
{
    return get(tile[row * 64 + (column / 8 ^ row % 8) * 8 + column % 8]);
}

inline void begin_products(float (*sum)[4], const lt_bf16 *x, const lt_bf16 *y)
{
    const int first = (int)threadIdx.x % group_threads / lanes * 16 + lane_group();
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++) {
            sum[i][j] = 0;
            for (int k = 0; k < 64; k++)
                sum[i][j] += tile_value(x, first + j / 2 * 8, k) *
                             tile_value(y, 8 * i + 2 * lane_pair() + j % 2, k);
        }
}

inline void begin_accumulate(float (*sum)[4], const left<lt_bf16> *p, const lt_bf16 *y)
{
    typedef left<lt_bf16> factors[4];
    const factors *all = (const factors *)shim_gather(p, sizeof(factors));
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 64; k++) {
                const left<lt_bf16> &part = all[4 * lane_group() + k % 8 / 2][k / 16];
                sum[i][j] += get(part.at[k % 16 / 8 * 2 + j / 2].at[k % 2]) *
                             tile_value(y, k, 8 * i + 2 * lane_pair() + j % 2);
            }
}

inline void round_left(left<lt_bf16> *to, const float (*s)[4])
{
    for (int k = 0; k < 16; k++)
        to[k / 4].at[k % 4].at[0] = put<lt_bf16>(s[k / 2][k % 2 * 2]),
                         to[k / 4].at[k % 4].at[1] = put<lt_bf16>(s[k / 2][k % 2 * 2 + 1]);
}
#endif

#endif

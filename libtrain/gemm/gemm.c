/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs by the library that the build has. What it has no kernel for on this CPU, bf16 on many and
 * fp16 on nearly all, it multiplies as fp32; TF32 is fp32 with rounded operands. Plain loops
 * multiply where there is no library.
 */
#include "libtrain/gemm/gemm.h"

#include <stdlib.h>

#include "libtrain/base/least.h"
#include "libtrain/gemm/gemm_library.h"

/* A stride of 1 between columns is the library's untransposed operand, one between rows its
 * transposed one. */
static int turned(struct lt_matrix matrix)
{
    return matrix.column != 1;
}

static struct lt_matrix whole(struct lt_matrix matrix, int64_t rows, int64_t columns)
{
    /* where there is only one row (or column) its stride may be less than the library asks for */
    if (turned(matrix))
        matrix.column = matrix.column > rows ? matrix.column : rows;
    else
        matrix.row = matrix.row > columns ? matrix.row : columns;
    return matrix;
}

/* One row of c in plain C. */
static void plain_row(const struct lt_product *product, int64_t i)
{
    for (int64_t j = 0; j < product->n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < product->k; k++)
            sum += lt_element_get(product->a.at, i * product->a.row + k * product->a.column,
                                  product->in) *
                   lt_element_get(product->b.at, k * product->b.row + j * product->b.column,
                                  product->in);
        sum += product->bias ? product->bias[j] : 0.0f;
        sum +=
            product->add ? lt_element_get(product->c, i * product->c_row + j, product->out) : 0.0f;
        lt_element_put(product->c, i * product->c_row + j, product->out, sum);
    }
}

static void plain(const struct lt_product *product)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < product->m; i++)
        plain_row(product, i);
}

/* With the strides that the library asks for. */
static struct lt_product with_strides(const struct lt_product *product)
{
    struct lt_product out = *product;
    out.a = whole(out.a, out.m, out.k);
    out.b = whole(out.b, out.k, out.n);
    return out;
}

/* By the library, or by plain loops where it has no kernel. */
static void multiply_floats(const struct lt_product *product)
{
    struct lt_product own = with_strides(product);
    if (lt_gemm_library_run(&own))
        plain(&own);
}

/* ---- types that the library does not multiply ------------------------------------------------- */

/* A product is made in tiles, so that the room for its operands as floats stays below 24 MiB. */
enum { TILE_ROWS = 1024, TILE_COLUMNS = 1024, TILE_DEPTH = 2048 };

/* Room for the operands of one tile as floats; a thread keeps it, so that only the first product
 * of a size allocates. NULL: there is none. */
static float *room_of(size_t floats)
{
    static _Thread_local float *room;
    static _Thread_local size_t size;
    if (floats > size) {
        float *grown = realloc(room, floats * sizeof *grown);
        if (!grown)
            return NULL;
        room = grown;
        size = floats;
    }
    return room;
}

/* The part of a matrix that begins at this row and column. */
static struct lt_matrix part(struct lt_matrix matrix, int64_t row, int64_t column,
                             enum lt_dtype dtype)
{
    size_t first = (size_t)(row * matrix.row + column * matrix.column);
    matrix.at = (const char *)matrix.at + first * lt_dtype_bytes(dtype);
    return matrix;
}

/* The elements of a matrix as floats, those of fp32 rounded to TF32, in the order of its unit
 * stride. Of several rows of that order only `length` elements are part of it. */
static struct lt_matrix widen(struct lt_matrix matrix, int64_t rows, int64_t columns,
                              enum lt_dtype dtype, float *to)
{
    int is_turned = turned(matrix);
    int64_t lines = is_turned ? columns : rows, length = is_turned ? rows : columns,
            apart = is_turned ? matrix.column : matrix.row;
    const uint16_t *from = matrix.at;
    const float *floats = matrix.at;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < lines; i++)
        if (dtype == LT_DTYPE_FP32) {
#pragma omp simd
            for (int64_t j = 0; j < length; j++)
                to[i * length + j] = lt_tf32_round(floats[i * apart + j]);
        } else if (dtype == LT_DTYPE_BF16) {
#pragma omp simd
            for (int64_t j = 0; j < length; j++)
                to[i * length + j] = lt_bf16_float(from[i * apart + j]);
        } else {
#pragma omp simd
            for (int64_t j = 0; j < length; j++)
                to[i * length + j] = lt_fp16_float(from[i * apart + j]);
        }
    return is_turned ? (struct lt_matrix){to, 1, length} : (struct lt_matrix){to, length, 1};
}

/* Rounds the sums of a tile to the type of the result. */
static void narrow(const struct lt_product *tile, const float *sums)
{
    uint16_t *out = tile->c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < tile->m; i++)
        if (tile->out == LT_DTYPE_BF16) {
#pragma omp simd
            for (int64_t j = 0; j < tile->n; j++)
                out[i * tile->c_row + j] = lt_bf16_round(sums[i * tile->n + j]);
        } else {
#pragma omp simd
            for (int64_t j = 0; j < tile->n; j++)
                out[i * tile->c_row + j] = lt_fp16_round(sums[i * tile->n + j]);
        }
}

/* One tile of the result: its sums are made in fp32, TILE_DEPTH of the inner dimension at a time,
 * and rounded once. */
static int run_tile(const struct lt_product *tile)
{
    struct lt_product wide = *tile;
    int64_t depth = lt_min64(tile->k, TILE_DEPTH);
    size_t a = (size_t)(tile->m * depth), b = (size_t)(depth * tile->n),
           c = tile->out == LT_DTYPE_FP32 ? 0 : (size_t)(tile->m * tile->n);
    float *room = room_of(a + b + c);
    if (!room)
        return -1;
    wide.in = wide.out = LT_DTYPE_FP32;
    if (c) {
        wide.c = room + a + b;
        wide.c_row = tile->n;
        if (tile->add)
            widen((struct lt_matrix){tile->c, tile->c_row, 1}, tile->m, tile->n, tile->out, wide.c);
    }
    for (int64_t k = 0; k < tile->k; k += depth) {
        wide.k = lt_min64(tile->k - k, depth);
        wide.a = widen(part(tile->a, 0, k, tile->in), tile->m, wide.k, tile->in, room);
        wide.b = widen(part(tile->b, k, 0, tile->in), wide.k, tile->n, tile->in, room + a);
        multiply_floats(&wide);
        wide.add = 1;
        wide.bias = NULL;
    }
    if (c)
        narrow(tile, wide.c);
    return 0;
}

/* Products of a 16-bit type, or of TF32, with sums in fp32, as matrix units make them: the operands
 * become floats, which is exact but for TF32, and the library multiplies those. */
static int run_widened(const struct lt_product *whole)
{
    struct lt_product tile = *whole;
    size_t bytes = lt_dtype_bytes(whole->out);
    for (int64_t row = 0; row < whole->m; row += TILE_ROWS)
        for (int64_t column = 0; column < whole->n; column += TILE_COLUMNS) {
            tile.m = lt_min64(whole->m - row, TILE_ROWS);
            tile.n = lt_min64(whole->n - column, TILE_COLUMNS);
            tile.a = part(whole->a, row, 0, whole->in);
            tile.b = part(whole->b, 0, column, whole->in);
            tile.c = (char *)whole->c + (size_t)(row * whole->c_row + column) * bytes;
            tile.bias = whole->bias ? whole->bias + column : NULL;
            if (run_tile(&tile))
                return -1;
        }
    return 0;
}

static int rounds_tf32;

void lt_gemm_round_tf32(int on)
{
    rounds_tf32 = on;
}

void lt_gemm(const struct lt_product *product)
{
    struct lt_product own = with_strides(product);
    int is_float = own.in == LT_DTYPE_FP32, is_native = own.in != LT_DTYPE_FP16;
    if (is_float && rounds_tf32 && run_widened(&own) == 0)
        return;
    if (is_native && lt_gemm_library_run(&own) == 0)
        return;
    if (is_float || run_widened(&own))
        plain(&own);
}

void lt_gemm_floats(int64_t m, int64_t n, int64_t k, struct lt_matrix a, struct lt_matrix b,
                    float *c, int add)
{
    lt_gemm(&(struct lt_product){.m = m,
                                 .n = n,
                                 .k = k,
                                 .a = a,
                                 .b = b,
                                 .c = c,
                                 .c_row = n,
                                 .add = add,
                                 .in = LT_DTYPE_FP32,
                                 .out = LT_DTYPE_FP32});
}

int lt_gemm_fast(enum lt_dtype dtype)
{
    return lt_gemm_library_has(dtype == LT_DTYPE_FP16 ? LT_DTYPE_FP32 : dtype);
}

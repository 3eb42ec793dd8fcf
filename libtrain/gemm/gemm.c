/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs by the library that the build has, and by plain loops where the library has no
 * kernel for the type on this CPU. fp16 is emulated: no library multiplies it on most CPUs. The
 * loops are correct and slow; lt_gemm_fast says beforehand which of the two it will be.
 */
#include "libtrain/gemm/gemm.h"

#include <stdlib.h>

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

/* ---- fp16, emulated --------------------------------------------------------------------------- */

/* Room for the operands of one product as floats; a thread keeps it, so that only the first product
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

/* The elements of a matrix of fp16 as floats, in the order of its unit stride. Of several rows of
 * that order only `length` elements are part of it. */
static struct lt_matrix widen(struct lt_matrix matrix, int64_t rows, int64_t columns, float *to)
{
    int is_turned = turned(matrix);
    int64_t lines = is_turned ? columns : rows, length = is_turned ? rows : columns,
            apart = is_turned ? matrix.column : matrix.row;
    const lt_fp16 *from = matrix.at;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < lines; i++)
#pragma omp simd
        for (int64_t j = 0; j < length; j++)
            to[i * length + j] = lt_fp16_float(from[i * apart + j]);
    return is_turned ? (struct lt_matrix){to, 1, length} : (struct lt_matrix){to, length, 1};
}

/* Products of fp16 with sums in fp32, as matrix units make them: the operands become floats, which
 * is exact, the result is rounded once. */
static int run_fp16(const struct lt_product *product)
{
    struct lt_product wide = *product;
    size_t a = (size_t)(product->m * product->k), b = (size_t)(product->k * product->n),
           c = product->out == LT_DTYPE_FP16 ? (size_t)(product->m * product->n) : 0;
    float *room = room_of(a + b + c);
    if (!room)
        return -1;
    wide.in = wide.out = LT_DTYPE_FP32;
    wide.a = widen(product->a, product->m, product->k, room);
    wide.b = widen(product->b, product->k, product->n, room + a);
    if (!c) {
        lt_gemm(&wide);
        return 0;
    }
    lt_fp16 *out = product->c;
    wide.c = room + a + b;
    wide.c_row = product->n;
    if (product->add)
        widen((struct lt_matrix){out, product->c_row, 1}, product->m, product->n, wide.c);
    lt_gemm(&wide);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < product->m; i++)
#pragma omp simd
        for (int64_t j = 0; j < product->n; j++)
            out[i * product->c_row + j] =
                lt_fp16_round(((const float *)wide.c)[i * product->n + j]);
    return 0;
}

void lt_gemm(const struct lt_product *product)
{
    struct lt_product whole_product = *product;
    whole_product.a = whole(whole_product.a, whole_product.m, whole_product.k);
    whole_product.b = whole(whole_product.b, whole_product.k, whole_product.n);
    if (product->in == LT_DTYPE_FP16 ? run_fp16(&whole_product)
                                     : lt_gemm_library_run(&whole_product))
        plain(&whole_product);
}

int lt_gemm_fast(enum lt_dtype dtype)
{
    return lt_gemm_library_has(dtype == LT_DTYPE_FP16 ? LT_DTYPE_FP32 : dtype);
}

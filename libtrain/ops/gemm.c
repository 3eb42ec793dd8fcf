/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs by the library that the build has, and by plain loops where the library has no
 * kernel for the type on this CPU. The loops are correct and slow; lt_gemm_fast says beforehand
 * which of the two it will be.
 */
#include "libtrain/ops/gemm.h"

#include "libtrain/ops/gemm_library.h"

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

static float load(const void *values, int64_t i, enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_BF16 ? lt_bf16_float(((const lt_bf16 *)values)[i])
                                  : ((const lt_fp32 *)values)[i];
}

static void store(void *values, int64_t i, enum lt_dtype dtype, float value)
{
    if (dtype == LT_DTYPE_BF16)
        ((lt_bf16 *)values)[i] = lt_bf16_round(value);
    else
        ((lt_fp32 *)values)[i] = value;
}

/* One row of c in plain C. */
static void plain_row(const struct lt_product *product, int64_t i)
{
    for (int64_t j = 0; j < product->n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < product->k; k++)
            sum += load(product->a.at, i * product->a.row + k * product->a.column, product->in) *
                   load(product->b.at, k * product->b.row + j * product->b.column, product->in);
        sum += product->bias ? product->bias[j] : 0.0f;
        sum += product->add ? load(product->c, i * product->c_row + j, product->out) : 0.0f;
        store(product->c, i * product->c_row + j, product->out, sum);
    }
}

static void plain(const struct lt_product *product)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < product->m; i++)
        plain_row(product, i);
}

void lt_gemm(const struct lt_product *product)
{
    struct lt_product whole_product = *product;
    whole_product.a = whole(whole_product.a, whole_product.m, whole_product.k);
    whole_product.b = whole(whole_product.b, whole_product.k, whole_product.n);
    if (lt_gemm_library_run(&whole_product))
        plain(&whole_product);
}

int lt_gemm_fast(enum lt_dtype dtype)
{
    return lt_gemm_library_has(dtype);
}

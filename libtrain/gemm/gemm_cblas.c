/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs by CBLAS, where oneDNN is not installed. Only fp32; a bias is added in a pass of
 * its own.
 */
#if !defined(HAVE_DNNL) && !defined(LT_GEMM_PLAIN)
#include <cblas.h>

#include "libtrain/gemm/gemm_library.h"

static void add_bias(const struct lt_product *product)
{
    float *c = product->c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < product->n; j++)
            c[i * product->c_row + j] += product->bias[j];
}

/* A matrix whose columns are not next to each other is stored as its transpose. */
static CBLAS_TRANSPOSE turn_of(struct lt_matrix matrix)
{
    return matrix.column != 1 ? CblasTrans : CblasNoTrans;
}

static blasint stride_of(struct lt_matrix matrix)
{
    return (blasint)(matrix.column != 1 ? matrix.column : matrix.row);
}
int lt_gemm_library_run(const struct lt_product *product)
{
    if (product->in != LT_DTYPE_FP32 || product->out != LT_DTYPE_FP32)
        return -1;
    cblas_sgemm(CblasRowMajor, turn_of(product->a), turn_of(product->b), (blasint)product->m,
                (blasint)product->n, (blasint)product->k, 1.0f, product->a.at,
                stride_of(product->a), product->b.at, stride_of(product->b),
                product->add ? 1.0f : 0.0f, product->c, (blasint)product->c_row);
    if (product->bias)
        add_bias(product);
    return 0;
}

int lt_gemm_library_has(enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_FP32;
}

const char *lt_gemm_library(void)
{
    return "CBLAS";
}
#endif

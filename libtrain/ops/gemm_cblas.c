/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HAVE_DNNL
#include <cblas.h>

#include "libtrain/ops/gemm_library.h"

static void add_bias(const struct lt_product *product)
{
    float *c = product->c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < product->m; i++)
        for (int64_t j = 0; j < product->n; j++)
            c[i * product->c_row + j] += product->bias[j];
}

int lt_gemm_library_run(const struct lt_product *product)
{
    int a_turned = product->a.column != 1, b_turned = product->b.column != 1;
    if (product->in != LT_DTYPE_FP32 || product->out != LT_DTYPE_FP32)
        return -1;
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
                b_turned ? CblasTrans : CblasNoTrans, (blasint)product->m, (blasint)product->n,
                (blasint)product->k, 1.0f, product->a.at,
                (blasint)(a_turned ? product->a.column : product->a.row), product->b.at,
                (blasint)(b_turned ? product->b.column : product->b.row),
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

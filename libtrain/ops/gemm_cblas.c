/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HAVE_DNNL
#include <cblas.h>

#include "libtrain/ops/gemm_library.h"

static void add_bias(const struct lt_product *p)
{
    float *c = p->c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            c[i * p->c_row + j] += p->bias[j];
}

int lt_gemm_library_run(const struct lt_product *p)
{
    int ta = p->a.column != 1, tb = p->b.column != 1;
    if (p->in != LT_DTYPE_FP32 || p->out != LT_DTYPE_FP32)
        return -1;
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (blasint)p->m, (blasint)p->n, (blasint)p->k, 1.0f, p->a.at,
                (blasint)(ta ? p->a.column : p->a.row), p->b.at,
                (blasint)(tb ? p->b.column : p->b.row), p->add ? 1.0f : 0.0f, p->c,
                (blasint)p->c_row);
    if (p->bias)
        add_bias(p);
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

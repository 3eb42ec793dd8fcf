/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/gemm.h"

#ifdef HAVE_DNNL
#include <dnnl.h>
#include <stdio.h>
#else
#include <cblas.h>
#endif

/* A stride of 1 between columns is the library's untransposed operand, one between rows its transposed one. */
static int turned(struct lt_matrix x)
{
    return x.column != 1;
}

/* Distance of the stored rows. Where there is only one row, its stride may be less than the library asks for. */
static int64_t lead(struct lt_matrix x, int64_t rows, int64_t columns)
{
    int64_t stride = turned(x) ? x.column : x.row, least = turned(x) ? rows : columns;
    return stride > least ? stride : least;
}

#ifdef HAVE_DNNL

void lt_gemm(int64_t m, int64_t n, int64_t k, float alpha, struct lt_matrix a, struct lt_matrix b, float beta, float *c,
             int64_t c_row)
{
    dnnl_sgemm(turned(a) ? 'T' : 'N', turned(b) ? 'T' : 'N', m, n, k, alpha, a.at, lead(a, m, k), b.at, lead(b, k, n), beta, c,
               c_row);
}

const char *lt_gemm_library(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

#else

void lt_gemm(int64_t m, int64_t n, int64_t k, float alpha, struct lt_matrix a, struct lt_matrix b, float beta, float *c,
             int64_t c_row)
{
    cblas_sgemm(CblasRowMajor, turned(a) ? CblasTrans : CblasNoTrans, turned(b) ? CblasTrans : CblasNoTrans, (blasint)m,
                (blasint)n, (blasint)k, alpha, a.at, (blasint)lead(a, m, k), b.at, (blasint)lead(b, k, n), beta, c,
                (blasint)c_row);
}

const char *lt_gemm_library(void)
{
    return "CBLAS";
}

#endif

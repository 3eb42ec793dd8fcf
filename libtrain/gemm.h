/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the one door to the library that multiplies matrices. oneDNN where it is installed: it picks its kernels
 * by what the CPU says it can do. CBLAS elsewhere: Debian's OpenBLAS picks by the CPU's model number, and takes SSE3 kernels,
 * ten times slower, for a model it does not know, as virtual machines often have (OPENBLAS_CORETYPE=SkylakeX overrules it).
 */
#ifndef LT_GEMM_H
#define LT_GEMM_H

#include <stdint.h>

/* A matrix seen through strides: element (i, j) is at[i * row + j * column]. One of the strides is 1. */
struct lt_matrix {
    const float *at;
    int64_t row, column;
};

/* c[m,n] = alpha * a[m,k] * b[k,n] + beta * c, row-major, rows of c `c_row` floats apart (>= n). With beta == 0 c is not read.
 * Uses all of OpenMP's threads, or the calling one alone when called from within a parallel region. For one number of threads
 * the result is the same, bit for bit, each time. m, n, k >= 1 and below 2^31. */
void lt_gemm(int64_t m, int64_t n, int64_t k, float alpha, struct lt_matrix a, struct lt_matrix b, float beta, float *c,
             int64_t c_row);

/* Name and version of the library, for reports: "oneDNN 2.6.3". */
const char *lt_gemm_library(void);

#endif

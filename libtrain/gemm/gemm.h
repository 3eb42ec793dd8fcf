/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the one door to the library that multiplies matrices. oneDNN where it is
 * installed: it picks its kernels by what the CPU says it can do (AMX, avx512_bf16, AVX-512, AVX2).
 * CBLAS elsewhere: Debian's OpenBLAS picks by the CPU's model number, and takes SSE3 kernels, ten
 * times slower, for a model it does not know, as virtual machines often have
 * (OPENBLAS_CORETYPE=SkylakeX overrules it); it has no bf16.
 */
#ifndef LT_GEMM_H
#define LT_GEMM_H

#include <stdint.h>

#include "libtrain/base/dtype.h"

/* A matrix seen through strides in elements: element (i, j) is at[i * row + j * column]. One of the
 * strides is 1. */
struct lt_matrix {
    const void *at;
    int64_t row, column;
};

/* c[m,n] = a[m,k] * b[k,n], plus bias[n] to each row unless it is NULL, plus what c held if `add`.
 * Elements of a and b are of type `in`, those of c of type `out`, bias and the sums fp32. c is
 * row-major, its rows c_row >= n elements apart. */
struct lt_product {
    int64_t m, n, k;
    struct lt_matrix a, b;
    void *c;
    int64_t c_row;
    const float *bias;
    int add;
    enum lt_dtype in, out;
};

/* Uses all of OpenMP's threads, or the calling one alone when called from within a parallel region.
 * For one number of threads the result is the same, bit for bit, each time. m, n, k >= 1 and below
 * 2^31. The first product of a shape on a thread is planned, later ones take the plan from a table
 * of that thread. Thread-safe; nothing can fail: a 16-bit type that the library does not
 * multiply becomes fp32 first (lt_gemm_fast says whether), what it refuses then goes through plain
 * loops. */
void lt_gemm(const struct lt_product *product);
/* The same for fp32: c[m,n] = a b, its rows one behind the other; or what c held plus that. */
void lt_gemm_floats(int64_t m, int64_t n, int64_t k, struct lt_matrix a, struct lt_matrix b,
                    float *c, int add);

/* From now on operands in fp32 are rounded to TF32 (dtype.h) before they are multiplied, as tensor
 * cores do it; sums stay fp32. Call before other threads multiply. */
void lt_gemm_round_tf32(int on);

/* Whether the library multiplies matrices of this type on this CPU. Where it does not, lt_gemm is
 * correct and slower than fp32. fp16 counts as fp32: no CPU at hand multiplies it. */
int lt_gemm_fast(enum lt_dtype dtype);

/* Name and version of the library, for reports: "oneDNN 2.6.3". */
const char *lt_gemm_library(void);

#endif

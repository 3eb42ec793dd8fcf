/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to calibrate*.c and the benchmarks: one matrix product by each library and layout that
 * there is, to be timed. The engine itself multiplies through gemm.h.
 */
#ifndef LT_CALIBRATE_GEMM_H
#define LT_CALIBRATE_GEMM_H

#include <stdint.h>

#include "libtrain/base/dtype.h"
#include "tacho_error.h"

/* c[m,n] = a[m,k] b[k,n]; `turned`: that operand is stored as its transpose. A layer's forward has
 * b turned, its input gradient nothing, its weight gradient a turned. bf16: operands are bf16; c is
 * bf16, or fp32 where it is a weight's gradient. */
struct lt_gemm_case {
    int64_t m, n, k;
    int a_turned, b_turned;
    enum lt_dtype dtype;
    int c_fp32;
};

/* id, name */
#define LT_GEMM_WAY_MAP(X) \
    X(ENGINE, "engine") \
    X(SGEMM, "oneDNN sgemm") \
    X(MATMUL, "oneDNN matmul") \
    X(PACKED, "oneDNN matmul, packed")
#define LT_ENUM_GEMM_WAY(id, name) LT_GEMM_WAY_##id,
enum lt_gemm_way { LT_GEMM_WAY_MAP(LT_ENUM_GEMM_WAY) LT_GEMM_WAY_COUNT };
#undef LT_ENUM_GEMM_WAY
const char *lt_gemm_way_name(enum lt_gemm_way way);

struct lt_gemm_trial;

/* Makes operands with numbers in them, and whatever the library wants made beforehand. ENGINE: what
 * gemm.h does, be it oneDNN or CBLAS. PACKED: a layout of the library's choice for the weight,
 * which an optimizer could write: b of a forward and of an input gradient, c of a weight gradient
 * (a turned). TACHO_ENOTSUP: the library is not there, or has no such product; TACHO_ENOMEM. The
 * caller closes. */
int lt_gemm_trial_open(struct lt_gemm_trial **out, const struct lt_gemm_case *product,
                       enum lt_gemm_way way);

/* Seconds of one product, the mean of `calls` in a row over the same operands. */
double lt_gemm_trial_time(struct lt_gemm_trial *run, int calls);

/* Element (i, j) of c after a product; NAN where c has a layout of the library's own. */
double lt_gemm_trial_at(const struct lt_gemm_trial *run, int64_t i, int64_t j);
/* Element (i, j) of a or of b; NAN where it has a layout of the library's own. */
double lt_gemm_trial_operand(const struct lt_gemm_trial *run, int b, int64_t i, int64_t j);

void lt_gemm_trial_close(struct lt_gemm_trial *run); /* accepts NULL */

#endif

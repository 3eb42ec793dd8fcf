/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend's attention: cpu_attention_typed.h, once for each element type, and the closed
 * forms of its scratch memory and of the query-key pairs that it multiplies.
 */
#include "libtrain/base/openmp.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/typed.h"
#include "libtrain/ops/vector.h"

/* Floats up to the next cache line. */
static int64_t rounded(int64_t count)
{
    return (count + 15) / 16 * 16;
}

uint64_t lt_attention_pairs(enum lt_backend backend, int64_t t)
{
    uint64_t pairs = 0;
    if (backend == LT_BACKEND_REFERENCE)
        return (uint64_t)t * (uint64_t)(t + 1) / 2;
    for (int64_t from = 0; from < t; from += LT_ATTENTION_BLOCK) {
        int64_t end = lt_min64(from + LT_ATTENTION_BLOCK, t);
        pairs += (uint64_t)(end - from) * (uint64_t)end;
    }
    return pairs;
}

/* Scores and their gradients of one block of rows, twice where elements are not floats, and the
 * sums of dk and dv. */
size_t lt_attention_scratch(enum lt_dtype dtype, int64_t t, int64_t d)
{
    int64_t block = LT_ATTENTION_BLOCK * rounded(t);
    return (size_t)(2 * block + 2 * rounded(t * d) + (dtype == LT_DTYPE_FP32 ? 0 : block));
}

#define LT_TYPE fp32
#include "libtrain/ops/cpu_attention_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/cpu_attention_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/cpu_attention_typed.h"

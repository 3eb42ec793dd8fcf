/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtacho_gemm.so, which is loaded before cuBLAS (LD_PRELOAD) and says with NVTX what
 * each matrix product computes: a range of domain `cublas` around the call, with a payload of
 * schema `tacho.work` (include/tacho_nvtx.h). It changes nothing: arguments, results and return
 * codes are those of the real function. It knows nothing of the agent; without an NVTX tool in the
 * process each call goes straight through.
 *
 * The declarations of cuBLAS that it needs are its own, so it builds without CUDA. Their numbers
 * are part of cuBLAS's ABI and the same in versions 11 to 13 (library_types.h, cublas_api.h,
 * cublasLt.h).
 */
#ifndef GEMM_H
#define GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/gemm/functions.h"

#define GEMM_EXPORT __attribute__((visibility("default")))

/* What a wrapper returns when there is no real function to call: CUBLAS_STATUS_NOT_INITIALIZED. */
#define GEMM_NO_LIBRARY 1

/* cudaDataType (library_types.h) */
enum gemm_type {
    GEMM_R_32F = 0,
    GEMM_R_64F = 1,
    GEMM_R_16F = 2,
    GEMM_R_8I = 3,
    GEMM_C_32F = 4,
    GEMM_C_64F = 5,
    GEMM_C_16F = 6,
    GEMM_C_8I = 7,
    GEMM_R_8U = 8,
    GEMM_C_8U = 9,
    GEMM_R_32I = 10,
    GEMM_R_16BF = 14,
    GEMM_C_16BF = 15,
    GEMM_R_4I = 16,
    GEMM_R_4U = 18,
    GEMM_R_8F_E4M3 = 28,
    GEMM_R_8F_E5M2 = 29,
    GEMM_R_4F_E2M1 = 33,
};

/* cublasComputeType_t (cublas_api.h). Before cuBLAS 11 the argument was a cudaDataType, whose
 * numbers are smaller. */
enum gemm_compute {
    GEMM_COMPUTE_16F = 64,
    GEMM_COMPUTE_16F_PEDANTIC = 65,
    GEMM_COMPUTE_32F = 68,
    GEMM_COMPUTE_32F_PEDANTIC = 69,
    GEMM_COMPUTE_64F = 70,
    GEMM_COMPUTE_64F_PEDANTIC = 71,
    GEMM_COMPUTE_32I = 72,
    GEMM_COMPUTE_32I_PEDANTIC = 73,
    GEMM_COMPUTE_32F_FAST_16F = 74,
    GEMM_COMPUTE_32F_FAST_16BF = 75,
    GEMM_COMPUTE_32F_FAST_TF32 = 77,
    GEMM_COMPUTE_32F_EMULATED_16BFX9 = 78,
    GEMM_COMPUTE_64F_EMULATED = 79,
};

/* One call: C = alpha op(A) op(B) + beta C, C is m x n, op(A) m x k, op(B) k x n, `batch` times. */
struct gemm_call {
    int transa, transb; /* cublasOperation_t: 0 N, 1 T, 2 C */
    int64_t m, n, k, batch;
    int a, b, c;  /* enum gemm_type of the matrices */
    int compute;  /* enum gemm_compute */
    void *handle; /* cublasHandle_t, asked for its math mode and where beta is; NULL: not asked */
    const void *beta; /* of the handle's call, NULL: not looked at */
    bool reads_c;     /* beta is known not to be 0 */
    const struct gemm_sum *sum;
};

/* Of a grouped call, whose GEMMs have several shapes: sums instead of m, n, k. */
struct gemm_sum {
    uint64_t multiplies; /* of m n k batch */
    uint64_t a, b, c;    /* elements */
};

/* Is a scalar of this type (that of a compute type) not 0? `p` is on the host. */
bool gemm_scalar_is_set(const void *scalar, int compute);

/* a b and a + b, and the most that the store can hold where it is more. */
static inline uint64_t gemm_times(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_mul_overflow(a, b, &r) || r > INT64_MAX ? INT64_MAX : r;
}
static inline uint64_t gemm_plus(uint64_t a, uint64_t b)
{
    return a > INT64_MAX || b > INT64_MAX - a ? INT64_MAX : a + b;
}

extern const char *const gemm_function_name[]; /* of each enum gemm_function */
/* The real function; NULL: no loaded library has it. Any thread, any time. */
void (*gemm_real(enum gemm_function f))(void);

/* Is this call to be recorded? Not without a tool, and not within another one: cuBLAS calls itself
 * and cuBLASLt. A true answer must be followed by gemm_push or gemm_push_unknown, the real call,
 * and gemm_leave, on the same thread. */
bool gemm_enter(void);
void gemm_leave(void);
void gemm_push(enum gemm_function function, const struct gemm_call *call);
/* A call whose arguments do not say what it computes (it will fail): a range with its name alone.
 */
void gemm_push_unknown(enum gemm_function function);

#endif

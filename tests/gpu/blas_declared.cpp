/* SPDX-License-Identifier: Apache-2.0
 *
 * That libtrain/cuda/blas.h declares of cuBLASLt what its own header declares. Compiled, not run.
 */
#include <cublasLt.h>

#include "libtrain/cuda/blas.h"

static_assert(BLAS_COMPUTE_FP32 == CUBLAS_COMPUTE_32F, "compute type");
static_assert(BLAS_FP32 == CUDA_R_32F && BLAS_BF16 == CUDA_R_16BF, "types of elements");
static_assert(BLAS_TRANSPOSED == CUBLAS_OP_T, "transposition");
static_assert(BLAS_DESC_TRANSA == CUBLASLT_MATMUL_DESC_TRANSA, "attribute");
static_assert(BLAS_DESC_TRANSB == CUBLASLT_MATMUL_DESC_TRANSB, "attribute");
static_assert(BLAS_DESC_EPILOGUE == CUBLASLT_MATMUL_DESC_EPILOGUE, "attribute");
static_assert(BLAS_DESC_BIAS == CUBLASLT_MATMUL_DESC_BIAS_POINTER, "attribute");
static_assert(BLAS_DESC_AUX == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, "attribute");
static_assert(BLAS_DESC_AUX_STRIDE == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, "attribute");
static_assert(BLAS_EPILOGUE_NONE == CUBLASLT_EPILOGUE_DEFAULT &&
                  BLAS_EPILOGUE_BIAS == CUBLASLT_EPILOGUE_BIAS &&
                  BLAS_EPILOGUE_GELU == CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
                  BLAS_EPILOGUE_DGELU == CUBLASLT_EPILOGUE_DGELU &&
                  BLAS_EPILOGUE_BGRADB == CUBLASLT_EPILOGUE_BGRADB,
              "epilogues");
static_assert(BLAS_PREF_WORKSPACE == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, "preference");
static_assert(BLAS_PREF_ALIGNMENT == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
                  BLAS_PREF_ALIGNMENT + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
              "preference");
static_assert(sizeof(struct blas_algorithm) == sizeof(cublasLtMatmulAlgo_t), "algorithm");
static_assert(sizeof(struct blas_choice) == sizeof(cublasLtMatmulHeuristicResult_t), "choice");
static_assert(offsetof(struct blas_choice, workspace) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
              "choice");
static_assert(offsetof(struct blas_choice, state) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, state),
              "choice");

/* The same number of parameters, each as large. */
template <class R, class... P> constexpr size_t shape(R (*)(P...))
{
    size_t sum = sizeof(R), sizes[] = {sizeof(P)..., 0};
    for (size_t size : sizes)
        sum = 31 * sum + size;
    return sum;
}
#define SAME(type, name, parameters) \
    static_assert( \
        shape((decltype(&cublasLt##name))nullptr) == shape((decltype(blas::name))nullptr), #name);
BLAS_MAP(SAME)

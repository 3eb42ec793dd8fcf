/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: the functions of cuBLAS and cuBLASLt that libtacho_gemm.so wraps, and those
 * that it asks.
 */
#ifndef GEMM_FUNCTIONS_H
#define GEMM_FUNCTIONS_H

/* Exported by libcublas; with _64: dimensions of 64 bits, since cuBLAS 12. The last two are of the
 * old interface. */
#define GEMM_CUBLAS_MAP(X) \
    X(cublasSgemm_v2) \
    X(cublasSgemm_v2_64) \
    X(cublasDgemm_v2) \
    X(cublasDgemm_v2_64) \
    X(cublasHgemm) \
    X(cublasHgemm_64) \
    X(cublasSgemmBatched) \
    X(cublasSgemmBatched_64) \
    X(cublasDgemmBatched) \
    X(cublasDgemmBatched_64) \
    X(cublasHgemmBatched) \
    X(cublasHgemmBatched_64) \
    X(cublasSgemmStridedBatched) \
    X(cublasSgemmStridedBatched_64) \
    X(cublasDgemmStridedBatched) \
    X(cublasDgemmStridedBatched_64) \
    X(cublasHgemmStridedBatched) \
    X(cublasHgemmStridedBatched_64) \
    X(cublasSgemmEx) \
    X(cublasSgemmEx_64) \
    X(cublasGemmEx) \
    X(cublasGemmEx_64) \
    X(cublasGemmBatchedEx) \
    X(cublasGemmBatchedEx_64) \
    X(cublasGemmStridedBatchedEx) \
    X(cublasGemmStridedBatchedEx_64) \
    X(cublasSgemmGroupedBatched) \
    X(cublasSgemmGroupedBatched_64) \
    X(cublasDgemmGroupedBatched) \
    X(cublasDgemmGroupedBatched_64) \
    X(cublasGemmGroupedBatchedEx) \
    X(cublasGemmGroupedBatchedEx_64) \
    X(cublasSgemm) \
    X(cublasDgemm)

/* Exported by libcublasLt. */
#define GEMM_LT_MAP(X) X(cublasLtMatmul)

/* Only asked. */
#define GEMM_ASKED_MAP(X) \
    X(cublasGetMathMode) \
    X(cublasGetPointerMode_v2) \
    X(cublasLtMatmulDescGetAttribute) \
    X(cublasLtMatrixLayoutGetAttribute)

enum gemm_function {
#define GEMM_ENUM(name) GEMM_##name,
    GEMM_CUBLAS_MAP(GEMM_ENUM) GEMM_LT_MAP(GEMM_ENUM) GEMM_ASKED_MAP(GEMM_ENUM) GEMM_FUNCTIONS
#undef GEMM_ENUM
};

#endif

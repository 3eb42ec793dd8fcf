/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/cuda: the part of cuBLASLt's interface that products.cu calls. The library is
 * opened at run time, and these declarations save the build half a gigabyte of it; a test compares
 * them with cublasLt.h (CUDA 12 and 13) where that is installed.
 */
#ifndef LT_CUDA_BLAS_H
#define LT_CUDA_BLAS_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime.h>

enum {
    BLAS_COMPUTE_FP32 = 68, /* CUBLAS_COMPUTE_32F */
    BLAS_FP32 = 0,          /* CUDA_R_32F */
    BLAS_BF16 = 14,         /* CUDA_R_16BF */
    BLAS_TRANSPOSED = 1,    /* CUBLAS_OP_T */
    BLAS_DESC_TRANSA = 3,   /* CUBLASLT_MATMUL_DESC_TRANSA */
    BLAS_DESC_TRANSB = 4,
    BLAS_DESC_EPILOGUE = 7,    /* uint32_t: what is done to a result before it is stored */
    BLAS_DESC_BIAS = 8,        /* pointer: a number for each row of the result (of BGRADB: for */
    BLAS_DESC_AUX = 11,        /* each column); pointer: a second matrix that is written, read */
    BLAS_DESC_AUX_STRIDE = 12, /* int64_t: a multiple of 8 */
    BLAS_EPILOGUE_NONE = 1,    /* CUBLASLT_EPILOGUE_DEFAULT */
    BLAS_EPILOGUE_BIAS = 4,    /* the bias is added */
    BLAS_EPILOGUE_GELU =
        164, /* GELU_AUX_BIAS: ... the sum is the second matrix, the result its GELU */
    BLAS_EPILOGUE_DGELU = 192,  /* the result times GELU's slope at the second matrix */
    BLAS_EPILOGUE_BGRADB = 512, /* the sums of the right factor's columns are left in the bias */
    BLAS_PREF_WORKSPACE = 1,    /* CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES */
    BLAS_PREF_ALIGNMENT = 5 /* CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; then those of B, C, D */
};

typedef struct blas_handle_data *blas_handle;
typedef struct blas_desc_data *blas_desc;
typedef struct blas_layout_data *blas_layout;
typedef struct blas_preference_data *blas_preference;

struct blas_algorithm {
    uint64_t data[8];
};

struct blas_choice {
    struct blas_algorithm algorithm;
    size_t workspace;
    int state; /* 0: can be used */
    float waves;
    int reserved[4];
};

/* return type, name without cublasLt, parameters */
#define BLAS_MAP(X) \
    X(int, Create, (blas_handle * handle)) \
    X(int, Destroy, (blas_handle handle)) \
    X(size_t, GetVersion, (void)) \
    X(int, MatmulDescCreate, (blas_desc * desc, int compute, int scale)) \
    X(int, MatmulDescDestroy, (blas_desc desc)) \
    X(int, MatmulDescSetAttribute, (blas_desc desc, int attribute, const void *from, size_t size)) \
    X(int, MatrixLayoutCreate, \
      (blas_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t stride)) \
    X(int, MatrixLayoutDestroy, (blas_layout layout)) \
    X(int, MatmulPreferenceCreate, (blas_preference * preference)) \
    X(int, MatmulPreferenceDestroy, (blas_preference preference)) \
    X(int, MatmulPreferenceSetAttribute, \
      (blas_preference preference, int attribute, const void *from, size_t size)) \
    X(int, MatmulAlgoGetHeuristic, \
      (blas_handle handle, blas_desc desc, blas_layout a, blas_layout b, blas_layout c, \
       blas_layout d, blas_preference preference, int wanted, struct blas_choice *choices, \
       int *found)) \
    X(int, Matmul, \
      (blas_handle handle, blas_desc desc, const void *alpha, const void *a, blas_layout a_layout, \
       const void *b, blas_layout b_layout, const void *beta, const void *c, blas_layout c_layout, \
       void *d, blas_layout d_layout, const struct blas_algorithm *algorithm, void *workspace, \
       size_t workspace_bytes, cudaStream_t stream))

struct blas {
#define BLAS_POINTER(type, name, parameters) type(*name) parameters;
    BLAS_MAP(BLAS_POINTER)
#undef BLAS_POINTER
};

#endif

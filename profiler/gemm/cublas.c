/* SPDX-License-Identifier: Apache-2.0
 *
 * The wrappers of cuBLAS. Functions of one kind differ in the type of their matrices and in the
 * width of their dimensions alone, so each kind is written once. Types of pointers are as good as
 * any: all pointers are passed alike. Prototypes: cublas_api.h.
 */
#include "profiler/gemm/gemm.h"

/* Defines `name`: calls the real one, inside a range that says what `...` (initializers of struct
 * gemm_call) says. `prepare`: declarations that these need. */
#define NOTHING (void)0
#define WRAP(name, parameters, arguments, ...) \
    WRAP_AFTER(name, parameters, arguments, NOTHING, __VA_ARGS__)
#define WRAP_AFTER(name, parameters, arguments, prepare, ...) \
    GEMM_EXPORT int name parameters; \
    int name parameters \
    { \
        int(*real) parameters = (int(*) parameters)gemm_real(GEMM_##name); \
        if (!real) \
            return GEMM_NO_LIBRARY; \
        if (!gemm_enter()) \
            return real arguments; \
        prepare; \
        gemm_push(GEMM_##name, &(struct gemm_call){__VA_ARGS__}); \
        int status = real arguments; \
        gemm_leave(); \
        return status; \
    }
#define BOTH(KIND, name, ...) KIND(name, int, __VA_ARGS__) KIND(name##_64, int64_t, __VA_ARGS__)

#define SHAPE(count) \
    .transa = ta, .transb = tb, .m = m, .n = n, .k = k, .batch = (count), .handle = h, .beta = beta

/* one product of one type */
#define PLAIN(name, dim, type, how) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, dim lda, \
          const void *b, dim ldb, const void *beta, void *c, dim ldc), \
         (h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), SHAPE(1), .a = (type), \
         .b = (type), .c = (type), .compute = (how))
BOTH(PLAIN, cublasSgemm_v2, GEMM_R_32F, GEMM_COMPUTE_32F)
BOTH(PLAIN, cublasDgemm_v2, GEMM_R_64F, GEMM_COMPUTE_64F)
BOTH(PLAIN, cublasHgemm, GEMM_R_16F, GEMM_COMPUTE_16F)

/* a batch: arrays of pointers */
#define BATCHED(name, dim, type, how) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, dim lda, \
          const void *b, dim ldb, const void *beta, void *c, dim ldc, dim count), \
         (h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, count), SHAPE(count), \
         .a = (type), .b = (type), .c = (type), .compute = (how))
BOTH(BATCHED, cublasSgemmBatched, GEMM_R_32F, GEMM_COMPUTE_32F)
BOTH(BATCHED, cublasDgemmBatched, GEMM_R_64F, GEMM_COMPUTE_64F)
BOTH(BATCHED, cublasHgemmBatched, GEMM_R_16F, GEMM_COMPUTE_16F)

/* a batch: matrices at equal distances */
#define STRIDED(name, dim, type, how) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, dim lda, \
          long long sa, const void *b, dim ldb, long long sb, const void *beta, void *c, dim ldc, \
          long long sc, dim count), \
         (h, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, count), \
         SHAPE(count), .a = (type), .b = (type), .c = (type), .compute = (how))
BOTH(STRIDED, cublasSgemmStridedBatched, GEMM_R_32F, GEMM_COMPUTE_32F)
BOTH(STRIDED, cublasDgemmStridedBatched, GEMM_R_64F, GEMM_COMPUTE_64F)
BOTH(STRIDED, cublasHgemmStridedBatched, GEMM_R_16F, GEMM_COMPUTE_16F)

/* types given by the caller */
#define TYPED .a = a_type, .b = b_type, .c = c_type
#define SEX(name, dim, how) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, \
          int a_type, dim lda, const void *b, int b_type, dim ldb, const void *beta, void *c, \
          int c_type, dim ldc), \
         (h, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc), \
         SHAPE(1), TYPED, .compute = (how))
BOTH(SEX, cublasSgemmEx, GEMM_COMPUTE_32F)

#define EX(name, dim, ignored) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, \
          int a_type, dim lda, const void *b, int b_type, dim ldb, const void *beta, void *c, \
          int c_type, dim ldc, int how, int algo), \
         (h, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, how, \
          algo), \
         SHAPE(1), TYPED, .compute = how)
BOTH(EX, cublasGemmEx, 0)

#define BATCHED_EX(name, dim, ignored) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, \
          int a_type, dim lda, const void *b, int b_type, dim ldb, const void *beta, void *c, \
          int c_type, dim ldc, dim count, int how, int algo), \
         (h, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, count, \
          how, algo), \
         SHAPE(count), TYPED, .compute = how)
BOTH(BATCHED_EX, cublasGemmBatchedEx, 0)

#define STRIDED_EX(name, dim, ignored) \
    WRAP(name, \
         (void *h, int ta, int tb, dim m, dim n, dim k, const void *alpha, const void *a, \
          int a_type, dim lda, long long sa, const void *b, int b_type, dim ldb, long long sb, \
          const void *beta, void *c, int c_type, dim ldc, long long sc, dim count, int how, \
          int algo), \
         (h, ta, tb, m, n, k, alpha, a, a_type, lda, sa, b, b_type, ldb, sb, beta, c, c_type, ldc, \
          sc, count, how, algo), \
         SHAPE(count), TYPED, .compute = how)
BOTH(STRIDED_EX, cublasGemmStridedBatchedEx, 0)

/* ---- groups: each with a shape of its own, in arrays on the host --------------------------------------------------------- */

#define GROUPS(suffix, dim) \
    /* The GEMMs of all groups; returns their number, -1: the arguments are of no valid call. \
     */ \
    static int64_t sum_groups##suffix(const dim *m, const dim *n, const dim *k, dim groups, \
                                      const dim *size, struct gemm_sum *out) \
    { \
        int64_t count = 0; \
        *out = (struct gemm_sum){0}; \
        for (dim g = 0; g < groups; g++) { \
            if (!m || !n || !k || !size || m[g] < 0 || n[g] < 0 || k[g] < 0 || size[g] < 0) \
                return -1; \
            uint64_t x = (uint64_t)m[g], y = (uint64_t)n[g], z = (uint64_t)k[g], \
                     w = (uint64_t)size[g]; \
            out->multiplies = \
                gemm_plus(out->multiplies, gemm_times(gemm_times(x, y), gemm_times(z, w))); \
            out->a = gemm_plus(out->a, gemm_times(gemm_times(x, z), w)); \
            out->b = gemm_plus(out->b, gemm_times(gemm_times(z, y), w)); \
            out->c = gemm_plus(out->c, gemm_times(gemm_times(x, y), w)); \
            count += size[g]; \
        } \
        return count; \
    }
GROUPS(, int)
GROUPS(_64, int64_t)

#define SUM(suffix) \
    struct gemm_sum sum; \
    int64_t count = sum_groups##suffix(m, n, k, groups, size, &sum)

#define GROUPED(name, suffix, dim, type, how) \
    WRAP_AFTER(name##suffix, \
               (void *h, const int *ta, const int *tb, const dim *m, const dim *n, const dim *k, \
                const void *alpha, const void *a, const dim *lda, const void *b, const dim *ldb, \
                const void *beta, void *c, const dim *ldc, dim groups, const dim *size), \
               (h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, groups, size), \
               SUM(suffix), .handle = h, .sum = &sum, .batch = count, .a = (type), .b = (type), \
               .c = (type), .compute = (how))
GROUPED(cublasSgemmGroupedBatched, , int, GEMM_R_32F, GEMM_COMPUTE_32F)
GROUPED(cublasSgemmGroupedBatched, _64, int64_t, GEMM_R_32F, GEMM_COMPUTE_32F)
GROUPED(cublasDgemmGroupedBatched, , int, GEMM_R_64F, GEMM_COMPUTE_64F)
GROUPED(cublasDgemmGroupedBatched, _64, int64_t, GEMM_R_64F, GEMM_COMPUTE_64F)

#define GROUPED_EX(name, suffix, dim) \
    WRAP_AFTER(name##suffix, \
               (void *h, const int *ta, const int *tb, const dim *m, const dim *n, const dim *k, \
                const void *alpha, const void *a, int a_type, const dim *lda, const void *b, \
                int b_type, const dim *ldb, const void *beta, void *c, int c_type, const dim *ldc, \
                dim groups, const dim *size, int how), \
               (h, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, \
                groups, size, how), \
               SUM(suffix), .handle = h, .sum = &sum, .batch = count, TYPED, .compute = how)
GROUPED_EX(cublasGemmGroupedBatchedEx, , int)
GROUPED_EX(cublasGemmGroupedBatchedEx, _64, int64_t)

/* ---- the interface before version 2: no handle, no status, scalars by value ------------------------------------------------- */

static int operation(char letter)
{
    if (letter == 'n' || letter == 'N')
        return 0;
    return letter == 't' || letter == 'T' ? 1 : 2;
}

#define OLD(name, real_type, type, how) \
    GEMM_EXPORT void name(char ta, char tb, int m, int n, int k, real_type alpha, const void *a, \
                          int lda, const void *b, int ldb, real_type beta, void *c, int ldc); \
    void name(char ta, char tb, int m, int n, int k, real_type alpha, const void *a, int lda, \
              const void *b, int ldb, real_type beta, void *c, int ldc) \
    { \
        void (*real)(char, char, int, int, int, real_type, const void *, int, const void *, int, \
                     real_type, void *, int) = \
            (void (*)(char, char, int, int, int, real_type, const void *, int, const void *, int, \
                      real_type, void *, int))gemm_real(GEMM_##name); \
        bool recorded = real && gemm_enter(); \
        if (recorded) \
            gemm_push(GEMM_##name, \
                      &(struct gemm_call){.transa = operation(ta), \
                                          .transb = operation(tb), \
                                          .m = m, \
                                          .n = n, \
                                          .k = k, \
                                          .batch = 1, \
                                          .a = (type), \
                                          .b = (type), \
                                          .c = (type), \
                                          .compute = (how), \
                                          .reads_c = gemm_scalar_is_set(&beta, (how))}); \
        if (real) \
            real(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \
        if (recorded) \
            gemm_leave(); \
    }
OLD(cublasSgemm, float, GEMM_R_32F, GEMM_COMPUTE_32F)
OLD(cublasDgemm, double, GEMM_R_64F, GEMM_COMPUTE_64F)

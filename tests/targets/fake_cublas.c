/* SPDX-License-Identifier: Apache-2.0
 *
 * A substitute libcublas (and, with FAKE_LT defined, a substitute libcublasLt) that logs each call
 * into $FAKE_LOG, a line a call:
 *
 *     pid function transa transb m n k batch a_type b_type c_type compute      (separated by
 * blanks)
 *
 * writes a number made of all arguments into the first 8 bytes of C, and returns 13 when m is 13,
 * else 0. Groups are logged one line each. cublasGemmEx with algo 77 calls cublasLtMatmul first, as
 * the real one does for some shapes: that one's line has the function "inner". With FAKE_KERNELS
 * set, each call launches a kernel on the substitute driver (fake_cuda.c).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_gpu.h"

#define FAKE __attribute__((visibility("default")))

static uint64_t mixed(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x100000001b3u + (h >> 29);
}

struct shape {
    int ta, tb;
    int64_t m, n, k, count;
    int a, b, c, how;
};

static void log_shape(const char *name, const struct shape *s)
{
    char line[256];
    const char *path = getenv("FAKE_LOG");
    int n = snprintf(line, sizeof line, "%d %s %d %d %lld %lld %lld %lld %d %d %d %d\n",
                     (int)getpid(), name, s->ta, s->tb, (long long)s->m, (long long)s->n,
                     (long long)s->k, (long long)s->count, s->a, s->b, s->c, s->how);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}

/* A kernel, of a name that the table of classes knows as a matrix product. */
static void launch(void)
{
    static void (*call)(struct fake_call *);
    struct fake_call k = {.what = FAKE_LAUNCH,
                          .stream = 7,
                          .kernel = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"};
    if (!getenv("FAKE_KERNELS"))
        return;
    if (!call) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        int (*init)(unsigned) =
            driver ? (int (*)(unsigned))(uintptr_t)dlsym(driver, "cuInit") : NULL;
        if (!init || init(0) != 0)
            abort();
        call = (void (*)(struct fake_call *))(uintptr_t)dlsym(driver, "fake_cuda_call");
    }
    call(&k);
}

/* `others`: what is not in the shape, in the order of the arguments. */
static int answer(const char *name, const struct shape *s, void *to, size_t count,
                  const int64_t *others)
{
    const int64_t own[] = {s->ta, s->tb, s->m, s->n, s->k, s->count, s->a, s->b, s->c, s->how};
    uint64_t h = 14695981039346656037u;
    log_shape(name, s);
    launch();
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        h = mixed(h, (uint64_t)own[i]);
    for (size_t i = 0; i < count; i++)
        h = mixed(h, (uint64_t)others[i]);
    memcpy(to, &h, sizeof h);
    return s->m == 13 ? 13 : 0;
}

#define ANSWER(name, to, what, ...) \
    const int64_t others[] = {__VA_ARGS__}; \
    return answer(name, &(struct shape)what, to, sizeof others / sizeof *others, others)
#define SHAPE(...) \
    { \
        __VA_ARGS__ \
    }

#ifndef FAKE_LT

static int math_mode;

FAKE int cublasSetMathMode(void *h, int mode);
int cublasSetMathMode(void *h, int mode)
{
    (void)h;
    math_mode = mode;
    return 0;
}

FAKE int cublasGetMathMode(void *h, int *mode);
int cublasGetMathMode(void *h, int *mode)
{
    (void)h;
    *mode = math_mode;
    return 0;
}

FAKE int cublasGetPointerMode_v2(void *h, int *mode);
int cublasGetPointerMode_v2(void *h, int *mode)
{
    *mode = h == (void *)2; /* handle 2 has its scalars on the device */
    return 0;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *al,
                   const void *b, void *bl, const void *beta, const void *c, void *cl, void *d,
                   void *dl, const void *algo, void *work, size_t size, void *stream);

/* first bytes of the scalars */
static int64_t scalar(const void *p, size_t n)
{
    int64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

/* suffix: _64 or none; letters: type of the names, of its matrices, compute type, bytes of a scalar
 */
#define OF_TYPE(plain, batched, strided, dim, type, how, bytes) \
    FAKE int plain(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                   dim lda, const void *b, dim ldb, const void *be, void *c, dim ldc); \
    int plain(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
              dim lda, const void *b, dim ldb, const void *be, void *c, dim ldc) \
    { \
        ANSWER(#plain, c, SHAPE(ta, tb, m, n, k, 1, type, type, type, how), (intptr_t)h, \
               scalar(al, bytes), (intptr_t)a, lda, (intptr_t)b, ldb, \
               h == (void *)2 ? 0 : scalar(be, bytes), ldc); \
    } \
    FAKE int batched(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, void *const *a, \
                     dim lda, void *const *b, dim ldb, const void *be, void *const *c, dim ldc, \
                     dim count); \
    int batched(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, void *const *a, \
                dim lda, void *const *b, dim ldb, const void *be, void *const *c, dim ldc, \
                dim count) \
    { \
        ANSWER(#batched, c[0], SHAPE(ta, tb, m, n, k, count, type, type, type, how), (intptr_t)h, \
               scalar(al, bytes), (intptr_t)a[0], lda, (intptr_t)b[0], ldb, scalar(be, bytes), \
               ldc); \
    } \
    FAKE int strided(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                     dim lda, long long sa, const void *b, dim ldb, long long sb, const void *be, \
                     void *c, dim ldc, long long sc, dim count); \
    int strided(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                dim lda, long long sa, const void *b, dim ldb, long long sb, const void *be, \
                void *c, dim ldc, long long sc, dim count) \
    { \
        ANSWER(#strided, c, SHAPE(ta, tb, m, n, k, count, type, type, type, how), (intptr_t)h, \
               scalar(al, bytes), (intptr_t)a, lda, sa, (intptr_t)b, ldb, sb, scalar(be, bytes), \
               ldc, sc); \
    }
OF_TYPE(cublasSgemm_v2, cublasSgemmBatched, cublasSgemmStridedBatched, int, 0, 68, 4)
OF_TYPE(cublasSgemm_v2_64, cublasSgemmBatched_64, cublasSgemmStridedBatched_64, int64_t, 0, 68, 4)
OF_TYPE(cublasDgemm_v2, cublasDgemmBatched, cublasDgemmStridedBatched, int, 1, 70, 8)
OF_TYPE(cublasDgemm_v2_64, cublasDgemmBatched_64, cublasDgemmStridedBatched_64, int64_t, 1, 70, 8)
OF_TYPE(cublasHgemm, cublasHgemmBatched, cublasHgemmStridedBatched, int, 2, 64, 2)
OF_TYPE(cublasHgemm_64, cublasHgemmBatched_64, cublasHgemmStridedBatched_64, int64_t, 2, 64, 2)

#define EX(sgemm, plain, batched, strided, grouped, dim) \
    FAKE int sgemm(void *h, int ta, int tb, dim m, dim n, dim k, const float *al, const void *a, \
                   int at, dim lda, const void *b, int bt, dim ldb, const float *be, void *c, \
                   int ct, dim ldc); \
    int sgemm(void *h, int ta, int tb, dim m, dim n, dim k, const float *al, const void *a, \
              int at, dim lda, const void *b, int bt, dim ldb, const float *be, void *c, int ct, \
              dim ldc) \
    { \
        ANSWER(#sgemm, c, SHAPE(ta, tb, m, n, k, 1, at, bt, ct, 68), (intptr_t)h, scalar(al, 4), \
               (intptr_t)a, lda, (intptr_t)b, ldb, scalar(be, 4), ldc); \
    } \
    FAKE int plain(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                   int at, dim lda, const void *b, int bt, dim ldb, const void *be, void *c, \
                   int ct, dim ldc, int how, int algo); \
    int plain(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, int at, \
              dim lda, const void *b, int bt, dim ldb, const void *be, void *c, int ct, dim ldc, \
              int how, int algo) \
    { \
        if (algo == 77) \
            cublasLtMatmul(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
                           NULL, NULL, 0, NULL); \
        ANSWER(#plain, c, SHAPE(ta, tb, m, n, k, 1, at, bt, ct, how), (intptr_t)h, scalar(al, 4), \
               (intptr_t)a, lda, (intptr_t)b, ldb, scalar(be, 4), ldc, algo); \
    } \
    FAKE int batched(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, void *const *a, \
                     int at, dim lda, void *const *b, int bt, dim ldb, const void *be, \
                     void *const *c, int ct, dim ldc, dim count, int how, int algo); \
    int batched(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, void *const *a, \
                int at, dim lda, void *const *b, int bt, dim ldb, const void *be, void *const *c, \
                int ct, dim ldc, dim count, int how, int algo) \
    { \
        ANSWER(#batched, c[0], SHAPE(ta, tb, m, n, k, count, at, bt, ct, how), (intptr_t)h, \
               scalar(al, 4), (intptr_t)a[0], lda, (intptr_t)b[0], ldb, scalar(be, 4), ldc, algo); \
    } \
    FAKE int strided(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                     int at, dim lda, long long sa, const void *b, int bt, dim ldb, long long sb, \
                     const void *be, void *c, int ct, dim ldc, long long sc, dim count, int how, \
                     int algo); \
    int strided(void *h, int ta, int tb, dim m, dim n, dim k, const void *al, const void *a, \
                int at, dim lda, long long sa, const void *b, int bt, dim ldb, long long sb, \
                const void *be, void *c, int ct, dim ldc, long long sc, dim count, int how, \
                int algo) \
    { \
        ANSWER(#strided, c, SHAPE(ta, tb, m, n, k, count, at, bt, ct, how), (intptr_t)h, \
               scalar(al, 4), (intptr_t)a, lda, sa, (intptr_t)b, ldb, sb, scalar(be, 4), ldc, sc, \
               algo); \
    } \
    FAKE int grouped(void *h, const int *ta, const int *tb, const dim *m, const dim *n, \
                     const dim *k, const void *al, void *const *a, int at, const dim *lda, \
                     void *const *b, int bt, const dim *ldb, const void *be, void *const *c, \
                     int ct, const dim *ldc, dim groups, const dim *size, int how); \
    int grouped(void *h, const int *ta, const int *tb, const dim *m, const dim *n, const dim *k, \
                const void *al, void *const *a, int at, const dim *lda, void *const *b, int bt, \
                const dim *ldb, const void *be, void *const *c, int ct, const dim *ldc, \
                dim groups, const dim *size, int how) \
    { \
        const int64_t others[] = {(intptr_t)h,    scalar(al, 4), (intptr_t)a[0], lda[0], \
                                  (intptr_t)b[0], ldb[0],        scalar(be, 4),  ldc[0]}; \
        int rc = 0; \
        for (dim g = 0; g < groups; g++) \
            rc |= answer( \
                #grouped, \
                &(struct shape)SHAPE(ta[g], tb[g], m[g], n[g], k[g], size[g], at, bt, ct, how), \
                c[0], sizeof others / sizeof *others, others); \
        return rc; \
    }
EX(cublasSgemmEx, cublasGemmEx, cublasGemmBatchedEx, cublasGemmStridedBatchedEx,
   cublasGemmGroupedBatchedEx, int)
EX(cublasSgemmEx_64, cublasGemmEx_64, cublasGemmBatchedEx_64, cublasGemmStridedBatchedEx_64,
   cublasGemmGroupedBatchedEx_64, int64_t)

#define GROUPED(name, plain, dim, type, how) \
    FAKE int name(void *h, const int *ta, const int *tb, const dim *m, const dim *n, const dim *k, \
                  const void *al, void *const *a, const dim *lda, void *const *b, const dim *ldb, \
                  const void *be, void *const *c, const dim *ldc, dim groups, const dim *size); \
    int name(void *h, const int *ta, const int *tb, const dim *m, const dim *n, const dim *k, \
             const void *al, void *const *a, const dim *lda, void *const *b, const dim *ldb, \
             const void *be, void *const *c, const dim *ldc, dim groups, const dim *size) \
    { \
        const int64_t others[] = {(intptr_t)h,    scalar(al, 4), (intptr_t)a[0], lda[0], \
                                  (intptr_t)b[0], ldb[0],        scalar(be, 4),  ldc[0]}; \
        int rc = 0; \
        for (dim g = 0; g < groups; g++) \
            rc |= answer(#name, \
                         &(struct shape)SHAPE(ta[g], tb[g], m[g], n[g], k[g], size[g], type, type, \
                                              type, how), \
                         c[0], sizeof others / sizeof *others, others); \
        return rc; \
    }
GROUPED(cublasSgemmGroupedBatched, , int, 0, 68)
GROUPED(cublasSgemmGroupedBatched_64, , int64_t, 0, 68)
GROUPED(cublasDgemmGroupedBatched, , int, 1, 70)
GROUPED(cublasDgemmGroupedBatched_64, , int64_t, 1, 70)

#define OLD(name, real, type, how) \
    FAKE void name(char ta, char tb, int m, int n, int k, real al, const real *a, int lda, \
                   const real *b, int ldb, real be, real *c, int ldc); \
    void name(char ta, char tb, int m, int n, int k, real al, const real *a, int lda, \
              const real *b, int ldb, real be, real *c, int ldc) \
    { \
        const int64_t others[] = {scalar(&al, sizeof al), (intptr_t)a, lda, (intptr_t)b, ldb, \
                                  scalar(&be, sizeof be), ldc}; \
        answer(#name, \
               &(struct shape)SHAPE((ta | 32) == 't', (tb | 32) == 't', m, n, k, 1, type, type, \
                                    type, how), \
               c, sizeof others / sizeof *others, others); \
    }
OLD(cublasSgemm, float, 0, 68)
OLD(cublasDgemm, double, 1, 70)

#else /* libcublasLt */

struct layout {
    uint64_t rows, cols;
    uint32_t type;
    int32_t batch;
};
struct desc {
    int32_t compute, scale, pointer, ta, tb;
};

static int attribute(void *of, size_t own, void *buffer, size_t size, int set)
{
    if (own != size)
        return 7; /* invalid value */
    memcpy(set ? of : buffer, set ? buffer : of, size);
    return 0;
}

static int layout_attribute(struct layout *l, int name, void *buffer, size_t size, int set)
{
    return name == 0   ? attribute(&l->type, sizeof l->type, buffer, size, set)
           : name == 2 ? attribute(&l->rows, sizeof l->rows, buffer, size, set)
           : name == 3 ? attribute(&l->cols, sizeof l->cols, buffer, size, set)
           : name == 5 ? attribute(&l->batch, sizeof l->batch, buffer, size, set)
                       : 7;
}

static int desc_attribute(struct desc *d, int name, void *buffer, size_t size, int set)
{
    int32_t *value[] = {&d->compute, &d->scale, &d->pointer, &d->ta, &d->tb};
    return name < 0 || name > 4 ? 7 : attribute(value[name], 4, buffer, size, set);
}

FAKE int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    struct layout *x = malloc(sizeof *x);
    (void)ld;
    *x = (struct layout){rows, cols, (uint32_t)type, 1};
    *l = x;
    return 0;
}

FAKE int cublasLtMatmulDescCreate(void **d, int compute, int scale);
int cublasLtMatmulDescCreate(void **d, int compute, int scale)
{
    struct desc *x = malloc(sizeof *x);
    *x = (struct desc){compute, scale, 0, 0, 0};
    *d = x;
    return 0;
}

FAKE int cublasLtMatrixLayoutDestroy(void *l);
int cublasLtMatrixLayoutDestroy(void *l)
{
    free(l);
    return 0;
}

FAKE int cublasLtMatmulDescDestroy(void *d);
int cublasLtMatmulDescDestroy(void *d)
{
    free(d);
    return 0;
}

FAKE int cublasLtMatrixLayoutSetAttribute(void *l, int name, const void *buffer, size_t size);
int cublasLtMatrixLayoutSetAttribute(void *l, int name, const void *buffer, size_t size)
{
    return layout_attribute(l, name, (void *)(uintptr_t)buffer, size, 1);
}

FAKE int cublasLtMatmulDescSetAttribute(void *d, int name, const void *buffer, size_t size);
int cublasLtMatmulDescSetAttribute(void *d, int name, const void *buffer, size_t size)
{
    return desc_attribute(d, name, (void *)(uintptr_t)buffer, size, 1);
}

FAKE int cublasLtMatrixLayoutGetAttribute(void *l, int name, void *buffer, size_t size,
                                          size_t *written);
int cublasLtMatrixLayoutGetAttribute(void *l, int name, void *buffer, size_t size, size_t *written)
{
    *written = size;
    return layout_attribute(l, name, buffer, size, 0);
}

FAKE int cublasLtMatmulDescGetAttribute(void *d, int name, void *buffer, size_t size,
                                        size_t *written);
int cublasLtMatmulDescGetAttribute(void *d, int name, void *buffer, size_t size, size_t *written)
{
    *written = size;
    return desc_attribute(d, name, buffer, size, 0);
}

FAKE int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *al,
                        const void *b, void *bl, const void *beta, const void *c, void *cl, void *d,
                        void *dl, const void *algo, void *work, size_t size, void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *al,
                   const void *b, void *bl, const void *beta, const void *c, void *cl, void *d,
                   void *dl, const void *algo, void *work, size_t size, void *stream)
{
    struct desc *x = desc;
    struct layout *p = al, *q = bl, *r = dl;
    float scale[2] = {0, 0};
    if (!desc) {
        log_shape("inner", &(struct shape){.m = 0});
        return 1;
    }
    memcpy(&scale[0], alpha, sizeof scale[0]);
    memcpy(&scale[1], beta, sizeof scale[1]);
    ANSWER("cublasLtMatmul", d,
           SHAPE(x->ta, x->tb, (int64_t)r->rows, (int64_t)r->cols,
                 (int64_t)(x->ta ? p->rows : p->cols), r->batch, (int)p->type, (int)q->type,
                 (int)r->type, x->compute),
           (intptr_t)handle, (int64_t)scale[0], (intptr_t)a, (intptr_t)b, (int64_t)scale[1], c == d,
           cl == dl, (intptr_t)algo, (intptr_t)work, (int64_t)size, (intptr_t)stream);
}

#endif

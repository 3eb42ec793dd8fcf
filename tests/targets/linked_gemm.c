/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls every matrix product of cuBLAS that profiler/gemm/ wraps, in shapes of its own, and prints
 * what came back: a line a call (thread, number, function, status, the first 8 bytes of C). It is
 * linked with a (substitute) libcublas and libcublasLt, as a program or, with GEMM_PLUGIN defined,
 * as a library that another program loads out of the global scope, as Python loads PyTorch. With
 * WITH_CUBLAS the declarations are NVIDIA's own.
 *
 * A round is a tacho.step of its first thread.
 *
 *     linked_gemm [--rounds N] [--threads N] [--fork N] [--math MODE]      MODE: cublasMath_t, 3
 * allows tf32
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tacho_nvtx.h"

#ifdef WITH_CUBLAS
#include <cublas_v2.h>
#include <cublasLt.h>
typedef cublasHandle_t H;
#else
typedef int cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t, cublasMath_t;
typedef void *cublasLtMatrixLayout_t, *cublasLtMatmulDesc_t, *H;
#endif
#define HANDLE(n) ((H)(uintptr_t)(n))
typedef cublasOperation_t OP;
typedef cudaDataType TYPE;
typedef uint16_t half; /* cublas_v2.h declares these functions for C++ only */

#define OF_TYPE(plain, letter, suffix, dim, real) \
    int plain(H, OP, OP, dim, dim, dim, const real *, const real *, dim, const real *, dim, \
              const real *, real *, dim); \
    int cublas##letter##gemmBatched##suffix(H, OP, OP, dim, dim, dim, const real *, \
                                            const real *const[], dim, const real *const[], dim, \
                                            const real *, real *const[], dim, dim); \
    int cublas##letter##gemmStridedBatched##suffix( \
        H, OP, OP, dim, dim, dim, const real *, const real *, dim, long long, const real *, dim, \
        long long, const real *, real *, dim, long long, dim);
OF_TYPE(cublasHgemm, H, , int, half)
OF_TYPE(cublasHgemm_64, H, _64, int64_t, half)

#ifndef WITH_CUBLAS
OF_TYPE(cublasSgemm_v2, S, , int, float)
OF_TYPE(cublasSgemm_v2_64, S, _64, int64_t, float)
OF_TYPE(cublasDgemm_v2, D, , int, double)
OF_TYPE(cublasDgemm_v2_64, D, _64, int64_t, double)
#define EX(suffix, dim) \
    int cublasSgemmEx##suffix(H, OP, OP, dim, dim, dim, const float *, const void *, TYPE, dim, \
                              const void *, TYPE, dim, const float *, void *, TYPE, dim); \
    int cublasGemmEx##suffix(H, OP, OP, dim, dim, dim, const void *, const void *, TYPE, dim, \
                             const void *, TYPE, dim, const void *, void *, TYPE, dim, int, int); \
    int cublasGemmBatchedEx##suffix(H, OP, OP, dim, dim, dim, const void *, const void *const[], \
                                    TYPE, dim, const void *const[], TYPE, dim, const void *, \
                                    void *const[], TYPE, dim, dim, int, int); \
    int cublasGemmStridedBatchedEx##suffix( \
        H, OP, OP, dim, dim, dim, const void *, const void *, TYPE, dim, long long, const void *, \
        TYPE, dim, long long, const void *, void *, TYPE, dim, long long, dim, int, int); \
    int cublasSgemmGroupedBatched##suffix( \
        H, const OP[], const OP[], const dim[], const dim[], const dim[], const float[], \
        const float *const[], const dim[], const float *const[], const dim[], const float[], \
        float *const[], const dim[], dim, const dim[]); \
    int cublasDgemmGroupedBatched##suffix( \
        H, const OP[], const OP[], const dim[], const dim[], const dim[], const double[], \
        const double *const[], const dim[], const double *const[], const dim[], const double[], \
        double *const[], const dim[], dim, const dim[]); \
    int cublasGemmGroupedBatchedEx##suffix( \
        H, const OP[], const OP[], const dim[], const dim[], const dim[], const void *, \
        const void *const[], TYPE, const dim[], const void *const[], TYPE, const dim[], \
        const void *, void *const[], TYPE, const dim[], dim, const dim[], int);
EX(, int)
EX(_64, int64_t)
void cublasSgemm(char, char, int, int, int, float, const float *, int, const float *, int, float,
                 float *, int);
void cublasDgemm(char, char, int, int, int, double, const double *, int, const double *, int,
                 double, double *, int);
int cublasSetMathMode(H, int);
int cublasLtMatrixLayoutCreate(void **, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutSetAttribute(void *, int, const void *, size_t);
int cublasLtMatrixLayoutDestroy(void *);
int cublasLtMatmulDescCreate(void **, int, int);
int cublasLtMatmulDescSetAttribute(void *, int, const void *, size_t);
int cublasLtMatmulDescDestroy(void *);
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *,
                   const void *, const void *, void *, void *, void *, const void *, void *, size_t,
                   void *);
#endif

/* numbers of cuBLAS that its headers have under names */
enum { F32 = 0, F64 = 1, F16 = 2, I8 = 3, C32 = 4, I32 = 10, BF16 = 14, E4M3 = 28, F6 = 31 };
enum { BY16 = 64, BY32 = 68, BY64 = 70, BY_INT = 72, FAST_TF32 = 77 };

struct job {
    int thread, rounds;
};
static struct tacho_nvtx nvtx;
static _Thread_local int thread_number, call_number;

/* The addresses that are passed on; only the first bytes of C are ever looked at. */
static char *const in_a = (char *)0x1000, *const in_b = (char *)0x2000;
static _Thread_local uint64_t out_c[2];

static void report(const char *function, int status)
{
    printf("%d %d %s %d %016llx\n", thread_number, call_number++, function, status,
           (unsigned long long)out_c[0]);
    out_c[0] = 0;
}
#define DO(call, ...) report(#call, (int)call(__VA_ARGS__))

#define N  ((cublasOperation_t)0)
#define T  ((cublasOperation_t)1)
#define ON HANDLE(1)

static void typed(int r)
{
    static const float one = 1, beta = 0.5f, none = 0;
    static const double one_d = 1, beta_d = 0.25, none_d = 0;
    half one_h, none_h;
    memcpy(&one_h, "\x00\x3c", 2);
    memset(&none_h, 0, sizeof none_h);
    const float *a = (const float *)(void *)in_a, *b = (const float *)(void *)in_b;
    const double *ad = (const double *)(void *)in_a, *bd = (const double *)(void *)in_b;
    const half *ah = (const half *)(void *)in_a, *bh = (const half *)(void *)in_b;
    float *c = (float *)(void *)out_c;
    double *cd = (double *)(void *)out_c;
    half *ch = (half *)(void *)out_c;
    DO(cublasSgemm_v2, ON, N, T, 16 + r, 32, 48, &one, a, 64, b, 65, &beta, c, 66);
    DO(cublasSgemm_v2, HANDLE(2), N, T, 16 + r, 32, 48, &one, a, 64, b, 65,
       (const float *)(void *)0x30, c, 66);
    DO(cublasSgemm_v2, ON, N, N, 13, 32, 48, &one, a, 64, b, 65, &none, c, 66);
    DO(cublasSgemm_v2, ON, N, N, 0, 32, 48, &one, a, 64, b, 65, &none, c, 66);
    DO(cublasSgemm_v2, ON, N, N, -4, 32, 48, &one, a, 64, b, 65, &none, c, 66);
    DO(cublasSgemm_v2_64, ON, T, N, 3000000000 + r, 2, 1, &one, a, 3000000001, b, 65, &none, c,
       3000000066);
    DO(cublasDgemm_v2, ON, T, T, 17, 33, 49 + r, &one_d, ad, 64, bd, 65, &beta_d, cd, 66);
    DO(cublasDgemm_v2_64, ON, N, N, 17, 33, 51 + r, &one_d, ad, 64, bd, 65, &none_d, cd, 66);
    DO(cublasHgemm, ON, N, T, 128, 64 + r, 32, &one_h, ah, 1, bh, 2, &none_h, ch, 3);
    DO(cublasHgemm_64, ON, T, T, 128, 64 + r, 31, &one_h, ah, 1, bh, 2, &one_h, ch, 3);
    const float *as[] = {a, a}, *bs[] = {b, b};
    const double *ads[] = {ad, ad}, *bds[] = {bd, bd};
    const half *ahs[] = {ah, ah}, *bhs[] = {bh, bh};
    float *cs[] = {c, c};
    double *cds[] = {cd, cd};
    half *chs[] = {ch, ch};
    DO(cublasSgemmBatched, ON, N, T, 5, 6, 7 + r, &one, as, 10, bs, 11, &none, cs, 12, 9);
    DO(cublasSgemmBatched_64, ON, T, N, 5, 6, 7 + r, &one, as, 10, bs, 11, &beta, cs, 12, 10);
    DO(cublasDgemmBatched, ON, N, T, 5, 6, 7 + r, &one_d, ads, 10, bds, 11, &none_d, cds, 12, 11);
    DO(cublasDgemmBatched_64, ON, T, N, 5, 6, 7 + r, &one_d, ads, 10, bds, 11, &beta_d, cds, 12,
       12);
    DO(cublasHgemmBatched, ON, N, T, 5, 6, 7 + r, &one_h, ahs, 10, bhs, 11, &none_h, chs, 12, 13);
    DO(cublasHgemmBatched_64, ON, T, N, 5, 6, 7 + r, &one_h, ahs, 10, bhs, 11, &one_h, chs, 12, 14);
    DO(cublasSgemmStridedBatched, ON, N, T, 8, 9, 10 + r, &one, a, 10, 100, b, 11, -101, &none, c,
       12, 102, 9);
    DO(cublasSgemmStridedBatched_64, ON, T, N, 8, 9, 10 + r, &one, a, 10, 100, b, 11, 101, &beta, c,
       12, 1LL << 40, 10);
    DO(cublasDgemmStridedBatched, ON, N, T, 8, 9, 10 + r, &one_d, ad, 10, 100, bd, 11, 101, &none_d,
       cd, 12, 102, 11);
    DO(cublasDgemmStridedBatched_64, ON, T, N, 8, 9, 10 + r, &one_d, ad, 10, 100, bd, 11, 101,
       &beta_d, cd, 12, 102, 12);
    DO(cublasHgemmStridedBatched, ON, N, T, 8, 9, 10 + r, &one_h, ah, 10, 100, bh, 11, 101, &none_h,
       ch, 12, 102, 13);
    DO(cublasHgemmStridedBatched_64, ON, T, N, 8, 9, 10 + r, &one_h, ah, 10, 100, bh, 11, 101,
       &one_h, ch, 12, 102, 14);
#ifndef WITH_CUBLAS /* NVIDIA's headers have either the old names or the new ones */
    cublasSgemm('N', 'T', 21, 22, 23 + r, 1, a, 24, b, 25, 0, c, 26);
    report("cublasSgemm", 0);
    cublasDgemm('t', 'n', 21, 22, 23 + r, 1, ad, 24, bd, 25, 2, cd, 26);
    report("cublasDgemm", 0);
#endif
    const cublasOperation_t ta[] = {N, T}, tb[] = {T, N};
    const int m[] = {4, 8}, n[] = {5, 9}, k[] = {6 + r, 10}, ld[] = {16, 17}, size[] = {1, 1};
    const int64_t m64[] = {40, 80}, n64[] = {50, 90}, k64[] = {60 + r, 100}, ld64[] = {160, 170},
                  size64[] = {1, 1};
    const float ones[] = {1, 1}, zeros[] = {0, 0};
    const double ones_d[] = {1, 1}, zeros_d[] = {0, 0};
    DO(cublasSgemmGroupedBatched, ON, ta, tb, m, n, k, ones, as, ld, bs, ld, zeros, cs, ld, 2,
       size);
    DO(cublasSgemmGroupedBatched_64, ON, ta, tb, m64, n64, k64, ones, as, ld64, bs, ld64, zeros, cs,
       ld64, 2, size64);
    DO(cublasDgemmGroupedBatched, ON, ta, tb, m, n, k, ones_d, ads, ld, bds, ld, zeros_d, cds, ld,
       2, size);
    DO(cublasDgemmGroupedBatched_64, ON, ta, tb, m64, n64, k64, ones_d, ads, ld64, bds, ld64,
       zeros_d, cds, ld64, 2, size64);
}

static void ex(int r)
{
    static const float one = 1, beta = 0.5f, none = 0;
    const void *as[] = {in_a, in_a}, *bs[] = {in_b, in_b};
    void *c = out_c, *cs[] = {c, c};
#define TY(x)  ((cudaDataType)(x))
#define BY(x)  ((cublasComputeType_t)(x))
#define ALG(x) ((cublasGemmAlgo_t)(x))
    DO(cublasSgemmEx, ON, N, T, 31, 32, 33 + r, &one, in_a, TY(BF16), 34, in_b, TY(BF16), 35, &none,
       c, TY(F32), 36);
    DO(cublasSgemmEx_64, ON, T, N, 31, 32, 33 + r, &one, in_a, TY(F16), 34, in_b, TY(F16), 35,
       &beta, c, TY(F16), 36);
    DO(cublasGemmEx, ON, T, N, 768, 1024 + r, 3072, &one, in_a, TY(BF16), 34, in_b, TY(BF16), 35,
       &none, c, TY(BF16), 36, BY(BY32), ALG(99));
    DO(cublasGemmEx, ON, T, N, 768, 1024 + r, 3072, &one, in_a, TY(BF16), 34, in_b, TY(BF16), 35,
       &beta, c, TY(F32), 36, BY(BY32), ALG(99));
    DO(cublasGemmEx, ON, N, N, 100, 200, 300 + r, &one, in_a, TY(F32), 34, in_b, TY(F32), 35, &none,
       c, TY(F32), 36, BY(FAST_TF32), ALG(-1));
    DO(cublasGemmEx, ON, N, N, 100, 200, 300 + r, &one, in_a, TY(F32), 34, in_b, TY(F32), 35, &none,
       c, TY(F32), 36, BY(BY32), ALG(77));
    DO(cublasGemmEx, ON, N, N, 13, 200, 300 + r, &one, in_a, TY(I8), 34, in_b, TY(I8), 35, &none, c,
       TY(I32), 36, BY(BY_INT), ALG(-1));
    DO(cublasGemmEx, ON, N, N, 10, 20, 30 + r, &one, in_a, TY(C32), 34, in_b, TY(C32), 35, &none, c,
       TY(C32), 36, BY(BY32), ALG(-1));
    DO(cublasGemmEx, ON, N, N, 10, 20, 30 + r, &one, in_a, TY(F6), 34, in_b, TY(F6), 35, &none, c,
       TY(F32), 36, BY(BY32), ALG(-1));
    DO(cublasGemmEx_64, ON, N, T, 1 << 20, 4, 5 + r, &one, in_a, TY(F16), 34, in_b, TY(F16), 35,
       &none, c, TY(F16), 36, BY(BY16), ALG(-1));
    DO(cublasGemmBatchedEx, ON, N, T, 41, 42, 43 + r, &one, as, TY(BF16), 44, bs, TY(BF16), 45,
       &none, cs, TY(BF16), 46, 12, BY(BY32), ALG(-1));
    DO(cublasGemmBatchedEx_64, ON, T, T, 41, 42, 43 + r, &one, as, TY(F16), 44, bs, TY(F16), 45,
       &none, cs, TY(F32), 46, 13, BY(BY32), ALG(-1));
    DO(cublasGemmStridedBatchedEx, ON, N, T, 41, 42, 43 + r, &one, in_a, TY(BF16), 44, 51, in_b,
       TY(BF16), 45, 52, &none, c, TY(BF16), 46, 53, 12, BY(BY32), ALG(-1));
    DO(cublasGemmStridedBatchedEx_64, ON, T, T, 41, 42, 43 + r, &one, in_a, TY(F64), 44, 51, in_b,
       TY(F64), 45, 52, &none, c, TY(F64), 46, 53, 13, BY(BY64), ALG(-1));
    const cublasOperation_t ta[] = {N, T}, tb[] = {T, N};
    const int m[] = {400, 8}, n[] = {500, 9}, k[] = {600 + r, 10}, ld[] = {16, 17}, size[] = {1, 1};
    const int64_t m64[] = {401, 80}, n64[] = {50, 90}, k64[] = {60 + r, 100}, ld64[] = {160, 170},
                  size64[] = {1, 1};
    const float ones[] = {1, 1}, zeros[] = {0, 0};
    DO(cublasGemmGroupedBatchedEx, ON, ta, tb, m, n, k, ones, as, TY(BF16), ld, bs, TY(BF16), ld,
       zeros, cs, TY(BF16), ld, 2, size, BY(BY32));
    DO(cublasGemmGroupedBatchedEx_64, ON, ta, tb, m64, n64, k64, ones, as, TY(BF16), ld64, bs,
       TY(BF16), ld64, zeros, cs, TY(F32), ld64, 2, size64, BY(BY32));
}

/* D (m x n) = op(A) op(B) of cuBLASLt. */
static void lt(int transa, int64_t m, int64_t n, int64_t k, int batch, int in, int out, int compute,
               float beta)
{
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulDesc_t desc;
    const float one = 1;
    cublasLtMatmulDescCreate(&desc, BY(compute), TY(F32));
    cublasLtMatmulDescSetAttribute(desc, 3, &transa, sizeof transa);
    cublasLtMatrixLayoutCreate(&a, TY(in), (uint64_t)(transa ? k : m), (uint64_t)(transa ? m : k),
                               1);
    cublasLtMatrixLayoutCreate(&b, TY(in), (uint64_t)k, (uint64_t)n, 1);
    cublasLtMatrixLayoutCreate(&d, TY(out), (uint64_t)m, (uint64_t)n, 1);
    cublasLtMatrixLayoutSetAttribute(a, 5, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(b, 5, &batch, sizeof batch);
    cublasLtMatrixLayoutSetAttribute(d, 5, &batch, sizeof batch);
    DO(cublasLtMatmul, (void *)(uintptr_t)3, desc, &one, in_a, a, in_b, b, &beta, out_c, d, out_c,
       d, NULL, in_a + 8, 77, NULL);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulDescDestroy(desc);
}

static void *run(void *arg)
{
    struct job *job = arg;
    thread_number = job->thread;
    for (int r = 0; r < job->rounds; r++) {
        struct tacho_step step = {.index = (uint64_t)r};
        if (job->thread == 0)
            tacho_nvtx_push_step(&nvtx, NULL, &step);
        typed(r);
        ex(r);
        lt(1, 2304, 1024 + r, 768, 1, BF16, BF16, BY32, 0);
        lt(0, 512, 256 + r, 128, 6, E4M3, BF16, BY32, 1);
        lt(0, 64, 64 + r, 64, 1, F32, F32, FAST_TF32, 0);
        lt(0, 13, 64 + r, 64, 1, F16, F16, BY16, 0);
        if (job->thread == 0)
            tacho_nvtx_pop(&nvtx);
    }
    return NULL;
}

static void run_threads(int threads, int rounds)
{
    pthread_t id[64];
    struct job job[64];
    for (int i = 0; i < threads; i++) {
        job[i] = (struct job){i, rounds};
        if (pthread_create(&id[i], NULL, run, &job[i]) != 0)
            abort();
    }
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
}

__attribute__((visibility("default"))) int gemm_main(int argc, char **argv);
int gemm_main(int argc, char **argv)
{
    int rounds = 1, threads = 1, forks = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines of several processes */
    for (int i = 1; i + 1 < argc; i += 2) {
        int v = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = v;
        else if (strcmp(argv[i], "--threads") == 0)
            threads = v;
        else if (strcmp(argv[i], "--fork") == 0)
            forks = v;
        else if (strcmp(argv[i], "--math") == 0)
            cublasSetMathMode(ON, (cublasMath_t)v);
    }
    tacho_nvtx_open(&nvtx, "linked");
    run_threads(threads, rounds);
    fflush(stdout);
    for (int i = 0; i < forks; i++)
        if (fork() == 0) {
            run_threads(threads, rounds);
            fflush(stdout);
            _exit(0);
        }
    while (forks-- > 0)
        wait(NULL);
    return 0;
}

#ifndef GEMM_PLUGIN
int main(int argc, char **argv)
{
    return gemm_main(argc, argv);
}
#endif

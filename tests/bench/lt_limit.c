/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit of a GPT-2 124M step on this machine, computed on the spot:
 *
 *   sum over the step's matrix products of the fastest library and layout tried, hot, median of
 * REPEATS
 *   + attention: its model FLOPs, 6 L C T (T + 1) B, at the highest rate of all these products
 *   + AdamW's traffic: 28 bytes a parameter (30 in bf16: the copy that products read) at the best
 * bandwidth of memory
 *
 * Everything else a step does (layernorm, gelu, residual, loss, biases) is left out: it can be
 * fused into these. usage: lt_limit DTYPE T [REPEATS]     environment: OPENBLAS_LIB, a
 * libopenblas.so to try too Prints a line for each product, then `limit DTYPE T: GEMM_MS
 * ATTENTION_MS ADAMW_MS TOTAL_MS`.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/calibrate/calibrate.h"
#include "libtrain/calibrate/calibrate_gemm.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/ops.h"

#define L 12
#define C 768
#define V 50257
#define B 4

/* forward, input gradient, weight gradient of out[rows,n] = in[rows,k] weight[n,k]^T */
enum { FORWARD, INPUT, WEIGHT, DIRECTIONS };
static const char *const directions[] = {"forward", "dX", "dW"};

static const struct {
    const char *name;
    int64_t n, k;
    int count;
} layers[] = {{"qkv", 3 * C, C, L},
              {"projection", C, C, L},
              {"mlp up", 4 * C, C, L},
              {"mlp down", C, 4 * C, L},
              {"head", V, C, 1}};

/* ---- OpenBLAS where it is, without linking it ---------------------------------------------------------------------------------- */

typedef void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
static sgemm openblas;
static char openblas_name[160];

static void *symbol(void *from, const char *name)
{
    return dlsym(from, name);
}

static void find_openblas(void)
{
    const char *path = getenv("OPENBLAS_LIB");
    void *lib = dlopen(path && *path ? path : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "lt_limit: no OpenBLAS (OPENBLAS_LIB names one): not tried\n");
        return;
    }
    union {
        void *at;
        sgemm gemm;
        void (*threads)(int);
        char *(*config)(void);
    } s;
    s.at = symbol(lib, "openblas_set_num_threads");
    if (s.at)
        s.threads(lt_threads());
    s.at = symbol(lib, "openblas_get_config");
    snprintf(openblas_name, sizeof openblas_name, "%s", s.at ? s.config() : "OpenBLAS");
    s.at = symbol(lib, "cblas_sgemm");
    openblas = s.gemm;
}

static double time_openblas(const struct lt_gemm_case *p, const float *a, const float *b, float *c)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };
    double begin = lt_seconds();
    openblas(ROW_MAJOR, p->a_turned ? TURNED : PLAIN, p->b_turned ? TURNED : PLAIN, (int)p->m,
             (int)p->n, (int)p->k, 1.0f, a, (int)(p->a_turned ? p->m : p->k), b,
             (int)(p->b_turned ? p->k : p->n), 0.0f, c, (int)p->n);
    return lt_seconds() - begin;
}

/* ---- one product --------------------------------------------------------------------------------------------------------------- */

#define WAYS        (LT_GEMM_WAY_COUNT + 1) /* and OpenBLAS */
#define REPEATS_MAX 64

static const char *way_name(int way)
{
    return way < LT_GEMM_WAY_COUNT ? lt_gemm_way_name((enum lt_gemm_way)way) : "OpenBLAS sgemm";
}

static float *numbers(int64_t count)
{
    float *x = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);
    if (x)
        lt_calibrate_fill(x, (size_t)count * sizeof(float));
    return x;
}

/* Median seconds by each way, NAN where there is none; the ways take turns. */
static int time_product(const struct lt_gemm_case *p, int repeats, double median[WAYS])
{
    struct lt_gemm_trial *trial[LT_GEMM_WAY_COUNT] = {0};
    double seconds[WAYS][REPEATS_MAX];
    float *x[3] = {0};
    int rc = 0, plain = openblas && p->dtype == LT_DTYPE_FP32;
    for (int w = 0; w < LT_GEMM_WAY_COUNT && rc == 0; w++) {
        rc = lt_gemm_trial_open(&trial[w], p, (enum lt_gemm_way)w);
        rc = rc == TACHO_ENOTSUP ? 0 : rc;
    }
    if (plain) {
        x[0] = numbers(p->m * p->k);
        x[1] = numbers(p->k * p->n);
        x[2] = numbers(p->m * p->n);
        rc = rc || !x[0] || !x[1] || !x[2] ? TACHO_ENOMEM : 0;
    }
    for (int r = -1; r < repeats && rc == 0; r++) { /* the first round warms up */
        for (int w = 0; w < LT_GEMM_WAY_COUNT; w++)
            if (trial[w])
                seconds[w][r < 0 ? 0 : r] = lt_gemm_trial_time(trial[w], 1);
        if (plain)
            seconds[LT_GEMM_WAY_COUNT][r < 0 ? 0 : r] = time_openblas(p, x[0], x[1], x[2]);
    }
    for (int w = 0; w < WAYS && rc == 0; w++) {
        int ran = w < LT_GEMM_WAY_COUNT ? trial[w] != NULL : plain;
        median[w] = ran ? lt_median(seconds[w], repeats) : NAN;
    }
    for (int w = 0; w < LT_GEMM_WAY_COUNT; w++)
        lt_gemm_trial_close(trial[w]);
    for (int i = 0; i < 3; i++)
        free(x[i]);
    return rc;
}

static struct lt_gemm_case product(int64_t rows, int64_t n, int64_t k, int direction,
                                   enum lt_dtype dtype)
{
    if (direction == FORWARD)
        return (struct lt_gemm_case){rows, n, k, 0, 1, dtype, 0};
    if (direction == INPUT)
        return (struct lt_gemm_case){rows, k, n, 0, 0, dtype, 0};
    return (struct lt_gemm_case){n, k, rows, 1, 0, dtype, 1};
}

struct total {
    double gemm, rate; /* seconds of a step, highest FLOP/s */
};

static int add_product(struct total *t, int layer, int64_t rows, int direction, enum lt_dtype dtype,
                       int repeats)
{
    struct lt_gemm_case p = product(rows, layers[layer].n, layers[layer].k, direction, dtype);
    double median[WAYS], flops = 2.0 * (double)p.m * (double)p.n * (double)p.k;
    int best = -1, rc = time_product(&p, repeats, median);
    if (rc)
        return rc;
    printf("  %-10s %-7s %5lld x %5lld x %5lld", layers[layer].name, directions[direction],
           (long long)p.m, (long long)p.n, (long long)p.k);
    for (int w = 0; w < WAYS; w++)
        if (!isnan(median[w])) {
            printf("  %s %.0f", way_name(w), flops / median[w] * 1e-9);
            best = best < 0 || median[w] < median[best] ? w : best;
        }
    if (best < 0)
        return TACHO_ENOTSUP;
    printf("  GFLOP/s; best %.3f ms x %d\n", median[best] * 1e3, layers[layer].count);
    t->gemm += median[best] * layers[layer].count;
    t->rate = fmax(t->rate, flops / median[best]);
    return 0;
}

static double memory_bandwidth(void)
{
    struct lt_calibration c = {0};
    struct lt_calibrate_options quick = {.quick = 1};
    double best = NAN;
    if (lt_calibrate_memory(&c, &quick) == 0)
        for (size_t i = 0; i < c.rows; i++)
            if (c.row[i].id == LT_CEILING_BANDWIDTH || c.row[i].id == LT_CEILING_BANDWIDTH_UPDATE)
                best = fmax(best, c.row[i].value);
    lt_calibration_clear(&c);
    return best;
}

int main(int argc, char **argv)
{
    int dtype = argc > 2 ? lt_dtype_find(argv[1]) : -1, t = argc > 2 ? atoi(argv[2]) : 0,
        repeats = argc > 3 ? atoi(argv[3]) : 5;
    struct total total = {0};
    if (dtype < 0 || t < 1 || repeats < 1 || repeats > REPEATS_MAX) {
        fprintf(stderr, "usage: lt_limit DTYPE T [REPEATS]\n");
        return 2;
    }
    find_openblas();
    printf("products of a step, %s, B=%d, T=%d, %d threads, median of %d; %s%s%s\n", argv[1], B, t,
           lt_threads(), repeats, lt_gemm_library(), *openblas_name ? ", " : "", openblas_name);
    for (int layer = 0; layer < (int)(sizeof layers / sizeof *layers); layer++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            int rc = add_product(&total, layer, (int64_t)B * t, direction, (enum lt_dtype)dtype,
                                 repeats);
            if (rc) {
                fprintf(stderr, "lt_limit: %s: %s\n", argv[1], tacho_error_text(rc));
                return tacho_error_exit(rc);
            }
        }
    double parameters = (double)V * C + 1024.0 * C + L * (12.0 * C * C + 13.0 * C) + 2.0 * C;
    double traffic = (dtype == LT_DTYPE_FP32 ? 28.0 : 30.0) * parameters,
           bandwidth = memory_bandwidth();
    double attention = 6.0 * L * C * t * (t + 1.0) * B / total.rate, adamw = traffic / bandwidth;
    printf("AdamW: %.0f bytes a parameter, %.1f M parameters at %.1f GB/s; attention at %.0f "
           "GFLOP/s\n",
           traffic / parameters, parameters * 1e-6, bandwidth * 1e-9, total.rate * 1e-9);
    printf("limit %s %d: %.3f %.3f %.3f %.3f\n", argv[1], t, total.gemm * 1e3, attention * 1e3,
           adamw * 1e3, (total.gemm + attention + adamw) * 1e3);
    return 0;
}

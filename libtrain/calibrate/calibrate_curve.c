/* SPDX-License-Identifier: Apache-2.0
 *
 * The efficiency curve: what the engine's own GEMMs reach, by rows, size of the layer, pass and
 * element type, and what calling any operation costs at least. From it the time of a recorded GEMM
 * with other rows or in another type is interpolated (analyzers/work/gemm_curve.h). The repeats of
 * a point are sweeps over all points, so that a neighbour who comes in bursts spoils one repeat of
 * many points and not all repeats of one.
 */
#include <math.h>
#include <stdlib.h>

#include "libtrain/base/arena.h"
#include "libtrain/calibrate/calibrate.h"
#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/ops.h"

#define FLOPS_MOST    1.25e9 /* of a call and thread: larger ones take time, as efficient */
#define QUICK_SWEEPS  7
#define QUICK_SECONDS 0.001 /* that one repeat should last */
#define SECONDS       0.003
#define CALLS_MOST    1000

static const int64_t rows[] = {2, 8, 32, 128, 512, 2048};
static const int64_t sizes[] = {64, 128, 256, 768, 1536}; /* inputs and outputs of a layer */
#define ROWS_MOST  ((size_t)2048)
#define SIZES_MOST ((size_t)1536)

static const enum lt_ceiling_id passes[] = {LT_CEILING_GEMM_FORWARD, LT_CEILING_GEMM_GRAD_DATA,
                                            LT_CEILING_GEMM_GRAD_WEIGHT};
#define COUNT(list) (sizeof(list) / sizeof *(list))
#define POINTS_MOST (LT_DTYPE_COUNT * COUNT(passes) * COUNT(rows) * COUNT(sizes))

struct point {
    enum lt_ceiling_id pass;
    enum lt_dtype dtype;
    int64_t rows, size;
    int calls; /* of one repeat */
    double seconds[LT_CALIBRATE_REPEATS];
};

struct curve {
    struct point *point;
    size_t count;
    struct lt_arena arena;
    float *a, *b, *c; /* operands of all points */
};

static double flops_of(const struct point *point)
{
    return 2.0 * (double)(point->rows * point->size * point->size);
}

/* The product that a layer computes in a pass, as its operation does (cpu_typed.h). */
static struct lt_product product_of(const struct curve *curve, const struct point *point)
{
    int64_t m = point->rows, size = point->size;
    struct lt_product product = {.m = m,
                                 .n = size,
                                 .k = size,
                                 .a = {curve->a, size, 1},
                                 .b = {curve->b, size, 1},
                                 .c = curve->c,
                                 .c_row = size,
                                 .in = point->dtype,
                                 .out = point->dtype};
    if (point->pass == LT_CEILING_GEMM_FORWARD)
        product.b = (struct lt_matrix){curve->b, 1, size};
    if (point->pass != LT_CEILING_GEMM_GRAD_WEIGHT)
        return product;
    product.m = size;
    product.k = m;
    product.a = (struct lt_matrix){curve->a, 1, size};
    product.out = LT_DTYPE_FP32;
    return product;
}

/* Seconds of one product, the mean of the point's calls in a row. */
static double time_point(const struct curve *curve, const struct point *point)
{
    struct lt_product product = product_of(curve, point);
    double begin = lt_seconds();
    for (int call = 0; call < point->calls; call++)
        lt_gemm(&product);
    return (lt_seconds() - begin) / point->calls;
}

/* Lists the points of a type that has fast GEMMs. Of another type the row of its roof says why
 * there are none. */
static void list_points(struct curve *curve, enum lt_dtype dtype)
{
    for (size_t pass = 0; pass < COUNT(passes) && lt_gemm_fast(dtype); pass++)
        for (size_t i = 0; i < COUNT(rows); i++)
            for (size_t k = 0; k < COUNT(sizes); k++) {
                struct point point = {.pass = passes[pass],
                                      .dtype = dtype,
                                      .rows = rows[i],
                                      .size = sizes[k],
                                      .calls = 1};
                if (flops_of(&point) <= FLOPS_MOST * lt_threads())
                    curve->point[curve->count++] = point;
            }
}

/* Sweeps over all points; the first look plans each product and finds how many calls a repeat
 * takes. */
static void sweep(struct curve *curve, double seconds, int sweeps)
{
    for (size_t i = 0; i < curve->count; i++) {
        struct point *point = &curve->point[i];
        time_point(curve, point);
        point->calls = (int)fmin(seconds / time_point(curve, point), CALLS_MOST) + 1;
    }
    for (int repeat = 0; repeat < sweeps; repeat++)
        for (size_t i = 0; i < curve->count; i++)
            curve->point[i].seconds[repeat] = time_point(curve, &curve->point[i]);
}

/* Adds a row for each point of a type, and one that says how far the repeats spread. */
static int add_rows(struct lt_calibration *calibration, struct curve *curve, enum lt_dtype dtype,
                    int sweeps)
{
    double *spread = malloc((curve->count + 1) * sizeof *spread);
    int points = 0, rc = spread ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < curve->count && rc == 0; i++) {
        struct point *point = &curve->point[i];
        if (point->dtype != dtype)
            continue;
        rc = lt_calibration_add(calibration, point->pass, lt_dtype_name(dtype), flops_of(point),
                                point->seconds, sweeps, "%s, %d threads", lt_gemm_library(),
                                lt_threads());
        if (rc)
            break;
        struct lt_ceiling *row = &calibration->row[calibration->rows - 1];
        snprintf(row->point, sizeof row->point, ":%lldx%lldx%lld", (long long)point->rows,
                 (long long)point->size, (long long)point->size);
        spread[points++] = point->seconds[1] / point->seconds[0] - 1; /* sorted by now */
    }
    if (rc == 0 && points) {
        double typical = fmax(lt_median(spread, points), 1e-6);
        rc = lt_calibration_add(calibration, LT_CEILING_GEMM_SPREAD, lt_dtype_name(dtype), 0,
                                &typical, 1, "second best repeat / best - 1, typical of %d points",
                                points);
    }
    free(spread);
    return rc;
}

/* What the call of an operation costs that has next to nothing to do. */
static int add_overhead(struct lt_calibration *calibration, int sweeps)
{
    static float a[64], b[64], out[64];
    const struct lt_context context = {.backend = LT_BACKEND_CPU, .dtype = LT_DTYPE_FP32};
    const union lt_args args = {.residual_forward = {out, a, b, 64}};
    double seconds[LT_CALIBRATE_REPEATS];
    for (int repeat = 0; repeat < sweeps; repeat++) {
        double begin = lt_seconds();
        for (int call = 0; call < CALLS_MOST; call++)
            lt_op(&context, LT_OP_RESIDUAL_FORWARD, &args);
        seconds[repeat] = (lt_seconds() - begin) / CALLS_MOST;
    }
    return lt_calibration_add(calibration, LT_CEILING_OP_OVERHEAD, "", 0, seconds, sweeps,
                              "an operation on 64 elements, %d threads", lt_threads());
}

int lt_calibrate_curve(struct lt_calibration *calibration,
                       const struct lt_calibrate_options *options)
{
    struct curve curve = {0};
    double threads = lt_threads();
    size_t most = (ROWS_MOST > SIZES_MOST ? ROWS_MOST : SIZES_MOST) * SIZES_MOST;
    struct lt_tensor table[] = {
        {"a", most, &curve.a}, {"b", most, &curve.b}, {"c", most, &curve.c}};
    int sweeps = options->quick ? QUICK_SWEEPS : LT_CALIBRATE_REPEATS;
    int rc = lt_arena_create(&curve.arena, LT_MEMORY_WORKSPACE, table, COUNT(table));
    curve.point = calloc(POINTS_MOST, sizeof *curve.point);
    if (rc == 0 && !curve.point)
        rc = TACHO_ENOMEM;
    if (rc == 0) {
        lt_calibrate_fill(curve.a, most * sizeof(float));
        lt_calibrate_fill(curve.b, most * sizeof(float));
        for (int dtype = 0; dtype < LT_DTYPE_EMULATED; dtype++)
            list_points(&curve, (enum lt_dtype)dtype);
        sweep(&curve, options->quick ? QUICK_SECONDS : SECONDS, sweeps);
        rc = lt_calibration_add(calibration, LT_CEILING_GEMM_THREADS, "", 0, &threads, 1,
                                "threads of the curve of GEMMs");
    }
    for (int dtype = 0; dtype < LT_DTYPE_EMULATED && rc == 0; dtype++)
        rc = add_rows(calibration, &curve, (enum lt_dtype)dtype, sweeps);
    free(curve.point);
    lt_arena_destroy(&curve.arena);
    return rc ? rc : add_overhead(calibration, sweeps);
}

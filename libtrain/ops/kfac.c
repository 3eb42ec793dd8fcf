/* SPDX-License-Identifier: Apache-2.0
 *
 * K-FAC on both backends, but for the factors themselves (cpu_typed.h, reference_typed.h): their
 * running averages, the inverses of the damped factors, and the gradient between two inverses.
 *
 * The reference inverts a factor by its Cholesky factor. The cpu backend sweeps it block by block,
 * which is nearly all products of matrices: the pivot block is inverted by its Cholesky factor, and
 * the rest of the matrix loses what the block explains of it (the sweep operator: Goodnight 1979).
 * A pivot block is a Schur complement of a positive definite matrix, so that nothing is exchanged.
 */
#include <math.h>
#include <string.h>

#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/kernels.h"
#include "libtrain/ops/vector.h"

#define BLOCK 64 /* rows of a pivot block */
#define TRIES 40 /* times that the damping is raised tenfold: beyond all floats */

size_t lt_kfac_scratch(int64_t n, int64_t k)
{
    size_t outputs = (size_t)n, inputs = (size_t)k + 1, order = outputs > inputs ? outputs : inputs,
           sweep = 2 * order * BLOCK + BLOCK * BLOCK, products = 2 * outputs * inputs;
    return sweep > products ? sweep : products;
}

/* ---- a positive definite matrix -------------------------------------------------------------- */

/* The lower triangle of x[n,n], rows `row` apart, becomes that of its Cholesky factor. 0, or -1
 * where x is not positive definite. */
static int factorize(float *x, int64_t n, int64_t row)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = (double)x[i * row + j];
            for (int64_t l = 0; l < j; l++)
                sum -= (double)x[i * row + l] * (double)x[j * row + l];
            if (i == j && !(sum > 0))
                return -1;
            x[i * row + j] = (float)(i == j ? sqrt(sum) : sum / (double)x[j * row + j]);
        }
    return 0;
}

/* A lower triangle becomes its inverse, column by column. */
static void invert_triangle(float *x, int64_t n, int64_t row)
{
    for (int64_t j = 0; j < n; j++) {
        x[j * row + j] = (float)(1 / (double)x[j * row + j]);
        for (int64_t i = j + 1; i < n; i++) {
            double sum = 0;
            for (int64_t l = j; l < i; l++)
                sum += (double)x[i * row + l] * (double)x[l * row + j];
            x[i * row + j] = (float)(-sum / (double)x[i * row + i]);
        }
    }
}

/* x[n,n], of which the lower triangle counts, becomes its inverse, whole. 0, or -1 where it is not
 * positive definite. */
static int invert(float *x, int64_t n, int64_t row)
{
    if (factorize(x, n, row))
        return -1;
    invert_triangle(x, n, row);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t l = i; l < n; l++)
                sum += (double)x[l * row + i] * (double)x[l * row + j];
            x[i * row + j] = (float)sum;
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            x[j * row + i] = x[i * row + j];
    return 0;
}

/* Sweeps rows and columns [at, at + size) of x[n,n]. scratch: columns[n,size], their products with
 * the negative inverse of the pivot block, that block. */
static int sweep_block(float *x, int64_t n, int64_t at, int64_t size, float *scratch)
{
    float *columns = scratch, *gone = columns + n * size, *pivot = gone + n * size;
    for (int64_t i = 0; i < n; i++)
        memcpy(columns + i * size, x + i * n + at, (size_t)size * sizeof *x);
    memcpy(pivot, columns + at * size, (size_t)(size * size) * sizeof *x);
    if (invert(pivot, size, size))
        return -1;
    for (int64_t i = 0; i < size * size; i++)
        pivot[i] = -pivot[i];
    lt_gemm_floats(n, size, size, (struct lt_matrix){columns, size, 1},
                   (struct lt_matrix){pivot, size, 1}, gone, 0);
    lt_gemm_floats(n, n, size, (struct lt_matrix){gone, size, 1},
                   (struct lt_matrix){columns, 1, size}, x, 1);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < size; j++)
            x[i * n + at + j] = x[(at + j) * n + i] = -gone[i * size + j];
    for (int64_t i = 0; i < size; i++)
        memcpy(x + (at + i) * n + at, pivot + i * size, (size_t)size * sizeof *x);
    return 0;
}

/* x[n,n] becomes its inverse: swept by all blocks it is the negative of it. */
static int sweep(float *x, int64_t n, float *scratch)
{
    for (int64_t at = 0; at < n; at += BLOCK)
        if (sweep_block(x, n, at, lt_min64(BLOCK, n - at), scratch))
            return -1;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            x[i * n + j] = x[j * n + i] = -0.5f * (x[i * n + j] + x[j * n + i]);
    for (int64_t i = 0; i < n; i++)
        x[i * n + i] = -x[i * n + i];
    return 0;
}

/* ---- inverses of factors --------------------------------------------------------------------- */

static double mean_of_diagonal(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i * n + i];
    return sum / (double)n;
}

/* inverse = (x + damping I)^-1. */
static void invert_damped(float *inverse, const float *x, int64_t n, double damping, float *scratch)
{
    size_t bytes = (size_t)(n * n) * sizeof *x;
    for (int tries = 0; tries < TRIES; tries++) {
        memcpy(inverse, x, bytes);
        for (int64_t i = 0; i < n; i++)
            inverse[i * n + i] = (float)((double)x[i * n + i] + damping);
        if ((scratch ? sweep(inverse, n, scratch) : invert(inverse, n, n)) == 0)
            return;
        damping *= 10;
    }
    for (int64_t i = 0; i < n * n; i++)
        inverse[i] = (float)NAN;
}

/* scratch NULL: by the reference. */
static void invert_both(const struct lt_kfac_inverse *a, float *scratch)
{
    double inputs = mean_of_diagonal(a->inputs, a->k + 1),
           outputs = mean_of_diagonal(a->outputs, a->n), root = sqrt(a->damping),
           pi = inputs > 0 && outputs > 0 ? sqrt(inputs / outputs) : 1;
    invert_damped(a->inputs_inverse, a->inputs, a->k + 1, pi * root, scratch);
    invert_damped(a->outputs_inverse, a->outputs, a->n, root / pi, scratch);
}

void lt_reference_kfac_inverse(const union lt_args *args)
{
    invert_both(&args->kfac_inverse, NULL);
}

void lt_cpu_kfac_inverse(const union lt_args *args)
{
    invert_both(&args->kfac_inverse, args->kfac_inverse.scratch);
}

/* ---- averages and directions ----------------------------------------------------------------- */

void lt_reference_kfac_average(const union lt_args *args)
{
    const struct lt_kfac_average *a = &args->kfac_average;
    for (int64_t i = 0; i < a->count; i++)
        a->mean[i] = (float)(a->keep * (double)a->mean[i] + a->share * (double)a->sum[i]);
}

void lt_cpu_kfac_average(const union lt_args *args)
{
    const struct lt_kfac_average *a = &args->kfac_average;
    float *restrict mean = a->mean, keep = (float)a->keep, share = (float)a->share;
    const float *restrict sum = a->sum;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < a->count; i++)
        mean[i] = lt_fma(keep, mean[i], share * sum[i]);
}

/* The scaled gradient of weight and bias as one matrix out[n,k+1]. */
static void gather(const struct lt_kfac_direction *a, float *out)
{
    float scale = (float)a->scale;
    for (int64_t i = 0; i < a->n; i++) {
        float *row = out + i * (a->k + 1);
        for (int64_t j = 0; j < a->k; j++)
            row[j] = scale * a->dweight[i * a->k + j];
        row[a->k] = scale * a->dbias[i];
    }
}

/* The direction from a matrix like that, and its product with the gradient. */
static void scatter(const struct lt_kfac_direction *a, const float *direction)
{
    double all = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float *row = direction + i * (a->k + 1);
        double sum = (double)row[a->k] * (double)a->dbias[i];
        memcpy(a->weight + i * a->k, row, (size_t)a->k * sizeof *row);
        a->bias[i] = row[a->k];
        for (int64_t j = 0; j < a->k; j++)
            sum += (double)row[j] * (double)a->dweight[i * a->k + j];
        all += sum;
    }
    *a->product += a->scale * all;
}

void lt_reference_kfac_direction(const union lt_args *args)
{
    const struct lt_kfac_direction *a = &args->kfac_direction;
    int64_t n = a->n, k = a->k + 1;
    float *gradient = a->scratch, *half = gradient + n * k;
    gather(a, gradient);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = 0;
            for (int64_t l = 0; l < n; l++)
                sum += (double)a->outputs_inverse[i * n + l] * (double)gradient[l * k + j];
            half[i * k + j] = (float)sum;
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += (double)half[i * k + l] * (double)a->inputs_inverse[l * k + j];
            gradient[i * k + j] = (float)sum;
        }
    scatter(a, gradient);
}

void lt_cpu_kfac_direction(const union lt_args *args)
{
    const struct lt_kfac_direction *a = &args->kfac_direction;
    int64_t n = a->n, k = a->k + 1;
    float *gradient = a->scratch, *half = gradient + n * k;
    gather(a, gradient);
    lt_gemm_floats(n, k, n, (struct lt_matrix){a->outputs_inverse, n, 1},
                   (struct lt_matrix){gradient, k, 1}, half, 0);
    lt_gemm_floats(n, k, k, (struct lt_matrix){half, k, 1},
                   (struct lt_matrix){a->inputs_inverse, k, 1}, gradient, 0);
    scatter(a, gradient);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A target whose steps are a chain of operators over rows of floats, each a range with tacho.work,
 * or the same work as one operator. It prints the median time of a step, so that what a report
 * predicts for the chain can be compared with what fusing it brings.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tacho_nvtx.h"

static const char usage[] =
    "target_fusion CHAIN unfused|fused ROWS COLUMNS STEPS: ROWS x COLUMNS floats\n"
    "chains: residual_norm bias_relu scale_share clip_update gemm_relu multiply_add_relu\n";

#define INNER 4 /* inner dimension of the product */

struct data {
    float *in, *more, *passed, *also, *out, *row; /* rows * columns; row: columns */
    size_t rows, columns;
};

/* What one operator does to all rows; `from` and `to` say which arrays. */
typedef void row_function(const struct data *data, const float *from, float *to, size_t row);

static void add(const struct data *data, const float *from, float *to, size_t row)
{
    const float *more = data->more + row * data->columns;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = from[i] + more[i];
}

/* A loop over a row for the sum of the squares of `value`, and one that scales it by that sum. */
#define NORM(name, value) \
    static void name(const struct data *data, const float *from, float *to, size_t row) \
    { \
        const float *more = data->more + row * data->columns; \
        float sum[8] = {0}, all = 1e-5f; \
        (void)more; \
        for (size_t i = 0; i + 8 <= data->columns; i += 8) \
            for (size_t j = i; j < i + 8; j++) { \
                float passed = value; \
                sum[j - i] += passed * passed; \
            } \
        for (size_t j = 0; j < 8; j++) \
            all += sum[j]; \
        float scale = 1 / sqrtf(all / (float)data->columns); \
        for (size_t j = 0; j < data->columns; j++) \
            to[j] = (value)*scale; \
    }

NORM(norm, from[j])

static void bias(const struct data *data, const float *from, float *to, size_t row)
{
    (void)row;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = from[i] + data->row[i];
}

static void relu(const struct data *data, const float *from, float *to, size_t row)
{
    (void)row;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = from[i] > 0 ? from[i] : 0;
}

static void scale(const struct data *data, const float *from, float *to, size_t row)
{
    (void)row;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = from[i] * 0.999f;
}

static void multiply(const struct data *data, const float *from, float *to, size_t row)
{
    const float *more = data->more + row * data->columns;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = from[i] * more[i];
}

/* Parameters in `to`, which are read too. */
static void update(const struct data *data, const float *from, float *to, size_t row)
{
    (void)row;
    for (size_t i = 0; i < data->columns; i++)
        to[i] -= 0.01f * from[i];
}

/* A product with a matrix of INNER rows, which lies in data->more. */
static void gemm(const struct data *data, const float *from, float *to, size_t row)
{
    const float *left = data->in + row * INNER;
    (void)from;
    for (size_t i = 0; i < data->columns; i++)
        to[i] = left[0] * data->more[i] + left[1] * data->more[data->columns + i] +
                left[2] * data->more[2 * data->columns + i] +
                left[3] * data->more[3 * data->columns + i];
}

/* One kernel for a chain of operators on single elements: nothing is passed on in memory. */
#define ONE_LOOP(name, expression) \
    static void name(const struct data *data, const float *from, float *to, size_t row) \
    { \
        const float *more = data->more + row * data->columns; \
        (void)more; \
        for (size_t i = 0; i < data->columns; i++) { \
            float value = expression; \
            to[i] = value; \
        } \
    }

static float positive(float value)
{
    return value > 0 ? value : 0;
}

ONE_LOOP(bias_relu, positive(from[i] + data->row[i]))
ONE_LOOP(clip_update, to[i] - 0.01f * (from[i] * 0.999f))
ONE_LOOP(multiply_add_relu, positive(from[i] * more[i] + more[i]))

/* A norm needs the sum over a row first; what comes before it is done again for the second loop, as
 * compilers that fuse do: the row's operands are in the nearest cache. */
NORM(residual_norm, from[j] + more[j])
NORM(scale_share, from[j] * 0.999f)

static void gemm_relu(const struct data *data, const float *from, float *to, size_t row)
{
    const float *left = data->in + row * INNER;
    const float *right = data->more;
    size_t columns = data->columns;
    (void)from;
    for (size_t i = 0; i < columns; i++)
        to[i] = positive(left[0] * right[i] + left[1] * right[columns + i] +
                         left[2] * right[2 * columns + i] + left[3] * right[3 * columns + i]);
}

/* An operator: operands of rows * columns that it reads and writes; product: the work is one. */
struct operator
{
    const char *name;
    row_function *run;
    int reads, writes;
    int product;
};

static const struct chain {
    const char *name;
    row_function *fused; /* all of them at once */
    struct operator op[4];
} chains[] = {
    {"residual_norm", residual_norm, {{"residual", add, 2, 1, 0}, {"rmsnorm", norm, 1, 1, 0}}},
    {"bias_relu", bias_relu, {{"bias", bias, 1, 1, 0}, {"relu", relu, 1, 1, 0}}},
    {"scale_share", scale_share, {{"scale", scale, 1, 1, 0}, {"l2norm", norm, 1, 1, 0}}},
    {"clip_update", clip_update, {{"clip", scale, 1, 1, 0}, {"update", update, 2, 1, 0}}},
    {"gemm_relu", gemm_relu, {{"gemm", gemm, 0, 1, 1}, {"relu", relu, 1, 1, 0}}},
    {"multiply_add_relu",
     multiply_add_relu,
     {{"multiply", multiply, 2, 1, 0}, {"residual", add, 2, 1, 0}, {"relu", relu, 1, 1, 0}}},
};

static struct tacho_nvtx nvtx;

static void push(const char *name, const struct data *data, int reads, int writes, int product)
{
    uint64_t bytes = 4 * (uint64_t)data->rows * data->columns;
    struct tacho_work work = {.flops = bytes / 4 * (product ? 2 * INNER : 1),
                              .bytes_read =
                                  bytes * (uint64_t)reads +
                                  (product ? 4 * INNER * (data->rows + data->columns) : 0),
                              .bytes_written = bytes * (uint64_t)writes,
                              .dtype = TACHO_DTYPE_FP32,
                              .kind = product ? TACHO_WORK_MATRIX : TACHO_WORK_OTHER};
    tacho_nvtx_push_work(&nvtx, tacho_nvtx_name(&nvtx, name), &work);
}

/* Arrays take turns: what one operator writes the next one reads. */
static void unfused(const struct chain *chain, const struct data *data)
{
    const float *from = data->in;
    for (size_t k = 0; k < 4 && chain->op[k].name; k++) {
        const struct operator* op = & chain->op[k];
        float *to = k % 2 ? data->also : data->passed;
        to = k == 3 || !chain->op[k + 1].name ? data->out : to;
        push(op->name, data, op->reads, op->writes, op->product);
        for (size_t row = 0; row < data->rows; row++)
            op->run(data, from + row * data->columns * !op->product, to + row * data->columns, row);
        tacho_nvtx_pop(&nvtx);
        from = to;
    }
}

/* The same as one operator, as a compiler that fuses would make it. */
static void fused(const struct chain *chain, const struct data *data)
{
    int reads = 0;
    char name[80];
    for (size_t k = 0; k < 4 && chain->op[k].name; k++)
        reads += chain->op[k].reads - (k > 0);
    snprintf(name, sizeof name, "%s.fused", chain->name);
    push(name, data, reads, 1, 0);
    for (size_t row = 0; row < data->rows; row++)
        chain->fused(data, data->in + row * data->columns, data->out + row * data->columns, row);
    tacho_nvtx_pop(&nvtx);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_value(const void *left, const void *right)
{
    double first = *(const double *)left, second = *(const double *)right;
    return (first > second) - (first < second);
}

static float *array(size_t count)
{
    float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
    if (!values)
        exit(2);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 251) / 251 - 0.5f;
    return values;
}

int main(int argc, char **argv)
{
    size_t at = 0, chain_count = sizeof chains / sizeof *chains;
    while (argc == 6 && at < chain_count && strcmp(chains[at].name, argv[1]) != 0)
        at++;
    if (argc != 6 || at == chain_count) {
        fputs(usage, stderr);
        return 2;
    }
    struct data data = {.rows = (size_t)atol(argv[3]), .columns = (size_t)atol(argv[4])};
    size_t count = data.rows * data.columns, steps = (size_t)atol(argv[5]);
    float **arrays[] = {&data.in, &data.more, &data.passed, &data.also, &data.out};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = array(count + 4 * INNER * (data.rows + data.columns));
    data.row = array(data.columns);
    double *times = calloc(steps + 1, sizeof *times);
    tacho_nvtx_open(&nvtx, "chains");
    for (size_t i = 0; times && i < steps; i++) {
        struct tacho_step step = {.index = i, .samples = data.rows};
        tacho_nvtx_push_step(&nvtx, tacho_nvtx_name(&nvtx, "step"), &step);
        double begin = seconds();
        (strcmp(argv[2], "fused") ? unfused : fused)(&chains[at], &data);
        times[i] = seconds() - begin;
        tacho_nvtx_pop(&nvtx);
    }
    if (!times || !steps)
        return 2;
    qsort(times, steps, sizeof *times, by_value);
    printf("median_ms %.6f check %g\n", 1e3 * times[steps / 2], (double)data.out[count / 2]);
    return 0;
}

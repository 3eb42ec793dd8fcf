/* SPDX-License-Identifier: Apache-2.0
 *
 * Initial values of hidden matrices, one function for each kind.
 */
#include "libtrain/models/init.h"

#include <math.h>
#include <string.h>

#include "libtrain/ops/random.h"

#define INIT_KEY 0x696e6974ull /* the random numbers are others than the model's own */

struct matrix {
    float *value;
    int64_t rows, columns;
    uint64_t key;
};

static void normal(const struct matrix *matrix, double deviation)
{
    lt_random_fill(matrix->value, matrix->rows * matrix->columns, (float)deviation, matrix->key);
}

/* Even over an interval of this standard deviation around 0. */
static void uniform(const struct matrix *matrix, double deviation)
{
    int64_t count = matrix->rows * matrix->columns;
    double reach = deviation * sqrt(3);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) {
        double even = (double)(lt_random_bits(matrix->key, (uint64_t)i) >> 11) * 0x1p-53;
        matrix->value[i] = (float)(reach * (2 * even - 1));
    }
}

static void own(const struct matrix *matrix)
{
    (void)matrix;
}

static void xavier(const struct matrix *matrix)
{
    normal(matrix, sqrt(2.0 / (double)(matrix->rows + matrix->columns)));
}

static void xavier_uniform(const struct matrix *matrix)
{
    uniform(matrix, sqrt(2.0 / (double)(matrix->rows + matrix->columns)));
}

static void kaiming(const struct matrix *matrix)
{
    normal(matrix, sqrt(2.0 / (double)matrix->columns));
}

static void kaiming_uniform(const struct matrix *matrix)
{
    uniform(matrix, sqrt(2.0 / (double)matrix->columns));
}

static void lecun(const struct matrix *matrix)
{
    normal(matrix, sqrt(1.0 / (double)matrix->columns));
}

/* Each element is drawn until it lies within two deviations. */
static void truncated(const struct matrix *matrix)
{
    int64_t count = matrix->rows * matrix->columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = lt_random_bits(matrix->key, (uint64_t)i), draw = 0;
        float value = lt_random_normal(key, draw++);
        while (fabsf(value) > 2)
            value = lt_random_normal(key, draw++);
        matrix->value[i] = 0.02f * value;
    }
}

/* Line i of the matrix, a row or a column, whichever are fewer: element j lies j * step from it. */
static float *line(const struct matrix *matrix, int64_t i)
{
    return matrix->value + (matrix->rows <= matrix->columns ? i * matrix->columns : i);
}

/* Normal values, then each line less its parts along the lines before, and scaled to length 1: the
 * modified method of Gram and Schmidt. */
static void orthogonal(const struct matrix *matrix)
{
    int is_wide = matrix->rows <= matrix->columns;
    int64_t lines = is_wide ? matrix->rows : matrix->columns,
            length = is_wide ? matrix->columns : matrix->rows, step = is_wide ? 1 : matrix->columns;
    normal(matrix, 1);
    for (int64_t i = 0; i < lines; i++) {
        float *first = line(matrix, i);
        double square = 0;
        for (int64_t k = 0; k < length; k++)
            square += (double)first[k * step] * (double)first[k * step];
        float factor = (float)(1 / sqrt(square));
        for (int64_t k = 0; k < length; k++)
            first[k * step] *= factor;
#pragma omp parallel for schedule(static)
        for (int64_t j = i + 1; j < lines; j++) {
            float *later = line(matrix, j);
            double along = 0;
            for (int64_t k = 0; k < length; k++)
                along += (double)first[k * step] * (double)later[k * step];
            for (int64_t k = 0; k < length; k++)
                later[k * step] -= (float)along * first[k * step];
        }
    }
}

static const struct {
    const char *name;
    void (*fill)(const struct matrix *matrix);
} kinds[LT_INIT_COUNT] = {
#define ROW(id, function, text) [LT_INIT_##id] = {text, function},
    LT_INIT_MAP(ROW)
#undef ROW
};

int lt_init_find(const char *name)
{
    for (int i = 0; i < LT_INIT_COUNT; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return i;
    return -1;
}

void lt_init_matrices(const struct lt_parameters *parameters, enum lt_init kind, uint64_t seed)
{
    if (kind == LT_INIT_OWN)
        return;
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        for (int64_t j = 0; weight->role == LT_WEIGHT_HIDDEN && j < weight->repeat; j++) {
            int64_t first = (int64_t)weight->first + j * weight->rows * weight->columns;
            struct matrix matrix = {.value = parameters->value + first,
                                    .rows = weight->rows,
                                    .columns = weight->columns,
                                    .key = lt_random_bits(seed ^ INIT_KEY, (uint64_t)first)};
            kinds[kind].fill(&matrix);
        }
    }
    lt_parameters_refresh(parameters);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * PowerSGD: the factors of a unit's matrices, and their two all-reduces.
 */
#include "libtrain/parallel/low_rank.h"

#include <math.h>
#include <string.h>

#include "libtrain/gemm/gemm.h"
#include "libtrain/ops/random.h"
#include "libtrain/parallel/units.h"

#define START_KEY 0x706f776572ull /* of the columns that Q begins with */
#define DEPENDENT 1e-5            /* what is left of a column that depends on those before it */

static void add_tensor(struct lt_low_rank *plan, size_t size, int64_t rows, int64_t columns)
{
    struct lt_low_rank_tensor *tensor = &plan->tensor[plan->tensors++];
    *tensor = (struct lt_low_rank_tensor){.at = plan->count, .size = size};
    int64_t factors = plan->rank * (rows + columns);
    tensor->p = plan->first;
    tensor->q = plan->second;
    plan->count += size;
    if (factors >= rows * columns) {
        plan->first += size;
        return;
    }
    tensor->rows = rows;
    tensor->columns = columns;
    plan->first += (size_t)(plan->rank * rows);
    plan->second += (size_t)(plan->rank * columns);
}

/* The tensors of a unit, as units.c packs them; several matrices of one, as of experts, below each
 * other as one. */
void lt_low_rank_plan(struct lt_low_rank *plan, const struct lt_parameters *parameters, int unit,
                      int rank)
{
    *plan = (struct lt_low_rank){.rank = rank};
    if (!parameters->weights && unit == 0)
        add_tensor(plan, parameters->count, 1, (int64_t)parameters->count);
    for (int i = 0; i < parameters->weights; i++) {
        const struct lt_weight *weight = &parameters->weight[i];
        int64_t matrices = lt_unit_matrices(weight), rows = matrices * weight->rows;
        for (int64_t j = 0; j < weight->repeat; j += matrices)
            if (lt_unit_of(weight, j) == unit)
                add_tensor(plan, (size_t)(rows * weight->columns), rows, weight->columns);
    }
}

/* Elements of scratch for the larger of the two all-reduces. */
static size_t ring_scratch(const struct lt_low_rank *plan, int ranks)
{
    size_t larger = plan->first > plan->second ? plan->first : plan->second;
    return lt_group_scratch(LT_ALL_REDUCE_RING, ranks, LT_DTYPE_FP32, larger);
}

size_t lt_low_rank_scratch(const struct lt_low_rank *plan, int ranks)
{
    return (plan->first + plan->second) * sizeof(float) + ring_scratch(plan, ranks);
}

struct lt_group_sent lt_low_rank_formula(const struct lt_low_rank *plan, int rank, int ranks)
{
    struct lt_group_sent sums = lt_group_formula(LT_ALL_REDUCE_RING, rank, ranks, 0, LT_DTYPE_FP32,
                                                 plan->first),
                         factors = lt_group_formula(LT_ALL_REDUCE_RING, rank, ranks, 0,
                                                    LT_DTYPE_FP32, plan->second);
    return (struct lt_group_sent){sums.bytes + factors.bytes, sums.messages + factors.messages};
}

/* Columns of Q that are zero, because nothing was there to be found or at the very beginning, begin
 * anew at random, with the same values on all ranks. */
static void start_columns(const struct lt_low_rank *plan, const struct lt_low_rank_tensor *tensor,
                          float *q)
{
    int64_t rank = plan->rank;
    for (int64_t j = 0; j < rank; j++) {
        int seen = 0;
        for (int64_t i = 0; i < tensor->columns && !seen; i++)
            seen = q[i * rank + j] > 0 || q[i * rank + j] < 0;
        for (int64_t i = 0; i < tensor->columns && !seen; i++)
            q[i * rank + j] = lt_random_normal(START_KEY + tensor->at, (uint64_t)(i * rank + j));
    }
}

/* Takes from column j what it has in common with column k; both of p[rows][rank]. */
static void project(float *p, int64_t rows, int64_t rank, int64_t j, int64_t k)
{
    double common = 0;
    for (int64_t i = 0; i < rows; i++)
        common += (double)p[i * rank + j] * (double)p[i * rank + k];
    for (int64_t i = 0; i < rows; i++)
        p[i * rank + j] = (float)((double)p[i * rank + j] - common * (double)p[i * rank + k]);
}

static double norm(const float *p, int64_t rows, int64_t rank, int64_t j)
{
    double squares = 0;
    for (int64_t i = 0; i < rows; i++)
        squares += (double)p[i * rank + j] * (double)p[i * rank + j];
    return sqrt(squares);
}

/* Gram and Schmidt's columns of unit norm, each taken from twice; zero where a column depends on
 * those before it. */
static void make_orthonormal(float *p, int64_t rows, int64_t rank)
{
    for (int64_t j = 0; j < rank; j++) {
        double before = norm(p, rows, rank, j);
        for (int64_t k = 0; k < 2 * j; k++)
            project(p, rows, rank, j, k % j);
        double after = norm(p, rows, rank, j);
        double scale = after > DEPENDENT * before ? 1 / after : 0;
        for (int64_t i = 0; i < rows; i++)
            p[i * rank + j] = (float)((double)p[i * rank + j] * scale);
    }
}

/* rows of P times Q' into out, from row `from` on. */
static void approximate(const struct lt_low_rank *plan, const struct lt_low_rank_tensor *tensor,
                        const float *p, const float *q, int64_t from, int64_t rows, float *out,
                        int add)
{
    struct lt_matrix left = {p + from * plan->rank, plan->rank, 1}, right = {q, 1, plan->rank};
    lt_gemm_floats(rows, tensor->columns, plan->rank, left, right, out + from * tensor->columns,
                   add);
}

/* P of each matrix, and the tensors that travel as they are; what is not lost of these is in the
 * residual no more. */
static void fill_first(const struct lt_low_rank *plan, const float *data, float *residual, float *q,
                       float *sums)
{
    for (int i = 0; i < plan->tensors; i++) {
        const struct lt_low_rank_tensor *tensor = &plan->tensor[i];
        const float *values = data + tensor->at;
        if (!tensor->rows) {
            memcpy(sums + tensor->p, values, tensor->size * sizeof *sums);
            memset(residual + tensor->at, 0, tensor->size * sizeof *residual);
            continue;
        }
        start_columns(plan, tensor, q + tensor->q);
        lt_gemm_floats(tensor->rows, plan->rank, tensor->columns,
                       (struct lt_matrix){values, tensor->columns, 1},
                       (struct lt_matrix){q + tensor->q, plan->rank, 1}, sums + tensor->p, 0);
    }
}

/* Q of each matrix by this rank's gradient; and what the ranks' product lacks of it. */
static void fill_second(const struct lt_low_rank *plan, const float *data, float *residual,
                        float *sums, float *q, float *negative)
{
    for (int i = 0; i < plan->tensors; i++) {
        const struct lt_low_rank_tensor *tensor = &plan->tensor[i];
        if (!tensor->rows)
            continue;
        float *p = sums + tensor->p, *own = q + tensor->q, *minus = negative + tensor->q;
        make_orthonormal(p, tensor->rows, plan->rank);
        lt_gemm_floats(tensor->columns, plan->rank, tensor->rows,
                       (struct lt_matrix){data + tensor->at, 1, tensor->columns},
                       (struct lt_matrix){p, plan->rank, 1}, own, 0);
        for (int64_t j = 0; j < plan->rank * tensor->columns; j++)
            minus[j] = -own[j];
        approximate(plan, tensor, p, minus, 0, tensor->rows, residual + tensor->at, 1);
    }
}

/* Elements [low, high) of the unit: data becomes the sum over the ranks there. */
static void restore(const struct lt_low_rank *plan, float *data, const float *sums, const float *q,
                    size_t low, size_t high)
{
    for (int i = 0; i < plan->tensors; i++) {
        const struct lt_low_rank_tensor *tensor = &plan->tensor[i];
        size_t end = tensor->at + tensor->size, width = (size_t)tensor->columns;
        if (end <= low || tensor->at >= high)
            continue;
        if (!tensor->rows) {
            memcpy(data + tensor->at, sums + tensor->p, tensor->size * sizeof *data);
            continue;
        }
        size_t from = low > tensor->at ? (low - tensor->at) / width : 0,
               to = high < end ? (high - tensor->at + width - 1) / width : (size_t)tensor->rows;
        approximate(plan, tensor, sums + tensor->p, q + tensor->q, (int64_t)from,
                    (int64_t)(to - from), data + tensor->at, 0);
    }
}

void lt_low_rank_reduce(struct lt_group *group, const struct lt_low_rank *plan, float *data,
                        float *residual, float *q, float *sum, int first, void *scratch)
{
    size_t low = lt_group_chunk(plan->count, group->ranks, group->rank),
           high = lt_group_chunk(plan->count, group->ranks, group->rank + 1);
    float *sums = scratch, *negative = sums + plan->first, *ring = negative + plan->second;
    for (size_t i = 0; i < plan->count; i++) {
        data[i] += residual[i];
        residual[i] = data[i];
    }
    fill_first(plan, data, residual, q, sums);
    lt_group_all_reduce(group, LT_ALL_REDUCE_RING, LT_DTYPE_FP32, sums, plan->first, ring);
    fill_second(plan, data, residual, sums, q, negative);
    lt_group_all_reduce(group, LT_ALL_REDUCE_RING, LT_DTYPE_FP32, q, plan->second, ring);
    restore(plan, data, sums, q, low, high);
    for (size_t i = low; i < high; i++) {
        if (first)
            sum[i - low] = data[i];
        else
            sum[i - low] += data[i];
    }
}

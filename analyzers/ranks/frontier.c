/* SPDX-License-Identifier: Apache-2.0
 *
 * The frontier of the stages of a step over ranks (docs/definitions.md).
 *
 * The frontier of stage s is the longest cumulative time of any rank at the end of s. Its
 * increments sum to the slowest rank's step exactly, because they are integers.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/ranks/ranks_compare.h"

#define SEED 0x66726f6e74696572u

/* Fills the time of every stage in every cell of the matrix. */
static int fill_stages(struct an_context *context, struct an_rank_matrix *matrix)
{
    struct an_stage_map map;
    struct an_stage_work work = {0};
    int rc = an_stage_map_of(context, &map);
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (!(matrix->stage[stage] = an_arena_zero(
                  context->scratch, matrix->ranks * matrix->steps + 1, sizeof **matrix->stage)))
            return TACHO_ENOMEM;
    for (size_t cell = 0; cell < matrix->ranks * matrix->steps && !rc; cell++) {
        int64_t ns[AN_STAGE_COUNT];
        rc = an_stage_times(&map, &context->step[matrix->step[cell]], &work, ns);
        for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
            matrix->stage[stage][cell] = (double)ns[stage];
    }
    free(work.span);
    return rc;
}

/* ---- the frontier -------------------------------------------------------------------------------------------------------------- */

struct sums {
    int64_t increment[AN_STAGE_COUNT];
    double frontier[AN_STAGE_COUNT], behind[AN_STAGE_COUNT];
    size_t *lead[AN_STAGE_COUNT]; /* steps in which a row is at the frontier */
    double *scale;                /* ns: median step of each column */
};

/* Adds up the frontier over the steps: at the end of each stage, the longest cumulative time of
 * any rank, its increment, and which rank it is. */
static int sum_frontier(struct an_context *context, const struct an_rank_matrix *matrix,
                        struct sums *sums)
{
    double *total = an_arena_zero(context->scratch, matrix->ranks, sizeof *total),
           *work = an_arena_zero(context->scratch, matrix->ranks, sizeof *work);
    sums->scale = an_arena_zero(context->scratch, matrix->steps, sizeof *sums->scale);
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (!(sums->lead[stage] =
                  an_arena_zero(context->scratch, matrix->ranks, sizeof **sums->lead)))
            return TACHO_ENOMEM;
    if (!total || !work || !sums->scale)
        return TACHO_ENOMEM;
    for (size_t step = 0; step < matrix->steps; step++) {
        double before = 0;
        memset(total, 0, matrix->ranks * sizeof *total);
        for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
            size_t first = 0;
            for (size_t rank = 0; rank < matrix->ranks; rank++) {
                total[rank] += matrix->stage[stage][rank * matrix->steps + step];
                first = total[rank] > total[first] ? rank : first;
            }
            memcpy(work, total, matrix->ranks * sizeof *work);
            double middle = an_quantile_of(work, matrix->ranks, 0.5);
            sums->increment[stage] += (int64_t)(total[first] - before);
            sums->frontier[stage] += total[first];
            sums->behind[stage] += total[first] - middle;
            sums->lead[stage][first]++;
            before = total[first];
            sums->scale[step] = middle;
        }
    }
    return 0;
}

/* Finds the first stage in which some rank certainly takes longer than its peers, by more than the
 * margin. Communication is not looked at: that is where the others wait. */
static int name_delay(struct an_context *context, const struct an_rank_matrix *matrix,
                      const struct sums *sums, struct an_frontier *frontier)
{
    size_t rows = 0, cells = matrix->ranks * matrix->steps;
    double *excess_pct = malloc(AN_STAGE_COUNT * cells * sizeof *excess_pct);
    struct an_excess *excess = malloc(AN_STAGE_COUNT * matrix->ranks * sizeof *excess);
    const struct an_excess_limits limits = {AN_RANKS_MARGIN_PCT, 0};
    enum an_step_stage stage_of_rows[AN_STAGE_COUNT];
    int rc = excess_pct && excess ? 0 : TACHO_ENOMEM;
    frontier->stage = AN_STAGE_COUNT;
    for (int stage = 0; stage < AN_STAGE_COUNT && !rc; stage++)
        if (stage != AN_STAGE_COMM) {
            rc = an_excess_of_peers(matrix->stage[stage], matrix->ranks, matrix->steps, sums->scale,
                                    excess_pct + rows * matrix->steps);
            stage_of_rows[rows / matrix->ranks] = (enum an_step_stage)stage;
            rows += matrix->ranks;
        }
    rc = rc ? rc : an_excess_test(excess_pct, rows, matrix->steps, &limits, SEED, excess);
    const struct an_excess *best = NULL;
    for (size_t i = 0; i < rows && !rc; i++) {
        if (best && stage_of_rows[i / matrix->ranks] != frontier->stage)
            break;
        if (!excess[i].significant || (best && excess[i].estimate <= best->estimate))
            continue;
        best = &excess[i];
        frontier->stage = stage_of_rows[i / matrix->ranks];
        frontier->rank = context->lane[matrix->lane[i % matrix->ranks]].rank;
    }
    const char *none = "no rank takes longer than its peers in any stage";
    frontier->delay_ms = frontier->delay_pct = frontier->delay_low_pct = an_num_none(none);
    if (best) {
        double *work = excess_pct; /* no longer needed */
        memcpy(work, sums->scale, matrix->steps * sizeof *work);
        frontier->delay_pct = an_num(best->estimate);
        frontier->delay_low_pct = an_num(best->low);
        frontier->delay_ms =
            an_num(best->estimate / 100 * an_quantile_of(work, matrix->steps, 0.5) / 1e6);
    }
    free(excess_pct);
    free(excess);
    return rc;
}

int an_ranks_frontier(struct an_context *context, struct an_rank_matrix *matrix)
{
    struct an_frontier *frontier = &context->result->ranks.frontier;
    struct sums sums = {.scale = NULL};
    struct an_frontier_row *row = an_arena_zero(context->arena, AN_STAGE_COUNT, sizeof *row);
    int rc = row ? fill_stages(context, matrix) : TACHO_ENOMEM;
    rc = rc ? rc : sum_frontier(context, matrix, &sums);
    if (rc)
        return rc;
    frontier->row = row;
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++) {
        size_t lead = 0;
        double steps = (double)matrix->steps;
        bool is_used = stage == AN_STAGE_OTHER;
        frontier->increment_ns[stage] = sums.increment[stage];
        frontier->slowest_ns += sums.increment[stage];
        for (size_t rank = 0; rank < matrix->ranks; rank++)
            lead = sums.lead[stage][rank] > sums.lead[stage][lead] ? rank : lead;
        for (size_t i = 0; i < matrix->ranks * matrix->steps && !is_used; i++)
            is_used = matrix->stage[stage][i] > 0;
        if (is_used)
            row[frontier->row_count++] = (struct an_frontier_row){
                .stage = (enum an_step_stage)stage,
                .frontier_ms = sums.frontier[stage] / steps / 1e6,
                .increment_ms = (double)sums.increment[stage] / steps / 1e6,
                .behind_ms = sums.behind[stage] / steps / 1e6,
                .rank = context->lane[matrix->lane[lead]].rank,
                .lead_pct = 100 * (double)sums.lead[stage][lead] / steps};
    }
    bool stages = context->exchanges && context->exchanges->peers;
    if (matrix->steps >= AN_RANKS_STEPS_LEAST && !stages)
        return name_delay(context, matrix, &sums, frontier);
    const char *few =
        stages ? "the ranks form a pipeline: its stages differ by design"
               : an_arena_format(context->arena, "only %zu compared steps: at least %d are needed",
                                 matrix->steps, AN_RANKS_STEPS_LEAST);
    frontier->stage = AN_STAGE_COUNT;
    frontier->delay_ms = frontier->delay_pct = frontier->delay_low_pct = an_num_none(few);
    return 0;
}

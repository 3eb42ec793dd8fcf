/* SPDX-License-Identifier: Apache-2.0
 *
 * The heat map of ranks and steps (struct an_heat of pictures.h). A column is a step by its index,
 * which is the same update on all ranks. A step that a rank did not run or did not record is NAN.
 * Steps that the statistics exclude are not part of it.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/stats.h"
#include "analyzers/steps/context.h"

enum { STEP, WAITING, TRANSFER, LAYERS };

struct heat {
    struct an_context *context;
    int64_t *rank, *index; /* distinct, ascending */
    size_t ranks, steps;
    size_t ranks_a_row, steps_a_column, rows, columns;
    double *sum[LAYERS];
    int64_t *count[LAYERS];
};

static size_t place_of(const int64_t *numbers, size_t count, int64_t value)
{
    const int64_t *found = bsearch(&value, numbers, count, sizeof *numbers, an_number_order);
    return (size_t)(found - numbers);
}

/* Excluded steps must not decide the scale of a picture: the first one is often the longest. */
static bool is_shown(const struct an_step *step)
{
    return an_step_counted(step) && step->end != STORE_ABSENT && step->end > step->start;
}

static void add(struct heat *heat, int layer, size_t cell, int64_t ns)
{
    if (ns == STORE_ABSENT)
        return;
    heat->sum[layer][cell] += (double)ns / 1e6;
    heat->count[layer][cell]++;
}

/* Adds the times of every step to its cell. */
static void fill(struct heat *heat)
{
    const struct an_context *context = heat->context;
    for (size_t i = 0; i < context->step_count; i++) {
        const struct an_step *step = &context->step[i];
        if (!is_shown(step))
            continue;
        size_t row =
            place_of(heat->rank, heat->ranks, context->lane[step->lane].rank) / heat->ranks_a_row;
        size_t cell = row * heat->columns +
                      place_of(heat->index, heat->steps, step->index) / heat->steps_a_column;
        add(heat, STEP, cell, an_step_ns(step));
        add(heat, WAITING, cell, step->waiting_ns);
        add(heat, TRANSFER, cell, step->transfer_ns);
    }
}

static size_t divide_up(size_t count, size_t divisor)
{
    return (count + divisor - 1) / divisor;
}

/* Makes room for the sums and counts of all cells of each layer. */
static int make_layers(struct heat *heat)
{
    struct an_context *context = heat->context;
    for (int layer = 0; layer < LAYERS; layer++) {
        heat->sum[layer] =
            an_arena_zero(context->arena, heat->rows * heat->columns + 1, sizeof **heat->sum);
        heat->count[layer] =
            an_arena_zero(context->scratch, heat->rows * heat->columns + 1, sizeof **heat->count);
        if (!heat->sum[layer] || !heat->count[layer])
            return TACHO_ENOMEM;
    }
    return 0;
}

/* Finds the ranks and steps, how many of them share a cell, and room for the layers. */
static int shape(struct heat *heat)
{
    struct an_context *context = heat->context;
    heat->rank = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *heat->rank);
    heat->index = an_arena_zero(context->scratch, context->step_count + 1, sizeof *heat->index);
    if (!heat->rank || !heat->index)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < context->step_count; i++)
        if (is_shown(&context->step[i]))
            heat->index[heat->steps++] = context->step[i].index;
    for (size_t layer = 0; layer < context->lane_count; layer++)
        heat->rank[layer] = context->lane[layer].rank;
    heat->ranks = an_distinct(heat->rank, context->lane_count);
    heat->steps = an_distinct(heat->index, heat->steps);
    if (!heat->ranks || !heat->steps)
        return 0;
    heat->ranks_a_row = divide_up(heat->ranks, AN_HEAT_RANKS_MOST);
    heat->steps_a_column = divide_up(heat->steps, AN_HEAT_STEPS_MOST);
    heat->rows = divide_up(heat->ranks, heat->ranks_a_row);
    heat->columns = divide_up(heat->steps, heat->steps_a_column);
    return make_layers(heat);
}

static void means_of_sums(struct heat *heat)
{
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < heat->rows * heat->columns; i++)
            heat->sum[layer][i] =
                heat->count[layer][i] ? heat->sum[layer][i] / (double)heat->count[layer][i] : NAN;
}

/* Fills the mean of each cell. A row or column is named by the first rank or step in it. */
static int heat_run(struct an_context *context)
{
    struct heat heat = {.context = context};
    int rc = shape(&heat);
    if (rc)
        return rc;
    if (heat.ranks < 2 || !heat.steps) {
        context->result->heat.reason =
            heat.steps ? "one rank: nothing to compare" : "no step counts";
        return 0;
    }
    fill(&heat);
    means_of_sums(&heat);
    int64_t *rank = an_arena_zero(context->arena, heat.rows, sizeof *rank),
            *index = an_arena_zero(context->arena, heat.columns, sizeof *index);
    if (!rank || !index)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < heat.rows; i++)
        rank[i] = heat.rank[i * heat.ranks_a_row];
    for (size_t i = 0; i < heat.columns; i++)
        index[i] = heat.index[i * heat.steps_a_column];
    context->result->heat = (struct an_heat){.ranks = heat.rows,
                                             .steps = heat.columns,
                                             .rank = rank,
                                             .index = index,
                                             .ranks_a_row = (int64_t)heat.ranks_a_row,
                                             .steps_a_column = (int64_t)heat.steps_a_column,
                                             .step_ms = heat.sum[STEP],
                                             .waiting_ms = heat.sum[WAITING],
                                             .transfer_ms = heat.sum[TRANSFER]};
    return 0;
}

static void heat_absent(struct an_context *context, const char *reason)
{
    context->result->heat.reason = reason;
}

const struct an_analyzer an_heat_map = {
    .name = "heat",
    .help = "step, waiting and transfer of each rank and step",
    .after = "steps, communication",
    .needs = AN_INPUT_STEPS,
    .run = heat_run,
    .absent = heat_absent,
};

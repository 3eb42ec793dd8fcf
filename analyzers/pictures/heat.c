/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix rank x step of pictures.h. A column is a step by its index: the same update on all
 * ranks. What a rank did not run, or did not record, is NAN. Steps that the statistics leave out
 * are not in it.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/steps/analyzer.h"

enum { STEP, WAITING, TRANSFER, LAYERS };

struct heat {
    struct an_context *c;
    int64_t *rank, *index; /* distinct, ascending */
    size_t ranks, steps;
    size_t ranks_a_row, steps_a_column, rows, columns;
    double *sum[LAYERS];
    int64_t *count[LAYERS];
};

static int number_order(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static size_t distinct(int64_t *x, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(x, n, sizeof *x, number_order);
    for (size_t i = 0; i < n; i++)
        if (!i || x[i] != x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

static size_t place_of(const int64_t *x, size_t n, int64_t value)
{
    const int64_t *at = bsearch(&value, x, n, sizeof *x, number_order);
    return (size_t)(at - x);
}

/* Of the steps that the statistics leave out (the first is often the longest) the scale of a
 * picture must not come. */
static bool is_shown(const struct an_step *s)
{
    return an_step_counted(s) && s->end != STORE_ABSENT && s->end > s->start;
}

static void add(struct heat *h, int layer, size_t cell, int64_t ns)
{
    if (ns == STORE_ABSENT)
        return;
    h->sum[layer][cell] += (double)ns / 1e6;
    h->count[layer][cell]++;
}

static void fill(struct heat *h)
{
    const struct an_context *c = h->c;
    for (size_t i = 0; i < c->step_count; i++) {
        const struct an_step *s = &c->step[i];
        if (!is_shown(s))
            continue;
        size_t row = place_of(h->rank, h->ranks, c->lane[s->lane].rank) / h->ranks_a_row;
        size_t cell = row * h->columns + place_of(h->index, h->steps, s->index) / h->steps_a_column;
        add(h, STEP, cell, an_step_ns(s));
        add(h, WAITING, cell, s->waiting_ns);
        add(h, TRANSFER, cell, s->transfer_ns);
    }
}

static size_t per(size_t n, size_t most)
{
    return n > most ? (n + most - 1) / most : 1;
}

static int shape(struct heat *h)
{
    struct an_context *c = h->c;
    h->rank = an_arena_zero(c->work, c->lane_count + 1, sizeof *h->rank);
    h->index = an_arena_zero(c->work, c->step_count + 1, sizeof *h->index);
    if (!h->rank || !h->index)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->step_count; i++)
        if (is_shown(&c->step[i]))
            h->index[h->steps++] = c->step[i].index;
    for (size_t k = 0; k < c->lane_count; k++)
        h->rank[k] = c->lane[k].rank;
    h->ranks = distinct(h->rank, c->lane_count);
    h->steps = distinct(h->index, h->steps);
    h->ranks_a_row = per(h->ranks, AN_HEAT_RANKS_MOST);
    h->steps_a_column = per(h->steps, AN_HEAT_STEPS_MOST);
    h->rows = (h->ranks + h->ranks_a_row - 1) / h->ranks_a_row;
    h->columns = (h->steps + h->steps_a_column - 1) / h->steps_a_column;
    for (int k = 0; k < LAYERS; k++) {
        h->sum[k] = an_arena_zero(c->a, h->rows * h->columns + 1, sizeof **h->sum);
        h->count[k] = an_arena_zero(c->work, h->rows * h->columns + 1, sizeof **h->count);
        if (!h->sum[k] || !h->count[k])
            return TACHO_ENOMEM;
    }
    return 0;
}

static int heat_run(struct an_context *c)
{
    struct heat h = {.c = c};
    int rc = shape(&h);
    if (rc)
        return rc;
    if (h.ranks < 2 || !h.steps) {
        c->r->heat.reason = h.steps ? "one rank: nothing to compare" : "no step counts";
        return 0;
    }
    fill(&h);
    for (int k = 0; k < LAYERS; k++)
        for (size_t i = 0; i < h.rows * h.columns; i++)
            h.sum[k][i] = h.count[k][i] ? h.sum[k][i] / (double)h.count[k][i] : NAN;
    int64_t *rank = an_arena_zero(c->a, h.rows, sizeof *rank),
            *index = an_arena_zero(c->a, h.columns, sizeof *index);
    if (!rank || !index)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < h.rows; i++)
        rank[i] = h.rank[i * h.ranks_a_row];
    for (size_t i = 0; i < h.columns; i++)
        index[i] = h.index[i * h.steps_a_column];
    c->r->heat = (struct an_heat){.ranks = h.rows,
                                  .steps = h.columns,
                                  .rank = rank,
                                  .index = index,
                                  .ranks_a_row = (int64_t)h.ranks_a_row,
                                  .steps_a_column = (int64_t)h.steps_a_column,
                                  .step_ms = h.sum[STEP],
                                  .waiting_ms = h.sum[WAITING],
                                  .transfer_ms = h.sum[TRANSFER]};
    return 0;
}

static void heat_absent(struct an_context *c, const char *reason)
{
    c->r->heat.reason = reason;
}

const struct an_analyzer an_heat_map = {"heat", "step, waiting and transfer of each rank and step",
                                        AN_INPUT_STEPS, heat_run, heat_absent};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks compared: who is slower, in which stage the delay appears first, how even data and
 * experts are, the clocks; then a row for each rank, the slowest first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

static void cell_pct(char cell[REP_CELL], struct an_value pct)
{
    if (pct.valid)
        snprintf(cell, REP_CELL, "%+.1f", pct.value);
}
static void cell_number(char cell[REP_CELL], struct an_value value)
{
    if (value.valid)
        page_number(cell, value.value);
}

static void row_verdict(char cell[REP_CELL], const void *row)
{
    const char *verdict = (*(const struct an_rank_row *const *)row)->verdict;
    snprintf(cell, REP_CELL, "%.30s", strcmp(verdict, "none") ? verdict : "");
}
static void name_row(char name[REP_NAME], const void *row)
{
    const struct an_rank_row *rank_row = *(const struct an_rank_row *const *)row;
    char device[48] = "";
    if (rank_row->device)
        snprintf(device, sizeof device, " %.40s", rank_row->device);
    snprintf(name, REP_NAME, "rank %" PRId64 "%s%s%.100s", rank_row->rank, device,
             *rank_row->host ? " " : "", rank_row->host);
}

#define CELL(field, how) \
    static void row_##field(char cell[REP_CELL], const void *row) \
    { \
        how(cell, (*(const struct an_rank_row *const *)row)->field); \
    }
CELL(step_ms, rep_cell_ms)
CELL(own_ms, rep_cell_ms)
CELL(waiting_ms, rep_cell_ms)
CELL(transfer_ms, rep_cell_ms)
CELL(input_ms, rep_cell_ms)
CELL(compute_ms, rep_cell_ms)
CELL(excess_pct, cell_pct)
CELL(tokens_per_step, cell_number)
CELL(samples_per_step, cell_number)
#undef CELL

static const struct rep_column of_row[] = {{"own", 10, row_own_ms},
                                           {"peers %", 8, row_excess_pct},
                                           {"verdict", 18, row_verdict},
                                           {"waiting", 10, row_waiting_ms},
                                           {"transfer", 10, row_transfer_ms},
                                           {"input", 10, row_input_ms},
                                           {"compute", 10, row_compute_ms},
                                           {"tokens", 9, row_tokens_per_step},
                                           {"samples", 8, row_samples_per_step},
                                           {"step", 10, row_step_ms}};

REP_CELL_OF(stage_frontier, an_frontier_row, rep_cell_real_ms, frontier_ms)
REP_CELL_OF(stage_increment, an_frontier_row, rep_cell_real_ms, increment_ms)
REP_CELL_OF(stage_behind, an_frontier_row, rep_cell_real_ms, behind_ms)
static void stage_lead(char cell[REP_CELL], const void *row)
{
    const struct an_frontier_row *frontier_row = row;
    snprintf(cell, REP_CELL, "rank %" PRId64 " %.0f %%", frontier_row->rank,
             frontier_row->lead_pct);
}
static void name_stage(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "%s", an_stage_key(((const struct an_frontier_row *)row)->stage));
}
static const struct rep_column of_stage[] = {{"adds", 10, stage_increment},
                                             {"frontier", 10, stage_frontier},
                                             {"median rank less", 17, stage_behind},
                                             {"most often", 18, stage_lead}};

/* Which rank is slower than its peers, by how much, whether it gets more data, and where the
 * delay appears first. */
static void straggler_line(struct page *page, const struct an_ranks *ranks)
{
    const struct an_straggler *straggler = &ranks->straggler;
    page_label(page, "Straggler");
    if (straggler->reason)
        page_item(page, "not tested: %.300s", straggler->reason);
    else if (!straggler->count)
        page_item(
            page,
            "none: of no rank it is sure that its own time is more than 2 %% above its peers' "
            "(%" PRId64 " steps, %zu ranks)",
            ranks->steps, ranks->row_count);
    else
        page_item(page, "%s: own time %.1f %% above its peers (%.1f to %.1f), %" PRId64 " steps",
                  straggler->says, straggler->excess_pct.value, straggler->excess_low_pct.value,
                  straggler->excess_high_pct.value, ranks->steps);
    if (straggler->count && straggler->by_data)
        page_item(page, "it gets more %s than its peers", rep_or(ranks->uneven.what, "data"));
    if (ranks->frontier.delay_pct.valid)
        page_item(page, "the delay first appears in %s of rank %" PRId64 ": %.1f %% of the step",
                  an_stage_key(ranks->frontier.stage), ranks->frontier.rank,
                  ranks->frontier.delay_pct.value);
    page_end(page);
}

static void pipeline_line(struct page *page, const struct an_pipeline *pipeline,
                          const struct an_even *even)
{
    page_label(page, "Pipeline");
    page_item(page, "%" PRId64 " stages, %" PRId64 " micro-batches", pipeline->stages,
              pipeline->micro_batches);
    page_value(page, pipeline->bubble_pct, "bubble %.1f %% of the step");
    page_value(page, pipeline->ideal_pct, "(p-1)/(m+p-1) = %.1f %%");
    if (!even->reason)
        page_item(page, "%s a step, %s if all operations of a name took their mean",
                  TIME_TEXT(even->recorded_ms.value * 1e6), TIME_TEXT(even->ideal_ms.value * 1e6));
    page_end(page);
}

static void jitter_line(struct page *page, const struct an_jitter *jitter)
{
    page_label(page, "Jitter");
    page_item(page, "longest rank %.1f %% of the step above the median (%s, mostly in %s)",
              jitter->pct.value, TIME_TEXT(jitter->ms.value * 1e6), an_stage_key(jitter->stage));
    if (jitter->cause)
        page_item(page, "%s coincides (correlation %.2f)", jitter->cause,
                  jitter->correlation.value);
    page_end(page);
}

static void experts_line(struct page *page, const struct an_experts *experts)
{
    page_line(page, "Experts",
              "all-to-all moves %s a step on the busiest rank (rank %" PRId64
              "), %s on average: a ratio of %s",
              BYTES_TEXT(experts->bytes_max.value), experts->rank,
              BYTES_TEXT(experts->bytes_mean.value), DIGITS_TEXT(experts->max_over_mean.value, 3));
}

/* What ranks exchange unevenly, where it is known: samples or tokens, the traffic of experts,
 * and the bubble of a pipeline. */
static void exchange_lines(struct page *page, const struct an_ranks *ranks)
{
    if (ranks->uneven.found) {
        page_line(page, "Uneven data",
                  "rank %" PRId64 " gets the most: %s %s a step, %s times the mean",
                  ranks->uneven.rank, NUMBER_TEXT(ranks->uneven.max.value), ranks->uneven.what,
                  DIGITS_TEXT(ranks->uneven.max_over_mean.value, 3));
    }
    if (!ranks->jitter.reason && ranks->jitter.stage != AN_STAGE_COUNT &&
        ranks->jitter.pct.value >= 1)
        jitter_line(page, &ranks->jitter);
    if (!ranks->experts.reason) {
        experts_line(page, &ranks->experts);
    }
    if (!ranks->pipeline.reason) {
        pipeline_line(page, &ranks->pipeline, &ranks->even);
    }
}

/* How far the clocks of other hosts were off, where they were corrected. */
static void clock_line(struct page *page, const struct an_clocks *clocks)
{
    size_t corrected = 0;
    double most = 0, drift = 0;
    for (size_t i = 0; i < clocks->row_count; i++)
        if (clocks->row[i].corrected) {
            double offset = clocks->row[i].offset_ns.value, ppm = clocks->row[i].drift_ppm.value;
            if (!(most > offset || most > -offset))
                most = fabs(offset);
            if (!(drift > ppm || drift > -ppm))
                drift = fabs(ppm);
            corrected++;
        }
    if (clocks->reason || !corrected)
        return;
    page_label(page, "Clocks");
    page_item(page,
              "%zu ranks' clocks were off by up to %s, drift up to %s ppm: corrected by the ends "
              "of collectives",
              corrected, TIME_TEXT(most), DIGITS_TEXT(drift, 3));
    if (clocks->error_ns.valid)
        page_item(page, "within %s", TIME_TEXT(clocks->error_ns.value));
    page_end(page);
}

/* Most own time first; equal ranks by number. */
static int slower_first(const void *left, const void *right)
{
    const struct an_rank_row *first = *(const struct an_rank_row *const *)left,
                             *second = *(const struct an_rank_row *const *)right;
    if (first->own_ms.value != second->own_ms.value)
        return first->own_ms.value > second->own_ms.value ? -1 : 1;
    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* A row for each rank, the one with most own time first. */
static void row_table(struct page *page, const struct an_ranks *ranks)
{
    const struct an_rank_row **row = malloc(ranks->row_count * sizeof *row);
    if (!row)
        return;
    for (size_t i = 0; i < ranks->row_count; i++)
        row[i] = &ranks->row[i];
    qsort(row, ranks->row_count, sizeof *row, slower_first);
    rep_table_write(page, &(struct rep_table){.title = "Ranks, slowest first",
                                              .name_least = 24,
                                              .name = name_row,
                                              REP_COLUMNS(of_row),
                                              REP_ROWS_OF(row, ranks->row_count)});
    free(row);
}

void rep_section_ranks(struct page *page, const struct an_result *result)
{
    const struct an_ranks *ranks = &result->ranks;
    if (ranks->reason && ranks->clocks.reason)
        return;
    page_blank(page);
    if (!ranks->reason)
        straggler_line(page, ranks);
    if (ranks->missing) {
        page_line(page, "Missing", "%.300s", ranks->missing);
    }
    if (!ranks->reason)
        exchange_lines(page, ranks);
    clock_line(page, &ranks->clocks);
    if (ranks->reason)
        return;
    row_table(page, ranks);
    rep_table_write(
        page, &(struct rep_table){.title = "Stages of all ranks",
                                  .name_least = 24,
                                  .name = name_stage,
                                  REP_COLUMNS(of_stage),
                                  REP_ROWS_OF(ranks->frontier.row, ranks->frontier.row_count)});
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks beside each other: who is slower, in which stage the delay appears, how even data and
 * experts are, the clocks; then a row a rank, the slowest first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/text/text.h"

#define COUNT(list) (sizeof list / sizeof *list)

static void cell_pct(char *b, struct an_value v)
{
    if (v.valid)
        snprintf(b, REP_CELL, "%+.1f", v.value);
}
static void cell_number(char *b, struct an_value v)
{
    if (v.valid)
        page_number(b, v.value);
}
#define CELL(field, how) \
    static void row_##field(char *b, const void *row) \
    { \
        how(b, (*(const struct an_rank_row *const *)row)->field); \
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
static void row_verdict(char *b, const void *row)
{
    const char *v = (*(const struct an_rank_row *const *)row)->verdict;
    snprintf(b, REP_CELL, "%.30s", strcmp(v, "none") ? v : "");
}
static void name_row(char b[REP_NAME], const void *row)
{
    const struct an_rank_row *k = *(const struct an_rank_row *const *)row;
    snprintf(b, REP_NAME, "rank %" PRId64 "%s%.100s", k->rank, *k->host ? " " : "", k->host);
}
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

static void stage_frontier(char *b, const void *row)
{
    page_time(b, ((const struct an_frontier_row *)row)->frontier_ms * 1e6);
}
static void stage_increment(char *b, const void *row)
{
    page_time(b, ((const struct an_frontier_row *)row)->increment_ms * 1e6);
}
static void stage_behind(char *b, const void *row)
{
    page_time(b, ((const struct an_frontier_row *)row)->behind_ms * 1e6);
}
static void stage_lead(char *b, const void *row)
{
    const struct an_frontier_row *k = row;
    snprintf(b, REP_CELL, "rank %" PRId64 " %.0f %%", k->rank, k->lead_pct);
}
static void name_stage(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "%s", an_stage_key(((const struct an_frontier_row *)row)->stage));
}
static const struct rep_column of_stage[] = {{"adds", 10, stage_increment},
                                             {"frontier", 10, stage_frontier},
                                             {"median rank less", 17, stage_behind},
                                             {"most often", 18, stage_lead}};

static void straggler_line(struct page *p, const struct an_ranks *x)
{
    const struct an_straggler *s = &x->straggler;
    page_label(p, "Straggler");
    if (s->reason)
        page_item(p, "not tested: %.300s", s->reason);
    else if (!s->count)
        page_item(p,
                  "none: no rank's own time is above its peers' by 2 %% (%" PRId64
                  " steps, %zu ranks)",
                  x->steps, x->row_count);
    else
        page_item(p, "%s: own time %.1f %% above its peers (%.1f to %.1f), %" PRId64 " steps",
                  s->says, s->excess_pct.value, s->excess_low_pct.value, s->excess_high_pct.value,
                  x->steps);
    if (s->count && s->by_data)
        page_item(p, "it gets more %s", x->uneven.what ? x->uneven.what : "data");
    if (x->frontier.delay_pct.valid)
        page_item(p, "the delay first appears in %s of rank %" PRId64 ": %.1f %% of the step",
                  an_stage_key(x->frontier.stage), x->frontier.rank, x->frontier.delay_pct.value);
    page_end(p);
}

static void exchange_lines(struct page *p, const struct an_ranks *x)
{
    char a[32], b[32], c[32];
    if (x->uneven.found) {
        page_label(p, "Uneven data");
        page_item(p, "rank %" PRId64 " gets most: %s %s a step, %s times the mean", x->uneven.rank,
                  page_number(a, x->uneven.max.value), x->uneven.what,
                  page_digits(b, x->uneven.max_over_mean.value, 3));
        page_end(p);
    }
    if (!x->experts.reason) {
        page_label(p, "Experts");
        page_item(p,
                  "all-to-all moves %s a step on the rank with most (rank %" PRId64
                  "), %s on average: %s times",
                  page_bytes(a, x->experts.bytes_max.value), x->experts.rank,
                  page_bytes(b, x->experts.bytes_mean.value),
                  page_digits(c, x->experts.max_over_mean.value, 3));
        page_end(p);
    }
    if (!x->pipeline.reason) {
        page_label(p, "Pipeline");
        page_item(p, "%" PRId64 " stages, %" PRId64 " micro-batches", x->pipeline.stages,
                  x->pipeline.micro_batches);
        if (x->pipeline.bubble_pct.valid)
            page_item(p, "bubble %.1f %% of the step", x->pipeline.bubble_pct.value);
        if (x->pipeline.ideal_pct.valid)
            page_item(p, "(p-1)/(m+p-1) = %.1f %%", x->pipeline.ideal_pct.value);
        page_end(p);
    }
}

static void clock_line(struct page *p, const struct an_clocks *x)
{
    size_t corrected = 0;
    double most = 0, drift = 0;
    char a[32], b[32];
    for (size_t i = 0; i < x->row_count; i++)
        if (x->row[i].corrected) {
            double offset = x->row[i].offset_ns.value, ppm = x->row[i].drift_ppm.value;
            most = most > offset || most > -offset ? most : offset < 0 ? -offset : offset;
            drift = drift > ppm || drift > -ppm ? drift : ppm < 0 ? -ppm : ppm;
            corrected++;
        }
    if (x->reason || !corrected)
        return;
    page_label(p, "Clocks");
    page_item(p,
              "%zu ranks' clocks were off by up to %s, drift up to %s ppm: corrected by the ends "
              "of collectives",
              corrected, page_time(a, most), page_digits(b, drift, 3));
    if (x->error_ns.valid)
        page_item(p, "within %s", page_time(b, x->error_ns.value));
    page_end(p);
}

static int slower_first(const void *x, const void *y)
{
    const struct an_rank_row *a = *(const struct an_rank_row *const *)x,
                             *b = *(const struct an_rank_row *const *)y;
    if (a->own_ms.value != b->own_ms.value)
        return a->own_ms.value > b->own_ms.value ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void row_table(struct page *p, const struct an_ranks *x)
{
    const struct an_rank_row **row = malloc(x->row_count * sizeof *row);
    if (!row)
        return;
    for (size_t i = 0; i < x->row_count; i++)
        row[i] = &x->row[i];
    qsort(row, x->row_count, sizeof *row, slower_first);
    rep_table_write(p, &(struct rep_table){.title = "Ranks, slowest first, of a step",
                                           .name_least = 24,
                                           .name = name_row,
                                           .column = of_row,
                                           .columns = COUNT(of_row),
                                           .rows = row,
                                           .size = sizeof *row,
                                           .count = x->row_count});
    free(row);
}

void rep_text_ranks(struct page *p, const struct an_result *r)
{
    const struct an_ranks *x = &r->ranks;
    if (x->reason && x->clocks.reason)
        return;
    page_blank(p);
    if (!x->reason)
        straggler_line(p, x);
    if (x->missing) {
        page_label(p, "Missing");
        page_item(p, "%.300s", x->missing);
        page_end(p);
    }
    if (!x->reason)
        exchange_lines(p, x);
    clock_line(p, &x->clocks);
    if (x->reason)
        return;
    row_table(p, x);
    rep_table_write(p, &(struct rep_table){.title = "Stages of a step: the frontier of all ranks",
                                           .name_least = 24,
                                           .name = name_stage,
                                           .column = of_stage,
                                           .columns = COUNT(of_stage),
                                           .rows = x->frontier.row,
                                           .size = sizeof *x->frontier.row,
                                           .count = x->frontier.row_count});
}

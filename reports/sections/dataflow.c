/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators as a graph: which could be one, how long tensors live, what runs beside each other,
 * what is computed twice or for nothing.
 */
#include <inttypes.h>
#include <stdio.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"

REP_NAME_OF(fusion_name, an_fusion_row, operators)
REP_CELL_OF(fusion_ms, an_fusion_row, rep_cell_ms, ms)
REP_CELL_OF(fusion_gain, an_fusion_row, rep_cell_ms, gain_ms)
REP_CELL_OF(fusion_low, an_fusion_row, rep_cell_ms, gain_low_ms)
REP_CELL_OF(fusion_high, an_fusion_row, rep_cell_ms, gain_high_ms)
REP_CELL_OF(fusion_how, an_fusion_row, rep_cell_text, how)
REP_CELL_OF(fusion_place, an_fusion_row, rep_cell_text, place)

static void fusion_count(char cell[REP_CELL], const void *row)
{
    rep_cell_tenths(cell, ((const struct an_fusion_row *)row)->count.value);
}

static void fusion_saved(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell, BYTES_TEXT(((const struct an_fusion_row *)row)->saved_bytes.value));
}

static void fusion_launches(char cell[REP_CELL], const void *row)
{
    rep_cell_tenths(cell, ((const struct an_fusion_row *)row)->launches_saved.value);
}

REP_NAME_OF(row_name, an_flow_row, name)
REP_CELL_OF(row_count, an_flow_row, rep_cell_integer, count)
REP_CELL_OF(row_ns, an_flow_row, rep_cell_ns, ns)

static void row_bytes(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell, BYTES_TEXT((double)((const struct an_flow_row *)row)->bytes));
}

static void fusion_table(struct page *page, const struct an_dataflow *flow)
{
    static const struct rep_column columns[] = {
        {"gain", 9, fusion_gain},    {"at least", 10, fusion_low},
        {"at most", 9, fusion_high}, {"saved", 10, fusion_saved},
        {"now", 9, fusion_ms},       {"in", 8, fusion_place},
        {"times", 7, fusion_count},  {"launches", 10, fusion_launches},
        {"known by", 11, fusion_how}};
    const struct rep_table table = {.title = "Candidates for fusion, a step",
                                    .name = fusion_name,
                                    .name_least = 40,
                                    REP_COLUMNS(columns),
                                    REP_ROWS_OF(flow->fusion, flow->fusion_count)};
    rep_table_write(page, &table);
}

static void rows_table(struct page *page, const char *title, const struct an_flow_row *row,
                       size_t count)
{
    static const struct rep_column columns[] = {
        {"count", 7, row_count}, {"bytes", 10, row_bytes}, {"time", 9, row_ns}};
    const struct rep_table table = {
        .title = title, .name = row_name, REP_COLUMNS(columns), REP_ROWS_OF(row, count)};
    rep_table_write(page, &table);
}

static void fusion_lines(struct page *page, const struct an_dataflow *flow)
{
    if (!flow->fusion_count)
        return;
    page_label(page, "Fusion");
    if (flow->fusion_gain_ms.valid)
        page_item(page, "%s ms of a step of %s ms [%s, %s], at %s",
                  DIGITS_TEXT(flow->fusion_gain_ms.value, 3), NUMBER_TEXT(flow->step_ms.value),
                  DIGITS_TEXT(flow->fusion_low_ms.value, 3),
                  DIGITS_TEXT(flow->fusion_high_ms.value, 3), flow->bandwidth_words);
    else
        page_item(page, "no gain is given: %s", flow->fusion_reason);
    page_end(page);
}

static void lifetime_lines(struct page *page, const struct an_dataflow *flow)
{
    if (!flow->live_bound_bytes.valid)
        return;
    page_label(page, "Tensors");
    page_item(page, "%" PRId64 " made in the step, %s in all", flow->tensor_count.value,
              BYTES_TEXT((double)flow->tensor_bytes.value));
    page_item(page, "no less than %s at once, %s as one pool",
              BYTES_TEXT((double)flow->live_bound_bytes.value),
              BYTES_TEXT((double)flow->pool_bytes.value));
    if (flow->in_place_saved_bytes.value > 0)
        page_item(page, "%s less in place", BYTES_TEXT((double)flow->in_place_saved_bytes.value));
    page_end(page);
}

static void width_lines(struct page *page, const struct an_dataflow *flow)
{
    if (!flow->path_ns.valid)
        return;
    double serial = (double)flow->serial_ns / 1e6;
    page_label(page, "Width");
    page_item(page, "%.2f operators at once, at most %" PRId64, flow->width_mean.value,
              flow->width_most.value);
    page_item(page, "longest path %s of %s ms", NUMBER_TEXT((double)flow->path_ns.value / 1e6),
              NUMBER_TEXT(serial));
    page_item(page, "on two streams no less than %s ms",
              NUMBER_TEXT((double)flow->two_streams_ns.value / 1e6));
    page_end(page);
}

void rep_section_dataflow(struct page *page, const struct an_result *result)
{
    const struct an_dataflow *flow = &result->dataflow;
    if (flow->reason || (!flow->fusion_count && !flow->tensor_count.valid && !flow->path_ns.valid))
        return;
    page_label(page, "Operators");
    page_item(page, "%" PRId64 " in step %" PRId64 ", %" PRId64 " edges", flow->operators,
              flow->step, flow->edges);
    page_item(page, "by %s", flow->source);
    page_end(page);
    fusion_lines(page, flow);
    lifetime_lines(page, flow);
    width_lines(page, flow);
    fusion_table(page, flow);
    rows_table(page, "Could write over what they read", flow->in_place, flow->in_place_count);
    rows_table(page, "Computed before", flow->repeated, flow->repeated_count);
    rows_table(page, "Nothing in the recording uses them", flow->dead, flow->dead_count);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication: one line, a table of the collectives, a table of the ranks.
 */
#include <inttypes.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

static void cell_rate(char cell[REP_CELL], struct an_value v)
{
    if (v.valid)
        page_si(cell, v.value, "B/s");
}

static void collective_calls(char cell[REP_CELL], const void *row)
{
    const struct an_collective *collective = row;
    if (collective->calls_per_step.valid)
        page_number(cell, collective->calls_per_step.value);
    else
        snprintf(cell, REP_CELL, "%" PRId64, collective->count);
}
static void collective_bytes(char cell[REP_CELL], const void *row)
{
    const struct an_collective *collective = row;
    if (collective->bytes_per_call.valid)
        page_bytes(cell, collective->bytes_per_call.value);
}
REP_CELL_OF(collective_ranks, an_collective, rep_cell_count, ranks)
static void name_collective(char name[REP_NAME], const void *row)
{
    const struct an_collective *collective = row;
    char communicator[40] = "";
    if (collective->communicator.valid)
        snprintf(communicator, sizeof communicator, " #%" PRIx64,
                 (uint64_t)collective->communicator.value);
    snprintf(name, REP_NAME, "%.400s%s", rep_or(collective->name, "(unnamed)"), communicator);
}
REP_CELL_OF(rank_overlap, an_comm_rank, rep_cell_pct, overlap_pct)
REP_CELL_OF(rank_last, an_comm_rank, rep_cell_pct, last_pct)
static void name_rank(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "rank %" PRId64, ((const struct an_comm_rank *)row)->rank);
}

/* The first column is calls a step, without steps calls at all */

#define CELL(type, field, how) \
    static void type##_##field(char cell[REP_CELL], const void *row) \
    { \
        how(cell, ((const struct an_##type *)row)->field); \
    }
CELL(collective, mean_ms, rep_cell_ms)
CELL(collective, transfer_ms, rep_cell_ms)
CELL(collective, waiting_ms, rep_cell_ms)
CELL(collective, algorithm_bytes_per_s, cell_rate)
CELL(collective, bus_bytes_per_s, cell_rate)
CELL(comm_rank, total_ms, rep_cell_ms)
CELL(comm_rank, exposed_ms, rep_cell_ms)
CELL(comm_rank, transfer_ms, rep_cell_ms)
CELL(comm_rank, waiting_ms, rep_cell_ms)
CELL(comm_rank, exposed_waiting_ms, rep_cell_ms)
CELL(comm_rank, caused_ms, rep_cell_ms)
#undef CELL

static const struct rep_column of_collective[] = {
    {"calls", 8, collective_calls},           {"a call", 10, collective_mean_ms},
    {"transfer", 10, collective_transfer_ms}, {"waiting", 10, collective_waiting_ms},
    {"bytes", 10, collective_bytes},          {"bus", 11, collective_bus_bytes_per_s},
    {"ranks", 6, collective_ranks},           {"algorithm", 11, collective_algorithm_bytes_per_s}};
static const struct rep_column of_rank[] = {{"exposed", 10, comm_rank_exposed_ms},
                                            {"waiting", 10, comm_rank_waiting_ms},
                                            {"last %", 12, rank_last},
                                            {"delayed", 10, comm_rank_caused_ms},
                                            {"transfer", 10, comm_rank_transfer_ms},
                                            {"total", 10, comm_rank_total_ms},
                                            {"overlap %", 10, rank_overlap},
                                            {"exposed waiting", 16, comm_rank_exposed_waiting_ms}};

void rep_section_communication(struct page *page, const struct an_result *result)
{
    const struct an_communication *communication = &result->communication;
    if (communication->reason)
        return;
    page_label(page, "Communication");
    if (communication->total_ms.valid)
        page_item(page, "%s a step", TIME_TEXT(communication->total_ms.value * 1e6));
    if (communication->exposed_ms.valid && communication->exposed_transfer_ms.valid &&
        communication->exposed_waiting_ms.valid)
        page_item(page, "%s exposed: %s transfer, %s waiting for other ranks",
                  TIME_TEXT(communication->exposed_ms.value * 1e6),
                  TIME_TEXT(communication->exposed_transfer_ms.value * 1e6),
                  TIME_TEXT(communication->exposed_waiting_ms.value * 1e6));
    else if (communication->exposed_ms.valid)
        page_item(page, "%s exposed", TIME_TEXT(communication->exposed_ms.value * 1e6));
    page_value(page, communication->overlap_pct, "%.1f %% overlapped with compute");
    if (!communication->overlap_pct.valid && communication->total_ms.valid)
        page_item(page, "overlap unknown: %.300s", communication->overlap_pct.reason);
    if (communication->bytes_per_step.valid)
        page_item(page, "%s a step and rank", BYTES_TEXT(communication->bytes_per_step.value));
    if (communication->missing)
        page_item(page, "%.300s", communication->missing);
    else if (result->gpu.reason && !communication->waiting_ms.valid)
        page_item(page, "transfer and waiting unknown: %.300s", communication->waiting_ms.reason);
    page_end(page);
}

void rep_section_communication_tables(struct page *page, const struct an_result *result)
{
    const struct an_communication *communication = &result->communication;
    struct rep_table table = {
        .title = communication->total_ms.valid && result->gpu.reason ? "Collectives per step"
                                                                     : "Collectives",
        .name = name_collective,
        REP_COLUMNS(of_collective),
        REP_ROWS_OF(communication->collectives, communication->collective_count)};
    if (communication->reason)
        return;
    rep_table_write(page, &table);
    table = (struct rep_table){.title = "Communication of each rank per step",
                               .name_least = 38,
                               .name = name_rank,
                               REP_COLUMNS(of_rank),
                               REP_ROWS_OF(communication->ranks, communication->rank_count)};
    if (communication->rank_count > 1)
        rep_table_write(page, &table);
}

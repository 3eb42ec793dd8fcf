/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices did and what the host asked of them: devices, launches, copies, synchronisation,
 * precision.
 */
#include <inttypes.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

/* ---- devices --------------------------------------------------------------------------------- */

static void of_span(char cell[REP_CELL], const struct an_gpu_device *device, struct an_count ns)
{
    if (ns.valid && device->span_ns.valid && device->span_ns.value > 0)
        snprintf(cell, REP_CELL, "%.1f", 100 * (double)ns.value / (double)device->span_ns.value);
}

/* How far streams overlap: the sum of durations over their union. */
static void cell_parallel(char cell[REP_CELL], const void *row)
{
    const struct an_gpu_device *device = row;
    if (device->compute_sum_ns.valid && device->compute_ns.valid && device->compute_ns.value > 0)
        snprintf(cell, REP_CELL, "%.2f",
                 (double)device->compute_sum_ns.value / (double)device->compute_ns.value);
}

static void name_device(char name[REP_NAME], const void *row)
{
    const struct an_gpu_device *device = row;
    snprintf(name, REP_NAME, "rank %" PRId64 " %.40s%s%.120s", device->rank, device->label,
             *device->name ? " " : "", device->name);
}

#define SHARE_CELL(field) \
    static void cell_##field(char cell[REP_CELL], const void *row) \
    { \
        const struct an_gpu_device *d = row; \
        of_span(cell, d, d->field##_ns); \
    }
SHARE_CELL(busy)
SHARE_CELL(compute)
SHARE_CELL(exposed_comm)
SHARE_CELL(exposed_copy)
SHARE_CELL(opaque)
SHARE_CELL(idle)
SHARE_CELL(blocking_proven)
SHARE_CELL(blocking_inferred)
SHARE_CELL(blocking_unknown)
#undef SHARE_CELL

REP_CELL_OF(cell_span, an_gpu_device, rep_cell_count_ns, span_ns)
REP_CELL_OF(cell_overlap, an_gpu_device, rep_cell_pct, overlap_pct)
REP_CELL_OF(cell_streams, an_gpu_device, rep_cell_integer, streams)
REP_CELL_OF(cell_ops, an_gpu_device, rep_cell_integer, ops)

static const struct rep_column of_device[] = {{"span", 9, cell_span},
                                              {"compute %", 10, cell_compute},
                                              {"comm %", 8, cell_exposed_comm},
                                              {"copy %", 8, cell_exposed_copy},
                                              {"opaque %", 9, cell_opaque},
                                              {"idle %", 8, cell_idle},
                                              {"overlap %", 10, cell_overlap},
                                              {"\xe2\x88\x91/\xe2\x88\xaa", 10, cell_parallel},
                                              {"streams", 8, cell_streams},
                                              {"busy %", 8, cell_busy},
                                              {"ops", 9, cell_ops}};
static const struct rep_column of_blocking[] = {{"proven", 9, cell_blocking_proven},
                                                {"inferred", 9, cell_blocking_inferred},
                                                {"unknown", 9, cell_blocking_unknown}};

/* Does any device know the count at this offset of its struct? */
static bool any_known(const struct an_result *result, size_t offset)
{
    for (size_t i = 0; i < result->gpu_count; i++) {
        const struct an_count *count = (const void *)((const char *)&result->gpus[i] + offset);
        if (count->valid)
            return true;
    }
    return false;
}

/* Reason of a value that no device has. */
static void none_known(struct page *page, const char *label, const char *what, const char *reason)
{
    page_line(page, label, "%s not known: %.300s", what, rep_or(reason, ""));
}

void rep_section_devices(struct page *page, const struct an_result *result)
{
    struct rep_table table = {.title = "Devices, % of span",
                              .name_least = 36,
                              .name = name_device,
                              REP_COLUMNS(of_device),
                              REP_ROWS_OF(result->gpus, result->gpu_count)};
    if (result->gpu.reason || !result->gpu_count)
        return;
    rep_table_write(page, &table);
    const struct an_gpu_device *first = result->gpus;
    bool comm = false;
    for (size_t i = 0; i < result->gpu_count; i++)
        comm = comm || (result->gpus[i].comm_ns.valid && result->gpus[i].comm_ns.value > 0);
    if (!comm)
        return;
    if (any_known(result, offsetof(struct an_gpu_device, blocking_proven_ns)) ||
        any_known(result, offsetof(struct an_gpu_device, blocking_inferred_ns))) {
        table.title = "Compute waits for communication, % of span";
        table.column = of_blocking;
        table.columns = sizeof of_blocking / sizeof *of_blocking;
        rep_table_write(page, &table);
    } else {
        none_known(page, "Blocking", "how much communication compute waits for is",
                   first->blocking_proven_ns.reason);
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

static void us_item(struct page *page, const char *name, struct an_value us)
{
    if (us.valid)
        page_item(page, "%s %s", name, TIME_TEXT(us.value * 1e3));
}

static void call_lines(struct page *page, const struct an_launches *launches)
{
    for (size_t i = 0; i < launches->row_count && i < 4; i++) {
        page_line(page, i ? "" : "  by call", "%.120s %" PRId64 " times, %s",
                  launches->rows[i].name, launches->rows[i].count,
                  TIME_TEXT((double)launches->rows[i].host_ns));
    }
}

static void queue_items(struct page *page, const struct an_launches *launches)
{
    if (launches->queue_mean.valid && launches->queue_max.valid)
        page_item(page, "queue %s on average, at most %.0f",
                  DIGITS_TEXT(launches->queue_mean.value, 3), launches->queue_max.value);
    if (launches->full_queue_pct.valid && launches->full_queue_pct.value > 0)
        page_item(page, "full %.1f %% of the time: the host waits then",
                  launches->full_queue_pct.value);
    page_value(page, launches->short_pct, "%.0f %% of kernels are shorter than their launch call");
}

/* How the host launches work on the device: number and cost of the calls, the delay until the
 * device begins, the queue between them; then the calls with most time. */
static void launches(struct page *page, const struct an_launches *launches)
{
    if (launches->reason) {
        page_line(page, "Launches", "not known: %.300s", launches->reason);
        return;
    }
    page_label(page, "Launches");
    page_item(page, "%" PRId64 " calls", launches->calls);
    if (launches->graphs)
        page_item(page, "%" PRId64 " of them CUDA graphs", launches->graphs);
    if (launches->matched < launches->calls)
        page_item(page, "%" PRId64 " with their device operation in the file", launches->matched);
    us_item(page, "on the host", launches->host_mean_us);
    us_item(page, "delay median", launches->delay_median_us);
    us_item(page, "p95", launches->delay_p95_us);
    us_item(page, "longest", launches->delay_max_us);
    queue_items(page, launches);
    page_end(page);
    call_lines(page, launches);
}

/* ---- copies ---------------------------------------------------------------------------------- */

REP_CELL_OF(copy_count, an_copy_row, rep_cell_integer, count)
static void copy_bytes(char cell[REP_CELL], const void *row)
{
    const struct an_copy_row *copy = row;
    if (copy->bytes.valid)
        page_bytes(cell, (double)copy->bytes.value);
}
REP_CELL_OF(copy_total, an_copy_row, rep_cell_ns, total_ns)
REP_CELL_OF(copy_exposed, an_copy_row, rep_cell_ns, exposed_ns)
REP_CELL_OF(copy_rate, an_copy_row, rep_cell_bytes_per_s, bytes_per_s)
REP_CELL_OF(copy_best, an_copy_row, rep_cell_bytes_per_s, max_bytes_per_s)
REP_CELL_OF(copy_sync, an_copy_row, rep_cell_count, synchronous)
static void name_copy(char name[REP_NAME], const void *row)
{
    const struct an_copy_row *copy = row;
    snprintf(name, REP_NAME, "%.60s%s%.60s", copy->kind, *copy->memory ? ", " : "", copy->memory);
}
static const struct rep_column of_copy[] = {
    {"count", 8, copy_count},    {"total", 9, copy_total}, {"exposed", 9, copy_exposed},
    {"bytes", 10, copy_bytes},   {"rate", 11, copy_rate},  {"synchronous", 13, copy_sync},
    {"best rate", 11, copy_best}};

static void copies(struct page *page, const struct an_result *result)
{
    struct rep_table table = {.title = "Copies",
                              .name = name_copy,
                              REP_COLUMNS(of_copy),
                              REP_ROWS_OF(result->copy, result->copy_count)};
    if (!result->copies.reason)
        rep_table_write(page, &table);
}

/* ---- synchronisation, precision -------------------------------------------------------------- */

REP_CELL_OF(sync_count, an_sync_row, rep_cell_integer, count)
REP_CELL_OF(sync_host, an_sync_row, rep_cell_ns, host_ns)
REP_CELL_OF(sync_max, an_sync_row, rep_cell_ns, max_ns)
REP_CELL_OF(sync_idle, an_sync_row, rep_cell_count_ns, idle_ns)
static void name_sync(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "%.200s", ((const struct an_sync_row *)row)->name);
}
static const struct rep_column of_sync[] = {{"calls", 8, sync_count},
                                            {"host waits", 11, sync_host},
                                            {"device idle", 12, sync_idle},
                                            {"longest", 9, sync_max}};

static void syncs(struct page *page, const struct an_result *result)
{
    struct rep_table table = {.title = "Host waits for the device",
                              .name = name_sync,
                              REP_COLUMNS(of_sync),
                              REP_ROWS_OF(result->sync, result->sync_count)};
    if (!result->syncs.reason)
        rep_table_write(page, &table);
}

/* Matrix and attention time on matrix units, and kernel time by data type. */
static void precision(struct page *page, const struct an_precision *precision)
{
    page_label(page, "Precision");
    if (precision->reason || !precision->matrix_unit_pct.valid) {
        page_item(page, "not known: %.300s",
                  precision->reason ? precision->reason : precision->matrix_unit_pct.reason);
    } else {
        page_item(page, "%.1f %% of matrix and attention time on matrix units",
                  precision->matrix_unit_pct.value);
        for (size_t i = 0; i < precision->row_count && i < 6; i++) {
            const char *unit = precision->rows[i].matrix_unit ? " on matrix units" : " off them";
            if (!precision->rows[i].told)
                unit = " (unit unknown from kernel names)";
            page_item(page, "%.20s %s%s", precision->rows[i].dtype,
                      TIME_TEXT((double)precision->rows[i].total_ns), unit);
        }
    }
    page_end(page);
}

void rep_section_host_to_device(struct page *page, const struct an_result *result)
{
    if (result->gpu.reason)
        return;
    page_blank(page);
    launches(page, &result->launches);
    precision(page, &result->precision);
    copies(page, result);
    syncs(page, result);
}

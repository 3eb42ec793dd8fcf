/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: one line, and a table of the ranks where there are several.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

/* A wait that is inferred from gaps is worth a line only where the device idles for no known
 * reason. */
static bool guess_matters(const struct an_result *result)
{
    const struct an_value *idle = &result->budget.pct[AN_CLASS_UNATTRIBUTED];
    return result->loader.inferred_wait_ms_per_step.valid &&
           (result->gpu.reason || (idle->valid && idle->value >= 2));
}

/* Workers of the loader: how many, how busy, how full their queue is, and how many would keep
 * up. */
static void workers(struct page *page, const struct an_loader *loader)
{
    if (loader->workers.valid && loader->workers.value && loader->worker_kind)
        page_item(page, "%" PRId64 " %s (%s)", loader->workers.value,
                  REP_PLURAL(loader->workers.value, "worker", "workers"), loader->worker_kind);
    else if (loader->workers.valid)
        page_item(page, "%" PRId64 " %s", loader->workers.value,
                  REP_PLURAL(loader->workers.value, "worker", "workers"));
    page_value(page, loader->worker_busy_pct, "busy %.0f %%");
    page_value(page, loader->queue_depth_mean, "queue depth %.2f");
    if (loader->workers_needed.valid && loader->workers_wanted.valid &&
        loader->workers_wanted.value > loader->workers_needed.value)
        page_item(page, "%" PRId64 " workers needed to keep up, the cores allow %" PRId64,
                  loader->workers_wanted.value, loader->workers_needed.value);
    else if (loader->workers_needed.valid)
        page_item(page, "%" PRId64 " %s to keep up", loader->workers_needed.value,
                  REP_PLURAL(loader->workers_needed.value, "worker needed", "workers needed"));
    else if (loader->serial)
        page_item(page, "%.300s", loader->workers_needed.reason);
}

/* The rate that the loader reaches compared with the rate that the rest of the step can use, and
 * storage. */
static void rates(struct page *page, const struct an_loader *loader)
{
    if (loader->pipeline_samples_per_s.valid && loader->compute_samples_per_s.valid) {
        page_item(page, "loads up to %s samples/s",
                  NUMBER_TEXT(loader->pipeline_samples_per_s.value));
        page_item(page, "the rest of the step consumes up to %s samples/s",
                  NUMBER_TEXT(loader->compute_samples_per_s.value));
    }
    if (loader->device_bytes_per_s.valid && loader->access_ratio.valid)
        page_item(page, "reads %s/s from storage, %.0f %% of its bandwidth",
                  BYTES_TEXT(loader->device_bytes_per_s.value), 100 * loader->access_ratio.value);
}

REP_CELL_OF(cell_wait, an_loader_rank, rep_cell_ms, wait_ms_per_step)
REP_CELL_OF(cell_expected, an_loader_rank, rep_cell_ms, expected_wait_ms_per_step)
REP_CELL_OF(cell_batch, an_loader_rank, rep_cell_ms, batch_ms)
REP_CELL_OF(cell_workers, an_loader_rank, rep_cell_count, workers)
REP_CELL_OF(cell_needed, an_loader_rank, rep_cell_count, workers_needed)
static void name_rank(char name[REP_NAME], const void *row)
{
    snprintf(name, REP_NAME, "rank %" PRId64, ((const struct an_loader_rank *)row)->rank);
}
static const struct rep_column of_rank[] = {{"wait", 10, cell_wait},
                                            {"a batch", 10, cell_batch},
                                            {"workers", 8, cell_workers},
                                            {"needed", 8, cell_needed},
                                            {"wait, model", 16, cell_expected}};

bool rep_loader_says(const struct an_result *result)
{
    const struct an_loader *loader = &result->loader;
    return !loader->reason &&
           (loader->wait_ms_per_step.valid || loader->stage_count || guess_matters(result));
}

void rep_section_loader(struct page *page, const struct an_result *result)
{
    const struct an_loader *loader = &result->loader;
    if (!rep_loader_says(result))
        return;
    page_label(page, "Loader");
    if (loader->wait_ms_per_step.valid)
        page_item(page, "%swaits %s a step for its batch", result->gpu.reason ? "" : "the host ",
                  TIME_TEXT(loader->wait_ms_per_step.value * 1e6));
    else if (loader->inferred_wait_ms_per_step.valid && guess_matters(result))
        page_item(page, "waits at most %s a step: estimated from gaps, no range marks the loader",
                  TIME_TEXT(loader->inferred_wait_ms_per_step.value * 1e6));
    for (size_t i = 0; i < loader->stage_count; i++)
        if (loader->stages[i].ms_per_batch.valid &&
            strcmp(loader->stages[i].name,
                   "queue_wait")) /* workers that wait for room cost nothing */
            page_item(page, "%s %s a batch", loader->stages[i].name,
                      TIME_TEXT(loader->stages[i].ms_per_batch.value * 1e6));
    if (loader->batches_per_step.valid && loader->batches_per_step.value > 1.005)
        page_item(page, "%s batches a step", DIGITS_TEXT(loader->batches_per_step.value, 3));
    workers(page, loader);
    rates(page, loader);
    page_end(page);
}

void rep_section_loader_ranks(struct page *page, const struct an_result *result)
{
    const struct rep_table table = {.title = "Loader of each rank",
                                    .name = name_rank,
                                    REP_COLUMNS(of_rank),
                                    REP_ROWS_OF(result->loader.ranks, result->loader.rank_count)};
    if (result->loader.rank_count > 1)
        rep_table_write(page, &table);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: one line, and a table of the ranks where there are several.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/text/text.h"

/* A wait that is inferred from gaps is worth a line only where the device idles for no known
 * reason. */
static bool guess_matters(const struct an_result *r)
{
    const struct an_value *idle = &r->budget.pct[AN_CLASS_UNATTRIBUTED];
    return r->loader.inferred_wait_ms_per_step.valid &&
           (r->gpu.reason || (idle->valid && idle->value >= 2));
}

static void workers(struct page *p, const struct an_loader *l)
{
    if (l->workers.valid && l->workers.value && l->worker_kind)
        page_item(p, "%" PRId64 " %s (%s)", l->workers.value,
                  l->workers.value == 1 ? "worker" : "workers", l->worker_kind);
    else if (l->workers.valid)
        page_item(p, "%" PRId64 " %s", l->workers.value,
                  l->workers.value == 1 ? "worker" : "workers");
    if (l->worker_busy_pct.valid)
        page_item(p, "busy %.0f %%", l->worker_busy_pct.value);
    if (l->queue_depth_mean.valid)
        page_item(p, "queue depth %.2f", l->queue_depth_mean.value);
    if (l->workers_needed.valid && l->workers_wanted.valid &&
        l->workers_wanted.value > l->workers_needed.value)
        page_item(p, "%" PRId64 " workers would keep up, the cores allow %" PRId64,
                  l->workers_wanted.value, l->workers_needed.value);
    else if (l->workers_needed.valid)
        page_item(p, "%" PRId64 " %s up", l->workers_needed.value,
                  l->workers_needed.value == 1 ? "worker keeps" : "workers keep");
    else if (l->serial)
        page_item(p, "%.300s", l->workers_needed.reason);
}

static void rates(struct page *p, const struct an_loader *l)
{
    char a[32];
    if (l->pipeline_samples_per_s.valid && l->compute_samples_per_s.valid) {
        page_item(p, "can load %s samples/s", page_number(a, l->pipeline_samples_per_s.value));
        page_item(p, "the rest of the step can use %s samples/s",
                  page_number(a, l->compute_samples_per_s.value));
    }
    if (l->device_bytes_per_s.valid && l->access_ratio.valid)
        page_item(p, "reads %s/s from storage, %.0f %% of what it is able to",
                  page_bytes(a, l->device_bytes_per_s.value), 100 * l->access_ratio.value);
}

static void cell_wait(char *b, const void *row)
{
    const struct an_loader_rank *k = row;
    if (k->wait_ms_per_step.valid)
        page_time(b, k->wait_ms_per_step.value * 1e6);
}
static void cell_expected(char *b, const void *row)
{
    const struct an_loader_rank *k = row;
    if (k->expected_wait_ms_per_step.valid)
        page_time(b, k->expected_wait_ms_per_step.value * 1e6);
}
static void cell_batch(char *b, const void *row)
{
    const struct an_loader_rank *k = row;
    if (k->batch_ms.valid)
        page_time(b, k->batch_ms.value * 1e6);
}
static void cell_workers(char *b, const void *row)
{
    const struct an_loader_rank *k = row;
    if (k->workers.valid)
        snprintf(b, REP_CELL, "%" PRId64, k->workers.value);
}
static void cell_needed(char *b, const void *row)
{
    const struct an_loader_rank *k = row;
    if (k->workers_needed.valid)
        snprintf(b, REP_CELL, "%" PRId64, k->workers_needed.value);
}
static void name_rank(char b[REP_NAME], const void *row)
{
    snprintf(b, REP_NAME, "rank %" PRId64, ((const struct an_loader_rank *)row)->rank);
}
static const struct rep_column of_rank[] = {{"wait", 10, cell_wait},
                                            {"a batch", 10, cell_batch},
                                            {"workers", 8, cell_workers},
                                            {"needed", 8, cell_needed},
                                            {"wait by formula", 16, cell_expected}};

void rep_text_loader(struct page *p, const struct an_result *r)
{
    const struct an_loader *l = &r->loader;
    char a[32];
    if (l->reason || (!l->wait_ms_per_step.valid && !l->stage_count && !guess_matters(r)))
        return;
    page_label(p, "Loader");
    if (l->wait_ms_per_step.valid)
        page_item(p, "%swaits %s a step", r->gpu.reason ? "" : "the host ",
                  page_time(a, l->wait_ms_per_step.value * 1e6));
    else if (l->inferred_wait_ms_per_step.valid && guess_matters(r))
        page_item(p, "waits at most %s a step: a guess from gaps, no range marks the loader",
                  page_time(a, l->inferred_wait_ms_per_step.value * 1e6));
    for (size_t i = 0; i < l->stage_count; i++)
        if (l->stages[i].ms_per_batch.valid &&
            strcmp(l->stages[i].name, "queue_wait")) /* workers that wait for room cost nothing */
            page_item(p, "%s %s a batch", l->stages[i].name,
                      page_time(a, l->stages[i].ms_per_batch.value * 1e6));
    if (l->batches_per_step.valid && l->batches_per_step.value > 1.005)
        page_item(p, "%s batches a step", page_digits(a, l->batches_per_step.value, 3));
    workers(p, l);
    rates(p, l);
    page_end(p);
}

void rep_text_loader_ranks(struct page *p, const struct an_result *r)
{
    const struct rep_table t = {.title = "Loader of each rank",
                                .name = name_rank,
                                .column = of_rank,
                                .columns = sizeof of_rank / sizeof *of_rank,
                                .rows = r->loader.ranks,
                                .size = sizeof *r->loader.ranks,
                                .count = r->loader.rank_count};
    if (r->loader.rank_count > 1)
        rep_table_write(p, &t);
}

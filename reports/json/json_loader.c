/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader in tacho-report/1: waits, stages, workers, and the model of what binds it.
 */
#include "reports/json/json_private.h"
#include "reports/words/phrase.h"

/* The time of each stage of a batch; null where the program marks no stages. */
static void put_stages(struct rep_writer *writer, const struct an_loader *loader)
{
    static const char none[] = "the program marks no loader stages (read, decode, collate)";
    if (rep_put_absent(writer, "stage_ms",
                       loader->stage_count ? NULL : rep_or(loader->reason, none)))
        return;
    rep_open(writer, "stage_ms");
    for (size_t i = 0; i < loader->stage_count; i++)
        rep_put_value(writer, loader->stages[i].name, loader->stages[i].ms_per_batch);
    rep_close(writer);
}

static void put_rank(struct rep_writer *writer, const void *item)
{
    const struct an_loader_rank *rank = item;
    rep_put_int_or(writer, "rank", rank->rank, "a run without steps");
    rep_put_value(writer, "wait_ms_per_step", rank->wait_ms_per_step);
    rep_put_value(writer, "expected_wait_ms_per_step", rank->expected_wait_ms_per_step);
    rep_put_value(writer, "batches_per_step", rank->batches_per_step);
    rep_put_value(writer, "batch_ms", rank->batch_ms);
    rep_put_count(writer, "workers", rank->workers);
    rep_put_count(writer, "workers_needed", rank->workers_needed);
    rep_put_value(writer, "pipeline_samples_per_s", rank->pipeline_samples_per_s);
    rep_put_value(writer, "compute_samples_per_s", rank->compute_samples_per_s);
}

static void put_worker(struct rep_writer *writer, const void *item)
{
    const struct an_loader_worker *worker = item;
    rep_put_text(writer, "name", worker->name);
    rep_put_int_or(writer, "rank", worker->rank, "a run without steps");
    rep_put_int_or(writer, "process", worker->process, "not recorded");
    rep_put_int(writer, "batches", worker->batches);
    rep_put_value(writer, "busy_pct", worker->busy_pct);
}

void rep_json_loader(struct rep_writer *writer, const struct an_loader *loader)
{
    rep_open(writer, "dataloader");
    rep_put_text_or(writer, "source", loader->source, loader->reason);
    rep_put_value(writer, "wait_ms_per_step", loader->wait_ms_per_step);
    rep_put_value(writer, "inferred_wait_ms_per_step", loader->inferred_wait_ms_per_step);
    rep_put_value(writer, "expected_wait_ms_per_step", loader->expected_wait_ms_per_step);
    put_stages(writer, loader);
    rep_put_text_or(writer, "worker_kind", loader->worker_kind,
                    "the recording does not show which thread makes the batches");
    rep_put_count(writer, "workers", loader->workers);
    rep_put_value(writer, "worker_busy_pct", loader->worker_busy_pct);
    rep_put_value(writer, "queue_depth_mean", loader->queue_depth_mean);
    rep_put_value(writer, "batches_per_step", loader->batches_per_step);
    rep_put_value(writer, "batch_ms", loader->batch_ms);
    rep_put_count(writer, "workers_needed", loader->workers_needed);
    rep_put_count(writer, "workers_wanted", loader->workers_wanted);
    rep_put_text_or(writer, "serial_stage", loader->serial, "no serial stage is the bottleneck");
    rep_put_value(writer, "pipeline_samples_per_s", loader->pipeline_samples_per_s);
    rep_put_value(writer, "compute_samples_per_s", loader->compute_samples_per_s);
    rep_put_value(writer, "read_bytes_per_s", loader->read_bytes_per_s);
    rep_put_value(writer, "device_bytes_per_s", loader->device_bytes_per_s);
    rep_put_value(writer, "access_ratio", loader->access_ratio);
    REP_PUT_ROWS(writer, "ranks", loader->ranks, loader->rank_count, put_rank);
    REP_PUT_ROWS(writer, "worker", loader->worker, loader->worker_count, put_worker);
    rep_close(writer);
}

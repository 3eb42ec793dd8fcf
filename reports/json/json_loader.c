/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_parts.h"

static void put_stages(struct rep_writer *w, const struct an_loader *l)
{
    if (!l->stage_count) {
        rep_put_null(w, "stage_ms",
                     l->reason ? l->reason
                               : "the program marks no loader stages (read, decode, collate)");
        return;
    }
    rep_open(w, "stage_ms");
    for (size_t i = 0; i < l->stage_count; i++)
        rep_put_value(w, l->stages[i].name, l->stages[i].ms_per_batch);
    rep_close(w);
}

static void put_ranks(struct rep_writer *w, const struct an_loader *l)
{
    rep_open_list(w, "ranks");
    for (size_t i = 0; i < l->rank_count; i++) {
        const struct an_loader_rank *k = &l->ranks[i];
        rep_open(w, NULL);
        rep_put_count(w, "rank",
                      k->rank >= 0 ? an_int(k->rank) : an_int_none("a run without steps"));
        rep_put_value(w, "wait_ms_per_step", k->wait_ms_per_step);
        rep_put_value(w, "expected_wait_ms_per_step", k->expected_wait_ms_per_step);
        rep_put_value(w, "batches_per_step", k->batches_per_step);
        rep_put_value(w, "batch_ms", k->batch_ms);
        rep_put_count(w, "workers", k->workers);
        rep_put_count(w, "workers_needed", k->workers_needed);
        rep_put_value(w, "pipeline_samples_per_s", k->pipeline_samples_per_s);
        rep_put_value(w, "compute_samples_per_s", k->compute_samples_per_s);
        rep_close(w);
    }
    rep_close(w);
}

static void put_workers(struct rep_writer *w, const struct an_loader *l)
{
    rep_open_list(w, "worker");
    for (size_t i = 0; i < l->worker_count; i++) {
        const struct an_loader_worker *k = &l->worker[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", k->name);
        rep_put_count(w, "rank",
                      k->rank >= 0 ? an_int(k->rank) : an_int_none("a run without steps"));
        rep_put_count(w, "process",
                      k->process >= 0 ? an_int(k->process) : an_int_none("not recorded"));
        rep_put_int(w, "batches", k->batches);
        rep_put_value(w, "busy_pct", k->busy_pct);
        rep_close(w);
    }
    rep_close(w);
}

void rep_json_loader(struct rep_writer *w, const struct an_loader *l)
{
    rep_open(w, "dataloader");
    rep_put_text_or(w, "source", l->source, l->reason);
    rep_put_value(w, "wait_ms_per_step", l->wait_ms_per_step);
    rep_put_value(w, "inferred_wait_ms_per_step", l->inferred_wait_ms_per_step);
    rep_put_value(w, "expected_wait_ms_per_step", l->expected_wait_ms_per_step);
    put_stages(w, l);
    rep_put_text_or(w, "worker_kind", l->worker_kind,
                    "nothing recorded says who makes the batches");
    rep_put_count(w, "workers", l->workers);
    rep_put_value(w, "worker_busy_pct", l->worker_busy_pct);
    rep_put_value(w, "queue_depth_mean", l->queue_depth_mean);
    rep_put_value(w, "batches_per_step", l->batches_per_step);
    rep_put_value(w, "batch_ms", l->batch_ms);
    rep_put_count(w, "workers_needed", l->workers_needed);
    rep_put_count(w, "workers_wanted", l->workers_wanted);
    rep_put_text_or(w, "serial_stage", l->serial, "no serial stage was seen to bind");
    rep_put_value(w, "pipeline_samples_per_s", l->pipeline_samples_per_s);
    rep_put_value(w, "compute_samples_per_s", l->compute_samples_per_s);
    rep_put_value(w, "read_bytes_per_s", l->read_bytes_per_s);
    rep_put_value(w, "device_bytes_per_s", l->device_bytes_per_s);
    rep_put_value(w, "access_ratio", l->access_ratio);
    put_ranks(w, l);
    put_workers(w, l);
    rep_close(w);
}

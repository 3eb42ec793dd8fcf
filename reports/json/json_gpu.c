/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_gpu.h"

#include <inttypes.h>
#include <string.h>

#define ROWS_MOST 2000

static void put_device(struct rep_writer *w, const struct an_gpu_device *d)
{
    rep_open(w, NULL);
    rep_put_int(w, "rank", d->rank);
    rep_put_int(w, "device", d->device);
    rep_put_text_or(w, "name", d->name, "the trace does not name the device");
    rep_put_text_or(w, "host", d->host, "not recorded");
    rep_put_int(w, "process", d->process);
    rep_put_int(w, "ops", d->ops);
    rep_put_int(w, "streams", d->streams);
    rep_put_us_or(w, "span_us", d->span_ns);
    rep_put_us_or(w, "busy_us", d->busy_ns);
    rep_put_us_or(w, "compute_us", d->compute_ns);
    rep_put_us_or(w, "exposed_comm_us", d->exposed_comm_ns);
    rep_put_us_or(w, "exposed_copy_us", d->exposed_copy_ns);
    rep_put_us_or(w, "opaque_us", d->opaque_ns);
    rep_put_us_or(w, "idle_us", d->idle_ns);
    rep_put_us_or(w, "comm_us", d->comm_ns);
    rep_put_us_or(w, "copy_us", d->copy_ns);
    rep_put_us_or(w, "compute_sum_us", d->compute_sum_ns);
    rep_put_us_or(w, "comm_sum_us", d->comm_sum_ns);
    rep_put_us_or(w, "copy_sum_us", d->copy_sum_ns);
    rep_put_value(w, "overlap_pct", d->overlap_pct);
    rep_open(w, "blocking_comm_us");
    rep_put_us_or(w, "proven", d->blocking_proven_ns);
    rep_put_us_or(w, "inferred", d->blocking_inferred_ns);
    rep_put_us_or(w, "unknown", d->blocking_unknown_ns);
    rep_close(w);
    rep_put_us_or(w, "absent_launch_starved_us", d->absent_launch_starved_ns);
    rep_put_us_or(w, "absent_blocked_us", d->absent_blocked_ns);
    rep_put_us_or(w, "absent_dispatch_us", d->absent_dispatch_ns);
    rep_put_us_or(w, "absent_dependency_us", d->absent_dependency_ns);
    rep_close(w);
}

void rep_json_devices(struct rep_writer *w, const struct an_result *r)
{
    if (r->gpu.reason) {
        rep_put_null(w, "devices", r->gpu.reason);
        return;
    }
    rep_open_list(w, "devices");
    for (size_t i = 0; i < r->gpu_count; i++)
        put_device(w, &r->gpus[i]);
    rep_close(w);
}

static void put_ceiling(struct rep_writer *w, const struct an_ceiling *c)
{
    bool flops = !strcmp(c->unit, "FLOP/s");
    char name[256];
    snprintf(name, sizeof name, "%.60s %.60s%s%.60s", *c->device ? c->device : "any device",
             c->resource, *c->dtype ? " " : "", c->dtype);
    rep_open(w, NULL);
    rep_put_text(w, "name", name);
    rep_put_value(w, "flops_per_s", flops ? an_num(c->value) : an_num_none("a ceiling of bytes/s"));
    rep_put_value(w, "bytes_per_s", flops ? an_num_none("a ceiling of FLOP/s") : an_num(c->value));
    rep_put_text_or(w, "source", c->source, "not recorded");
    rep_close(w);
}

void rep_json_roofline(struct rep_writer *w, const struct an_result *r)
{
    rep_open(w, "roofline");
    rep_open_list(w, "ceilings");
    for (size_t i = 0; i < r->ceiling_count; i++)
        if (!strcmp(r->ceilings[i].unit, "FLOP/s") || !strcmp(r->ceilings[i].unit, "bytes/s"))
            put_ceiling(w, &r->ceilings[i]);
    rep_close(w);
    if (r->roofline.reason) {
        rep_put_null(w, "points", r->roofline.reason);
        rep_close(w);
        return;
    }
    rep_open_list(w, "points");
    for (size_t i = 0; i < r->point_count && i < ROWS_MOST; i++) {
        const struct an_roofline_point *p = &r->points[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", p->name);
        rep_put_text_or(w, "dtype", p->dtype, "neither its kernels' names nor its arguments tell");
        rep_put_text(w, "pass", p->pass);
        rep_put_text(w, "kind", p->kind);
        rep_put_int(w, "count", p->count);
        rep_put_int(w, "shapes", p->shapes);
        rep_put_int(w, "flops", p->flops);
        rep_put_int(w, "bytes", p->bytes);
        rep_put_count(w, "flops_per_call", p->flops_per_call);
        rep_put_count(w, "bytes_per_call", p->bytes_per_call);
        rep_put_text(w, "bytes_source", p->bytes_measured ? "measured" : "model");
        rep_put_us(w, "time_us", p->time_ns);
        rep_put_real(w, "intensity", p->intensity, "no bytes");
        rep_put_real(w, "achieved_flops_per_s", p->achieved_flops, "no time");
        rep_put_real(w, "attainable_flops_per_s", p->attainable_flops,
                     "no ceiling for this device and type");
        rep_put_text_or(w, "bound", p->bound, "no ceiling for this device and type");
        rep_put_text_or(w, "level", p->level, p->level_reason);
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_launches(struct rep_writer *w, const struct an_launches *l)
{
    if (l->reason) {
        rep_put_null(w, "launches", l->reason);
        return;
    }
    rep_open(w, "launches");
    rep_put_int(w, "calls", l->calls);
    rep_put_int(w, "matched", l->matched);
    rep_put_int(w, "graphs", l->graphs);
    rep_put_value(w, "host_mean_us", l->host_mean_us);
    rep_put_value(w, "delay_mean_us", l->delay_mean_us);
    rep_put_value(w, "delay_median_us", l->delay_median_us);
    rep_put_value(w, "delay_p95_us", l->delay_p95_us);
    rep_put_value(w, "delay_max_us", l->delay_max_us);
    rep_put_value(w, "queue_mean", l->queue_mean);
    rep_put_value(w, "queue_max", l->queue_max);
    rep_put_value(w, "full_queue_pct", l->full_queue_pct);
    rep_put_count(w, "short_kernels", l->short_kernels);
    rep_put_value(w, "short_pct", l->short_pct);
    rep_open_list(w, "by_call");
    for (size_t i = 0; i < l->row_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "name", l->rows[i].name);
        rep_put_int(w, "count", l->rows[i].count);
        rep_put_us(w, "host_us", l->rows[i].host_ns);
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

static void put_copies(struct rep_writer *w, const struct an_result *r)
{
    if (r->copies.reason) {
        rep_put_null(w, "copies", r->copies.reason);
        return;
    }
    rep_open_list(w, "copies");
    for (size_t i = 0; i < r->copy_count; i++) {
        const struct an_copy_row *c = &r->copy[i];
        rep_open(w, NULL);
        rep_put_text(w, "kind", c->kind);
        rep_put_text_or(w, "memory", c->memory, "the trace does not say which memory");
        rep_put_int(w, "count", c->count);
        rep_put_count(w, "bytes", c->bytes);
        rep_put_us(w, "total_us", c->total_ns);
        rep_put_us(w, "exposed_us", c->exposed_ns);
        rep_put_count(w, "synchronous", c->synchronous);
        rep_put_text_or(w, "synchronous_by", c->rule, "none of them is known to be synchronous");
        rep_put_value(w, "bytes_per_s", c->bytes_per_s);
        rep_put_value(w, "max_bytes_per_s", c->max_bytes_per_s);
        rep_close(w);
    }
    rep_close(w);
}

static void put_syncs(struct rep_writer *w, const struct an_result *r)
{
    if (r->syncs.reason) {
        rep_put_null(w, "syncs", r->syncs.reason);
        return;
    }
    rep_open_list(w, "syncs");
    for (size_t i = 0; i < r->sync_count; i++) {
        const struct an_sync_row *s = &r->sync[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", s->name);
        rep_put_int(w, "count", s->count);
        rep_put_us(w, "host_us", s->host_ns);
        rep_put_us(w, "max_us", s->max_ns);
        rep_put_us_or(w, "idle_us", s->idle_ns);
        rep_close(w);
    }
    rep_close(w);
}

static void put_precision(struct rep_writer *w, const struct an_precision *p)
{
    if (p->reason) {
        rep_put_null(w, "precision", p->reason);
        return;
    }
    rep_open(w, "precision");
    rep_put_us(w, "matrix_us", p->matrix_ns);
    rep_put_us(w, "matrix_unit_us", p->matrix_unit_ns);
    rep_put_value(w, "matrix_unit_pct", p->matrix_unit_pct);
    rep_open_list(w, "by_dtype");
    for (size_t i = 0; i < p->row_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "dtype", p->rows[i].dtype);
        if (p->rows[i].told)
            rep_put_bool(w, "matrix_unit", p->rows[i].matrix_unit);
        else
            rep_put_null(w, "matrix_unit", "the kernels' names do not tell");
        rep_put_int(w, "count", p->rows[i].count);
        rep_put_us(w, "total_us", p->rows[i].total_ns);
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

void rep_json_host_to_device(struct rep_writer *w, const struct an_result *r)
{
    put_launches(w, &r->launches);
    put_copies(w, r);
    put_syncs(w, r);
    put_precision(w, &r->precision);
}

void rep_json_attribution(struct rep_writer *w, const struct an_attribution *a)
{
    size_t n = a->row_count < ROWS_MOST ? a->row_count : ROWS_MOST;
    rep_open(w, "attribution");
    rep_put_text(w, "by", a->by ? a->by : "op");
    if (a->reason) {
        rep_put_null(w, "unattributed_us", a->reason);
        rep_put_null(w, "rows", a->reason);
        rep_close(w);
        return;
    }
    rep_put_us(w, "unattributed_us", a->unattributed_ns);
    rep_open_list(w, "rows");
    for (size_t i = 0; i < n; i++) {
        const struct an_attribution_row *x = &a->rows[i];
        rep_open(w, NULL);
        rep_put_text(w, "name", x->name);
        rep_put_int(w, "count", x->count);
        rep_put_int(w, "kernels", x->kernels);
        rep_put_us(w, "device_us", x->device_ns);
        rep_put_us(w, "host_us", x->host_ns);
        rep_put_value(w, "share_pct", x->share_pct);
        rep_put_count(w, "flops", x->flops);
        rep_put_count(w, "bytes", x->bytes);
        rep_put_value(w, "flops_per_s", x->flops_per_s);
        rep_close(w);
    }
    rep_close(w);
    rep_put_int(w, "omitted", (int64_t)(a->row_count - n));
    rep_close(w);
}

void rep_json_compat(struct rep_writer *w, const struct an_compat_table *t)
{
    if (!t->tool) {
        rep_put_null(w, "compat", "not asked for: --tracelens-compat, --hta-compat or --tb-compat");
        return;
    }
    rep_open(w, "compat");
    rep_put_text(w, "tool", t->tool);
    if (t->reason) {
        rep_put_null(w, "rows", t->reason);
        rep_close(w);
        return;
    }
    rep_open_list(w, "rows");
    for (size_t i = 0; i < t->row_count; i++) {
        const struct an_compat_row *x = &t->rows[i];
        rep_open(w, NULL);
        if (x->rank < 0)
            rep_put_null(w, "rank", "of all ranks");
        else
            rep_put_int(w, "rank", x->rank);
        if (x->device < 0)
            rep_put_null(w, "device", "of all devices");
        else
            rep_put_int(w, "device", x->device);
        rep_put_text(w, "section", x->section);
        rep_put_text(w, "key", x->key);
        rep_put_text(w, "unit", x->unit);
        rep_put_real(w, "value", x->value, "the tool prints no number here");
        rep_close(w);
    }
    rep_close(w);
    rep_close(w);
}

void rep_json_capture(struct rep_writer *w, const struct an_quality *q)
{
    if (q->reason) {
        rep_put_null(w, "capture", q->reason);
        return;
    }
    rep_open(w, "capture");
    rep_put_count(w, "launches_without_op", q->launches_without_op);
    rep_put_count(w, "ops_without_launch", q->ops_without_launch);
    rep_put_count(w, "kernels_lost", q->kernels_lost);
    rep_put_count(w, "zero_times", q->zero_times);
    rep_put_count(w, "unknown_kernels", q->unknown_kernels);
    rep_put_count(w, "unknown_names", q->unknown_names);
    rep_put_value(w, "unknown_pct", q->unknown_pct);
    rep_put_count(w, "cut_steps", q->cut_steps);
    rep_put_value(w, "start_gap_ms", q->start_gap_ms);
    rep_put_value(w, "profiler_overhead_ms", q->profiler_overhead_ms);
    rep_put_value(w, "step_overhead_pct", q->step_overhead_pct);
    rep_put_texts(w, "signs", q->signs, q->sign_count);
    rep_close(w);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections of tacho-report/1 that an accelerator fills: its devices, the roofline, what the host
 * asks of it, attribution, the figures of another tool, and the quality of the capture.
 */
#include "reports/json/json_private.h"
#include "reports/words/phrase.h"

#include <string.h>

#define ROWS_MOST 2000

/* The unions of a device's time by kind, and the sums. */
static void put_unions(struct rep_writer *writer, const struct an_gpu_device *device)
{
    rep_put_us_or(writer, "span_us", device->span_ns);
    rep_put_us_or(writer, "busy_us", device->busy_ns);
    rep_put_us_or(writer, "compute_us", device->compute_ns);
    rep_put_us_or(writer, "exposed_comm_us", device->exposed_comm_ns);
    rep_put_us_or(writer, "exposed_copy_us", device->exposed_copy_ns);
    rep_put_us_or(writer, "opaque_us", device->opaque_ns);
    rep_put_us_or(writer, "idle_us", device->idle_ns);
    rep_put_us_or(writer, "comm_us", device->comm_ns);
    rep_put_us_or(writer, "copy_us", device->copy_ns);
    rep_put_us_or(writer, "compute_sum_us", device->compute_sum_ns);
    rep_put_us_or(writer, "comm_sum_us", device->comm_sum_ns);
    rep_put_us_or(writer, "copy_sum_us", device->copy_sum_ns);
    rep_put_value(writer, "overlap_pct", device->overlap_pct);
}

/* One device: the unions of its time by kind, sums, and the splits of communication and of
 * non-compute time. */
static void put_device(struct rep_writer *writer, const void *item)
{
    const struct an_gpu_device *device = item;
    rep_put_int(writer, "rank", device->rank);
    rep_put_int(writer, "device", device->device);
    rep_put_text_or(writer, "name", device->name, "the trace does not name the device");
    rep_put_text_or(writer, "host", device->host, "not recorded");
    rep_put_int(writer, "process", device->process);
    rep_put_int(writer, "ops", device->ops);
    rep_put_int(writer, "streams", device->streams);
    put_unions(writer, device);
    rep_open(writer, "blocking_comm_us");
    rep_put_us_or(writer, "proven", device->blocking_proven_ns);
    rep_put_us_or(writer, "inferred", device->blocking_inferred_ns);
    rep_put_us_or(writer, "unknown", device->blocking_unknown_ns);
    rep_close(writer);
    rep_put_us_or(writer, "absent_launch_starved_us", device->absent_launch_starved_ns);
    rep_put_us_or(writer, "absent_blocked_us", device->absent_blocked_ns);
    rep_put_us_or(writer, "absent_dispatch_us", device->absent_dispatch_ns);
    rep_put_us_or(writer, "absent_dependency_us", device->absent_dependency_ns);
}

void rep_json_devices(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "devices", result->gpu.reason))
        return;
    REP_PUT_ROWS(writer, "devices", result->gpus, result->gpu_count, put_device);
}

/* One roof, of FLOP/s or of bytes/s: the other of the two is null. */
static void put_ceiling(struct rep_writer *writer, const struct an_ceiling *ceiling)
{
    bool flops = !strcmp(ceiling->unit, "FLOP/s");
    char name[256];
    const char *device = rep_or(ceiling->device, "any device");
    snprintf(name, sizeof name, "%.60s %.60s%s%.60s", device, ceiling->resource,
             *ceiling->dtype ? " " : "", ceiling->dtype);
    rep_open(writer, NULL);
    rep_put_text(writer, "name", name);
    rep_put_value(writer, "flops_per_s",
                  flops ? an_num(ceiling->value) : an_num_none("a ceiling of bytes/s"));
    rep_put_value(writer, "bytes_per_s",
                  flops ? an_num_none("a ceiling of FLOP/s") : an_num(ceiling->value));
    rep_put_text_or(writer, "source", ceiling->source, "not recorded");
    rep_close(writer);
}

static void put_point(struct rep_writer *writer, const void *item)
{
    const struct an_roofline_point *point = item;
    rep_put_text(writer, "name", point->name);
    rep_put_text_or(writer, "dtype", point->dtype,
                    "unknown from the names of its kernels and from its arguments");
    rep_put_text(writer, "pass", point->pass);
    rep_put_text(writer, "kind", point->kind);
    rep_put_int(writer, "count", point->count);
    rep_put_int(writer, "shapes", point->shapes);
    rep_put_int(writer, "flops", point->flops);
    rep_put_int(writer, "bytes", point->bytes);
    rep_put_count(writer, "flops_per_call", point->flops_per_call);
    rep_put_count(writer, "bytes_per_call", point->bytes_per_call);
    rep_put_text(writer, "bytes_source", point->bytes_measured ? "measured" : "model");
    rep_put_us(writer, "time_us", point->time_ns);
    rep_put_real(writer, "intensity", point->intensity, "no bytes");
    rep_put_real(writer, "achieved_flops_per_s", point->achieved_flops, "no time");
    rep_put_real(writer, "attainable_flops_per_s", point->attainable_flops,
                 "no ceiling for this device and type");
    rep_put_text_or(writer, "bound", point->bound, "no ceiling for this device and type");
    rep_put_text_or(writer, "level", point->level, point->level_reason);
}

/* Ceilings are known without a capture of the device; points are not. */
void rep_json_roofline(struct rep_writer *writer, const struct an_result *result)
{
    rep_open(writer, "roofline");
    rep_open_list(writer, "ceilings");
    for (size_t i = 0; i < result->ceiling_count; i++)
        if (!strcmp(result->ceilings[i].unit, "FLOP/s") ||
            !strcmp(result->ceilings[i].unit, "bytes/s"))
            put_ceiling(writer, &result->ceilings[i]);
    rep_close(writer);
    if (rep_put_absent(writer, "points", result->roofline.reason)) {
        rep_close(writer);
        return;
    }
    REP_PUT_ROWS(writer, "points", result->points,
                 result->point_count < ROWS_MOST ? result->point_count : ROWS_MOST, put_point);
    rep_close(writer);
}

/* ---- bounds of kernels ----------------------------------------------------------------------- */

static void put_bound(struct rep_writer *writer, const void *item)
{
    const struct an_bound_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_text(writer, "bound", an_bound_key(row->bound));
    rep_put_int(writer, "count", row->count);
    rep_put_us(writer, "total_us", row->total_ns);
    rep_put_value(writer, "memory_roof_pct", row->memory_pct);
    rep_put_value(writer, "compute_roof_pct", row->compute_pct);
}

static void put_gemm(struct rep_writer *writer, const void *item)
{
    const struct an_gemm_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_text(writer, "shapes", row->shapes);
    rep_put_text(writer, "dtype", row->dtype);
    rep_put_int(writer, "count", row->count);
    rep_put_us(writer, "total_us", row->total_ns);
    rep_put_us(writer, "roof_us", row->roof_ns);
    rep_put_int(writer, "misaligned_dimension", row->misaligned);
    rep_put_value(writer, "waves", row->waves);
    rep_put_value(writer, "wave_pct", row->wave_pct);
}

static void put_chain(struct rep_writer *writer, const void *item)
{
    const struct an_chain_row *row = item;
    rep_put_text(writer, "operators", row->names);
    rep_put_int(writer, "count", row->count);
    rep_put_int(writer, "length", row->operators);
    rep_put_us(writer, "total_us", row->total_ns);
    rep_put_int(writer, "bytes", row->bytes);
    rep_put_int(writer, "saved_bytes", row->saved_bytes);
}

void rep_json_bounds(struct rep_writer *writer, const struct an_kernel_bounds *bounds)
{
    if (rep_put_absent(writer, "kernel_bounds", bounds->reason))
        return;
    rep_open(writer, "kernel_bounds");
    rep_put_text(writer, "class", bounds->class);
    rep_put_value(writer, "class_pct", bounds->class_pct);
    rep_put_text_or(writer, "sentence", bounds->sentence, "no range was recorded");
    rep_put_us(writer, "total_us", bounds->total_ns);
    rep_put_int(writer, "kernels", bounds->kernels);
    rep_open(writer, "bound_us");
    for (int bound = 0; bound < AN_BOUND_COUNT; bound++)
        rep_put_us(writer, an_bound_key((enum an_bound)bound), bounds->ns[bound]);
    rep_close(writer);
    rep_put_text_or(writer, "unknown_because", bounds->unknown, "no kernel is unknown");
    rep_put_us(writer, "compiled_us", bounds->compiled_ns);
    rep_open(writer, "family_us");
    for (int family = 0; family < AN_FAMILY_COUNT; family++)
        rep_put_us(writer, an_family_key((enum an_family)family), bounds->family_ns[family]);
    rep_close(writer);
    REP_PUT_ROWS(writer, "rows", bounds->rows, bounds->row_count, put_bound);
    REP_PUT_ROWS(writer, "gemms", bounds->gemms, bounds->gemm_count, put_gemm);
    REP_PUT_ROWS(writer, "chains", bounds->chains, bounds->chain_count, put_chain);
    rep_close(writer);
}

static void put_launch(struct rep_writer *writer, const void *item)
{
    const struct an_launch_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "count", row->count);
    rep_put_us(writer, "host_us", row->host_ns);
}

/* How the host launches work: cost of the calls, delay until the device begins, depth of the
 * queue. */
static void put_launches(struct rep_writer *writer, const struct an_launches *launches)
{
    if (rep_put_absent(writer, "launches", launches->reason))
        return;
    rep_open(writer, "launches");
    rep_put_int(writer, "calls", launches->calls);
    rep_put_int(writer, "matched", launches->matched);
    rep_put_int(writer, "graphs", launches->graphs);
    rep_put_value(writer, "host_mean_us", launches->host_mean_us);
    rep_put_value(writer, "delay_mean_us", launches->delay_mean_us);
    rep_put_value(writer, "delay_median_us", launches->delay_median_us);
    rep_put_value(writer, "delay_p95_us", launches->delay_p95_us);
    rep_put_value(writer, "delay_max_us", launches->delay_max_us);
    rep_put_value(writer, "queue_mean", launches->queue_mean);
    rep_put_value(writer, "queue_max", launches->queue_max);
    rep_put_value(writer, "full_queue_pct", launches->full_queue_pct);
    rep_put_count(writer, "short_kernels", launches->short_kernels);
    rep_put_value(writer, "short_pct", launches->short_pct);
    REP_PUT_ROWS(writer, "by_call", launches->rows, launches->row_count, put_launch);
    rep_close(writer);
}

static void put_copy(struct rep_writer *writer, const void *item)
{
    const struct an_copy_row *row = item;
    rep_put_text(writer, "kind", row->kind);
    rep_put_text_or(writer, "memory", row->memory, "the trace does not name the kind of memory");
    rep_put_int(writer, "count", row->count);
    rep_put_count(writer, "bytes", row->bytes);
    rep_put_us(writer, "total_us", row->total_ns);
    rep_put_us(writer, "exposed_us", row->exposed_ns);
    rep_put_count(writer, "synchronous", row->synchronous);
    rep_put_text_or(writer, "synchronous_by", row->rule, "none of them is known to be synchronous");
    rep_put_value(writer, "bytes_per_s", row->bytes_per_s);
    rep_put_value(writer, "max_bytes_per_s", row->max_bytes_per_s);
}

/* Copies by kind and memory, with the part of their time that nothing hides. */
static void put_copies(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "copies", result->copies.reason))
        return;
    REP_PUT_ROWS(writer, "copies", result->copy, result->copy_count, put_copy);
}

static void put_sync(struct rep_writer *writer, const void *item)
{
    const struct an_sync_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "count", row->count);
    rep_put_us(writer, "host_us", row->host_ns);
    rep_put_us(writer, "max_us", row->max_ns);
    rep_put_us_or(writer, "idle_us", row->idle_ns);
}

/* Calls that wait for the device, and how long the device idles during them. */
static void put_syncs(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "syncs", result->syncs.reason))
        return;
    REP_PUT_ROWS(writer, "syncs", result->sync, result->sync_count, put_sync);
}

static void put_dtype(struct rep_writer *writer, const void *item)
{
    const struct an_precision_row *row = item;
    rep_put_text(writer, "dtype", row->dtype);
    if (row->told)
        rep_put_bool(writer, "matrix_unit", row->matrix_unit);
    else
        rep_put_null(writer, "matrix_unit", "unknown from the names of the kernels");
    rep_put_int(writer, "count", row->count);
    rep_put_us(writer, "total_us", row->total_ns);
}

/* Kernel time by data type, and whether matrix units did it: null where the names of the kernels
 * do not say so. */
static void put_precision(struct rep_writer *writer, const struct an_precision *precision)
{
    if (rep_put_absent(writer, "precision", precision->reason))
        return;
    rep_open(writer, "precision");
    rep_put_us(writer, "matrix_us", precision->matrix_ns);
    rep_put_us(writer, "matrix_unit_us", precision->matrix_unit_ns);
    rep_put_value(writer, "matrix_unit_pct", precision->matrix_unit_pct);
    REP_PUT_ROWS(writer, "by_dtype", precision->rows, precision->row_count, put_dtype);
    rep_close(writer);
}

void rep_json_host_to_device(struct rep_writer *writer, const struct an_result *result)
{
    put_launches(writer, &result->launches);
    put_copies(writer, result);
    put_syncs(writer, result);
    put_precision(writer, &result->precision);
}

static void put_attribution_row(struct rep_writer *writer, const void *item)
{
    const struct an_attribution_row *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_int(writer, "count", row->count);
    rep_put_int(writer, "kernels", row->kernels);
    rep_put_us(writer, "device_us", row->device_ns);
    rep_put_us(writer, "host_us", row->host_ns);
    rep_put_value(writer, "share_pct", row->share_pct);
    rep_put_count(writer, "flops", row->flops);
    rep_put_count(writer, "bytes", row->bytes);
    rep_put_value(writer, "flops_per_s", row->flops_per_s);
}

void rep_json_attribution(struct rep_writer *writer, const struct an_attribution *attribution)
{
    size_t shown = attribution->row_count < ROWS_MOST ? attribution->row_count : ROWS_MOST;
    rep_open(writer, "attribution");
    rep_put_text(writer, "by", rep_or(attribution->by, "op"));
    if (attribution->reason) {
        rep_put_null(writer, "unattributed_us", attribution->reason);
        rep_put_null(writer, "rows", attribution->reason);
        rep_close(writer);
        return;
    }
    rep_put_us(writer, "unattributed_us", attribution->unattributed_ns);
    REP_PUT_ROWS(writer, "rows", attribution->rows, shown, put_attribution_row);
    rep_put_int(writer, "omitted", (int64_t)(attribution->row_count - shown));
    rep_close(writer);
}

static void put_compat_row(struct rep_writer *writer, const void *item)
{
    const struct an_compat_row *row = item;
    rep_put_int_or(writer, "rank", row->rank, "of all ranks");
    rep_put_int_or(writer, "device", row->device, "of all devices");
    rep_put_text(writer, "section", row->section);
    rep_put_text(writer, "key", row->key);
    rep_put_text(writer, "unit", row->unit);
    rep_put_real(writer, "value", row->value, "the tool prints no number here");
}

void rep_json_compat(struct rep_writer *writer, const struct an_compat_table *table)
{
    if (!table->tool) {
        rep_put_null(writer, "compat",
                     "not requested: --tracelens-compat, --hta-compat or --tb-compat");
        return;
    }
    rep_open(writer, "compat");
    rep_put_text(writer, "tool", table->tool);
    if (rep_put_absent(writer, "rows", table->reason)) {
        rep_close(writer);
        return;
    }
    REP_PUT_ROWS(writer, "rows", table->rows, table->row_count, put_compat_row);
    rep_close(writer);
}

void rep_json_capture(struct rep_writer *writer, const struct an_quality *quality)
{
    if (rep_put_absent(writer, "capture", quality->reason))
        return;
    rep_open(writer, "capture");
    rep_put_count(writer, "launches_without_op", quality->launches_without_op);
    rep_put_count(writer, "ops_without_launch", quality->ops_without_launch);
    rep_put_count(writer, "kernels_lost", quality->kernels_lost);
    rep_put_count(writer, "zero_times", quality->zero_times);
    rep_put_count(writer, "unknown_kernels", quality->unknown_kernels);
    rep_put_count(writer, "unknown_names", quality->unknown_names);
    rep_put_value(writer, "unknown_pct", quality->unknown_pct);
    rep_put_count(writer, "cut_steps", quality->cut_steps);
    rep_put_value(writer, "start_gap_ms", quality->start_gap_ms);
    rep_put_value(writer, "profiler_overhead_ms", quality->profiler_overhead_ms);
    rep_put_value(writer, "step_overhead_pct", quality->step_overhead_pct);
    rep_put_texts(writer, "signs", quality->signs, quality->sign_count);
    rep_close(writer);
}

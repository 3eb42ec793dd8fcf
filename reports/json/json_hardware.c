/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware in tacho-report/1: energy, power, clocks, the activity of units, and counters of
 * marked ranges.
 */
#include "reports/json/json_private.h"

void rep_json_energy(struct rep_writer *writer, const struct an_energy *energy)
{
    if (rep_put_absent(writer, "energy", energy->reason))
        return;
    rep_open(writer, "energy");
    rep_put_value(writer, "energy_j", energy->energy_j);
    rep_put_value(writer, "power_w", energy->power_w);
    rep_put_int(writer, "steps", energy->steps);
    rep_put_value(writer, "per_step_j", energy->per_step_j);
    rep_put_value(writer, "per_token_j", energy->per_token_j);
    rep_put_value(writer, "per_sample_j", energy->per_sample_j);
    rep_put_value(writer, "cost", energy->cost);
    rep_close(writer);
}

/* Counts of hardware counters: of a step, or of a range that the program marks. */
static void put_counted(struct rep_writer *writer, const struct an_step_counted *counted)
{
    rep_put_value(writer, "matrix_ops", counted->matrix_ops);
    rep_put_value(writer, "fp32_flops", counted->fp32_flops);
    rep_put_value(writer, "dram_bytes", counted->dram_bytes);
    rep_put_value(writer, "l2_bytes", counted->l2_bytes);
    rep_put_value(writer, "l1_bytes", counted->l1_bytes);
    rep_put_value(writer, "time_ms", counted->time_ms);
    rep_put_value(writer, "intensity", counted->intensity);
    rep_put_value(writer, "flops_per_s", counted->flops_per_s);
    rep_put_value(writer, "dram_bytes_per_s", counted->dram_bytes_per_s);
    rep_put_value(writer, "occupancy_pct", counted->occupancy_pct);
    rep_put_value(writer, "stall_memory", counted->stall_memory);
    rep_put_value(writer, "stall_barrier", counted->stall_barrier);
    rep_put_value(writer, "stall_math", counted->stall_math);
    rep_put_value(writer, "stall_wait", counted->stall_wait);
}

static void put_range(struct rep_writer *writer, const void *item)
{
    const struct an_range_counted *range = item;
    rep_put_int_or(writer, "rank", range->rank, "the process has no rank");
    rep_put_int(writer, "device", range->device);
    rep_put_text(writer, "name", range->name);
    rep_put_text(writer, "dtype", range->dtype);
    rep_put_int(writer, "pieces", range->pieces);
    put_counted(writer, &range->counted);
}

void rep_json_counted(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "ranges_counted", result->counted.reason))
        return;
    REP_PUT_ROWS(writer, "ranges_counted", result->ranges_counted, result->range_counted_count,
                 put_range);
}

static void put_throttle(struct rep_writer *writer, const void *item)
{
    const struct an_throttle *row = item;
    rep_put_text(writer, "name", row->name);
    rep_put_real(writer, "pct", row->pct, "");
    rep_put_bool(writer, "fault", row->fault);
}

/* The share of time in which the clock was held back, by reason. */
static void put_throttling(struct rep_writer *writer, const struct an_gpu_hardware *hardware)
{
    rep_put_value(writer, "throttled_pct", hardware->throttled_pct);
    REP_PUT_ROWS(writer, "throttle_reasons", hardware->reasons, hardware->reason_count,
                 put_throttle);
}

/* One accelerator: power, clocks, temperature, how busy its units were, what a step counted. */
static void put_gpu(struct rep_writer *writer, const void *item)
{
    const struct an_gpu_hardware *hardware = item;
    rep_put_int(writer, "gpu", hardware->gpu);
    rep_put_text(writer, "name", hardware->name);
    rep_put_text(writer, "uuid", hardware->uuid);
    rep_put_value(writer, "power_w", hardware->power_w);
    rep_put_value(writer, "power_limit_w", hardware->power_limit_w);
    rep_put_value(writer, "energy_j", hardware->energy_j);
    rep_put_text_or(writer, "energy_source", hardware->energy_source, "energy is not known");
    rep_put_value(writer, "clock_sm_mhz", hardware->clock_sm_mhz);
    rep_put_value(writer, "clock_sm_max_mhz", hardware->clock_sm_max_mhz);
    rep_put_value(writer, "temperature_max_c", hardware->temperature_max_c);
    rep_put_value(writer, "memory_used_bytes", hardware->memory_used_bytes);
    rep_put_value(writer, "sm_active_pct", hardware->sm_active_pct);
    rep_put_value(writer, "sm_occupancy_pct", hardware->sm_occupancy_pct);
    rep_put_value(writer, "tensor_active_pct", hardware->tensor_active_pct);
    rep_put_value(writer, "dram_active_pct", hardware->dram_active_pct);
    rep_put_value(writer, "fp32_active_pct", hardware->fp32_active_pct);
    rep_put_value(writer, "fp16_active_pct", hardware->fp16_active_pct);
    rep_put_value(writer, "fp64_active_pct", hardware->fp64_active_pct);
    rep_put_value(writer, "pm_sm_active_pct", hardware->pm_sm_active_pct);
    rep_put_value(writer, "pm_tensor_active_pct", hardware->pm_tensor_active_pct);
    rep_put_value(writer, "pm_dram_read_pct", hardware->pm_dram_read_pct);
    rep_put_value(writer, "pm_dram_write_pct", hardware->pm_dram_write_pct);
    rep_open(writer, "step");
    put_counted(writer, &hardware->step);
    rep_close(writer);
    put_throttling(writer, hardware);
}

void rep_json_hardware(struct rep_writer *writer, const struct an_result *result)
{
    if (rep_put_absent(writer, "hardware", result->hardware.reason))
        return;
    REP_PUT_ROWS(writer, "hardware", result->hardware_gpus, result->hardware_gpu_count, put_gpu);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware in tacho-report/1: energy, power, clocks, the activity of units, and counters of
 * marked ranges.
 */
#include "reports/json/json_private.h"

void rep_json_energy(struct rep_writer *writer, const struct an_energy *energy)
{
    if (energy->reason) {
        rep_put_null(writer, "energy", energy->reason);
        return;
    }
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

void rep_json_counted(struct rep_writer *writer, const struct an_result *result)
{
    if (result->counted.reason) {
        rep_put_null(writer, "ranges_counted", result->counted.reason);
        return;
    }
    rep_open_list(writer, "ranges_counted");
    for (size_t i = 0; i < result->range_counted_count; i++) {
        const struct an_range_counted *range = &result->ranges_counted[i];
        rep_open(writer, NULL);
        rep_put_count(writer, "rank",
                      range->rank >= 0 ? an_int(range->rank)
                                       : an_int_none("the process has no rank"));
        rep_put_int(writer, "device", range->device);
        rep_put_text(writer, "name", range->name);
        rep_put_text(writer, "dtype", range->dtype);
        rep_put_int(writer, "pieces", range->pieces);
        put_counted(writer, &range->counted);
        rep_close(writer);
    }
    rep_close(writer);
}

/* The share of time in which the clock was held back, by reason. */
static void put_throttling(struct rep_writer *writer, const struct an_gpu_hardware *hardware)
{
    rep_put_value(writer, "throttled_pct", hardware->throttled_pct);
    rep_open_list(writer, "throttle_reasons");
    for (size_t i = 0; i < hardware->reason_count; i++) {
        rep_open(writer, NULL);
        rep_put_text(writer, "name", hardware->reasons[i].name);
        rep_put_real(writer, "pct", hardware->reasons[i].pct, "");
        rep_put_bool(writer, "fault", hardware->reasons[i].fault);
        rep_close(writer);
    }
    rep_close(writer);
}

void rep_json_hardware(struct rep_writer *writer, const struct an_result *result)
{
    if (result->hardware.reason) {
        rep_put_null(writer, "hardware", result->hardware.reason);
        return;
    }
    rep_open_list(writer, "hardware");
    for (size_t i = 0; i < result->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *hardware = &result->hardware_gpus[i];
        rep_open(writer, NULL);
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
        rep_close(writer);
    }
    rep_close(writer);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json/json_gpu.h"

void rep_json_energy(struct rep_writer *w, const struct an_energy *e)
{
    if (e->reason) {
        rep_put_null(w, "energy", e->reason);
        return;
    }
    rep_open(w, "energy");
    rep_put_value(w, "energy_j", e->energy_j);
    rep_put_value(w, "power_w", e->power_w);
    rep_put_int(w, "steps", e->steps);
    rep_put_value(w, "per_step_j", e->per_step_j);
    rep_put_value(w, "per_token_j", e->per_token_j);
    rep_put_value(w, "per_sample_j", e->per_sample_j);
    rep_put_value(w, "cost", e->cost);
    rep_close(w);
}

static void put_counted(struct rep_writer *w, const struct an_step_counted *s)
{
    rep_put_value(w, "matrix_ops", s->matrix_ops);
    rep_put_value(w, "fp32_flops", s->fp32_flops);
    rep_put_value(w, "dram_bytes", s->dram_bytes);
    rep_put_value(w, "l2_bytes", s->l2_bytes);
    rep_put_value(w, "l1_bytes", s->l1_bytes);
    rep_put_value(w, "time_ms", s->time_ms);
    rep_put_value(w, "intensity", s->intensity);
    rep_put_value(w, "flops_per_s", s->flops_per_s);
    rep_put_value(w, "dram_bytes_per_s", s->dram_bytes_per_s);
    rep_put_value(w, "occupancy_pct", s->occupancy_pct);
    rep_put_value(w, "stall_memory", s->stall_memory);
    rep_put_value(w, "stall_barrier", s->stall_barrier);
    rep_put_value(w, "stall_math", s->stall_math);
    rep_put_value(w, "stall_wait", s->stall_wait);
}

void rep_json_counted(struct rep_writer *w, const struct an_result *r)
{
    if (r->counted.reason) {
        rep_put_null(w, "ranges_counted", r->counted.reason);
        return;
    }
    rep_open_list(w, "ranges_counted");
    for (size_t i = 0; i < r->range_counted_count; i++) {
        const struct an_range_counted *x = &r->ranges_counted[i];
        rep_open(w, NULL);
        rep_put_count(w, "rank",
                      x->rank >= 0 ? an_int(x->rank) : an_int_none("the process has no rank"));
        rep_put_int(w, "device", x->device);
        rep_put_text(w, "name", x->name);
        rep_put_text(w, "dtype", x->dtype);
        rep_put_int(w, "pieces", x->pieces);
        put_counted(w, &x->counted);
        rep_close(w);
    }
    rep_close(w);
}

static void put_throttling(struct rep_writer *w, const struct an_gpu_hardware *g)
{
    rep_put_value(w, "throttled_pct", g->throttled_pct);
    rep_open_list(w, "throttle_reasons");
    for (size_t i = 0; i < g->reason_count; i++) {
        rep_open(w, NULL);
        rep_put_text(w, "name", g->reasons[i].name);
        rep_put_real(w, "pct", g->reasons[i].pct, "");
        rep_put_bool(w, "fault", g->reasons[i].fault);
        rep_close(w);
    }
    rep_close(w);
}

void rep_json_hardware(struct rep_writer *w, const struct an_result *r)
{
    if (r->hardware.reason) {
        rep_put_null(w, "hardware", r->hardware.reason);
        return;
    }
    rep_open_list(w, "hardware");
    for (size_t i = 0; i < r->hardware_gpu_count; i++) {
        const struct an_gpu_hardware *g = &r->hardware_gpus[i];
        rep_open(w, NULL);
        rep_put_int(w, "gpu", g->gpu);
        rep_put_text(w, "name", g->name);
        rep_put_text(w, "uuid", g->uuid);
        rep_put_value(w, "power_w", g->power_w);
        rep_put_value(w, "power_limit_w", g->power_limit_w);
        rep_put_value(w, "energy_j", g->energy_j);
        rep_put_text_or(w, "energy_source", g->energy_source, "energy is not known");
        rep_put_value(w, "clock_sm_mhz", g->clock_sm_mhz);
        rep_put_value(w, "clock_sm_max_mhz", g->clock_sm_max_mhz);
        rep_put_value(w, "temperature_max_c", g->temperature_max_c);
        rep_put_value(w, "memory_used_bytes", g->memory_used_bytes);
        rep_put_value(w, "sm_active_pct", g->sm_active_pct);
        rep_put_value(w, "sm_occupancy_pct", g->sm_occupancy_pct);
        rep_put_value(w, "tensor_active_pct", g->tensor_active_pct);
        rep_put_value(w, "dram_active_pct", g->dram_active_pct);
        rep_put_value(w, "fp32_active_pct", g->fp32_active_pct);
        rep_put_value(w, "fp16_active_pct", g->fp16_active_pct);
        rep_put_value(w, "fp64_active_pct", g->fp64_active_pct);
        rep_put_value(w, "pm_sm_active_pct", g->pm_sm_active_pct);
        rep_put_value(w, "pm_tensor_active_pct", g->pm_tensor_active_pct);
        rep_put_value(w, "pm_dram_read_pct", g->pm_dram_read_pct);
        rep_put_value(w, "pm_dram_write_pct", g->pm_dram_write_pct);
        rep_open(w, "step");
        put_counted(w, &g->step);
        rep_close(w);
        put_throttling(w, g);
        rep_close(w);
    }
    rep_close(w);
}

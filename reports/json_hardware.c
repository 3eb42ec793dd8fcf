/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/json_gpu.h"

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
        put_throttling(w, g);
        rep_close(w);
    }
    rep_close(w);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as JSON: schema tacho-plan/1.
 */
#include <math.h>

#include "reports/json/json_writer.h"
#include "reports/plan/plan_private.h"
#include "reports/plan/plan_write.h"

#define NEVER "the job fails too often to end"

static void put_layout(struct rep_writer *writer, const struct plan_layout *layout)
{
    char words[PLAN_LAYOUT];
    rep_open(writer, "layout");
    rep_put_int(writer, "gpus", layout->devices);
    rep_put_int(writer, "dp", layout->data);
    rep_put_int(writer, "tp", layout->tensor);
    rep_put_int(writer, "pp", layout->pipeline);
    rep_put_int(writer, "vpp", layout->chunks);
    rep_put_int(writer, "cp", layout->context);
    rep_put_int(writer, "ep", layout->expert);
    rep_put_int(writer, "micro_batch", layout->micro_batch);
    rep_put_int(writer, "global_batch", layout->global_batch);
    rep_put_int(writer, "seq", layout->sequence);
    rep_put_int(writer, "zero", layout->zero);
    rep_put_bool(writer, "sequence_parallel", layout->sequence_parallel);
    rep_put_text(writer, "recompute", plan_recompute_name(layout->recompute));
    rep_put_text(writer, "schedule", plan_schedule_name(layout->schedule));
    rep_put_text(writer, "options", plan_layout_options(layout, words));
    rep_close(writer);
}

static void put_memory(struct rep_writer *writer, const struct plan_memory *memory)
{
    static const char *const unknown = "the memory of the device is not known";
    rep_open(writer, "memory");
    rep_put_int(writer, "stage", memory->stage);
    for (int i = 0; i < PLAN_HELDS; i++) {
        char key[40];
        snprintf(key, sizeof key, "%s_bytes", plan_held_words((enum plan_held)i).key);
        rep_put_real(writer, key, memory->bytes[i], "");
    }
    rep_put_real(writer, "allocated_bytes", memory->allocated, "");
    rep_put_real(writer, "reserved_bytes", memory->reserved, "");
    rep_put_real(writer, "needed_bytes", memory->needed, "");
    rep_put_real(writer, "device_bytes", memory->total, "");
    rep_put_real(writer, "device_low_bytes", memory->low, "");
    rep_put_real(writer, "device_high_bytes", memory->high, "");
    rep_put_real(writer, "capacity_bytes", memory->capacity > 0 ? memory->capacity : NAN, unknown);
    rep_put_text(writer, "fit", plan_fit_text(memory->fit));
    rep_put_real(writer, "oom_probability", memory->probability, unknown);
    rep_put_int(writer, "micro_batches_in_flight", memory->in_flight);
    rep_close(writer);
}

static void put_time(struct rep_writer *writer, const struct plan_time *time)
{
    rep_open(writer, "time");
    rep_put_real(writer, "step_s", time->seconds, "");
    rep_put_real(writer, "low_s", time->low, "");
    rep_put_real(writer, "high_s", time->high, "");
    rep_put_real(writer, "tokens_per_s", time->tokens_per_s, "");
    rep_put_real(writer, "executed_flops", time->executed_flops, "");
    rep_put_real(writer, "gemm_efficiency", time->gemm_efficiency, "");
    rep_put_real(writer, "mfu_low", time->mfu_low, "");
    rep_put_real(writer, "mfu_high", time->mfu_high, "");
    rep_open(writer, "mfu");
    for (int i = 0; i < PLAN_CONVENTIONS; i++)
        rep_put_real(writer, plan_convention_name((enum plan_convention)i), time->mfu[i], "");
    rep_close(writer);
    rep_open(writer, "flops");
    for (int i = 0; i < PLAN_CONVENTIONS; i++)
        rep_put_real(writer, plan_convention_name((enum plan_convention)i), time->flops[i], "");
    rep_close(writer);
    rep_open(writer, "parts_s");
    for (int i = 0; i < PLAN_PARTS; i++)
        rep_put_real(writer, plan_part_words((enum plan_part)i).key, time->part[i], "");
    rep_close(writer);
    rep_close(writer);
}

static void put_found(struct rep_writer *writer, const void *item)
{
    const struct plan_found *found = item;
    put_layout(writer, &found->layout);
    put_memory(writer, &found->memory);
    put_time(writer, &found->time);
}

static void put_cost(struct rep_writer *writer, const struct plan_cost *cost)
{
    const char *price = "no price is known", *power = "no power is known";
    if (!isfinite(cost->hours))
        price = power = NEVER;
    rep_open(writer, "cost");
    rep_put_real(writer, "tokens", cost->tokens, "");
    rep_put_real(writer, "steps", cost->steps, "");
    rep_put_real(writer, "hours", cost->hours, NEVER);
    rep_put_real(writer, "hours_low", cost->hours_low, NEVER);
    rep_put_real(writer, "hours_high", cost->hours_high, NEVER);
    rep_put_real(writer, "device_hours", cost->device_hours, NEVER);
    rep_put_real(writer, "dollars_low", cost->money_low, price);
    rep_put_real(writer, "dollars_high", cost->money_high, price);
    rep_put_real(writer, "dollars_per_million_tokens", cost->dollars_per_million, price);
    rep_put_real(writer, "energy_kwh", cost->kwh, power);
    rep_put_real(writer, "co2_kg", cost->kg, power);
    rep_put_real(writer, "goodput", cost->goodput.share, "");
    rep_put_real(writer, "checkpoint_interval_s", cost->goodput.interval_s, "no failures");
    rep_put_real(writer, "checkpoint_interval_young_s", cost->goodput.young_s, "no failures");
    rep_close(writer);
}

static void put_other(struct rep_writer *writer, const void *item)
{
    const struct plan_other *other = item;
    rep_put_text(writer, "device", other->machine.device.name);
    rep_put_int(writer, "gpus", other->found.layout.devices);
    rep_put_bool(writer, "possible", other->possible);
    if (!other->possible)
        return;
    rep_put_real(writer, "speed_of_a_device", other->efficiency, "");
    put_found(writer, &other->found);
    put_cost(writer, &other->cost);
}

static void put_search(struct rep_writer *writer, const struct plan_search *search)
{
    rep_open(writer, "search");
    rep_put_int(writer, "tried", (int64_t)search->tried);
    rep_put_int(writer, "fitting", (int64_t)search->fitting);
    REP_PUT_ROWS(writer, "best", search->best, search->best_count, put_found);
    REP_PUT_ROWS(writer, "front", search->front, search->front_count, put_found);
    rep_close(writer);
}

static void put_rest(struct rep_writer *writer, const struct plan_result *result)
{
    rep_open(writer, "limit");
    rep_put_text(writer, "part", plan_part_words(result->limit.part).key);
    rep_put_real(writer, "share", result->limit.share, "");
    rep_put_text(writer, "change", result->limit.change);
    rep_put_real(writer, "gain_if_halved", result->limit.gain, "");
    rep_close(writer);
    rep_open(writer, "compute_optimal");
    rep_put_text(writer, "law", plan_laws[0].source);
    rep_put_real(writer, "tokens_of_model", result->optimal_tokens, "");
    rep_put_real(writer, "parameters_of_compute", result->optimal_parameters, "");
    rep_put_real(writer, "tokens_of_compute", result->optimal_budget_tokens, "");
    rep_put_real(writer, "loss", result->loss, "");
    rep_close(writer);
    REP_PUT_ROWS(writer, "scaling", result->scales, PLAN_SCALES, put_other);
    REP_PUT_ROWS(writer, "hardware", result->others, result->other_count, put_other);
}

/* The factor of each kind of work, where the run told its times by kind. */
static void put_speed(struct rep_writer *writer, const struct plan_result *result)
{
    const struct plan_kinds *speed = &result->request.of.speed;
    if (!(speed->products > 0)) {
        rep_put_null(writer, "by_kind",
                     "only runs of the reference engine tell their times by kind");
        return;
    }
    rep_open(writer, "by_kind");
    rep_put_real(writer, "gemm", result->scale * speed->products, "");
    rep_put_real(writer, "attention", result->scale * plan_speed(speed->attention), "");
    rep_put_real(writer, "element_wise", result->scale * plan_speed(speed->elements), "");
    rep_put_real(writer, "optimizer", result->scale * plan_speed(speed->update), "");
    rep_put_real(writer, "rest", result->scale * plan_speed(speed->rest), "");
    rep_close(writer);
}

int rep_plan_json(const struct plan_result *result, FILE *out)
{
    const struct plan_request *request = &result->request;
    const struct plan_machine *machine = &request->of.machine;
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-plan/1");
    rep_open(&writer, "model");
    rep_put_text(&writer, "name", request->of.model.name);
    rep_put_real(&writer, "parameters", result->parameters.total, "");
    rep_put_real(&writer, "parameters_active", result->parameters.active, "");
    rep_close(&writer);
    rep_open(&writer, "machine");
    rep_put_text(&writer, "device", machine->device.name);
    rep_put_text(&writer, "dtype", machine->type);
    rep_put_real(&writer, "peak_flops", an_accelerator_peak(&machine->device, machine->type), "");
    rep_put_real(&writer, "network_bytes_per_s", machine->network_bytes_per_s, "");
    rep_close(&writer);
    rep_put_bool(&writer, "layout_chosen", result->searched);
    put_found(&writer, &result->found);
    rep_open(&writer, "calibration");
    rep_put_text_or(&writer, "run", request->run.name, "no run was given: --from RUN");
    rep_put_real(&writer, "factor", result->factor, "");
    put_speed(&writer, result);
    rep_close(&writer);
    put_cost(&writer, &result->cost);
    rep_put_bool(&writer, "within_budget", result->within_budget);
    put_rest(&writer, result);
    if (result->search)
        put_search(&writer, result->search);
    else
        rep_put_null(&writer, "search", "the layout was given");
    return rep_writer_end(&writer);
}

int rep_plan_constants_json(const struct plan_constants *constants, FILE *out)
{
    struct rep_writer writer;
    int rc = rep_writer_begin(&writer, out);
    if (rc)
        return rc;
    rep_put_text(&writer, "schema", "tacho-plan-constants/1");
    rep_open_list(&writer, "constants");
    for (int i = 0; plan_constant_at(constants, i).name; i++) {
        struct plan_constant_row row = plan_constant_at(constants, i);
        rep_open(&writer, NULL);
        rep_put_text(&writer, "name", row.name);
        rep_put_real(&writer, "value", row.value, "not a number");
        rep_put_text(&writer, "meaning", row.text);
        rep_close(&writer);
    }
    rep_close(&writer);
    return rep_writer_end(&writer);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan for people, written once for text, Markdown and HTML: what fits, how long, how much, what
 * limits it, what else could be done.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/html/html.h"
#include "reports/page/table.h"
#include "reports/plan/plan_private.h"
#include "reports/plan/plan_write.h"
#include "reports/text/text.h"

/* Hours in the unit that reads best. */
static const char *hours_text(char buf[NUMBER_BYTES], double hours)
{
    if (hours >= 48)
        snprintf(buf, NUMBER_BYTES, "%s days", DIGITS_TEXT(hours / 24, 3));
    else
        snprintf(buf, NUMBER_BYTES, "%s hours", DIGITS_TEXT(hours, 3));
    return buf;
}
#define HOURS_TEXT(hours) hours_text((char[NUMBER_BYTES]){0}, hours)

/* ---- the verdict ------------------------------------------------------------------------------- */

static void write_verdict(struct page *page, const struct plan_result *result)
{
    const struct plan_found *found = &result->found;
    const struct plan_time *time = &found->time;
    char text[PAGE_TEXT], layout[PLAN_LAYOUT], fit[40];
    snprintf(fit, sizeof fit, "%s", plan_fit_text(found->memory.fit));
    if (isnan(found->memory.probability))
        snprintf(fit, sizeof fit, "the memory of the device is not known");
    snprintf(text, sizeof text,
             "%s on %" PRId64 " x %s: %s; a step of %s to %s, %stokens/s, MFU %.0f to %.0f %% (%s)",
             result->request.of.model.name, found->layout.devices,
             result->request.of.machine.device.name, fit, TIME_TEXT(time->low * 1e9),
             TIME_TEXT(time->high * 1e9), SI_TEXT(time->tokens_per_s, ""), 100 * time->mfu_low,
             100 * time->mfu_high, plan_convention_name(PLAN_CONVENTION_CAUSAL));
    page_title(page, text);
    page_blank(page);
    page_line(page, "Layout", "%s%s", plan_layout_words(&found->layout, layout),
              result->searched ? " (chosen)" : "");
    page_line(page, "Batch",
              "%" PRId64 " sequences of %" PRId64 " tokens, %" PRId64 " micro-batches a pipeline",
              found->layout.global_batch, found->layout.sequence, time->micro_batches);
    if (result->parameters.active < result->parameters.total)
        page_line(page, "Model", "%s parameters, %s of them visited by a token",
                  SI_TEXT(result->parameters.total, ""), SI_TEXT(result->parameters.active, ""));
    else
        page_line(page, "Model", "%s parameters", SI_TEXT(result->parameters.total, ""));
    const struct plan_kinds *speed = &result->request.of.speed;
    if (result->request.run.name && speed->products > 0)
        page_line(
            page, "Calibrated",
            "by %s: measured %s, predicted %s, so GEMMs are scaled by %.3g, attention by %.3g, "
            "element-wise work by %.3g, the optimizer by %.3g, the rest by %.3g",
            result->request.run.name, TIME_TEXT(result->request.run.seconds * 1e9),
            TIME_TEXT(result->run_predicted * 1e9), result->scale * speed->products,
            result->scale * plan_speed(speed->attention),
            result->scale * plan_speed(speed->elements), result->scale * plan_speed(speed->update),
            result->scale * plan_speed(speed->rest));
    else if (result->request.run.name)
        page_line(page, "Calibrated",
                  "by %s: measured %s, predicted %s, so every time is scaled by %.3f",
                  result->request.run.name, TIME_TEXT(result->request.run.seconds * 1e9),
                  TIME_TEXT(result->run_predicted * 1e9), result->factor);
    else
        page_line(page, "Interval",
                  "90 %% of published runs are inside; --from RUN narrows it to a third");
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* A probability, as far as it is known. */
static const char *chance_text(char buf[NUMBER_BYTES], double chance)
{
    if (chance < 0.01)
        snprintf(buf, NUMBER_BYTES, "below 1 %%");
    else if (chance > 0.99)
        snprintf(buf, NUMBER_BYTES, "above 99 %%");
    else
        snprintf(buf, NUMBER_BYTES, "%.0f %%", 100 * chance);
    return buf;
}
#define CHANCE_TEXT(chance) chance_text((char[NUMBER_BYTES]){0}, chance)

struct held_row {
    struct plan_held_words words;
    double bytes, share;
};
static void cell_held(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell, BYTES_TEXT(((const struct held_row *)row)->bytes));
}
static double bar_held(const void *row)
{
    return 100 * ((const struct held_row *)row)->share;
}
REP_NAME_OF(name_held, held_row, words.text)

struct stage_row {
    char name[24];
    struct plan_memory memory;
};
#define STAGES_MOST 64
#define GIB_CELL(function, type, member) \
    static void function(char cell[REP_CELL], const void *row) \
    { \
        snprintf(cell, REP_CELL, "%.1f", ((const struct type *)row)->member / PLAN_GIB); \
    }
GIB_CELL(cell_stage_total, stage_row, memory.total)
GIB_CELL(cell_stage_reserved, stage_row, memory.reserved)
GIB_CELL(cell_stage_allocated, stage_row, memory.allocated)
GIB_CELL(cell_stage_activations, stage_row, memory.bytes[PLAN_HELD_ACTIVATIONS])
GIB_CELL(cell_stage_weights, stage_row, memory.bytes[PLAN_HELD_WEIGHTS])
REP_NAME_OF(name_stage, stage_row, name)

/* A table of the stages of a pipeline. */
static void write_stages(struct page *page, const struct plan_result *result)
{
    static const struct rep_column columns[] = {{"weights", 8, cell_stage_weights},
                                                {"activations", 12, cell_stage_activations},
                                                {"allocated", 10, cell_stage_allocated},
                                                {"reserved", 9, cell_stage_reserved},
                                                {"device GiB", 11, cell_stage_total}};
    struct stage_row rows[STAGES_MOST];
    struct plan_case at = result->request.of;
    at.layout = result->found.layout;
    size_t count = 0;
    for (int64_t stage = 0; stage < at.layout.pipeline && count < STAGES_MOST; stage++, count++) {
        snprintf(rows[count].name, sizeof rows[count].name, "stage %" PRId64 ", %" PRId64 " layers",
                 stage, plan_stage_layers(&at, stage));
        plan_memory_stage(&at, stage, &rows[count].memory);
    }
    if (count < 2)
        return;
    struct rep_table table = {.title = "Stages",
                              .name = name_stage,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(rows, count),
                              .words = true};
    rep_table_write(page, &table);
}

static void write_memory(struct page *page, const struct plan_result *result)
{
    static const struct rep_column columns[] = {{"bytes", 10, cell_held}};
    const struct plan_memory *memory = &result->found.memory;
    struct held_row rows[PLAN_HELDS];
    for (int i = 0; i < PLAN_HELDS; i++)
        rows[i] = (struct held_row){plan_held_words((enum plan_held)i), memory->bytes[i],
                                    memory->bytes[i] / memory->total};
    page_blank(page);
    page_section(page, "memory", "Memory", false);
    if (memory->capacity > 0)
        page_line(page, "Needed", "%s of %s: %s, probability of running out %s",
                  BYTES_TEXT(memory->needed), BYTES_TEXT(memory->capacity),
                  plan_fit_text(memory->fit), CHANCE_TEXT(memory->probability));
    const char *shown = "";
    if (memory->reserved > memory->allocated)
        shown = ", as nvidia-smi shows it: with what the allocator keeps while there is room";
    page_line(page, "In use", "%s [%s, %s]%s", BYTES_TEXT(memory->total), BYTES_TEXT(memory->low),
              BYTES_TEXT(memory->high), shown);
    page_line(page, "Allocator",
              "%s allocated, %s reserved; on stage %" PRId64 ", which needs most, with "
              "micro-batches in flight: %" PRId64,
              BYTES_TEXT(memory->allocated), BYTES_TEXT(memory->reserved), memory->stage,
              memory->in_flight);
    struct rep_table table = {.title = "Memory of a rank",
                              .name = name_held,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(rows, PLAN_HELDS),
                              .words = true,
                              .bar = bar_held};
    rep_table_write(page, &table);
    write_stages(page, result);
    page_head(page, "Assumed");
    for (int i = 0; i < PLAN_HELDS; i++)
        page_term(page, rows[i].words.text, "", rows[i].words.assumed);
}

/* ---- time -------------------------------------------------------------------------------------- */

struct part_row {
    struct plan_part_words words;
    double seconds, share;
};
static void cell_part(char cell[REP_CELL], const void *row)
{
    rep_cell_real_ms(cell, 1e3 * ((const struct part_row *)row)->seconds);
}
static double bar_part(const void *row)
{
    return 100 * ((const struct part_row *)row)->share;
}
REP_NAME_OF(name_part, part_row, words.text)

static void write_time(struct page *page, const struct plan_result *result)
{
    static const struct rep_column columns[] = {{"time", 12, cell_part}};
    const struct plan_time *time = &result->found.time;
    struct part_row rows[PLAN_PARTS];
    size_t count = 0;
    for (int i = 0; i < PLAN_PARTS; i++)
        if (time->part[i] > 0)
            rows[count++] = (struct part_row){plan_part_words((enum plan_part)i), time->part[i],
                                              time->part[i] / time->seconds};
    page_blank(page);
    page_section(page, "time", "Time of a step", false);
    page_line(page, "Step", "%s [%s, %s], 90 %%", TIME_TEXT(time->seconds * 1e9),
              TIME_TEXT(time->low * 1e9), TIME_TEXT(time->high * 1e9));
    page_line(page, "Speed", "%s tokens/s, %s tokens/s for each device",
              SI_TEXT(time->tokens_per_s, ""),
              SI_TEXT(time->tokens_per_s / (double)result->found.layout.devices, ""));
    for (int i = 0; i < PLAN_CONVENTIONS; i++)
        page_line(page, i ? "" : "MFU", "%.1f %% by %s (%s)", 100 * time->mfu[i],
                  plan_convention_name((enum plan_convention)i),
                  plan_convention_text((enum plan_convention)i));
    struct rep_table table = {.title = "Busiest stage",
                              .name = name_part,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(rows, count),
                              .most = count,
                              .words = true,
                              .bar = bar_part};
    rep_table_write(page, &table);
    const struct plan_limit *limit = &result->limit;
    double arithmetic = (time->part[PLAN_PART_PRODUCTS] + time->part[PLAN_PART_ATTENTION] +
                         time->part[PLAN_PART_HEAD]) /
                        time->seconds;
    page_line(page, "Limited by",
              "%s, %.0f %% of the step; GEMMs, attention and the output take %.0f %%",
              plan_part_words(limit->part).text, 100 * limit->share, 100 * arithmetic);
    page_line(page, "Would help", "%s: %.0f %% more tokens/s if that part took half as long",
              limit->change, 100 * limit->gain);
}

/* ---- layouts ----------------------------------------------------------------------------------- */

static void cell_step(char cell[REP_CELL], const void *row)
{
    rep_cell_real_ms(cell, 1e3 * ((const struct plan_found *)row)->time.seconds);
}
static void cell_mfu(char cell[REP_CELL], const void *row)
{
    rep_cell_tenths(cell, 100 * ((const struct plan_found *)row)->time.mfu[PLAN_CONVENTION_CAUSAL]);
}
GIB_CELL(cell_found_memory, plan_found, memory.needed)
static void cell_fit(char cell[REP_CELL], const void *row)
{
    rep_cell_text(cell, plan_fit_text(((const struct plan_found *)row)->memory.fit));
}
/* What costs most beside arithmetic: the reason of a layout's place. */
static void cell_limit(char cell[REP_CELL], const void *row)
{
    struct plan_limit limit = plan_limit_of(&((const struct plan_found *)row)->time);
    snprintf(cell, REP_CELL, "%.18s %.0f %%", plan_part_words(limit.part).key, 100 * limit.share);
}
static void name_found(char name[REP_NAME], const void *row)
{
    char layout[PLAN_LAYOUT];
    snprintf(name, REP_NAME, "%s",
             plan_layout_short(&((const struct plan_found *)row)->layout, layout));
}
static const struct rep_column found_columns[] = {{"step", 10, cell_step},
                                                  {"GiB", 7, cell_found_memory},
                                                  {"MFU %", 7, cell_mfu},
                                                  {"costs most", 18, cell_limit},
                                                  {"memory", 13, cell_fit}};

static void write_search(struct page *page, const struct plan_result *result)
{
    const struct plan_search *search = result->search;
    char layout[PLAN_LAYOUT];
    if (!search)
        return;
    page_blank(page);
    page_section(page, "layouts", "Layouts", false);
    page_line(page, "Tried", "%zu layouts, %zu of them fit", search->tried, search->fitting);
    page_text(page, 0,
              "pp4/2: four stages of two chunks; mbs: micro-batch; z: stage of ZeRO; last: what is "
              "recomputed. GiB: needed of a device. MFU by model_causal. Costs most: beside GEMMs "
              "and attention.");
    if (!search->fitting)
        page_line(page, "Smallest", "%s needs %.1f GiB",
                  plan_layout_words(&search->smallest.layout, layout),
                  search->smallest.memory.needed / PLAN_GIB);
    struct rep_table best = {.title = "Fastest",
                             .name = name_found,
                             REP_COLUMNS(found_columns),
                             REP_ROWS_OF(search->best, search->best_count),
                             .name_least = 34,
                             .words = true};
    struct rep_table front = {.title = "None is faster and smaller",
                              .name = name_found,
                              REP_COLUMNS(found_columns),
                              REP_ROWS_OF(search->front, search->front_count),
                              .name_least = 34,
                              .words = true};
    rep_table_write(page, &best);
    rep_table_write(page, &front);
    page_line(page, "To repeat", "%s", plan_layout_options(&result->found.layout, layout));
}

/* ---- cost -------------------------------------------------------------------------------------- */

static void write_money(struct page *page, const struct plan_result *result)
{
    const struct plan_cost *cost = &result->cost;
    const struct plan_rates *rates = &result->request.rates;
    if (isnan(cost->money_low))
        page_line(page, "Money", "no price is known: --price DOLLARS a device hour");
    else
        page_line(page, "Money", "%s to %s dollars at %.2f to %.2f a device hour",
                  SI_TEXT(cost->money_low, ""), SI_TEXT(cost->money_high, ""), rates->price_low,
                  rates->price_high);
    if (isnan(cost->kwh))
        page_line(page, "Energy", "no power is known: --watts N");
    else
        page_line(page, "Energy", "%s MWh, %s t of CO2 (%s: %.0f g/kWh, %s)",
                  DIGITS_TEXT(cost->kwh / 1e3, 3), DIGITS_TEXT(cost->kg / 1e3, 3),
                  rates->grid->region, rates->grid->grams, rates->grid->source);
}

static void write_cost(struct page *page, const struct plan_result *result)
{
    const struct plan_cost *cost = &result->cost;
    const struct plan_request *request = &result->request;
    page_blank(page);
    page_section(page, "cost", "Cost", false);
    page_line(page, "Training", "%s tokens%s, %s steps", SI_TEXT(cost->tokens, ""),
              request->tokens > 0 ? "" : " (compute-optimal for this model)",
              SI_TEXT(cost->steps, ""));
    if (isfinite(cost->hours)) {
        page_line(page, "Time", "%s [%s, %s], %s device hours", HOURS_TEXT(cost->hours),
                  HOURS_TEXT(cost->hours_low), HOURS_TEXT(cost->hours_high),
                  SI_TEXT(cost->device_hours, ""));
        write_money(page, result);
    } else {
        page_line(page, "Time", "never: the job fails before it gets anywhere");
    }
    if (request->failures.mtbf_s > 0)
        page_line(
            page, "Goodput",
            "%.1f %% of the time is useful: a failure each %s, a checkpoint each %s of work (by "
            "sqrt(2 C M): %s), which delays the job by %s; %s to restart",
            100 * cost->goodput.share,
            HOURS_TEXT(request->failures.mtbf_s / 3600 / (double)result->found.layout.devices),
            HOURS_TEXT(cost->goodput.interval_s / 3600), HOURS_TEXT(cost->goodput.young_s / 3600),
            TIME_TEXT(request->failures.checkpoint_s * 1e9),
            TIME_TEXT(request->failures.restart_s * 1e9));
    page_line(page, "Optimal",
              "a model of this size wants %s tokens (%.0f each); this compute %s "
              "parameters and %s tokens (%s)",
              SI_TEXT(result->optimal_tokens, ""),
              result->optimal_tokens / result->parameters.total,
              SI_TEXT(result->optimal_parameters, ""), SI_TEXT(result->optimal_budget_tokens, ""),
              plan_laws[0].source);
    if (request->budget_hours > 0 || request->budget_money > 0)
        page_line(page, "Budget", "%s", result->within_budget ? "kept" : "exceeded");
}

/* ---- other devices, other numbers of them ------------------------------------------------------ */

static void name_other(char name[REP_NAME], const void *row)
{
    const struct plan_other *other = row;
    snprintf(name, REP_NAME, "%" PRId64 " x %s%s", other->found.layout.devices,
             other->machine.device.name, other->possible ? "" : " (does not fit)");
}
#define OTHER_CELL(function, format, value) \
    static void function(char cell[REP_CELL], const void *row) \
    { \
        const struct plan_other *other = row; \
        if (other->possible && !isnan(value)) \
            snprintf(cell, REP_CELL, format, value); \
    }
OTHER_CELL(cell_other_step, "%.4g", other->found.time.seconds)
OTHER_CELL(cell_other_tokens, "%.3g", other->found.time.tokens_per_s)
OTHER_CELL(cell_other_mfu, "%.1f", 100 * other->found.time.mfu[PLAN_CONVENTION_CAUSAL])
OTHER_CELL(cell_other_days, "%.3g", other->cost.hours / 24)
OTHER_CELL(cell_other_money, "%.3g", other->cost.money_low)
OTHER_CELL(cell_other_energy, "%.3g", other->cost.kwh / 1e3)
OTHER_CELL(cell_other_share, "%.0f", 100 * other->efficiency)
static const struct rep_column other_columns[] = {
    {"step s", 9, cell_other_step},    {"tokens/s", 10, cell_other_tokens},
    {"MFU %", 7, cell_other_mfu},      {"days", 10, cell_other_days},
    {"dollars", 10, cell_other_money}, {"speed %", 9, cell_other_share},
    {"MWh", 8, cell_other_energy}};

static void write_others(struct page *page, const struct plan_result *result)
{
    struct rep_table scales = {.title = "Devices",
                               .name = name_other,
                               REP_COLUMNS(other_columns),
                               REP_ROWS_OF(result->scales, PLAN_SCALES),
                               .words = true};
    struct rep_table others = {.title = "Hardware",
                               .name = name_other,
                               REP_COLUMNS(other_columns),
                               REP_ROWS_OF(result->others, result->other_count),
                               .words = true};
    page_blank(page);
    page_section(page, "scaling", "Scaling and hardware", false);
    page_text(
        page, 0,
        "The fastest layout for each, with the same batch. MFU by model_causal; dollars at the low "
        "price; speed: tokens/s of a device against the plan's.");
    rep_table_write(page, &scales);
    if (result->other_count)
        rep_table_write(page, &others);
}

static void write_sources(struct page *page, const struct plan_result *result)
{
    const struct plan_machine *machine = &result->request.of.machine;
    page_blank(page);
    page_section(page, "sources", "Sources", true);
    page_line(page, "Device", "%s; %.*s; dated %s", machine->device.name,
              machine->device.source_length, machine->device.source, machine->device.dated);
    page_line(page, "Taken", "peak %s for %s, memory %s/s, link %s/s, network %s/s a device",
              SI_TEXT(an_accelerator_peak(&machine->device, machine->type), "FLOP/s"),
              machine->type, SI_TEXT(machine->device.bytes_per_s, "B"),
              SI_TEXT(machine->device.link_bytes_per_s, "B"),
              SI_TEXT(machine->network_bytes_per_s, "B"));
    page_line(page, "Fitted", "constants by planner/fit/refit.py; 'tacho plan --constants list'");
}

struct content {
    const struct plan_result *result;
    bool explain;
};

static void write_plan(struct page *page, const void *what)
{
    const struct content *content = what;
    write_verdict(page, content->result);
    write_memory(page, content->result);
    write_time(page, content->result);
    write_search(page, content->result);
    write_cost(page, content->result);
    write_others(page, content->result);
    if (content->explain)
        plan_page_explain(page, content->result);
    write_sources(page, content->result);
}

int rep_plan_write(const char *format, const struct plan_result *result, bool explain,
                   const struct rep_options *options, FILE *out)
{
    struct content content = {result, explain};
    struct rep_document document = {.title = "plan",
                                    .of = result->request.of.model.name,
                                    .origin = "data sheets and closed forms",
                                    .write = write_plan,
                                    .what = &content};
    if (!strcmp(format, "markdown"))
        return rep_markdown_document(&document, options, out);
    if (!strcmp(format, "html"))
        return rep_html_document(&document, options, out);
    return rep_text_document(&document, options, out);
}

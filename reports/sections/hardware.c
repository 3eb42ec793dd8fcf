/* SPDX-License-Identifier: Apache-2.0
 *
 * What GPUs draw, what holds them back, how busy their units are: two lines, and one a GPU.
 */
#include <inttypes.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"

/* The energy of a step, of a token or a sample, and what it costs. */
static void energy_line(struct page *page, const struct an_energy *energy)
{
    if (energy->reason) {
        page_line(page, "Energy", "unknown: %.300s", energy->reason);
        return;
    }
    page_label(page, "Energy");
    if (energy->power_w.valid)
        page_item(page, "%s", SI_TEXT(energy->power_w.value, "W"));
    if (energy->per_step_j.valid)
        page_item(page, "%s a step", SI_TEXT(energy->per_step_j.value, "J"));
    else
        page_item(page, "%s", SI_TEXT(energy->energy_j.value, "J"));
    if (energy->per_token_j.valid)
        page_item(page, "%s a token", SI_TEXT(energy->per_token_j.value, "J"));
    else if (energy->per_sample_j.valid)
        page_item(page, "%s a sample", SI_TEXT(energy->per_sample_j.value, "J"));
    if (energy->cost.valid)
        page_item(page, "%s in total", DIGITS_TEXT(energy->cost.value, 3));
    page_end(page);
}

static void share(struct page *page, struct an_value pct, const char *what)
{
    if (pct.valid)
        page_item(page, "%s %.0f %%", what, pct.value);
}

static void power_items(struct page *page, const struct an_gpu_hardware *hardware)
{
    if (hardware->power_w.valid && hardware->power_limit_w.valid)
        page_item(page, "%.0f of %.0f W", hardware->power_w.value, hardware->power_limit_w.value);
    else if (hardware->power_w.valid)
        page_item(page, "%.0f W", hardware->power_w.value);
    if (hardware->clock_sm_mhz.valid && hardware->clock_sm_max_mhz.valid)
        page_item(page, "%.0f of %.0f MHz", hardware->clock_sm_mhz.value,
                  hardware->clock_sm_max_mhz.value);
    else if (hardware->clock_sm_mhz.valid)
        page_item(page, "%.0f MHz", hardware->clock_sm_mhz.value);
}

/* One line about one GPU: power, clock, what holds the clock back, temperature, and how busy its
 * units are. */
static void gpu_line(struct page *page, const struct an_gpu_hardware *hardware)
{
    char label[32];
    snprintf(label, sizeof label, "  gpu:%" PRId64, hardware->gpu);
    page_label(page, label);
    power_items(page, hardware);
    for (size_t i = 0; i < hardware->reason_count && i < 3; i++)
        page_item(page, "limited by %s %.0f %%", hardware->reasons[i].name,
                  hardware->reasons[i].pct);
    if (hardware->throttled_pct.valid && !hardware->reason_count)
        page_item(page, "clock not limited");
    page_value(page, hardware->temperature_max_c, "at most %.0f C");
    share(page, hardware->sm_active_pct, "SMs active");
    share(page, hardware->sm_occupancy_pct, "occupancy");
    share(page, hardware->tensor_active_pct, "matrix units");
    share(page, hardware->dram_active_pct, "memory");
    page_end(page);
}

/* A second line about a GPU where hardware counters were read: activity of its units, rates,
 * intensity. */
static void counted_line(struct page *page, const struct an_gpu_hardware *hardware)
{
    const struct an_step_counted *step = &hardware->step;
    char label[32];
    if (!step->time_ms.valid && !hardware->pm_sm_active_pct.valid)
        return;
    snprintf(label, sizeof label, "    counted");
    page_label(page, label);
    share(page, hardware->pm_sm_active_pct, "SMs");
    share(page, hardware->pm_tensor_active_pct, "matrix units");
    share(page, hardware->pm_dram_read_pct, "memory read");
    share(page, hardware->pm_dram_write_pct, "written");
    if (step->time_ms.valid)
        page_item(page, "step %s", TIME_TEXT(step->time_ms.value * 1e6));
    if (step->flops_per_s.valid)
        page_item(page, "%s", SI_TEXT(step->flops_per_s.value, "op/s"));
    if (step->dram_bytes_per_s.valid)
        page_item(page, "%s", SI_TEXT(step->dram_bytes_per_s.value, "B/s"));
    if (step->intensity.valid)
        page_item(page, "%s op per byte of DRAM", DIGITS_TEXT(step->intensity.value, 3));
    share(page, step->occupancy_pct, "occupancy");
    page_end(page);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void cell_si(char text[REP_CELL], struct an_value value, const char *unit)
{
    snprintf(text, REP_CELL, "%.14s", value.valid ? SI_TEXT(value.value, unit) : "");
}
static void range_time(char cell[REP_CELL], const void *row)
{
    const struct an_step_counted *counted = &((const struct an_range_counted *)row)->counted;
    snprintf(cell, REP_CELL, "%.14s",
             counted->time_ms.valid ? TIME_TEXT(counted->time_ms.value * 1e6) : "");
}
static void range_rate(char text[REP_CELL], const void *row)
{
    cell_si(text, ((const struct an_range_counted *)row)->counted.flops_per_s, "op/s");
}
static void range_bytes(char text[REP_CELL], const void *row)
{
    cell_si(text, ((const struct an_range_counted *)row)->counted.dram_bytes_per_s, "B/s");
}
static void range_intensity(char cell[REP_CELL], const void *row)
{
    const struct an_step_counted *counted = &((const struct an_range_counted *)row)->counted;
    *cell = 0;
    if (counted->intensity.valid)
        page_digits(cell, counted->intensity.value, 3);
}
static void range_occupancy(char cell[REP_CELL], const void *row)
{
    const struct an_step_counted *counted = &((const struct an_range_counted *)row)->counted;
    *cell = 0;
    if (counted->occupancy_pct.valid)
        snprintf(cell, REP_CELL, "%.0f %%", counted->occupancy_pct.value);
}
static void range_dtype(char cell[REP_CELL], const void *row)
{
    snprintf(cell, REP_CELL, "%.8s", ((const struct an_range_counted *)row)->dtype);
}
static void name_range(char name[REP_NAME], const void *row)
{
    const struct an_range_counted *range = row;
    char rank[32] = "";
    if (range->rank > 0)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", range->rank);
    snprintf(name, REP_NAME, "%s%.400s", rank, range->name);
}

/* A table of the ranges that hardware counters were read for. */
static void ranges(struct page *page, const struct an_result *result)
{
    static const struct rep_column columns[] = {
        {"type", 6, range_dtype},        {"time", 9, range_time},
        {"rate", 12, range_rate},        {"DRAM", 11, range_bytes},
        {"op/byte", 9, range_intensity}, {"occupancy", 10, range_occupancy}};
    struct rep_table table = {.title = "Ranges: hardware counters",
                              .name = name_range,
                              .name_least = 30,
                              REP_COLUMNS(columns),
                              REP_ROWS_OF(result->ranges_counted, result->range_counted_count)};
    rep_table_write(page, &table);
}

void rep_section_hardware(struct page *page, const struct an_result *result)
{
    if (!result->hardware.reason) /* a run without GPUs has no line; the reason why a GPU was not
                                     sampled is in trust and JSON */
        energy_line(page, &result->energy);
    for (size_t i = 0; i < result->hardware_gpu_count; i++) {
        gpu_line(page, &result->hardware_gpus[i]);
        counted_line(page, &result->hardware_gpus[i]);
    }
    ranges(page, result);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What GPUs draw, what holds them back, how busy their units are: two lines, and one a GPU.
 */
#include <inttypes.h>

#include "reports/page/table.h"
#include "reports/text/text.h"

static void energy(struct page *p, const struct an_energy *e)
{
    char a[32];
    page_label(p, "Energy");
    if (e->reason) {
        page_item(p, "not known: %.300s", e->reason);
        page_end(p);
        return;
    }
    if (e->power_w.valid)
        page_item(p, "%s", page_si(a, e->power_w.value, "W"));
    if (e->per_step_j.valid)
        page_item(p, "%s a step", page_si(a, e->per_step_j.value, "J"));
    else
        page_item(p, "%s", page_si(a, e->energy_j.value, "J"));
    if (e->per_token_j.valid)
        page_item(p, "%s a token", page_si(a, e->per_token_j.value, "J"));
    else if (e->per_sample_j.valid)
        page_item(p, "%s a sample", page_si(a, e->per_sample_j.value, "J"));
    if (e->cost.valid)
        page_item(p, "%s for all of it", page_digits(a, e->cost.value, 3));
    page_end(p);
}

static void share(struct page *p, struct an_value v, const char *what)
{
    if (v.valid)
        page_item(p, "%s %.0f %%", what, v.value);
}

static void one(struct page *p, const struct an_gpu_hardware *g)
{
    char label[32];
    snprintf(label, sizeof label, "  gpu:%" PRId64, g->gpu);
    page_label(p, label);
    if (g->power_w.valid && g->power_limit_w.valid)
        page_item(p, "%.0f of %.0f W", g->power_w.value, g->power_limit_w.value);
    else if (g->power_w.valid)
        page_item(p, "%.0f W", g->power_w.value);
    if (g->clock_sm_mhz.valid && g->clock_sm_max_mhz.valid)
        page_item(p, "%.0f of %.0f MHz", g->clock_sm_mhz.value, g->clock_sm_max_mhz.value);
    else if (g->clock_sm_mhz.valid)
        page_item(p, "%.0f MHz", g->clock_sm_mhz.value);
    for (size_t i = 0; i < g->reason_count && i < 3; i++)
        page_item(p, "held by %s %.0f %%", g->reasons[i].name, g->reasons[i].pct);
    if (g->throttled_pct.valid && !g->reason_count)
        page_item(p, "not held back");
    if (g->temperature_max_c.valid)
        page_item(p, "at most %.0f C", g->temperature_max_c.value);
    share(p, g->sm_active_pct, "SMs active");
    share(p, g->sm_occupancy_pct, "occupancy");
    share(p, g->tensor_active_pct, "matrix units");
    share(p, g->dram_active_pct, "memory");
    page_end(p);
}

static void counted(struct page *p, const struct an_gpu_hardware *g)
{
    const struct an_step_counted *s = &g->step;
    char a[32], label[32];
    if (!s->time_ms.valid && !g->pm_sm_active_pct.valid)
        return;
    snprintf(label, sizeof label, "    counted");
    page_label(p, label);
    share(p, g->pm_sm_active_pct, "SMs");
    share(p, g->pm_tensor_active_pct, "matrix units");
    share(p, g->pm_dram_read_pct, "memory read");
    share(p, g->pm_dram_write_pct, "written");
    if (s->time_ms.valid)
        page_item(p, "a step %s", page_time(a, s->time_ms.value * 1e6));
    if (s->flops_per_s.valid)
        page_item(p, "%s", page_si(a, s->flops_per_s.value, "op/s"));
    if (s->dram_bytes_per_s.valid)
        page_item(p, "%s", page_si(a, s->dram_bytes_per_s.value, "B/s"));
    if (s->intensity.valid)
        page_item(p, "%s op a byte of DRAM", page_digits(a, s->intensity.value, 3));
    share(p, s->occupancy_pct, "occupancy");
    page_end(p);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------------------ */

static void cell(char *b, struct an_value v, const char *unit)
{
    char text[32];
    snprintf(b, REP_CELL, "%.14s", v.valid ? page_si(text, v.value, unit) : "");
}
static void range_time(char *b, const void *row)
{
    const struct an_step_counted *s = &((const struct an_range_counted *)row)->counted;
    char text[32];
    snprintf(b, REP_CELL, "%.14s", s->time_ms.valid ? page_time(text, s->time_ms.value * 1e6) : "");
}
static void range_rate(char *b, const void *row)
{
    cell(b, ((const struct an_range_counted *)row)->counted.flops_per_s, "op/s");
}
static void range_bytes(char *b, const void *row)
{
    cell(b, ((const struct an_range_counted *)row)->counted.dram_bytes_per_s, "B/s");
}
static void range_intensity(char *b, const void *row)
{
    const struct an_step_counted *s = &((const struct an_range_counted *)row)->counted;
    *b = 0;
    if (s->intensity.valid)
        page_digits(b, s->intensity.value, 3);
}
static void range_occupancy(char *b, const void *row)
{
    const struct an_step_counted *s = &((const struct an_range_counted *)row)->counted;
    *b = 0;
    if (s->occupancy_pct.valid)
        snprintf(b, REP_CELL, "%.0f %%", s->occupancy_pct.value);
}
static void range_dtype(char *b, const void *row)
{
    snprintf(b, REP_CELL, "%.8s", ((const struct an_range_counted *)row)->dtype);
}
static void name_range(char b[REP_NAME], const void *row)
{
    const struct an_range_counted *x = row;
    char rank[32] = "";
    if (x->rank > 0)
        snprintf(rank, sizeof rank, "rank %" PRId64 " ", x->rank);
    snprintf(b, REP_NAME, "%s%.400s", rank, x->name);
}

static void ranges(struct page *p, const struct an_result *r)
{
    static const struct rep_column columns[] = {
        {"type", 6, range_dtype},        {"time", 9, range_time},
        {"rate", 12, range_rate},        {"DRAM", 11, range_bytes},
        {"op/byte", 9, range_intensity}, {"occupancy", 10, range_occupancy}};
    struct rep_table t = {.title = "Ranges, counted by the hardware",
                          .name = name_range,
                          .name_least = 30,
                          .column = columns,
                          .columns = sizeof columns / sizeof *columns,
                          .rows = r->ranges_counted,
                          .size = sizeof *r->ranges_counted,
                          .count = r->range_counted_count};
    rep_table_write(p, &t);
}

void rep_text_hardware(struct page *p, const struct an_result *r)
{
    if (!r->hardware
             .reason) /* a run without GPUs; why a GPU was not sampled stands in trust and JSON */
        energy(p, &r->energy);
    for (size_t i = 0; i < r->hardware_gpu_count; i++) {
        one(p, &r->hardware_gpus[i]);
        counted(p, &r->hardware_gpus[i]);
    }
    ranges(p, r);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as curves (draw.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/draw.h"

/* Counters that are shown other than under their own name and unit; `per_s`: they only grow, their rate is what matters. */
static const struct shown {
    const char *name, *label, *unit;
    double scale;
    bool per_s;
} table[] = {
    {"cpu_busy", "machine CPU", "%", 1, false},
    {"cpu_time", "run's CPU", "cores", 1e-9, true},
    {"rss", "resident", "bytes", 1, false},
    {"memory_available", "memory free", "bytes", 1, false},
    {"disk_read", "disk read", "bytes/s", 1, true},
    {"disk_written", "disk write", "bytes/s", 1, true},
    {"minor_faults", "minor faults", "/s", 1, true},
    {"major_faults", "major faults", "/s", 1, true},
    {"voluntary_switches", "switches", "/s", 1, true},
    {"involuntary_switches", "preempted", "/s", 1, true},
    {"perf.instructions", "instructions", "/s", 1, true},
    {"perf.cycles", "cycles", "/s", 1, true},
    {"perf.cache_misses", "cache misses", "/s", 1, true},
    {"perf.branch_misses", "branch misses", "/s", 1, true},
    {"perf.context_switches", "perf switches", "/s", 1, true},
    {"perf.cpu_migrations", "migrations", "/s", 1, true},
    {"perf.page_faults", "page faults", "/s", 1, true},
    {"perf.task_clock", "task clock", "cores", 1e-9, true},
    {"gpu_power", "power", "W", 1, false},
    {"gpu_energy", "energy", "W", 1, true},
    {"gpu_clock_sm", "SM clock", "MHz", 1, false},
    {"gpu_clock_memory", "mem clock", "MHz", 1, false},
    {"gpu_temperature", "temperature", "C", 1, false},
    {"gpu_memory_used", "GPU memory", "bytes", 1, false},
    {"gpu_utilization", "GPU busy", "%", 1, false},
    {"gpu_utilization_memory", "GPU mem busy", "%", 1, false},
    {"gpu_sm_active", "SMs active", "%", 1, false},
    {"gpu_tensor_active", "matrix units", "%", 1, false},
    {"gpu_dram_active", "GPU DRAM", "%", 1, false},
    {"gpu_nvlink_tx", "NVLink send", "bytes/s", 1, true},
    {"gpu_nvlink_rx", "NVLink receive", "bytes/s", 1, true},
};

const char *tui_quantity(char *buf, const char *unit, double v)
{
    char number[32];
    if (!isfinite(v))
        snprintf(buf, 48, "n/a");
    else if (!strcmp(unit, "bytes"))
        snprintf(buf, 48, "%s", page_bytes(number, v));
    else if (!strcmp(unit, "bytes/s"))
        snprintf(buf, 48, "%s/s", page_bytes(number, v));
    else if (!strcmp(unit, "ns"))
        snprintf(buf, 48, "%s", page_time(number, v));
    else if (!strcmp(unit, "%"))
        snprintf(buf, 48, "%.0f %%", v);
    else if (!strcmp(unit, "/s"))
        snprintf(buf, 48, "%s", page_si(number, v, "/s"));
    else if (!strcmp(unit, "cores"))
        snprintf(buf, 48, "%.2f cores", v);
    else
        snprintf(buf, 48, "%s%s%.12s", page_number(number, v), *unit ? " " : "", unit);
    return buf;
}

const char *tui_seconds(char *buf, double v)
{
    return page_time(buf, v * 1e9);
}

static void values_of(const struct tui_series *s, const struct shown *as, struct tui_curve *out)
{
    double scale = as ? as->scale : 1;
    if (!as || !as->per_s) {
        for (size_t i = 0; i < s->count; i++)
            out->value[out->count++] = s->value[i] * scale;
        return;
    }
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        double dt = before == SIZE_MAX ? 0 : s->time_s[i] - s->time_s[before];
        if (!isfinite(s->value[i]))
            continue;
        if (dt > 0 && s->value[i] >= s->value[before]) /* less than before: it began anew */
            out->value[out->count++] = (s->value[i] - s->value[before]) / dt * scale;
        before = dt > 0 || before == SIZE_MAX ? i : before;
    }
}

bool tui_curve_of(const struct tui_series *s, struct tui_curve *out)
{
    const struct shown *as = NULL;
    for (size_t i = 0; !as && i < sizeof table / sizeof *table; i++)
        as = strcmp(table[i].name, s->name) ? NULL : &table[i];
    *out = (struct tui_curve){.unit = as ? as->unit : s->unit, .last = NAN, .low = INFINITY, .high = -INFINITY};
    const char *device = s->device && *s->device && strcmp(s->device, "cpu") ? s->device : "";
    snprintf(out->label, sizeof out->label, "%.30s%s%.30s", as ? as->label : s->name, *device ? " " : "", device);
    out->value = malloc((s->count ? s->count : 1) * sizeof *out->value);
    if (!out->value)
        return false;
    values_of(s, as, out);
    for (size_t i = 0; i < out->count; i++)
        if (isfinite(out->value[i])) {
            out->last = out->value[i];
            out->low = fmin(out->low, out->value[i]);
            out->high = fmax(out->high, out->value[i]);
        }
    if (!isfinite(out->last)) {
        free(out->value);
        return false;
    }
    return true;
}

void tui_curve_row(struct tui_cells *c, struct tui_rect r, int row, const struct tui_curve *v)
{
    char last[48], high[48], text[120];
    int label = r.columns < 60 ? 13 : 22, right = r.columns < 60 ? 11 : r.columns < 76 ? 14 : 28;
    tui_text(c, tui_left(r, label - 1), row, 0, TUI_NORMAL, v->label);
    bool share = !strcmp(v->unit, "%");
    tui_spark(c, r, row, label, r.columns - label - right - 1, v->value, v->count, share ? 0 : fmin(0, v->low),
              share ? 100 : v->high, TUI_SERIES);
    if (r.columns < 76)
        snprintf(text, sizeof text, "%s", tui_quantity(last, v->unit, v->last));
    else
        snprintf(text, sizeof text, "%s  (most %s)", tui_quantity(last, v->unit, v->last),
                 tui_quantity(high, v->unit, v->high));
    struct tui_rect end = tui_right(r, r.columns - right > label ? r.columns - right : label);
    tui_text(c, end, row, 0, TUI_NORMAL, text);
}

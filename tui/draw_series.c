/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as curves (draw.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "tui/draw.h"

/* Counters that are shown other than under their own name and unit; `per_s`: they only grow, their
 * rate is what matters. */
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
    double scale = as ? as->scale : 1, *time_s = out->value + s->count;
    out->time_s = time_s;
    if (!as || !as->per_s) {
        for (size_t i = 0; i < s->count; i++) {
            time_s[out->count] = s->time_s[i];
            out->value[out->count++] = s->value[i] * scale;
        }
        return;
    }
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        double dt = before == SIZE_MAX ? 0 : s->time_s[i] - s->time_s[before];
        if (!isfinite(s->value[i]))
            continue;
        if (dt > 0 && s->value[i] >= s->value[before]) { /* less than before: it began anew */
            time_s[out->count] = s->time_s[before];
            out->value[out->count++] = (s->value[i] - s->value[before]) / dt * scale;
        }
        before = dt > 0 || before == SIZE_MAX ? i : before;
    }
}

bool tui_curve_of(const struct tui_model *m, const struct tui_series *s, struct tui_curve *out)
{
    const struct shown *as = NULL;
    for (size_t i = 0; !as && i < sizeof table / sizeof *table; i++)
        as = strcmp(table[i].name, s->name) ? NULL : &table[i];
    *out = (struct tui_curve){
        .unit = as ? as->unit : s->unit, .last = NAN, .low = INFINITY, .high = -INFINITY};
    const char *device = s->device && *s->device && strcmp(s->device, "cpu") ? s->device : "";
    snprintf(out->label, sizeof out->label, "%.30s%s%.30s", as ? as->label : s->name,
             *device ? " " : "", device);
    out->value = malloc((2 * s->count + 1) * sizeof *out->value);
    if (!out->value)
        return false;
    values_of(s, as, out);
    out->now_s =
        s->count && s->time_s[s->count - 1] > m->now_s ? s->time_s[s->count - 1] : m->now_s;
    out->room_s = tui_slots(out->now_s, m->state == TUI_LIVE);
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

void tui_curve_owner(const struct tui_model *m, const struct tui_series *s, struct tui_curve *v)
{
    size_t n = strlen(v->label);
    bool several = false;
    for (size_t i = 0; i < m->series_count; i++)
        several = several || (&m->series[i] != s && !strcmp(m->series[i].name, s->name) &&
                              !strcmp(m->series[i].device, s->device));
    if (!several || n + 24 > sizeof v->label)
        return;
    if (s->process == STORE_ABSENT)
        snprintf(v->label + n, sizeof v->label - n, ", all");
    else if (s->rank >= 0 && s->rank != STORE_ABSENT)
        snprintf(v->label + n, sizeof v->label - n, " r%" PRId64, s->rank);
    else
        snprintf(v->label + n, sizeof v->label - n, " %" PRId64, s->process);
}

static double mean_of(const struct tui_series *s)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        if (isfinite(s->value[i])) {
            sum += s->value[i];
            n++;
        }
    return n ? sum / (double)n : INFINITY;
}

static int by_mean(const void *a, const void *b)
{
    const struct tui_series *const *x = a, *const *y = b;
    double p = mean_of(*x), q = mean_of(*y);
    return p < q ? -1 : p > q ? 1 : (*x > *y) - (*x < *y);
}

const struct tui_series *tui_lowest_series(const struct tui_model *m, const char *name, int n,
                                           size_t *count)
{
    const struct tui_series **list = malloc((m->series_count + 1) * sizeof *list), *found = NULL;
    *count = 0;
    for (size_t i = 0; list && i < m->series_count; i++)
        if (!strcmp(m->series[i].name, name) && m->series[i].count)
            list[(*count)++] = &m->series[i];
    if (list && *count) {
        long all = (long)*count;
        qsort(list, *count, sizeof *list, by_mean);
        found = list[((n % all) + all) % all];
    }
    free(list);
    return found;
}

void tui_curve_row(struct tui_cells *c, struct tui_rect r, int row, const struct tui_curve *v)
{
    char last[48], high[48], text[120];
    int label = r.columns < 60 ? 16 : 22, right = r.columns < 60 ? 12 : r.columns < 76 ? 14 : 32;
    tui_text(c, tui_left(r, label - 1), row, 0, TUI_NORMAL, v->label);
    bool share = !strcmp(v->unit, "%");
    struct tui_samples s = {v->value, v->time_s, v->count, 0, v->room_s, v->now_s};
    tui_spark(c, r, row, label, r.columns - label - right - 1, &s, share ? 0 : fmin(0, v->low),
              share ? 100 : v->high, TUI_SERIES);
    snprintf(text, sizeof text, "%s", tui_quantity(last, v->unit, v->last));
    struct tui_rect end = tui_right(r, r.columns - right > label ? r.columns - right : label);
    int at = tui_text(c, end, row, 0, TUI_NORMAL, text);
    snprintf(text, sizeof text, "(most %s)", tui_quantity(high, v->unit, v->high));
    if (r.columns >= 76 && 13 + tui_width(c, text) <= end.columns)
        tui_text(c, end, row, at < 13 ? 13 : at + 1, TUI_DIM, text);
}

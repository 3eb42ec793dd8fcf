/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as curves (draw.h): which counter is shown under which label and unit, and as its rate
 * where it only grows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/compare.h"
#include "store/store.h"
#include "tui/screen/draw.h"

/* Counters that are shown other than under their own name and unit; `per_s`: they only grow, their
 * rate is what matters. */
static const struct shown {
    const char *name, *label, *unit;
    double scale;
    bool per_s;
} table[] = {
    {"cpu_busy", "machine CPU", "%", 1, false},
    {"cpu_time", "run's CPU", "cores", 1e-9, true},
    {"cpu_wait", "core wait", "%", 1e-7, true},
    {"cpu_throttled", "stopped by quota", "cores", 1e-9, true},
    {"thread_time", "main thread", "cores", 1e-9, true},
    {"other_cpu_time", "children's CPU", "cores", 1e-9, true},
    {"rss", "resident", "bytes", 1, false},
    {"rss_anon", "anonymous", "bytes", 1, false},
    {"other_rss", "children, resident", "bytes", 1, false},
    {"memory_stall_some", "stalls on memory", "%", 1e-7, true},
    {"memory_stall_full", "all stall on memory", "%", 1e-7, true},
    {"swap_in", "swapped in", "/s", 1, true},
    {"swap_out", "swapped out", "/s", 1, true},
    {"queue_depth", "loader queue", "", 1, false},
    {"grad_norm", "gradient norm", "", 1, false},
    {"learning_rate", "learning rate", "", 1, false},
    {"tokens_per_second", "tokens/s", "", 1, false},
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

const char *tui_quantity(char *buf, const char *unit, double value)
{
    if (!isfinite(value))
        snprintf(buf, 48, "n/a");
    else if (!strcmp(unit, "bytes"))
        snprintf(buf, 48, "%s", BYTES_TEXT(value));
    else if (!strcmp(unit, "bytes/s"))
        snprintf(buf, 48, "%s/s", BYTES_TEXT(value));
    else if (!strcmp(unit, "ns"))
        snprintf(buf, 48, "%s", TIME_TEXT(value));
    else if (!strcmp(unit, "%"))
        snprintf(buf, 48, "%.0f %%", value);
    else if (!strcmp(unit, "/s"))
        snprintf(buf, 48, "%s", SI_TEXT(value, "/s"));
    else if (!strcmp(unit, "cores"))
        snprintf(buf, 48, "%.2f cores", value);
    else
        snprintf(buf, 48, "%s%s%.12s", NUMBER_TEXT(value), *unit ? " " : "", unit);
    return buf;
}

const char *tui_seconds(char *buf, double seconds)
{
    return page_time(buf, seconds * 1e9);
}

/* Fills in the values of a curve: those of the series, scaled, or for a counter that only grows
 * its rate between neighbours. A value below the one before it means that the counter began
 * again. */
static void values_of(const struct tui_series *series, const struct shown *shown,
                      struct tui_curve *out)
{
    double scale = shown ? shown->scale : 1, *time_s = out->value + series->count;
    out->time_s = time_s;
    if (!shown || !shown->per_s) {
        for (size_t i = 0; i < series->count; i++) {
            time_s[out->count] = series->time_s[i];
            out->value[out->count++] = series->value[i] * scale;
        }
        return;
    }
    size_t before = SIZE_MAX;
    for (size_t i = 0; i < series->count; i++) {
        double elapsed = before == SIZE_MAX ? 0 : series->time_s[i] - series->time_s[before];
        if (!isfinite(series->value[i]))
            continue;
        if (elapsed > 0 &&
            series->value[i] >= series->value[before]) { /* less than before: it began anew */
            time_s[out->count] = series->time_s[before];
            out->value[out->count++] = (series->value[i] - series->value[before]) / elapsed * scale;
        }
        before = elapsed > 0 || before == SIZE_MAX ? i : before;
    }
}

/* Finds the label and the unit of the counter in the table above; unknown counters keep their
 * own. */
bool tui_curve_of(const struct tui_model *model, const struct tui_series *series,
                  struct tui_curve *out)
{
    const struct shown *shown = NULL;
    for (size_t i = 0; !shown && i < sizeof table / sizeof *table; i++)
        shown = strcmp(table[i].name, series->name) ? NULL : &table[i];
    *out = (struct tui_curve){.unit = shown ? shown->unit : series->unit,
                              .last = NAN,
                              .low = INFINITY,
                              .high = -INFINITY};
    const char *device =
        series->device && *series->device && strcmp(series->device, "cpu") ? series->device : "";
    const char *label = shown ? shown->label : series->name;
    snprintf(out->label, sizeof out->label, "%.30s%s%.30s", label, *device ? " " : "", device);
    out->value = malloc((2 * series->count + 1) * sizeof *out->value);
    if (!out->value)
        return false;
    values_of(series, shown, out);
    out->now_s = series->count && series->time_s[series->count - 1] > model->now_s
                     ? series->time_s[series->count - 1]
                     : model->now_s;
    out->room_s = tui_slots(out->now_s, model->state == TUI_LIVE);
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

void tui_curve_owner(const struct tui_model *model, const struct tui_series *series,
                     struct tui_curve *curve)
{
    size_t length = strlen(curve->label);
    bool several = false;
    for (size_t i = 0; i < model->series_count; i++)
        several = several ||
                  (&model->series[i] != series && !strcmp(model->series[i].name, series->name) &&
                   !strcmp(model->series[i].device, series->device));
    if (!several || length + 24 > sizeof curve->label)
        return;
    if (series->process == STORE_ABSENT)
        snprintf(curve->label + length, sizeof curve->label - length, ", all");
    else if (series->rank >= 0 && series->rank != STORE_ABSENT)
        snprintf(curve->label + length, sizeof curve->label - length, " r%" PRId64, series->rank);
    else
        snprintf(curve->label + length, sizeof curve->label - length, " pid %" PRId64,
                 series->process);
}

/* Mean of the known values; a series without any sorts last. */
static double mean_of(const struct tui_series *series)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < series->count; i++)
        if (isfinite(series->value[i])) {
            sum += series->value[i];
            known++;
        }
    return known ? sum / (double)known : INFINITY;
}

static int by_mean(const void *left, const void *right)
{
    const struct tui_series *const *first = left, *const *second = right;
    double first_mean = mean_of(*first), second_mean = mean_of(*second);
    int order = REP_COMPARE(first_mean, second_mean);
    return order ? order : REP_COMPARE(*first, *second);
}

const struct tui_series *tui_lowest_series(const struct tui_model *model, const char *name,
                                           int place, size_t *count)
{
    const struct tui_series **list = malloc((model->series_count + 1) * sizeof *list),
                            *found = NULL;
    *count = 0;
    for (size_t i = 0; list && i < model->series_count; i++)
        if (!strcmp(model->series[i].name, name) && model->series[i].count)
            list[(*count)++] = &model->series[i];
    if (list && *count) {
        long all = (long)*count;
        qsort(list, *count, sizeof *list, by_mean);
        found = list[((place % all) + all) % all];
    }
    free(list);
    return found;
}

void tui_curve_row(struct tui_cells *cells, struct tui_rect area, int row,
                   const struct tui_curve *curve)
{
    char last[48], high[48], text[120];
    int label = 22, right = 32;
    if (area.columns < 76)
        right = 14;
    if (area.columns < 60)
        label = 16, right = 12;
    tui_text(cells, tui_left(area, label - 1), row, 0, TUI_NORMAL, curve->label);
    double low = fmin(0, curve->low), high_end = curve->high;
    if (!strcmp(curve->unit, "%"))
        low = 0, high_end = 100;
    struct tui_samples samples = {curve->value,  curve->time_s, curve->count, 0,
                                  curve->room_s, curve->now_s};
    tui_spark(cells, area, row, label, area.columns - label - right - 1, &samples, low, high_end,
              TUI_SERIES);
    snprintf(text, sizeof text, "%s", tui_quantity(last, curve->unit, curve->last));
    struct tui_rect end =
        tui_right(area, area.columns - right > label ? area.columns - right : label);
    int columns = tui_text(cells, end, row, 0, TUI_NORMAL, text);
    snprintf(text, sizeof text, "(most %s)", tui_quantity(high, curve->unit, curve->high));
    if (area.columns >= 76 && 13 + tui_width(cells, text) <= end.columns)
        tui_text(cells, end, row, columns < 13 ? 13 : columns + 1, TUI_DIM, text);
}

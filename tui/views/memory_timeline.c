/* SPDX-License-Identifier: Apache-2.0
 *
 * The categories of memory over time, stacked: each column of cells is the moment of its time at
 * which most was held, each cell has the letter of the category that its middle lies in.
 */
#include "tui/views/memory_timeline.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define LAYERS_MOST 12
#define PREFIX      "memory."

struct layer {
    const struct tui_series *series,
        *below; /* below: what is part of the series and drawn already */
    const char *name;
    uint32_t letter;
};

struct layers {
    struct layer layer[LAYERS_MOST];
    size_t count;
    double from, to;                 /* seconds of the run */
    const struct tui_series *chosen; /* a column shows the moment at which it is highest */
    const struct tui_series *whole;  /* all that is held, or reserved */
};

/* ---- what is stacked ---------------------------------------------------------------------------- */

static bool same_owner(const struct tui_series *left, const struct tui_series *right)
{
    return left->rank == right->rank && left->process == right->process &&
           !strcmp(left->device ? left->device : "", right->device ? right->device : "");
}

static const struct tui_series *series_of(const struct tui_model *model, const char *name,
                                          const struct tui_series *owner)
{
    for (size_t i = 0; i < model->series_count; i++)
        if (!strcmp(model->series[i].name, name) && model->series[i].count > 1 &&
            same_owner(&model->series[i], owner))
            return &model->series[i];
    return NULL;
}

/* The first letter of a name that no layer has yet. */
static uint32_t letter_of(const struct layers *layers, const char *name)
{
    for (; *name; name++) {
        uint32_t letter = (uint32_t)toupper((unsigned char)*name);
        bool free = isalnum((unsigned char)*name) != 0;
        for (size_t i = 0; i < layers->count; i++)
            free = free && layers->layer[i].letter != letter;
        if (free)
            return letter;
    }
    return '#';
}

static void add(struct layers *layers, const struct tui_series *series, const char *name,
                const struct tui_series *below)
{
    if (!series || layers->count == LAYERS_MOST)
        return;
    layers->layer[layers->count] = (struct layer){series, below, name, letter_of(layers, name)};
    layers->count++;
    layers->from = fmin(layers->from, series->time_s[0]);
    layers->to = fmax(layers->to, series->time_s[series->count - 1]);
}

/* Categories of the process whose total is the highest; totals are sums and no category. */
static void find_layers(const struct tui_model *model, struct layers *out)
{
    size_t owners;
    const struct tui_series *total = tui_lowest_series(model, PREFIX "total", -1, &owners),
                            *reserved = tui_lowest_series(model, PREFIX "reserved", -1, &owners);
    *out = (struct layers){.from = INFINITY, .to = -INFINITY, .chosen = total, .whole = total};
    for (size_t i = 0; total && i < model->series_count; i++) {
        const struct tui_series *series = &model->series[i];
        if (!strncmp(series->name, PREFIX, sizeof PREFIX - 1) && series->count > 1 &&
            strcmp(series->name, PREFIX "total") != 0 && strcmp(series->name, PREFIX "peak") != 0 &&
            same_owner(series, total))
            add(out, series, series->name + sizeof PREFIX - 1, NULL);
    }
    if (out->count || !reserved)
        return;
    const struct tui_series *allocated = series_of(model, PREFIX "allocated", reserved);
    out->chosen = allocated;
    out->whole = reserved;
    add(out, allocated, "allocated", NULL);
    add(out, allocated ? reserved : NULL, "reserved", allocated);
}

bool tui_memory_timeline_known(const struct tui_model *model)
{
    struct layers layers;
    find_layers(model, &layers);
    return layers.count > 0;
}

/* ---- values --------------------------------------------------------------------------------------- */

/* How many points are not later than `time`. */
static size_t points_until(const struct tui_series *series, double time)
{
    size_t low = 0, high = series->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (series->time_s[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The newest value that is not later than `time`; 0: there is none yet. */
static double value_at(const struct tui_series *series, double time)
{
    size_t count = points_until(series, time);
    while (count > 0 && !isfinite(series->value[count - 1]))
        count--;
    return count ? fmax(0, series->value[count - 1]) : 0;
}

/* Where each layer ends in the column of a moment, from below; returns the highest end. */
static double ends_at(const struct layers *layers, double time, double end[LAYERS_MOST])
{
    double sum = 0;
    for (size_t i = 0; i < layers->count; i++) {
        const struct layer *layer = &layers->layer[i];
        sum += fmax(0, value_at(layer->series, time) -
                           (layer->below ? value_at(layer->below, time) : 0));
        end[i] = sum;
    }
    return sum;
}

/* When most was held in the time of a column: a peak is seen however short it was. */
static double moment_of(const struct layers *layers, int column, int columns)
{
    const struct tui_series *series = layers->chosen;
    double from = layers->from + (layers->to - layers->from) * column / columns,
           to = layers->from + (layers->to - layers->from) * (column + 1) / columns,
           most = value_at(series, from), moment = from;
    size_t until = points_until(series, to);
    for (size_t i = points_until(series, from); i < until; i++)
        if (series->value[i] >= most) {
            most = series->value[i];
            moment = series->time_s[i];
        }
    return moment;
}

static double highest(const struct tui_series *series)
{
    double most = 0;
    for (size_t i = 0; i < series->count; i++)
        most = series->value[i] > most ? series->value[i] : most;
    return most;
}

/* ---- the picture ---------------------------------------------------------------------------------- */

static enum tui_style style_of(size_t layer)
{
    return TUI_CLASS + (enum tui_style)(layer % AN_CLASS_COUNT);
}

static void draw_legend(struct tui_cells *cells, struct tui_rect area, const struct layers *layers)
{
    int column = tui_text(cells, area, 0, 0, TUI_TITLE, "Memory over the run");
    column += tui_printf(cells, area, 0, column + 2, TUI_NORMAL, "at most %s",
                         BYTES_TEXT(highest(layers->whole))) +
              2;
    for (size_t i = 0; i < layers->count; i++) {
        const char *name = layers->layer[i].name;
        if (column + 4 + tui_width(cells, name) > area.columns)
            break;
        tui_glyph(cells, area, 0, column + 2, style_of(i), layers->layer[i].letter);
        column += 4;
        column += tui_text(cells, area, 0, column, TUI_NORMAL, name);
    }
}

void tui_memory_timeline(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state)
{
    struct layers layers;
    double end[LAYERS_MOST], most = 0;
    char from[48], to[48];
    int rows = area.rows - 2;
    (void)state;
    find_layers(model, &layers);
    if (!layers.count)
        return;
    for (int column = 0; column < area.columns; column++)
        most = fmax(most, ends_at(&layers, moment_of(&layers, column, area.columns), end));
    if (most <= 0 || rows < 1)
        return;
    draw_legend(cells, area, &layers);
    for (int column = 0; column < area.columns; column++) {
        ends_at(&layers, moment_of(&layers, column, area.columns), end);
        size_t layer = 0;
        for (int row = rows; row >= 1 && layer < layers.count; row--) {
            double level = most * (rows - row + 0.5) / rows;
            while (layer < layers.count && end[layer] < level)
                layer++;
            if (layer < layers.count)
                tui_glyph(cells, area, row, column, style_of(layer), layers.layer[layer].letter);
        }
    }
    tui_text(cells, area, rows + 1, 0, TUI_DIM, tui_seconds(from, layers.from));
    tui_text_right(cells, area, rows + 1, TUI_DIM, tui_seconds(to, layers.to));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the run: every counter of the system as a line over the whole run.
 */
#include <stdlib.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/words/compare.h"
#include "store/store.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

/* Does another view show this counter, or is there too little of it? */
static bool is_elsewhere(const struct tui_series *series)
{
    return !strncmp(series->name, "memory.", 7) || series->count < 2;
}

/* The order of the counters; those not named here follow in their own order. */
static const char *const order[] = {"cpu_busy",         "cpu_time",        "rss",
                                    "memory_available", "disk_read",       "disk_written",
                                    "gpu_sm_active",    "gpu_utilization", "gpu_power",
                                    "gpu_memory_used"};
#define ORDER (sizeof order / sizeof *order)

/* The place of a counter in the order of the view. */
static size_t place_of(const struct tui_series *series)
{
    size_t i = 0;
    while (i < ORDER && strcmp(order[i], series->name))
        i++;
    return i;
}

/* Is it of a process that is no rank while others are, such as mpirun? */
static bool is_launcher(const struct tui_model *model, const struct tui_series *series)
{
    if (series->process == STORE_ABSENT || series->rank >= 0)
        return false;
    for (size_t i = 0; i < model->series_count; i++)
        if (model->series[i].rank >= 0)
            return true;
    return false;
}

/* The counters of this view in its order, those of launchers last; free() it. Returns how many. */
static int list_series(const struct tui_model *model, const struct tui_series ***list)
{
    int count = 0;
    *list = malloc((model->series_count ? model->series_count : 1) * sizeof **list);
    for (int last = 0; *list && last < 2; last++)
        for (size_t place = 0; place <= ORDER; place++)
            for (size_t i = 0; i < model->series_count; i++)
                if (!is_elsewhere(&model->series[i]) && place_of(&model->series[i]) == place &&
                    is_launcher(model, &model->series[i]) == (last == 1))
                    (*list)[count++] = &model->series[i];
    return count;
}

/* For a search: the name that is shown, and the name in the file. */
struct names {
    const struct tui_model *model;
    const struct tui_series **series;
};

static bool series_holds(const void *owner, int row, const char *words)
{
    const struct names *names = owner;
    struct tui_curve curve;
    if (tui_holds(names->series[row]->name, words))
        return true;
    if (!tui_curve_of(names->model, names->series[row], &curve))
        return false;
    tui_curve_owner(names->model, names->series[row], &curve);
    bool holds = tui_holds(curve.label, words);
    free(curve.value);
    return holds;
}

/* Goes to the counter that a search is for: `found` keeps which one it was, because the last ones
 * are not the first row that is shown. */
static void seek(const struct names *names, int count, struct tui_view_state *state)
{
    struct tui_view_state at = *state;
    if (!state->seek)
        return;
    at.cursor = state->found - 1;
    tui_seek(&at, count, series_holds, names);
    if (series_holds(names, rep_clamp(at.cursor, 0, count - 1), state->search)) {
        state->cursor = rep_clamp(at.cursor, 0, count - 1);
        state->found = state->cursor + 1;
    }
    state->seek = 0;
}

/* Returns how many there are below. */
static int draw_curves(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    const struct tui_series **series;
    int count = list_series(model, &series), row = 0;
    struct names names = {model, series};
    if (count)
        seek(&names, count, state);
    state->cursor = rep_clamp(state->cursor, 0, count > area.rows ? count - area.rows : 0);
    state->top = state->cursor;
    state->page = area.rows;
    for (int i = state->top; i < count && row < area.rows; i++) {
        struct tui_curve curve;
        if (!tui_curve_of(model, series[i], &curve))
            continue;
        tui_curve_owner(model, series[i], &curve);
        tui_curve_row(cells, area, row, &curve);
        if (*state->search && series_holds(&names, i, state->search))
            tui_mark_row(cells, area, row);
        row++;
        free(curve.value);
    }
    free(series);
    return count - state->top - area.rows;
}

/* Draws the counters as curves, and the lines of the report about the system and the hardware
 * below them. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_system, rep_section_hardware, NULL};
    struct tui_view_state still = {.zoom = 1};
    const struct an_result *result = model->result;
    int count = 0, most = area.columns < 60 ? area.rows / 3 : area.rows / 4;
    for (size_t i = 0; i < model->series_count; i++)
        count += !is_elsewhere(&model->series[i]);
    int used = 0;
    if (count) {
        int rows = count < area.rows - most ? count : area.rows - most;
        int width =
            tui_text(cells, area, 0, 0, TUI_TITLE,
                     area.columns < 60 ? "Counters" : "Counters over the run, newest at the right");
        int below = draw_curves(cells, tui_upper(tui_lower(area, 1), rows), model, state);
        if (below > 0)
            tui_printf(cells, area, 0, width + 2, TUI_DIM, "%d more below: j, k", below);
        used = rows + 2;
    } else {
        used = tui_absent(cells, area, 0, "No counters",
                          result && result->system.reason ? result->system.reason
                                                          : "none was sampled yet") +
               1;
    }
    if (result)
        tui_sections(cells, tui_lower(area, used), result, words, &still);
}

const struct tui_view tui_view_system = {
    .key = '8',
    .name = "system",
    .brief = "sys",
    .help = "CPU, memory, disk, GPUs and all other counters of the run",
    .texts = true,
    .draw = draw};

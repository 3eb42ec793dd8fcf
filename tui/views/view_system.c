/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the run: every counter of the system as a line over the whole run.
 */
#include <stdlib.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/words/compare.h"
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

/* Returns how many there are below. */
static int draw_curves(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    int index = 0, row = 0, rows = 0;
    for (size_t i = 0; i < model->series_count; i++)
        rows += !is_elsewhere(&model->series[i]);
    int most = rows > area.rows ? rows - area.rows : 0;
    state->cursor = rep_clamp(state->cursor, 0, most);
    state->top = state->cursor;
    state->page = area.rows;
    for (size_t place = 0; place <= ORDER; place++)
        for (size_t i = 0; i < model->series_count && row < area.rows; i++) {
            struct tui_curve curve;
            if (is_elsewhere(&model->series[i]) || place_of(&model->series[i]) != place ||
                index++ < state->top || !tui_curve_of(model, &model->series[i], &curve))
                continue;
            tui_curve_owner(model, &model->series[i], &curve);
            tui_curve_row(cells, area, row++, &curve);
            free(curve.value);
        }
    return rows - state->top - area.rows;
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
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the run: every counter of the system layer as a line over the whole run.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/text/text.h"
#include "store/store.h"
#include "tui/draw.h"
#include "tui/views/views.h"

/* What the other views show. */
static bool is_elsewhere(const struct tui_series *s)
{
    return !strncmp(s->name, "memory.", 7) || s->count < 2;
}

/* In this order; what is not named follows as it comes. */
static const char *const order[] = {"cpu_busy",         "cpu_time",        "rss",
                                    "memory_available", "disk_read",       "disk_written",
                                    "gpu_sm_active",    "gpu_utilization", "gpu_power",
                                    "gpu_memory_used"};
#define ORDER (sizeof order / sizeof *order)

static size_t place_of(const struct tui_series *s)
{
    size_t i = 0;
    while (i < ORDER && strcmp(order[i], s->name))
        i++;
    return i;
}

/* Returns how many there are below. */
static int draw_curves(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    int at = 0, row = 0, rows = 0;
    for (size_t i = 0; i < m->series_count; i++)
        rows += !is_elsewhere(&m->series[i]);
    int most = rows > r.rows ? rows - r.rows : 0;
    s->cursor = s->cursor < 0 ? 0 : s->cursor > most ? most : s->cursor;
    s->top = s->cursor;
    s->page = r.rows;
    for (size_t k = 0; k <= ORDER; k++)
        for (size_t i = 0; i < m->series_count && row < r.rows; i++) {
            struct tui_curve v;
            if (is_elsewhere(&m->series[i]) || place_of(&m->series[i]) != k || at++ < s->top ||
                !tui_curve_of(m, &m->series[i], &v))
                continue;
            tui_curve_owner(m, &m->series[i], &v);
            tui_curve_row(c, r, row++, &v);
            free(v.value);
        }
    return rows - s->top - r.rows;
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_system, rep_text_hardware, NULL};
    struct tui_view_state still = {.zoom = 1};
    const struct an_result *result = m->r;
    int n = 0, most = r.columns < 60 ? r.rows / 3 : r.rows / 4;
    for (size_t i = 0; i < m->series_count; i++)
        n += !is_elsewhere(&m->series[i]);
    int used = 0;
    if (n) {
        int rows = n < r.rows - most ? n : r.rows - most;
        int at =
            tui_text(c, r, 0, 0, TUI_TITLE,
                     r.columns < 60 ? "Counters" : "Counters over the run, newest at the right");
        int below = draw_curves(c, tui_upper(tui_lower(r, 1), rows), m, s);
        if (below > 0)
            tui_printf(c, r, 0, at + 2, TUI_DIM, "%d more below: j, k", below);
        used = rows + 2;
    } else {
        used = tui_absent(c, r, 0, "No counters",
                          result && result->system.reason ? result->system.reason
                                                          : "none was sampled yet") +
               1;
    }
    if (result)
        tui_sections(c, tui_lower(r, used), result, words, &still);
}

const struct tui_view tui_view_system = {
    .key = '8',
    .name = "system",
    .brief = "sys",
    .help = "CPU, memory, disk, GPUs and all other counters of the run",
    .draw = draw};

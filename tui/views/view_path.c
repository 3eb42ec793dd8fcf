/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path: which operations and waits determine the time of the steps, by cause and by
 * operation.
 */
#include <inttypes.h>

#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/screen/table.h"
#include "tui/views/view_list.h"

static double by_share(const void *row)
{
    const struct an_path_op *path_op = row;
    return (double)path_op->ns;
}
static double by_count(const void *row)
{
    return (double)((const struct an_path_op *)row)->count;
}
static const struct tui_order orders[] = {{0, by_share}, {2, by_count}, {-1, NULL}};

static enum tui_style style_of(size_t i)
{
    return (enum tui_style)(TUI_SERIES + i % 4);
}

/* How much of the path is known, and how. */
static void draw_head(struct tui_cells *cells, struct tui_rect area,
                      const struct an_critical_path *path)
{
    struct tui_line line = {cells, area, 0, 0, 0};
    tui_item(&line, TUI_TITLE, "Critical path of %" PRId64 " %s, rank %" PRId64 ", %s", path->steps,
             REP_PLURAL(path->steps, "step", "steps"), path->rank,
             TIME_TEXT((double)path->length_ns.value));
    if (path->explained_pct.valid)
        tui_item(&line, path->explained_pct.value < 90 ? TUI_WARN : TUI_NORMAL, "explained %.0f %%",
                 path->explained_pct.value);
    tui_item_value(&line, TUI_DIM, path->recorded_pct, "recorded %.0f %%");
    tui_item_value(&line, TUI_DIM, path->gap_pct, "gaps %.1f %%");
}

/* Draws the causes as one bar with letters, and a row for each letter below it. */
static void draw_causes(struct tui_cells *cells, struct tui_rect area,
                        const struct an_critical_path *path)
{
    struct tui_part part[TUI_PARTS_MOST];
    size_t shown = path->cause_count < TUI_PARTS_MOST ? path->cause_count : TUI_PARTS_MOST;
    int label = area.columns < 60 ? 18 : 36;
    for (size_t i = 0; i < shown; i++)
        part[i] = (struct tui_part){(double)path->causes[i].ns, style_of(i), (uint32_t)('A' + i)};
    tui_stack(cells, area, 0, 0, area.columns, part, shown);
    for (size_t i = 0; i < shown && (int)i + 1 < area.rows; i++) {
        const struct an_path_cause *cause = &path->causes[i];
        int row = (int)i + 1;
        tui_glyph(cells, area, row, 0, style_of(i), (uint32_t)('A' + i));
        tui_text(cells, tui_left(area, label - 1), row, 2, TUI_NORMAL, cause->text);
        tui_printf(cells, area, row, label, TUI_NORMAL, "%5.1f %%",
                   cause->pct.valid ? cause->pct.value : 0);
        tui_text_right(cells, tui_left(area, label + 18), row, TUI_NORMAL,
                       TIME_TEXT((double)cause->ns));
        tui_bar(cells, area, row, label + 20, area.columns - label - 21,
                cause->pct.valid ? cause->pct.value / 100 : 0, style_of(i));
    }
}

/* Draws the head, a doubt about the path where there is one, the causes, and the table of
 * operations. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    struct rep_table table;
    if (!result)
        return;
    const struct an_critical_path *path = &result->critical_path;
    if (path->reason) {
        tui_absent(cells, area, 0, "No critical path", path->reason);
        return;
    }
    draw_head(cells, area, path);
    int used = 1;
    if (path->doubt)
        used += tui_paragraph(cells, tui_upper(area, area.rows / 3 + 1), used, 0, TUI_WARN,
                              path->doubt);
    int causes = (int)path->cause_count + 1, most = (area.rows - used) * 3 / 5;
    causes = causes < most ? causes : most;
    draw_causes(cells, tui_upper(tui_lower(area, used), causes), path);
    rep_table_path_ops(path, &table);
    struct tui_list list = {&table, orders, sizeof orders / sizeof *orders, NULL};
    tui_table_draw(cells, tui_lower(area, used + causes + (area.rows > 12)), &list, state);
}

const struct tui_view tui_view_path = {
    .key = 'c',
    .name = "path",
    .brief = "path",
    .help = "the critical path of the steps, by cause and by operation",
    .keys = "s < >   sort by time, segments, name\n",
    .searches = true,
    .draw = draw};

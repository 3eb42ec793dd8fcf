/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives the parts of a screen, and the panels of a view, their rows. The least important part is
 * the first to go when there is no room.
 */
#include "tui/screen/layout.h"

#include "reports/words/compare.h"

#define RULES_FROM   16 /* rows: below it every row is the view's */
#define MESSAGE_FROM 5

/* Rows that the verdict may have on a screen of so many. */
static int verdict_most(int rows)
{
    if (rows >= 40)
        return 5;
    if (rows >= 20)
        return 3;
    return rows >= 9 ? 2 : rows >= 2;
}

static struct tui_rect take(int *row, int rows, int columns)
{
    struct tui_rect area = {*row, 0, rows, columns};
    *row += rows;
    return area;
}

struct tui_layout tui_layout(int rows, int columns, bool message, int verdict_rows)
{
    struct tui_layout layout;
    rows = rows < 0 ? 0 : rows;
    columns = columns < 0 ? 0 : columns;
    int verdict = verdict_most(rows), keys = rows >= 3, rule = rows >= RULES_FROM,
        note = message && rows >= MESSAGE_FROM, row = 0;
    if (verdict)
        verdict = rep_clamp(verdict_rows, 1, verdict);
    int header = rows >= 1, body = rows - header - verdict - 2 * rule - note - keys;
    layout.header = take(&row, header, columns);
    layout.verdict = take(&row, verdict, columns);
    layout.rule = take(&row, rule, columns);
    layout.body = take(&row, body, columns);
    layout.rule2 = take(&row, rule, columns);
    layout.message = take(&row, note, columns);
    layout.keys = take(&row, keys, columns);
    return layout;
}

/* The least important panel that is still there; of equal ones the lowest. */
static struct tui_panel *least_important(struct tui_panel *panel, size_t count)
{
    struct tui_panel *least = NULL;
    for (size_t i = 0; i < count; i++)
        if (panel[i].rect.rows && (!least || panel[i].importance <= least->importance))
            least = &panel[i];
    return least;
}

/* Rows that are left are given one at a time in turn, so that panels grow alike. */
void tui_layout_panels(struct tui_rect area, struct tui_panel *panel, size_t count)
{
    int used = 0, row = area.row;
    for (size_t i = 0; i < count; i++) {
        panel[i].rect = (struct tui_rect){0, area.column, panel[i].least > 0 ? panel[i].least : 0,
                                          area.columns};
        used += panel[i].rect.rows;
    }
    while (used > area.rows) {
        struct tui_panel *out = least_important(panel, count);
        if (!out)
            break;
        used -= out->rect.rows;
        out->rect.rows = 0;
    }
    for (int over = area.rows - used, gave = 1;
         over > 0 && gave;) { /* a row each in turn, so that panels grow alike */
        gave = 0;
        for (size_t i = 0; i < count && over > 0; i++)
            if (panel[i].rect.rows && panel[i].rect.rows < panel[i].most) {
                panel[i].rect.rows++;
                over--;
                gave = 1;
            }
    }
    for (size_t i = 0; i < count; i++) {
        panel[i].rect.row = row;
        row += panel[i].rect.rows;
    }
}

void tui_panels_draw(struct tui_cells *cells, struct tui_rect area, struct tui_panel *panel,
                     size_t count, const struct tui_model *model, struct tui_view_state *state)
{
    tui_layout_panels(area, panel, count);
    for (size_t i = 0; i < count; i++)
        if (panel[i].rect.rows && panel[i].draw)
            panel[i].draw(cells, panel[i].rect, model, state);
}

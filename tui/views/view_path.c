/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path: what the time of the steps is spent with where nothing else runs meanwhile, by
 * cause and by op.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tui/draw.h"
#include "tui/table.h"
#include "tui/views/views.h"

static double by_share(const void *row)
{
    const struct an_path_op *o = row;
    return (double)o->ns;
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
static void draw_head(struct tui_cells *c, struct tui_rect r, const struct an_critical_path *x)
{
    char a[32];
    struct tui_line l = {c, r, 0, 0, 0};
    tui_item(&l, TUI_TITLE, "Critical path of %" PRId64 " %s, rank %" PRId64 ", %s", x->steps,
             x->steps == 1 ? "step" : "steps", x->rank, page_time(a, (double)x->length_ns.value));
    if (x->explained_pct.valid)
        tui_item(&l, x->explained_pct.value < 90 ? TUI_WARN : TUI_NORMAL, "explained %.0f %%",
                 x->explained_pct.value);
    if (x->recorded_pct.valid)
        tui_item(&l, TUI_DIM, "recorded %.0f %%", x->recorded_pct.value);
    if (x->gap_pct.valid)
        tui_item(&l, TUI_DIM, "gaps %.1f %%", x->gap_pct.value);
}

static void draw_causes(struct tui_cells *c, struct tui_rect r, const struct an_critical_path *x)
{
    struct tui_part part[TUI_PARTS_MOST];
    size_t n = x->cause_count < TUI_PARTS_MOST ? x->cause_count : TUI_PARTS_MOST;
    int label = r.columns < 60 ? 18 : 36;
    for (size_t i = 0; i < n; i++)
        part[i] = (struct tui_part){(double)x->causes[i].ns, style_of(i), (uint32_t)('A' + i)};
    tui_stack(c, r, 0, 0, r.columns, part, n);
    for (size_t i = 0; i < n && (int)i + 1 < r.rows; i++) {
        const struct an_path_cause *k = &x->causes[i];
        char time[32];
        int row = (int)i + 1;
        tui_glyph(c, r, row, 0, style_of(i), (uint32_t)('A' + i));
        tui_text(c, tui_left(r, label - 1), row, 2, TUI_NORMAL, k->text);
        tui_printf(c, r, row, label, TUI_NORMAL, "%5.1f %%", k->pct.valid ? k->pct.value : 0);
        tui_text_right(c, tui_left(r, label + 18), row, TUI_NORMAL, page_time(time, (double)k->ns));
        tui_bar(c, r, row, label + 20, r.columns - label - 21,
                k->pct.valid ? k->pct.value / 100 : 0, style_of(i));
    }
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    struct rep_table t;
    if (!result)
        return;
    const struct an_critical_path *x = &result->critical_path;
    if (x->reason) {
        tui_absent(c, r, 0, "No critical path", x->reason);
        return;
    }
    draw_head(c, r, x);
    int used = 1;
    if (x->doubt)
        used += tui_paragraph(c, tui_upper(r, r.rows / 3 + 1), used, 0, TUI_WARN, x->doubt);
    int causes = (int)x->cause_count + 1, most = (r.rows - used) * 3 / 5;
    causes = causes < most ? causes : most;
    draw_causes(c, tui_upper(tui_lower(r, used), causes), x);
    rep_table_path_ops(x, &t);
    struct tui_list list = {&t, orders, sizeof orders / sizeof *orders, NULL};
    tui_table_draw(c, tui_lower(r, used + causes + (r.rows > 12)), &list, s);
}

const struct tui_view tui_view_path = {
    .key = 'c',
    .name = "path",
    .brief = "path",
    .help = "the critical path of the steps: what it is made of, by cause and by op",
    .keys = "s < >   sort by time, stretches, name\n",
    .searches = true,
    .draw = draw};

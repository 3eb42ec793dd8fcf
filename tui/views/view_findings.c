/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: the list, and the card of the one under the cursor: claim, evidence, what to do, gain,
 * how to verify, when it is wrong.
 */
#include <string.h>

#include "reports/sections/tables.h"
#include "tui/draw.h"
#include "tui/views/views.h"

static void entry(struct tui_cells *c, struct tui_rect r, const struct an_finding *f, int number,
                  bool selected)
{
    char gain[64];
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    for (int x = 0; selected && x < r.columns; x++)
        tui_glyph(c, r, 0, x, style, ' ');
    int column = tui_printf(c, r, 0, 0, style, "%2d %s", number, f->id);
    rep_gain_text(gain, sizeof gain, &f->gain);
    if (r.columns > column + 1 + tui_width(c, gain))
        tui_text_right(c, r, 0, style, gain);
}

static int field(struct tui_cells *c, struct tui_rect r, int row, const char *label,
                 const char *text, enum tui_style style)
{
    if (!text || !*text || row >= r.rows)
        return 0;
    int column = r.columns < 50 ? 0 : 11;
    tui_text(c, r, row, 0, TUI_TITLE, label);
    if (!column)
        return 1 + tui_paragraph(c, r, row + 1, 1, style, text);
    return tui_paragraph(c, r, row, column, style, text);
}

/* Returns the rows it takes. */
static int card(struct tui_cells *c, struct tui_rect r, const struct an_finding *f)
{
    char gain[64], text[900];
    int row = tui_paragraph(c, r, 0, 0, TUI_BOLD, f->claim) + (r.rows > 8);
    row += field(c, r, row, "Do", f->action, TUI_GOOD);
    rep_gain_text(gain, sizeof gain, &f->gain);
    snprintf(text, sizeof text, "%s; %s confidence%s%.500s", gain,
             an_confidence_text(f->confidence), f->effort ? "; effort: " : "",
             f->effort ? f->effort : "");
    row += field(c, r, row, "Gain", text, TUI_NORMAL);
    for (size_t i = 0; i < sizeof f->evidence / sizeof *f->evidence && f->evidence[i]; i++)
        row += field(c, r, row, i ? "" : "Evidence", f->evidence[i], TUI_NORMAL);
    row += field(c, r, row, "Computed", f->method, TUI_NORMAL);
    row += field(c, r, row, "Verify", f->verify, TUI_KEY);
    return row + field(c, r, row, "Wrong if", f->wrong_when, TUI_WARN);
}

#define CARD_ROWS 200 /* at most; on the narrowest screens */

/* The rows of the card from `top` on that there is room for; the last one says how many more there
 * are. Brings `top` back to what exists. `what`: which key shows them. */
static void card_part(struct tui_cells *c, struct tui_rect r, const struct an_finding *f, int *top,
                      const char *what)
{
    struct tui_cells all = {.glyphs = c->glyphs};
    if (r.rows <= 0 || r.columns <= 0 || tui_cells_resize(&all, CARD_ROWS, r.columns))
        return;
    int rows = card(&all, (struct tui_rect){0, 0, CARD_ROWS, r.columns}, f),
        most = rows > r.rows ? rows - r.rows : 0;
    *top = *top < 0 ? 0 : *top > most ? most : *top;
    for (int y = 0; y < r.rows && *top + y < rows; y++)
        for (int x = 0; x < r.columns; x++) {
            const struct tui_cell *from = &all.cell[(*top + y) * r.columns + x];
            if (from->glyph)
                tui_glyph(c, r, y, x, from->style, from->glyph);
        }
    if (*top + r.rows < rows) {
        char more[48];
        snprintf(more, sizeof more, r.columns < 60 ? " +%d: %s" : "  %d more: %s",
                 rows - *top - r.rows, what);
        tui_text_right(c, r, r.rows - 1, TUI_DIM, more);
    }
    tui_cells_free(&all);
}

/* No finding: what was looked for. */
static void none(struct tui_cells *c, struct tui_rect r, const struct an_result *result)
{
    int row = tui_paragraph(
        c, r, 0, 0, result->healthy ? TUI_GOOD : TUI_NORMAL,
        result->healthy ? "Healthy: nothing above 2 % of a step was found."
                        : "No finding: nothing that this run's data can prove is worth a change.");
    if (result->checked_count)
        tui_text(c, r, ++row, 0, TUI_TITLE, "Looked for");
    for (size_t i = 0; i < result->checked_count; i++)
        row += tui_paragraph(c, r, row + 1, 2, TUI_NORMAL, result->checked[i]);
    if (result->steps.reason)
        tui_paragraph(c, r, row + 2, 0, TUI_DIM, result->steps.reason);
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    if (!result)
        return;
    int n = (int)result->finding_count;
    if (!n) {
        none(c, r, result);
        return;
    }
    if (s->open) {
        tui_state_clamp(s, n, 1);
        s->top = s->cursor;
        entry(c, tui_upper(r, 1), &result->findings[s->cursor], s->cursor + 1, true);
        s->page = r.rows > 2 ? r.rows - 1 : 1;
        card_part(c, tui_lower(r, 1), &result->findings[s->cursor], &s->span, "j, k");
        return;
    }
    bool beside = r.columns >= 120;
    int shown = n < r.rows / 3 || beside ? n : r.rows / 3 > 1 ? r.rows / 3 : 1;
    tui_state_clamp(s, n, shown);
    s->page = shown;
    struct tui_rect list = beside ? tui_left(r, 54) : tui_upper(r, shown),
                    rest = beside ? tui_right(r, 57) : tui_lower(r, shown);
    for (int i = s->top; i < n && i - s->top < list.rows; i++)
        entry(c, tui_upper(tui_lower(list, i - s->top), 1), &result->findings[i], i + 1,
              i == s->cursor);
    if (!beside) {
        tui_rule(c, rest, 0);
        rest = tui_lower(rest, 1);
    } else if (n > 1) {
        tui_text(c, tui_lower(list, n + 1), 0, 0, TUI_DIM, "gains do not add up");
    }
    s->span = 0;
    if (s->cursor >= 0 && s->cursor < n)
        card_part(c, rest, &result->findings[s->cursor], &s->span, "Enter");
}

/* In an open card the keys that move go through its rows (`span`), and [ ] to the next one. */
static bool take(struct tui_view_state *s, int key)
{
    int rows = key == TUI_KEY_DOWN || key == 'j'   ? 1
               : key == TUI_KEY_UP || key == 'k'   ? -1
               : key == TUI_KEY_PAGE_DOWN          ? s->page
               : key == TUI_KEY_PAGE_UP            ? -s->page
               : key == TUI_KEY_HOME || key == 'g' ? -CARD_ROWS
               : key == TUI_KEY_END || key == 'G'  ? CARD_ROWS
                                                   : 0;
    if (key == '[' || key == ']') {
        s->cursor += key == ']' ? 1 : s->cursor > 0 ? -1 : 0;
        s->span = 0;
        return true;
    }
    if (!s->open || !rows)
        return false;
    s->span += rows;
    return true;
}

const struct tui_view tui_view_findings = {
    .key = '9',
    .name = "findings",
    .brief = "find",
    .help = "what to change, how much it gains, how to verify it",
    .keys = "Enter   the card alone, j k through it; [ ] the next finding\n",
    .draw = draw,
    .take = take};

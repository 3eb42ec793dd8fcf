/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: the list, and the card of the one under the cursor: claim, evidence, what to do, gain,
 * how to verify, when it is wrong.
 */
#include <string.h>

#include "reports/sections/tables.h"
#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

static void entry(struct tui_cells *cells, struct tui_rect area, const struct an_finding *finding,
                  int number, bool selected)
{
    char gain[64];
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    for (int x = 0; selected && x < area.columns; x++)
        tui_glyph(cells, area, 0, x, style, ' ');
    int column = tui_printf(cells, area, 0, 0, style, "%2d %s", number, finding->id);
    rep_gain_text(gain, sizeof gain, &finding->gain);
    if (area.columns > column + 1 + tui_width(cells, gain))
        tui_text_right(cells, area, 0, style, gain);
}

static int field(struct tui_cells *cells, struct tui_rect area, int row, const char *label,
                 const char *text, enum tui_style style)
{
    if (!text || !*text || row >= area.rows)
        return 0;
    int column = area.columns < 50 ? 0 : 11;
    tui_text(cells, area, row, 0, TUI_TITLE, label);
    if (!column)
        return 1 + tui_paragraph(cells, area, row + 1, 1, style, text);
    return tui_paragraph(cells, area, row, column, style, text);
}

/* Returns the rows it takes. */
static int card(struct tui_cells *cells, struct tui_rect area, const struct an_finding *finding)
{
    char gain[64], text[900];
    int row = tui_paragraph(cells, area, 0, 0, TUI_BOLD, finding->claim) + (area.rows > 8);
    row += field(cells, area, row, "Do", finding->action, TUI_GOOD);
    rep_gain_text(gain, sizeof gain, &finding->gain);
    snprintf(text, sizeof text, "%s; %s confidence%s%.500s", gain,
             an_confidence_text(finding->confidence), finding->effort ? "; effort: " : "",
             rep_or(finding->effort, ""));
    row += field(cells, area, row, "Gain", text, TUI_NORMAL);
    for (size_t i = 0;
         i < sizeof finding->evidence / sizeof *finding->evidence && finding->evidence[i]; i++)
        row += field(cells, area, row, i ? "" : "Evidence", finding->evidence[i], TUI_NORMAL);
    row += field(cells, area, row, "Computed", finding->method, TUI_NORMAL);
    row += field(cells, area, row, "Verify", finding->verify, TUI_KEY);
    return row + field(cells, area, row, "Wrong if", finding->wrong_when, TUI_WARN);
}

#define CARD_ROWS 200 /* at most; on the narrowest screens */

/* The rows of the card from `top` on that there is room for; the last one says how many more there
 * are. Brings `top` back to what exists. `what`: which key shows them. */
static void card_part(struct tui_cells *cells, struct tui_rect area,
                      const struct an_finding *finding, int *top, const char *what)
{
    struct tui_cells all = {.glyphs = cells->glyphs};
    if (area.rows <= 0 || area.columns <= 0 || tui_cells_resize(&all, CARD_ROWS, area.columns))
        return;
    int rows = card(&all, (struct tui_rect){0, 0, CARD_ROWS, area.columns}, finding),
        most = rows > area.rows ? rows - area.rows : 0;
    *top = *top < 0 ? 0 : *top > most ? most : *top;
    for (int y = 0; y < area.rows && *top + y < rows; y++)
        for (int x = 0; x < area.columns; x++) {
            const struct tui_cell *from = &all.cell[(*top + y) * area.columns + x];
            if (from->glyph)
                tui_glyph(cells, area, y, x, from->style, from->glyph);
        }
    if (*top + area.rows < rows) {
        char more[48];
        snprintf(more, sizeof more, area.columns < 60 ? " +%d: %s" : "  %d more: %s",
                 rows - *top - area.rows, what);
        tui_text_right(cells, area, area.rows - 1, TUI_DIM, more);
    }
    tui_cells_free(&all);
}

/* No finding: what was looked for. */
static void none(struct tui_cells *cells, struct tui_rect area, const struct an_result *result)
{
    int row = tui_paragraph(
        cells, area, 0, 0, result->healthy ? TUI_GOOD : TUI_NORMAL,
        result->healthy ? "Healthy: nothing above 2 % of a step was found."
                        : "No finding: nothing that this run's data can prove is worth a change.");
    if (result->checked_count)
        tui_text(cells, area, ++row, 0, TUI_TITLE, "Looked for");
    for (size_t i = 0; i < result->checked_count; i++)
        row += tui_paragraph(cells, area, row + 1, 2, TUI_NORMAL, result->checked[i]);
    if (result->steps.reason)
        tui_paragraph(cells, area, row + 2, 0, TUI_DIM, result->steps.reason);
}

static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    int count = (int)result->finding_count;
    if (!count) {
        none(cells, area, result);
        return;
    }
    if (state->open) {
        tui_state_clamp(state, count, 1);
        state->top = state->cursor;
        entry(cells, tui_upper(area, 1), &result->findings[state->cursor], state->cursor + 1, true);
        state->page = area.rows > 2 ? area.rows - 1 : 1;
        card_part(cells, tui_lower(area, 1), &result->findings[state->cursor], &state->span,
                  "j, k");
        return;
    }
    bool beside = area.columns >= 120;
    int shown = count < area.rows / 3 || beside ? count : area.rows / 3 > 1 ? area.rows / 3 : 1;
    tui_state_clamp(state, count, shown);
    state->page = shown;
    struct tui_rect list = beside ? tui_left(area, 54) : tui_upper(area, shown),
                    rest = beside ? tui_right(area, 57) : tui_lower(area, shown);
    for (int i = state->top; i < count && i - state->top < list.rows; i++)
        entry(cells, tui_upper(tui_lower(list, i - state->top), 1), &result->findings[i], i + 1,
              i == state->cursor);
    if (!beside) {
        tui_rule(cells, rest, 0);
        rest = tui_lower(rest, 1);
    } else if (count > 1) {
        tui_text(cells, tui_lower(list, count + 1), 0, 0, TUI_DIM, "gains do not add up");
    }
    state->span = 0;
    if (state->cursor >= 0 && state->cursor < count)
        card_part(cells, rest, &result->findings[state->cursor], &state->span, "Enter");
}

/* In an open card the keys that move go through its rows (`span`), and [ ] to the next one. */
static bool take(struct tui_view_state *state, int key)
{
    int rows = key == TUI_KEY_DOWN || key == 'j'   ? 1
               : key == TUI_KEY_UP || key == 'k'   ? -1
               : key == TUI_KEY_PAGE_DOWN          ? state->page
               : key == TUI_KEY_PAGE_UP            ? -state->page
               : key == TUI_KEY_HOME || key == 'g' ? -CARD_ROWS
               : key == TUI_KEY_END || key == 'G'  ? CARD_ROWS
                                                   : 0;
    if (key == '[' || key == ']') {
        state->cursor += key == ']' ? 1 : state->cursor > 0 ? -1 : 0;
        state->span = 0;
        return true;
    }
    if (!state->open || !rows)
        return false;
    state->span += rows;
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: the list, and the card of the one under the cursor: claim, evidence, what to do, gain,
 * how to verify, when it is wrong.
 */

#include "reports/sections/tables.h"
#include "reports/words/compare.h"
#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

/* One line of the list; a gain that does not fit is omitted. */
static void draw_entry(struct tui_cells *cells, struct tui_rect area,
                       const struct an_finding *finding, int number, bool selected)
{
    char gain[64];
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    if (selected)
        tui_fill(cells, area, 0, style);
    int column = tui_printf(cells, area, 0, 0, style, "%2d %s", number, finding->id);
    rep_gain_text(gain, sizeof gain, &finding->gain);
    if (area.columns > column + 1 + tui_width(cells, gain))
        tui_text_right(cells, area, 0, style, gain);
}

/* A labelled paragraph of the card. Returns the rows it takes. */
static int draw_field(struct tui_cells *cells, struct tui_rect area, int row, const char *label,
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
static int draw_card(struct tui_cells *cells, struct tui_rect area,
                     const struct an_finding *finding)
{
    char gain[64], text[900];
    int row = tui_paragraph(cells, area, 0, 0, TUI_BOLD, finding->claim) + (area.rows > 8);
    row += draw_field(cells, area, row, "Do", finding->action, TUI_GOOD);
    rep_gain_text(gain, sizeof gain, &finding->gain);
    snprintf(text, sizeof text, "%s; %s confidence%s%.500s", gain,
             an_confidence_text(finding->confidence), finding->effort ? "; effort: " : "",
             rep_or(finding->effort, ""));
    row += draw_field(cells, area, row, "Gain", text, TUI_NORMAL);
    for (size_t i = 0;
         i < sizeof finding->evidence / sizeof *finding->evidence && finding->evidence[i]; i++)
        row += draw_field(cells, area, row, i ? "" : "Evidence", finding->evidence[i], TUI_NORMAL);
    row += draw_field(cells, area, row, "Computed", finding->method, TUI_NORMAL);
    row += draw_field(cells, area, row, "Verify", finding->verify, TUI_KEY);
    return row + draw_field(cells, area, row, "Invalid if", finding->wrong_when, TUI_WARN);
}

#define CARD_ROWS 200 /* at most; on the narrowest screens */

/* Draws the rows of the card from `top` on that there is room for; the last one says how many more
 * there are and which keys show them (`what`). Moves `top` back to what exists. */
static void draw_card_part(struct tui_cells *cells, struct tui_rect area,
                           const struct an_finding *finding, int *top, const char *what)
{
    struct tui_cells all = {.glyphs = cells->glyphs};
    if (area.rows <= 0 || area.columns <= 0 || tui_cells_resize(&all, CARD_ROWS, area.columns))
        return;
    int rows = draw_card(&all, (struct tui_rect){0, 0, CARD_ROWS, area.columns}, finding),
        most = rows > area.rows ? rows - area.rows : 0;
    *top = rep_clamp(*top, 0, most);
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
static void draw_none(struct tui_cells *cells, struct tui_rect area, const struct an_result *result)
{
    int row;
    if (result->healthy)
        row = tui_paragraph(cells, area, 0, 0, TUI_GOOD,
                            "Healthy: nothing above 2 % of a step was found.");
    else
        row =
            tui_paragraph(cells, area, 0, 0, TUI_NORMAL,
                          "No finding: nothing that this run's data can prove is worth a change.");
    if (result->checked_count)
        tui_text(cells, area, ++row, 0, TUI_TITLE, "Looked at");
    for (size_t i = 0; i < result->checked_count; i++)
        row += tui_paragraph(cells, area, row + 1, 2, TUI_NORMAL, result->checked[i]);
    if (result->not_checked_count)
        tui_text(cells, area, ++row, 0, TUI_TITLE, "Not checked");
    for (size_t i = 0; i < result->not_checked_count; i++) {
        char line[512];
        snprintf(line, sizeof line, "%.60s: %.300s \xe2\x86\x92 %.100s",
                 result->not_checked[i].check, result->not_checked[i].reason,
                 result->not_checked[i].to_check);
        row += tui_paragraph(cells, area, row + 1, 2, TUI_NORMAL, line);
    }
    if (result->steps.reason)
        tui_paragraph(cells, area, row + 2, 0, TUI_DIM, result->steps.reason);
}

/* For a search: words of the row, of the claim and of what to do. */
static bool finding_holds(const void *owner, int row, const char *words)
{
    const struct an_finding *finding = (const struct an_finding *)owner + row;
    return tui_holds(finding->id, words) || tui_holds(rep_or(finding->claim, ""), words) ||
           tui_holds(rep_or(finding->action, ""), words);
}

/* Draws the list with the card of the selected finding below it or, on a wide screen, beside it;
 * or the card alone, after Enter. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    int count = (int)result->finding_count;
    if (!count) {
        draw_none(cells, area, result);
        return;
    }
    tui_seek(state, count, finding_holds, result->findings);
    if (state->open) {
        tui_state_clamp(state, count, 1);
        state->top = state->cursor;
        draw_entry(cells, tui_upper(area, 1), &result->findings[state->cursor], state->cursor + 1,
                   true);
        state->page = area.rows > 2 ? area.rows - 1 : 1;
        draw_card_part(cells, tui_lower(area, 1), &result->findings[state->cursor], &state->span,
                       "j, k");
        return;
    }
    bool beside = area.columns >= 120;
    int shown = beside || count < area.rows / 3 ? count : rep_clamp(area.rows / 3, 1, count);
    tui_state_clamp(state, count, shown);
    state->page = shown;
    struct tui_rect list = beside ? tui_left(area, 54) : tui_upper(area, shown);
    struct tui_rect rest = beside ? tui_right(area, 57) : tui_lower(area, shown);
    for (int i = state->top; i < count && i - state->top < list.rows; i++)
        draw_entry(cells, tui_upper(tui_lower(list, i - state->top), 1), &result->findings[i],
                   i + 1, i == state->cursor);
    if (!beside) {
        tui_rule(cells, rest, 0);
        rest = tui_lower(rest, 1);
    } else if (count > 1) {
        tui_text(cells, tui_lower(list, count + 1), 0, 0, TUI_DIM, "gains do not add up");
    }
    state->span = 0;
    if (state->cursor >= 0 && state->cursor < count)
        draw_card_part(cells, rest, &result->findings[state->cursor], &state->span, "Enter");
}

/* How far a key moves in an open card, in rows; 0: it is another key. */
static int rows_of(const struct tui_view_state *state, int key)
{
    switch (key) {
    case TUI_KEY_DOWN:
    case 'j':
        return 1;
    case TUI_KEY_UP:
    case 'k':
        return -1;
    case TUI_KEY_PAGE_DOWN:
        return state->page;
    case TUI_KEY_PAGE_UP:
        return -state->page;
    case TUI_KEY_HOME:
    case 'g':
        return -CARD_ROWS;
    case TUI_KEY_END:
    case 'G':
        return CARD_ROWS;
    default:
        return 0;
    }
}

/* In an open card the keys that move go through its rows (`span`), and [ ] to another finding. */
static bool take(struct tui_view_state *state, int key)
{
    if (key == '[' || key == ']') {
        if (key == ']')
            state->cursor++;
        else if (state->cursor > 0)
            state->cursor--;
        state->span = 0;
        return true;
    }
    int rows = rows_of(state, key);
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
    .texts = true,
    .draw = draw,
    .take = take};

/* SPDX-License-Identifier: Apache-2.0
 *
 * What several views draw with: paragraphs, lines of items, parts of rectangles, the classes of a
 * step, and sections of the report.
 */
#include "tui/screen/draw.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/lines.h"
#include "reports/words/compare.h"
#include "reports/words/escape.h"
#include "reports/words/phrase.h"

/* ---- words ----------------------------------------------------------------------------------- */

/* Breaks at the last blank that fits, or in the middle of a word that is longer than the line. */
size_t tui_line_of(const struct tui_cells *cells, const char *text, int columns, size_t *next)
{
    size_t length = 0, blank = 0, bytes = strlen(text), taken;
    char cell[16];
    int used = 0, width;
    for (; length < bytes; length += taken) {
        taken = rep_show(cell, text + length, bytes - length, cells->glyphs != TUI_ASCII, &width);
        if (text[length] == ' ')
            blank = length;
        if (used + width > columns)
            break;
        used += width;
    }
    *next = length;
    if (length == bytes)
        return bytes;
    if (blank) {
        *next = blank + 1;
        return blank;
    }
    return length;
}

int tui_paragraph(struct tui_cells *cells, struct tui_rect area, int row, int column,
                  enum tui_style style, const char *text)
{
    int columns = area.columns - column, rows = 0;
    char line[2048];
    if (columns <= 0)
        return 0;
    while (*text && row + rows < area.rows) {
        size_t next, length = tui_line_of(cells, text, columns, &next);
        if (!next)
            break;
        length = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, text, length);
        line[length] = 0;
        bool last = row + rows + 1 == area.rows && text[next];
        tui_text(cells, area, row + rows, column, style,
                 last ? text : line); /* cut with an ellipsis */
        text += next;
        rows++;
    }
    return rows;
}

int tui_paragraph_rows(const struct tui_cells *cells, int columns, const char *text)
{
    int rows = 0;
    for (size_t next = 0; columns > 0 && *text; text += next, rows++) {
        tui_line_of(cells, text, columns, &next);
        if (!next)
            break;
    }
    return rows;
}

struct tui_line tui_line_begin(struct tui_cells *cells, struct tui_rect area, int row,
                               const char *label)
{
    tui_text(cells, area, row, 0, TUI_TITLE, label);
    int first = area.columns < 50 ? (int)strlen(label) + 1 : TUI_LABEL;
    return (struct tui_line){cells, area, row, first, first};
}

int tui_item_room(struct tui_line *line, int columns)
{
    int begin = line->column > line->first ? line->column + 2 : line->column;
    if (columns <= 0 || begin + columns > line->area.columns)
        return -1;
    line->column = begin + columns;
    return begin;
}

/* An item that does not fit is omitted whole, except the first, which is cut. */
bool tui_item(struct tui_line *line, enum tui_style style, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool first = line->column == line->first;
    int before = line->column, begin = tui_item_room(line, tui_width(line->cells, text));
    if (begin < 0 && !first)
        return false;
    tui_text(line->cells, line->area, line->row, begin < 0 ? before : begin, style, text);
    line->column = begin < 0 ? line->area.columns : line->column;
    return true;
}

bool tui_item_value(struct tui_line *line, enum tui_style style, struct an_value value,
                    const char *format)
{
    return value.valid && tui_item(line, style, format, value.value);
}

int tui_absent(struct tui_cells *cells, struct tui_rect area, int row, const char *what,
               const char *reason)
{
    char text[1024];
    snprintf(text, sizeof text, "%.80s: %.800s", what, rep_or(reason, "unknown"));
    return tui_paragraph(cells, area, row, area.columns > 30, TUI_DIM, text);
}

const struct an_result *tui_result(struct tui_cells *cells, struct tui_rect area,
                                   const struct tui_model *model)
{
    if (!model->result)
        tui_absent(cells, area, 0, "No analysis yet", model->result_reason);
    return model->result;
}

struct tui_rect tui_upper(struct tui_rect area, int rows)
{
    rows = rep_clamp(rows, 0, area.rows);
    return (struct tui_rect){area.row, area.column, rows, area.columns};
}

struct tui_rect tui_lower(struct tui_rect area, int rows)
{
    rows = rep_clamp(rows, 0, area.rows);
    return (struct tui_rect){area.row + rows, area.column, area.rows - rows, area.columns};
}

struct tui_rect tui_left(struct tui_rect area, int columns)
{
    columns = rep_clamp(columns, 0, area.columns);
    return (struct tui_rect){area.row, area.column, area.rows, columns};
}

struct tui_rect tui_right(struct tui_rect area, int columns)
{
    columns = rep_clamp(columns, 0, area.columns);
    return (struct tui_rect){area.row, area.column + columns, area.rows, area.columns - columns};
}

/* ---- classes --------------------------------------------------------------------------------- */

static const struct {
    char letter;
    const char *word;
} classes[AN_CLASS_COUNT] = {
    [AN_CLASS_COMPUTE] = {'C', "compute"}, [AN_CLASS_COMM] = {'N', "comm"},
    [AN_CLASS_BUBBLE] = {'B', "bubble"},   [AN_CLASS_COPY] = {'M', "copies"},
    [AN_CLASS_INPUT] = {'I', "input"},     [AN_CLASS_IO] = {'O', "io"},
    [AN_CLASS_HOST] = {'H', "host"},       [AN_CLASS_UNATTRIBUTED] = {'.', "other"},
};

uint32_t tui_class_letter(const struct tui_cells *cells, int class)
{
    if (class < 0 || class >= AN_CLASS_COUNT)
        return '?';
    return class == AN_CLASS_UNATTRIBUTED && cells->glyphs != TUI_ASCII
               ? 0xb7
               : (uint32_t)classes[class].letter;
}

const char *tui_class_word(int class)
{
    return class < 0 || class >= AN_CLASS_COUNT ? "unknown" : classes[class].word;
}

void tui_class_shares(const struct an_budget *budget, double pct[AN_CLASS_COUNT])
{
    AN_EACH_CLASS(class)
        pct[class] = !budget->reason && budget->pct[class].valid ? budget->pct[class].value : 0;
}

void tui_class_bar(struct tui_cells *cells, struct tui_rect area, int row, int column, int columns,
                   const double pct[AN_CLASS_COUNT])
{
    struct tui_part part[AN_CLASS_COUNT];
    AN_EACH_CLASS(class)
        part[class] = (struct tui_part){pct[class], (enum tui_style)(TUI_CLASS + class),
                                        tui_class_letter(cells, class)};
    tui_stack(cells, area, row, column, columns, part, AN_CLASS_COUNT);
}

/* The class with the share at `place`, the largest first; -1: there are not so many. */
static int nth_largest(const double pct[AN_CLASS_COUNT], int place)
{
    AN_EACH_CLASS(class) {
        int before = 0;
        for (int i = 0; i < AN_CLASS_COUNT; i++)
            before += pct[i] > pct[class] || (i < class && !(pct[i] < pct[class]));
        if (before == place)
            return pct[class] > 0 ? class : -1;
    }
    return -1;
}

int tui_class_legend(struct tui_cells *cells, struct tui_rect area, int row, int rows,
                     const double pct[AN_CLASS_COUNT])
{
    int column = 0, used = 0;
    for (int place = 0; place < AN_CLASS_COUNT && rows > 0; place++) {
        char text[64];
        int class = nth_largest(pct, place);
        if (class < 0 || pct[class] < 0.05)
            break;
        snprintf(text, sizeof text, " %s %.*f %%", tui_class_word(class), pct[class] < 0.95 ? 1 : 0,
                 pct[class]);
        int width = 1 + tui_width(cells, text);
        if (column && column + width > area.columns) {
            if (used + 1 == rows)
                break;
            used++;
            column = 0;
        }
        tui_glyph(cells, area, row + used, column, (enum tui_style)(TUI_CLASS + class),
                  tui_class_letter(cells, class));
        tui_text(cells, area, row + used, column + 1, TUI_NORMAL, text);
        column += width + 2;
    }
    return column ? used + 1 : 0;
}

/* ---- the report's words ---------------------------------------------------------------------- */

/* Draws a line of the page. It is bold between the two escape sequences that reports/page/lines.c
 * writes; everything else in it is clean already. */
static void draw_line(struct tui_cells *cells, struct tui_rect area, int row, const char *line,
                      size_t length, bool *bold)
{
    char part[1024];
    int column = 0;
    while (length) {
        const char *escape = memchr(line, '\x1b', length);
        size_t bytes = escape ? (size_t)(escape - line) : length;
        bytes = bytes < sizeof part ? bytes : sizeof part - 1;
        memcpy(part, line, bytes);
        part[bytes] = 0;
        column += tui_text(cells, area, row, column, *bold ? TUI_TITLE : TUI_NORMAL, part);
        line += bytes;
        length -= bytes;
        if (escape && line == escape) {
            size_t skip = length >= 4 ? 4 : length; /* ESC [ 1 m, ESC [ 0 m */
            *bold = length > 2 && line[2] == '1';
            line += skip;
            length -= skip;
        }
    }
}

/* Writes sections of the report into memory as lines of this width. The caller frees the text;
 * NULL: no memory. */
static char *section_text(const struct tui_cells *cells, int columns,
                          const struct an_result *result, const tui_section *sections)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    struct page page = {.out = out,
                        .ops = &page_lines,
                        .utf8 = cells->glyphs != TUI_ASCII,
                        .color = true,
                        .rows = 1000,
                        .missing = result->trust.missing};
    page.width = columns < 40 ? 40 : columns;
    page.gap = true; /* no blank line at the top */
    for (; *sections; sections++)
        (*sections)(&page, result);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Counts the lines of the text; blank ones at its end are cut off. */
static int count_lines(char *text)
{
    size_t length = strlen(text);
    int lines = 0;
    while (length > 1 && text[length - 1] == '\n' && text[length - 2] == '\n')
        text[--length] = 0;
    for (const char *character = text; *character; character++)
        lines += *character == '\n';
    return lines;
}

int tui_sections_rows(const struct tui_cells *cells, int columns, const struct an_result *result,
                      const tui_section *sections)
{
    char *text = section_text(cells, columns, result, sections);
    int rows = text ? count_lines(text) : 0;
    free(text);
    return rows;
}

/* Does the line hold the words? Its escape sequences are no text. */
static bool line_holds(const char *line, size_t length, const char *words)
{
    char text[1024];
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < sizeof text; i++) {
        if (line[i] == '\x1b')
            i += 3;
        else
            text[used++] = line[i];
    }
    text[used] = 0;
    return *words && tui_holds(text, words);
}

/* Goes to the next line, or the one before, that holds the words that are searched; round the end.
 */
static void seek_line(const char *text, int lines, struct tui_view_state *state)
{
    int first = 0, last = 0, before = 0, after = 0, index = 1;
    for (const char *line = text; *line && index <= lines; index++) {
        size_t length = strcspn(line, "\n");
        if (line_holds(line, length, state->search)) {
            first = first ? first : index;
            last = index;
            before = index < state->found ? index : before;
            after = !after && index > state->found ? index : after;
        }
        line += length + (line[length] == '\n');
    }
    int next = state->seek > 0 ? after : before;
    if (!next)
        next = state->seek > 0 ? first : last;
    if (next) {
        state->found = next;
        state->cursor = next - 1;
    }
    state->seek = 0;
}

void tui_mark_row(struct tui_cells *cells, struct tui_rect area, int row)
{
    struct tui_rect at = tui_inside(cells, tui_upper(tui_lower(area, row), 1));
    for (int column = 0; at.rows > 0 && column < at.columns; column++)
        cells->cell[(size_t)at.row * (size_t)cells->columns + (size_t)(at.column + column)].style =
            TUI_SELECTED;
}

/* The sections are printed as for a terminal and the lines copied into cells, so that both
 * always say the same. */
void tui_sections(struct tui_cells *cells, struct tui_rect area, const struct an_result *result,
                  const tui_section *sections, struct tui_view_state *state)
{
    if (area.rows <= 0 || area.columns <= 0)
        return;
    char *text = section_text(cells, area.columns, result, sections);
    if (!text)
        return;
    int lines = count_lines(text), index = 0;
    bool bold = false;
    int most = lines > area.rows ? lines - area.rows : 0;
    if (state->seek && *state->search)
        seek_line(text, lines, state);
    state->cursor = rep_clamp(state->cursor, 0, most);
    state->top = state->cursor;
    state->page = area.rows;
    char more[40] = "";
    int below = lines - state->top - area.rows;
    if (below > 0)
        snprintf(more, sizeof more, area.columns < 60 ? " +%d: j k" : "  %d more %s: j, k", below,
                 REP_PLURAL(below, "line", "lines"));
    tui_text_right(cells, area, area.rows - 1, TUI_DIM, more);
    for (const char *line = text; *line; index++) {
        size_t length = strcspn(line, "\n");
        int row = index - state->top;
        struct tui_rect part = area;
        if (row == area.rows - 1) /* leaves room for the note */
            part = tui_left(area, area.columns - tui_width(cells, more));
        if (row >= 0 && row < area.rows)
            draw_line(cells, part, row, line, length, &bold);
        if (row >= 0 && row < area.rows && line_holds(line, length, state->search))
            tui_mark_row(cells, part, row);
        line += length + (line[length] == '\n');
    }
    free(text);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the calls of a page (page.h) as lines of text: words flow to the width, tables drop
 * the columns that do not fit, bars are drawn in eighths of a cell. Blanks are held back until
 * something follows them, so that no line ends in one.
 */
#include "reports/page/lines.h"

#include <math.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/words/escape.h"

#define WIDTH_LEAST   40
#define WIDTH_MOST    200
#define WIDTH_DEFAULT 100
#define NARROW        60 /* below, a label has a line of its own */
#define MEDIUM        80 /* below, an entry takes several lines */
#define LABEL         14 /* columns of the label at the left of a line */
#define TEXT_COLUMNS  1000
#define GAIN          22 /* columns of the gain of an entry; a longer one is never cut */
#define HANGING_LEAST 28 /* columns beside a gain: a text with less room goes below it */
#define NAME_LEAST    20
#define NAME_MOST     60
#define NAME_BAR      34 /* beside bars */
#define BAR_LEAST     8
#define BAR_MOST      50

/* Ends the line; blanks that were held back are dropped. */
static void new_line(struct page *page)
{
    fputc('\n', page->out);
    page->line++;
    page->column = 0;
    page->blanks = 0;
}

/* Holds blanks back until something follows them. */
static void spaces(struct page *page, int count)
{
    if (count > 0) {
        page->blanks += count;
        page->column += count;
    }
}

/* Writes text after the blanks that were held back for it. */
static void put(struct page *page, const char *text)
{
    if (!*text)
        return;
    for (; page->blanks; page->blanks--)
        fputc(' ', page->out);
    fputs(text, page->out);
    page->gap = false;
}

/* A blank line, but never two in a row. */
static void blank(struct page *page)
{
    if (!page->gap)
        new_line(page);
    page->gap = true;
}

/* Bytes of `text` that make at most `columns` columns; the text is clean. */
static size_t cut_at(const char *text, int columns)
{
    size_t cut = 0, length = strlen(text), bytes;
    for (int used = 0; cut < length; cut += bytes) {
        long code = rep_decode(text + cut, length - cut, &bytes);
        used += code < 0 ? 1 : rep_char_width(code);
        if (used > columns)
            break;
    }
    return cut;
}

/* Goes on in the line, or in a new one where the word does not fit. */
static void begin_word(struct page *page, int indent, const char *word)
{
    bool start = page->column <= indent;
    if (!start && page->column + 1 + rep_width(word) > page->width) {
        new_line(page);
        start = true;
    }
    spaces(page, start ? indent - page->column : 1);
}

/* Writes a clean text word by word; a word longer than a line is cut hard. */
static void flow(struct page *page, int indent, const char *text)
{
    while (*text) {
        while (*text == ' ')
            text++;
        size_t length = strcspn(text, " ");
        if (!length)
            return;
        char word[PAGE_TEXT];
        length = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, length);
        word[length] = 0;
        begin_word(page, indent, word);
        size_t fits = cut_at(word, page->width - page->column);
        if (fits < length && fits) {
            length = fits;
            word[fits] = 0;
        }
        put(page, word);
        page->column += rep_width(word);
        text += length;
    }
}

/* A text of its own, broken into lines. */
static void paragraph(struct page *page, int indent, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    page->column = 0;
    flow(page, indent, clean);
    new_line(page);
}

/* Writes one cell of a table: cleaned, cut and padded to `columns`, at the left or (right) at the
 * right. 0 columns: as wide as the text. */
static void put_cell(struct page *page, const char *text, int columns, bool right)
{
    char clean[PAGE_TEXT];
    int width = rep_clean(clean, sizeof clean, text, columns ? columns : TEXT_COLUMNS, page->utf8);
    if (right)
        spaces(page, columns - width);
    put(page, clean);
    page->column += width;
    if (!right)
        spaces(page, columns - width);
}

/* Draws a bar that has `cells` cells at 100 %, in eighths of a cell with UTF-8. */
static void put_bar(struct page *page, double pct, int cells)
{
    static const char *const eighths[] = {"",
                                          "\xe2\x96\x8f",
                                          "\xe2\x96\x8e",
                                          "\xe2\x96\x8d",
                                          "\xe2\x96\x8c",
                                          "\xe2\x96\x8b",
                                          "\xe2\x96\x8a",
                                          "\xe2\x96\x89"};
    double limited = fmin(fmax(pct, 0), 100);
    int steps = page->utf8 ? 8 : 1, length = (int)lround(limited / 100 * cells * steps);
    if (!length && limited > 0 && page->utf8)
        length = 1; /* a share above 0 is always visible */
    for (int i = 0; i < length / steps; i++)
        put(page, page->utf8 ? "\xe2\x96\x88" : "#");
    put(page, eighths[page->utf8 ? length % 8 : 0]);
}

static void bold(struct page *page, bool on)
{
    if (page->color)
        fputs(on ? "\x1b[1m" : "\x1b[0m", page->out);
}

/* Writes a bold paragraph. */
static void head(struct page *page, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    bold(page, true);
    page->column = 0;
    flow(page, 0, clean);
    bold(page, false);
    new_line(page);
}

/* Begins a line of items. On a narrow page the label has a line of its own. */
static void label(struct page *page, const char *text)
{
    bool narrow = page->width < NARROW;
    page->column = page->indent = 0;
    if (!text)
        return;
    page->indent = narrow ? 2 : LABEL;
    bold(page, true);
    put_cell(page, text, narrow ? 0 : LABEL, false);
    bold(page, false);
    if (narrow)
        new_line(page);
}

/* Puts a sign between two items, or begins a line where the next one does not fit. */
static void separate(struct page *page, int width)
{
    if (page->column + 3 + width > page->width) {
        new_line(page);
    } else {
        put(page, page->utf8 ? " \xc2\xb7" : " |");
        page->column += 2;
    }
}

/* Writes an item after the others of its line, or on a new line where it does not fit. */
static void item(struct page *page, const char *text)
{
    char clean[PAGE_TEXT];
    int width = rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    if (page->joined)
        separate(page, width);
    flow(page, page->indent, clean);
}

/* Writes "1  ID  gain  text" with the text hanging. The text goes on a line of its own on a narrow
 * page, and beside a gain that leaves too little room for it. */
static void entry(struct page *page, size_t number, const char *id, const char *gain,
                  const char *text)
{
    char digits[32];
    bool medium = page->width < MEDIUM;
    snprintf(digits, sizeof digits, "%2zu  ", number);
    page->column = 0;
    put_cell(page, digits, 4, false);
    put_cell(page, id, strlen(id) < 19 ? 19 : (int)strlen(id) + 1, false);
    if (page->width < NARROW) {
        new_line(page);
        put_cell(page, "", 4, false);
    }
    int end = page->column + GAIN;
    put_cell(page, gain, 0, false);
    spaces(page, page->column < end ? end - page->column : 2);
    bool below = medium || page->width - page->column < HANGING_LEAST;
    if (below && *text)
        new_line(page);
    page->indent = below ? 4 : page->column;
    item(page, text);
    new_line(page);
}

/* Writes a word of the definitions with its unit and its meaning as a hanging paragraph. */
static void term(struct page *page, const char *word, const char *unit, const char *text)
{
    char all[1600];
    if (*unit)
        snprintf(all, sizeof all, "%s [%s]: %s", word, unit, text);
    else
        snprintf(all, sizeof all, "%s: %s", word, text);
    paragraph(page, 2, all);
}

/* How the columns of a page are shared out among the parts of a table. */
struct fit {
    size_t shown;  /* columns of the table */
    int name, bar; /* cells */
    int gap;       /* keeps a name that was cut off the next column */
};

/* Gives the name its least width, adds columns of the table while they fit, and returns the rest to
 * the name or to the bar. */
static struct fit fit_columns(const struct page *page, const struct rep_table *table)
{
    struct fit fit = {.gap = 1};
    int least = table->name_least * (page->width < 100 ? page->width : 100) / 100, used;
    used = least = least < NAME_LEAST ? NAME_LEAST : least;
    while (fit.shown < table->columns && used + table->column[fit.shown].columns <= page->width)
        used += table->column[fit.shown++].columns;
    fit.name = least + (page->width - used);
    fit.name = fit.name > NAME_MOST ? NAME_MOST : fit.name;
    if (table->bar) {
        fit.gap = 0; /* the columns of such a table are wide enough */
        int left = page->width - (used - least);
        fit.name = left - 1 < NAME_BAR ? left - 1 : NAME_BAR;
        fit.bar = left - fit.name - 3;
        fit.bar = fit.bar > BAR_MOST ? BAR_MOST : fit.bar;
        if (fit.bar < BAR_LEAST)
            fit.bar = 0;
    }
    return fit;
}

/* Writes the title over the names, and the heads of the columns that fit. */
static void table_head(struct page *page, const struct rep_table *table, const struct fit *fit)
{
    bold(page, true);
    page->column = 0;
    put_cell(page, table->title, fit->name, false);
    for (size_t i = 0; i < fit->shown; i++)
        put_cell(page, table->column[i].head, table->column[i].columns, true);
    bold(page, false);
    new_line(page);
}

/* Writes one row: its name, the columns that fit, and its bar. */
static void table_row(struct page *page, const struct rep_table *table, const struct fit *fit,
                      const void *row)
{
    char name[REP_NAME + 1] = " ", cell[REP_CELL];
    table->name(name + 1, row);
    page->column = 0;
    put_cell(page, name, fit->name - fit->gap, false);
    put_cell(page, "", fit->gap, false);
    for (size_t i = 0; i < fit->shown; i++)
        put_cell(page, rep_table_cell(table, i, row, cell), table->column[i].columns, true);
    double pct = table->bar && fit->bar ? table->bar(row) : NAN;
    if (!isnan(pct)) {
        put_cell(page, "", 2, false);
        put_bar(page, pct, fit->bar);
    }
    new_line(page);
}

static void more_rows(struct page *page, size_t rows)
{
    char text[80];
    snprintf(text, sizeof text, " %zu more rows: --top N, or tacho report --json", rows);
    paragraph(page, 1, text);
}

/* Writes a table and, where rows are omitted, how many. */
static void table_lines(struct page *page, const struct rep_table *table)
{
    struct fit fit = fit_columns(page, table);
    size_t most = rep_table_most(page, table);
    blank(page);
    table_head(page, table, &fit);
    for (size_t i = 0; i < most; i++)
        table_row(page, table, &fit, rep_table_row(table, i));
    if (table->count > most)
        more_rows(page, table->count - most);
}

const struct page_ops page_lines = {.title = head,
                                    .head = head,
                                    .text = paragraph,
                                    .blank = blank,
                                    .label = label,
                                    .item = item,
                                    .end = new_line,
                                    .entry = entry,
                                    .term = term,
                                    .table = table_lines};

int page_lines_width(int width)
{
    if (!width)
        return WIDTH_DEFAULT;
    if (width < WIDTH_LEAST)
        return WIDTH_LEAST;
    return width > WIDTH_MOST ? WIDTH_MOST : width;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/page/lines.h"

#include <math.h>
#include <string.h>

#include "reports/words/escape.h"

#define TEXT_COLUMNS 1000

void line_newline(struct page *page)
{
    fputc('\n', page->out);
    page->column = 0;
    page->blanks = 0;
}

static void spaces(struct page *page, int n)
{
    if (n > 0) {
        page->blanks += n;
        page->column += n;
    }
}

static void put(struct page *page, const char *text)
{
    if (!*text)
        return;
    for (; page->blanks; page->blanks--)
        fputc(' ', page->out);
    fputs(text, page->out);
    page->gap = false;
}

void line_blank(struct page *page)
{
    if (!page->gap)
        line_newline(page);
    page->gap = true;
}

/* Bytes of `text` that make at most `columns` columns; the text is clean. */
static size_t cut_at(const char *text, int columns)
{
    size_t at = 0, n = strlen(text), bytes;
    int used = 0;
    while (at < n) {
        long code = rep_decode(text + at, n - at, &bytes);
        int w = code < 0 ? 1 : rep_char_width(code);
        if (used + w > columns)
            break;
        used += w;
        at += bytes;
    }
    return at;
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
        bool start = page->column <= indent;
        if (!start && page->column + 1 + rep_width(word) > page->width) {
            line_newline(page);
            start = true;
        }
        spaces(page, start ? indent - page->column : 1);
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

static void text_flow(struct page *page, int indent, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    page->column = 0;
    flow(page, indent, clean);
    line_newline(page);
}

void line_bold(struct page *page, bool on)
{
    if (page->color)
        fputs(on ? "\x1b[1m" : "\x1b[0m", page->out);
}

static void head(struct page *page, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    line_bold(page, true);
    page->column = 0;
    flow(page, 0, clean);
    line_bold(page, false);
    line_newline(page);
}

static void label(struct page *page, const char *text)
{
    bool narrow = page->width < 60;
    page->column = 0;
    page->indent = !text ? 0 : narrow ? 2 : LINES_LABEL;
    if (!text)
        return;
    line_bold(page, true);
    line_cell(page, text, narrow ? 0 : LINES_LABEL, false);
    line_bold(page, false);
    if (narrow)
        line_newline(page);
}

static void item(struct page *page, const char *text)
{
    char clean[PAGE_TEXT];
    int w = rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, page->utf8);
    if (page->joined) {
        if (page->column + 3 + w > page->width) {
            line_newline(page);
        } else {
            put(page, page->utf8 ? " \xc2\xb7" : " |");
            page->column += 2;
        }
    }
    flow(page, page->indent, clean);
}

/* "1  ID  gain  text", the text hanging; a narrow page has more lines. */
static void entry(struct page *page, size_t number, const char *id, const char *gain,
                  const char *text)
{
    char n[32];
    snprintf(n, sizeof n, "%2zu  ", number);
    page->column = 0;
    line_cell(page, n, 4, false);
    line_cell(page, id, 19, false);
    if (page->width < 60) {
        line_newline(page);
        line_cell(page, "", 4, false);
    }
    line_cell(page, gain, page->width < 80 ? 0 : 22, false);
    if (page->width < 80)
        line_newline(page);
    page->indent = page->width < 80 ? 4 : page->column;
    item(page, text);
    line_newline(page);
}

static void term(struct page *page, const char *word, const char *unit, const char *text)
{
    char all[1600];
    snprintf(all, sizeof all, "%s%s%s%s: %s", word, *unit ? " [" : "", unit, *unit ? "]" : "",
             text);
    text_flow(page, 2, all);
}

void line_cell(struct page *page, const char *text, int columns, bool right)
{
    char clean[PAGE_TEXT];
    int w = rep_clean(clean, sizeof clean, text, columns ? columns : TEXT_COLUMNS, page->utf8);
    if (right)
        spaces(page, columns - w);
    put(page, clean);
    page->column += w;
    if (!right)
        spaces(page, columns - w);
}

void line_bar(struct page *page, double pct, int cells)
{
    static const char *const eighths[] = {"",
                                          "\xe2\x96\x8f",
                                          "\xe2\x96\x8e",
                                          "\xe2\x96\x8d",
                                          "\xe2\x96\x8c",
                                          "\xe2\x96\x8b",
                                          "\xe2\x96\x8a",
                                          "\xe2\x96\x89"};
    double limited = pct < 0 ? 0 : pct > 100 ? 100 : pct;
    int steps = page->utf8 ? 8 : 1, length = (int)lround(limited / 100 * cells * steps);
    if (!length && limited > 0 && page->utf8)
        length = 1; /* what is there can be seen */
    for (int i = 0; i < length / steps; i++)
        put(page, page->utf8 ? "\xe2\x96\x88" : "#");
    put(page, eighths[page->utf8 ? length % 8 : 0]);
}

const struct page_ops page_lines = {.title = head,
                                    .head = head,
                                    .text = text_flow,
                                    .blank = line_blank,
                                    .label = label,
                                    .item = item,
                                    .end = line_newline,
                                    .entry = entry,
                                    .term = term,
                                    .table = line_table};

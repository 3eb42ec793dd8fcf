/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/page/lines.h"

#include <math.h>
#include <string.h>

#include "reports/words/escape.h"

#define TEXT_COLUMNS 1000

void line_newline(struct page *p)
{
    fputc('\n', p->out);
    p->column = 0;
    p->blanks = 0;
}

static void spaces(struct page *p, int n)
{
    if (n > 0) {
        p->blanks += n;
        p->column += n;
    }
}

static void put(struct page *p, const char *text)
{
    if (!*text)
        return;
    for (; p->blanks; p->blanks--)
        fputc(' ', p->out);
    fputs(text, p->out);
    p->gap = false;
}

void line_blank(struct page *p)
{
    if (!p->gap)
        line_newline(p);
    p->gap = true;
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
static void flow(struct page *p, int indent, const char *text)
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
        bool start = p->column <= indent;
        if (!start && p->column + 1 + rep_width(word) > p->width) {
            line_newline(p);
            start = true;
        }
        spaces(p, start ? indent - p->column : 1);
        size_t fits = cut_at(word, p->width - p->column);
        if (fits < length && fits) {
            length = fits;
            word[fits] = 0;
        }
        put(p, word);
        p->column += rep_width(word);
        text += length;
    }
}

static void text_flow(struct page *p, int indent, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    p->column = 0;
    flow(p, indent, clean);
    line_newline(p);
}

void line_bold(struct page *p, bool on)
{
    if (p->color)
        fputs(on ? "\x1b[1m" : "\x1b[0m", p->out);
}

static void head(struct page *p, const char *text)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    line_bold(p, true);
    p->column = 0;
    flow(p, 0, clean);
    line_bold(p, false);
    line_newline(p);
}

static void label(struct page *p, const char *text)
{
    bool narrow = p->width < 60;
    p->column = 0;
    p->indent = !text ? 0 : narrow ? 2 : LINES_LABEL;
    if (!text)
        return;
    line_bold(p, true);
    line_cell(p, text, narrow ? 0 : LINES_LABEL, false);
    line_bold(p, false);
    if (narrow)
        line_newline(p);
}

static void item(struct page *p, const char *text)
{
    char clean[PAGE_TEXT];
    int w = rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    if (p->joined) {
        if (p->column + 3 + w > p->width) {
            line_newline(p);
        } else {
            put(p, p->utf8 ? " \xc2\xb7" : " |");
            p->column += 2;
        }
    }
    flow(p, p->indent, clean);
}

/* "1  ID  gain  text", the text hanging; a narrow page has more lines. */
static void entry(struct page *p, size_t number, const char *id, const char *gain, const char *text)
{
    char n[32];
    snprintf(n, sizeof n, "%2zu  ", number);
    p->column = 0;
    line_cell(p, n, 4, false);
    line_cell(p, id, 19, false);
    if (p->width < 60) {
        line_newline(p);
        line_cell(p, "", 4, false);
    }
    line_cell(p, gain, p->width < 80 ? 0 : 22, false);
    if (p->width < 80)
        line_newline(p);
    p->indent = p->width < 80 ? 4 : p->column;
    item(p, text);
    line_newline(p);
}

static void term(struct page *p, const char *word, const char *unit, const char *text)
{
    char all[1600];
    snprintf(all, sizeof all, "%s%s%s%s: %s", word, *unit ? " [" : "", unit, *unit ? "]" : "",
             text);
    text_flow(p, 2, all);
}

void line_cell(struct page *p, const char *text, int columns, bool right)
{
    char clean[PAGE_TEXT];
    int w = rep_clean(clean, sizeof clean, text, columns ? columns : TEXT_COLUMNS, p->utf8);
    if (right)
        spaces(p, columns - w);
    put(p, clean);
    p->column += w;
    if (!right)
        spaces(p, columns - w);
}

void line_bar(struct page *p, double pct, int cells)
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
    int steps = p->utf8 ? 8 : 1, length = (int)lround(limited / 100 * cells * steps);
    if (!length && limited > 0 && p->utf8)
        length = 1; /* what is there can be seen */
    for (int i = 0; i < length / steps; i++)
        put(p, p->utf8 ? "\xe2\x96\x88" : "#");
    put(p, eighths[p->utf8 ? length % 8 : 0]);
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

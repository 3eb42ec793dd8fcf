/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "reports/escape.h"

#define TEXT_BYTES   4096
#define TEXT_COLUMNS 1000

void page_newline(struct page *p)
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

void page_blank(struct page *p)
{
    if (!p->gap)
        page_newline(p);
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
        char word[TEXT_BYTES];
        length = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, length);
        word[length] = 0;
        bool start = p->column <= indent;
        if (!start && p->column + 1 + rep_width(word) > p->width) {
            page_newline(p);
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

void page_text(struct page *p, int indent, const char *text)
{
    char clean[TEXT_BYTES];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    p->column = 0;
    flow(p, indent, clean);
    page_newline(p);
}

void page_head(struct page *p, const char *text)
{
    if (p->color)
        fputs("\x1b[1m", p->out);
    char clean[TEXT_BYTES];
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    p->column = 0;
    flow(p, 0, clean);
    if (p->color)
        fputs("\x1b[0m", p->out);
    page_newline(p);
}

void page_label(struct page *p, const char *label)
{
    bool narrow = p->width < 60;
    p->column = 0;
    p->joined = false;
    if (p->color)
        fputs("\x1b[1m", p->out);
    page_cell(p, label, narrow ? 0 : PAGE_LABEL, false);
    if (p->color)
        fputs("\x1b[0m", p->out);
    if (narrow)
        page_newline(p);
    p->indent = narrow ? 2 : PAGE_LABEL;
}

void page_item(struct page *p, const char *format, ...)
{
    char text[TEXT_BYTES], clean[TEXT_BYTES];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    int w = rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, p->utf8);
    if (p->joined) {
        if (p->column + 3 + w > p->width) {
            page_newline(p);
        } else {
            put(p, p->utf8 ? " \xc2\xb7" : " |");
            p->column += 2;
        }
    }
    flow(p, p->indent, clean);
    p->joined = true;
}

void page_end(struct page *p)
{
    page_newline(p);
    p->joined = false;
}

void page_cell(struct page *p, const char *text, int columns, bool right)
{
    char clean[TEXT_BYTES];
    int w = rep_clean(clean, sizeof clean, text, columns ? columns : TEXT_COLUMNS, p->utf8);
    if (right)
        spaces(p, columns - w);
    put(p, clean);
    p->column += w;
    if (!right)
        spaces(p, columns - w);
}

void page_bar(struct page *p, double pct, int cells)
{
    static const char *const eighths[] = {
        "", "\xe2\x96\x8f", "\xe2\x96\x8e", "\xe2\x96\x8d", "\xe2\x96\x8c", "\xe2\x96\x8b", "\xe2\x96\x8a", "\xe2\x96\x89"};
    double limited = pct < 0 ? 0 : pct > 100 ? 100 : pct;
    int steps = p->utf8 ? 8 : 1, length = (int)lround(limited / 100 * cells * steps);
    if (!length && limited > 0 && p->utf8)
        length = 1; /* what is there can be seen */
    for (int i = 0; i < length / steps; i++)
        put(p, p->utf8 ? "\xe2\x96\x88" : "#");
    put(p, eighths[p->utf8 ? length % 8 : 0]);
}

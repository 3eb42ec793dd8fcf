/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a ticket: GitHub's Markdown. Long sections fold. What the profiled program named
 * comes out as text: in tables as code, elsewhere with every character escaped that Markdown, HTML
 * or GitHub (mentions, references, links, formulas) would make something of.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/formats.h"
#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/escape.h"

#define TEXT_COLUMNS 1000
#define NAME_COLUMNS 100 /* of a name in a table */
#define BAR_CELLS    20

/* What is open. A heading waits until something follows it. */
struct markdown {
    const char *heading;
    bool waiting, folded, inside; /* inside: a fold is open */
    bool started;                 /* something stands above */
    bool list;                    /* the last line belongs to a list */
    bool begins;                  /* what comes is the first of a block */
};

/* ---- texts -------------------------------------------------------------------------------------------------------------- */

/* GitHub links what looks like an address, a mention or a reference, wherever it stands: only code
 * is safe from that. */
static bool is_linked(const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (word[i] == '@' ||
            (word[i] == '#' && i + 1 < n && word[i + 1] >= '0' && word[i + 1] <= '9') ||
            !strncmp(word + i, "://", 3) || !strncmp(word + i, "www.", 4))
            return true;
    return false;
}

/* As code. What a code span cannot hold in a table for sure goes as HTML, every sign by its number.
 */
static void put_code(FILE *out, const char *text, size_t n)
{
    bool plain = true;
    for (size_t i = 0; i < n; i++)
        plain = plain && !strchr("`|\\", text[i]);
    fputs(plain ? "`" : "<code>", out);
    for (size_t i = 0; i < n; i++)
        if (plain || (unsigned char)text[i] >= 0x80 || isalnum((unsigned char)text[i]) ||
            text[i] == ' ')
            fputc(text[i], out);
        else
            fprintf(out, "&#%d;", text[i]);
    fputs(plain ? "`" : "</code>", out);
}

/* Does the sign at `i` of a word mean something to Markdown there? Inside a word an underscore does
 * not. */
static bool is_active(const char *word, size_t i, size_t n)
{
    if (word[i] == '_')
        return !i || i + 1 == n || !isalnum((unsigned char)word[i - 1]) ||
               !isalnum((unsigned char)word[i + 1]);
    return strchr("\\`*{}[]<>|~$&#", word[i]);
}

/* One word, escaped or as code. */
static void put_word(FILE *out, const char *word, size_t n)
{
    if (n && is_linked(word, n)) {
        put_code(out, word, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%c", is_active(word, i, n) ? "\\" : "", word[i]);
}

/* A clean text. What stands between backticks, as in tacho's own sentences, is code. */
static void put_prose(FILE *out, const char *text)
{
    while (*text) {
        const char *end = *text == '`' ? strchr(text + 1, '`') : NULL;
        size_t n = strcspn(text, " ");
        if (end && end > text + 1) {
            put_code(out, text + 1, (size_t)(end - text - 1));
            text = end + 1;
            continue;
        }
        put_word(out, text, n);
        text += n;
        if (*text)
            fputc(*text++, out);
    }
}

/* What begins a block: a sign there could make it a list, a rule or a heading. */
static void put_first(FILE *out, const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (*text && strchr("-+=", *text) && !is_linked(text, strcspn(text, " ")))
        fputc('\\', out);
    if (digits && (text[digits] == '.' || text[digits] == ')')) {
        fprintf(out, "%.*s\\%c", (int)digits, text, text[digits]);
        text += digits + 1;
    }
    put_prose(out, text);
}

static void prose(struct page *p, const char *text)
{
    char clean[PAGE_TEXT];
    while (*text == ' ')
        text++;
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, true);
    struct markdown *m = p->format;
    if (m->begins)
        put_first(p->out, clean);
    else
        put_prose(p->out, clean);
    m->begins = false;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------- */

static void close_fold(struct page *p)
{
    struct markdown *m = p->format;
    if (m->inside)
        fputs("\n</details>\n", p->out);
    m->inside = false;
    m->list = false;
}

/* Begins a block: the heading that waits for it, and a blank line. item: of a list, which has none
 * between its items. */
static void block(struct page *p, bool item)
{
    struct markdown *m = p->format;
    if (m->waiting && m->folded)
        fprintf(p->out, "\n<details>\n<summary><b>%s</b></summary>\n", m->heading);
    else if (m->waiting)
        fprintf(p->out, "\n### %s\n", m->heading);
    if (m->waiting)
        m->inside = m->folded;
    if (m->waiting || (m->started && (!item || !m->list)))
        fputc('\n', p->out);
    m->started = true;
    m->waiting = false;
    m->list = item;
}

static void title(struct page *p, const char *text)
{
    block(p, false);
    fputs("## ", p->out);
    prose(p, text);
    fputc('\n', p->out);
}

static void section(struct page *p, const char *id, const char *heading, bool folded)
{
    struct markdown *m = p->format;
    (void)id;
    close_fold(p);
    m->heading = heading;
    m->folded = folded;
    m->waiting = true;
}

static void head(struct page *p, const char *text)
{
    const struct markdown *m = p->format;
    if (m->heading && !strcmp(m->heading, text))
        return;
    block(p, false);
    fputs("#### ", p->out);
    prose(p, text);
    fputc('\n', p->out);
}

static void text_block(struct page *p, int indent, const char *text)
{
    (void)indent;
    block(p, false);
    ((struct markdown *)p->format)->begins = true;
    prose(p, text);
    fputc('\n', p->out);
}

static void blank(struct page *p)
{
    (void)p; /* blocks part themselves */
}

static void label(struct page *p, const char *text)
{
    block(p, text != NULL);
    ((struct markdown *)p->format)->begins = !text;
    if (!text)
        return;
    while (*text == ' ')
        text++;
    fputs("- ", p->out);
    if (!*text)
        return;
    fputs("**", p->out);
    prose(p, text);
    fputs("** ", p->out);
}

static void item(struct page *p, const char *text)
{
    if (p->joined)
        fputs(" \xc2\xb7 ", p->out);
    prose(p, text);
}

static void end(struct page *p)
{
    fputc('\n', p->out);
}

static void entry(struct page *p, size_t number, const char *id, const char *gain, const char *text)
{
    block(p, true);
    fprintf(p->out, "%zu. **", number);
    prose(p, id);
    fputs("** ", p->out);
    prose(p, gain);
    fputs(": ", p->out);
    prose(p, text);
    fputc('\n', p->out);
}

static void term(struct page *p, const char *word, const char *unit, const char *text)
{
    block(p, true);
    fputs("- ", p->out);
    put_code(p->out, word, strlen(word));
    if (*unit) {
        fputs(" (", p->out);
        prose(p, unit);
        fputc(')', p->out);
    }
    fputs(": ", p->out);
    prose(p, text);
    fputc('\n', p->out);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------- */

static void table_name(struct page *p, const char *name, bool words)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, name, NAME_COLUMNS, true);
    if (words)
        put_prose(p->out, clean);
    else if (*clean)
        put_code(p->out, clean, strlen(clean));
}

static void table_bar(FILE *out, double pct)
{
    int cells = isnan(pct) ? 0
                           : (int)lround((pct < 0     ? 0
                                          : pct > 100 ? 100
                                                      : pct) /
                                         100 * BAR_CELLS);
    fputc(' ', out);
    for (int i = 0; i < cells; i++)
        fputs("\xe2\x96\x88", out);
    fputs(" |", out);
}

static void table(struct page *p, const struct rep_table *t)
{
    size_t most = rep_table_most(p, t);
    block(p, false);
    fputs("| ", p->out);
    prose(p, t->title);
    fputs(" |", p->out);
    for (size_t k = 0; k < t->columns; k++) {
        fputc(' ', p->out);
        prose(p, t->column[k].head);
        fputs(" |", p->out);
    }
    fputs(t->bar ? " |\n|:--|" : "\n|:--|", p->out);
    for (size_t k = 0; k < t->columns; k++)
        fputs("--:|", p->out);
    fputs(t->bar ? ":--|\n" : "\n", p->out);
    for (size_t i = 0; i < most; i++) {
        const void *row = (const char *)t->rows + i * t->size;
        char name[REP_NAME] = "", cell[REP_CELL];
        t->name(name, row);
        fputs("| ", p->out);
        table_name(p, name, t->words);
        fputs(" |", p->out);
        for (size_t k = 0; k < t->columns; k++) {
            cell[0] = 0;
            t->column[k].cell(cell, row);
            fputc(' ', p->out);
            prose(p, cell);
            fputs(" |", p->out);
        }
        if (t->bar)
            table_bar(p->out, t->bar(row));
        fputc('\n', p->out);
    }
    if (t->count > most)
        fprintf(p->out, "\n%zu more rows: `--top N`, or `tacho report --json`\n", t->count - most);
}

static const struct page_ops ops = {.title = title,
                                    .section = section,
                                    .head = head,
                                    .text = text_block,
                                    .blank = blank,
                                    .label = label,
                                    .item = item,
                                    .end = end,
                                    .entry = entry,
                                    .term = term,
                                    .table = table};

int rep_markdown_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    struct markdown m = {.list = false};
    struct page p = {
        .out = out, .ops = &ops, .format = &m, .utf8 = true, .rows = o->ops, .by = o->by};
    rep_sections_write(&p, r, o->definitions);
    close_fold(&p);
    return ferror(out) ? TACHO_EIO : 0;
}

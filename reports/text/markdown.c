/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a ticket: GitHub's Markdown. Long sections fold. Names from the profiled program
 * stay text: in tables they become code, elsewhere every character is escaped that Markdown, HTML
 * or GitHub (mentions, references, links, formulas) would interpret.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/text/text.h"
#include "reports/words/escape.h"

#define TEXT_COLUMNS 1000
#define NAME_COLUMNS 100 /* of a name in a table */
#define BAR_CELLS    20

/* What is open. A heading waits until something follows it. */
struct markdown {
    const char *heading;
    bool waiting, folded, inside; /* inside: a fold is open */
    bool started;                 /* something was written */
    bool list;                    /* the last line belongs to a list */
    bool entry;                   /* the last block belongs to an entry of a numbered list */
    bool begins;                  /* the next text is the first of a block */
};

/* ---- texts ----------------------------------------------------------------------------------- */

/* GitHub links what looks like an address, a mention or a reference anywhere in a text. Only code
 * is safe from that. */
static bool is_linked(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (word[i] == '@' ||
            (word[i] == '#' && i + 1 < length && word[i + 1] >= '0' && word[i + 1] <= '9') ||
            !strncmp(word + i, "://", 3) || !strncmp(word + i, "www.", 4))
            return true;
    return false;
}

/* Writes code. Text that a code span in a table may not be able to hold becomes HTML, every
 * character by its number. */
static void put_code(FILE *out, const char *text, size_t length)
{
    bool plain = true;
    for (size_t i = 0; i < length; i++)
        plain = plain && !strchr("`|\\", text[i]);
    fputs(plain ? "`" : "<code>", out);
    for (size_t i = 0; i < length; i++)
        if (plain || (unsigned char)text[i] >= 0x80 || isalnum((unsigned char)text[i]) ||
            text[i] == ' ')
            fputc(text[i], out);
        else
            fprintf(out, "&#%d;", text[i]);
    fputs(plain ? "`" : "</code>", out);
}

/* Does the character at `i` of a word mean something to Markdown? An underscore inside a word does
 * not. */
static bool is_active(const char *word, size_t i, size_t length)
{
    if (word[i] == '_')
        return !i || i + 1 == length || !isalnum((unsigned char)word[i - 1]) ||
               !isalnum((unsigned char)word[i + 1]);
    return strchr("\\`*{}[]<>|~$&#", word[i]);
}

/* Writes one word, escaped or as code. */
static void put_word(FILE *out, const char *word, size_t length)
{
    if (length && is_linked(word, length)) {
        put_code(out, word, length);
        return;
    }
    for (size_t i = 0; i < length; i++)
        fprintf(out, "%s%c", is_active(word, i, length) ? "\\" : "", word[i]);
}

/* Writes a clean text. Words between backticks, as in tacho's own sentences, become code. */
static void put_prose(FILE *out, const char *text)
{
    while (*text) {
        const char *end = *text == '`' ? strchr(text + 1, '`') : NULL;
        size_t length = strcspn(text, " ");
        if (end && end > text + 1) {
            put_code(out, text + 1, (size_t)(end - text - 1));
            text = end + 1;
            continue;
        }
        put_word(out, text, length);
        text += length;
        if (*text)
            fputc(*text++, out);
    }
}

/* Writes the first text of a block, where some characters would make a list, a rule or a heading.
 */
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

/* Writes a text of any bytes as prose. */
static void prose(struct page *page, const char *text)
{
    char clean[PAGE_TEXT];
    while (*text == ' ')
        text++;
    rep_clean(clean, sizeof clean, text, TEXT_COLUMNS, true);
    struct markdown *markdown = page->format;
    if (markdown->begins)
        put_first(page->out, clean);
    else
        put_prose(page->out, clean);
    markdown->begins = false;
}

static void prose_between(struct page *page, const char *before, const char *text,
                          const char *after)
{
    fputs(before, page->out);
    prose(page, text);
    fputs(after, page->out);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Ends the fold of a long section, if one is open. */
static void close_fold(struct page *page)
{
    struct markdown *markdown = page->format;
    if (markdown->inside)
        fputs("\n</details>\n", page->out);
    markdown->inside = false;
    markdown->list = false;
}

static void open_section(struct page *page, struct markdown *markdown)
{
    markdown->inside = markdown->folded;
    if (markdown->folded)
        fprintf(page->out, "\n<details>\n<summary><b>%s</b></summary>\n", markdown->heading);
    else
        fprintf(page->out, "\n### %s\n", markdown->heading);
}

/* Begins a block: writes the heading that waits for it, and a blank line. `item`: the block is an
 * item of a list, which has no blank lines between its items. */
static void block(struct page *page, bool item)
{
    struct markdown *markdown = page->format;
    if (markdown->waiting)
        open_section(page, markdown);
    if (markdown->waiting || (markdown->started && (!item || !markdown->list)))
        fputc('\n', page->out);
    markdown->started = true;
    markdown->waiting = false;
    markdown->list = item;
    markdown->entry = false;
}

static void title(struct page *page, const char *text)
{
    block(page, false);
    prose_between(page, "## ", text, "\n");
}

/* Notes the heading of a section, which is written by the first block that follows. */
static void section(struct page *page, const char *id, const char *heading, bool folded)
{
    struct markdown *markdown = page->format;
    (void)id;
    close_fold(page);
    markdown->heading = heading;
    markdown->folded = folded;
    markdown->waiting = true;
}

/* A heading inside a section. It is omitted where it would only repeat the heading of the
 * section. */
static void head(struct page *page, const char *text)
{
    const struct markdown *markdown = page->format;
    if (markdown->heading && !strcmp(markdown->heading, text))
        return;
    block(page, false);
    prose_between(page, "#### ", text, "\n");
}

/* An indented text below an entry of a numbered list belongs to it. */
static void text_block(struct page *page, int indent, const char *text)
{
    struct markdown *markdown = page->format;
    bool inside = indent && markdown->entry;
    block(page, false);
    markdown->entry = inside;
    fputs(inside ? "   " : "", page->out);
    markdown->begins = true;
    prose(page, text);
    fputc('\n', page->out);
}

static void blank(struct page *page)
{
    (void)page; /* every block begins with a blank line */
}

/* Begins a line of items as an item of a list; without a label as a paragraph. */
static void label(struct page *page, const char *text)
{
    block(page, text != NULL);
    ((struct markdown *)page->format)->begins = !text;
    if (!text)
        return;
    while (*text == ' ')
        text++;
    fputs("- ", page->out);
    if (!*text)
        return;
    prose_between(page, "**", text, "** ");
}

static void item(struct page *page, const char *text)
{
    if (page->joined)
        fputs(" \xc2\xb7 ", page->out);
    prose(page, text);
}

static void end(struct page *page)
{
    fputc('\n', page->out);
}

/* An entry of the list of things to do. */
static void entry(struct page *page, size_t number, const char *id, const char *gain,
                  const char *text)
{
    block(page, true);
    fprintf(page->out, "%zu. **", number);
    prose(page, id);
    prose_between(page, "** ", gain, *text ? ": " : "");
    prose(page, text);
    fputc('\n', page->out);
    ((struct markdown *)page->format)->entry = true;
}

/* A word of the definitions with its unit and its meaning. */
static void term(struct page *page, const char *word, const char *unit, const char *text)
{
    block(page, true);
    fputs("- ", page->out);
    put_code(page->out, word, strlen(word));
    if (*unit) {
        prose_between(page, " (", unit, ")");
    }
    prose_between(page, ": ", text, "\n");
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Names from the profiled program become code; tacho's own words stay prose. */
static void table_name(struct page *page, const char *name, bool words)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, name, NAME_COLUMNS, true);
    if (words)
        put_prose(page->out, clean);
    else if (*clean)
        put_code(page->out, clean, strlen(clean));
}

/* A bar of full blocks. */
static void table_bar(FILE *out, double pct)
{
    int cells = isnan(pct) ? 0 : (int)lround(fmin(fmax(pct, 0), 100) / 100 * BAR_CELLS);
    fputc(' ', out);
    for (int i = 0; i < cells; i++)
        fputs("\xe2\x96\x88", out);
    fputs(" |", out);
}

/* Writes one row with its bar. */
static void table_row(struct page *page, const struct rep_table *table, const void *row)
{
    char name[REP_NAME] = "", cell[REP_CELL];
    table->name(name, row);
    fputs("| ", page->out);
    table_name(page, name, table->words);
    fputs(" |", page->out);
    for (size_t i = 0; i < table->columns; i++) {
        prose_between(page, " ", rep_table_cell(table, i, row, cell), " |");
    }
    if (table->bar)
        table_bar(page->out, table->bar(row));
    fputc('\n', page->out);
}

/* Writes the head, the row of dashes that Markdown asks for, and the rows with their bars. */
static void write_table(struct page *page, const struct rep_table *table)
{
    size_t most = rep_table_most(page, table);
    block(page, false);
    prose_between(page, "| ", table->title, " |");
    for (size_t i = 0; i < table->columns; i++) {
        prose_between(page, " ", table->column[i].head, " |");
    }
    fputs(table->bar ? " |\n|:--|" : "\n|:--|", page->out);
    for (size_t i = 0; i < table->columns; i++)
        fputs("--:|", page->out);
    fputs(table->bar ? ":--|\n" : "\n", page->out);
    for (size_t i = 0; i < most; i++)
        table_row(page, table, rep_table_row(table, i));
    if (table->count > most)
        fprintf(page->out, "\n%zu more rows: `--top N`, or `tacho report --json`\n",
                table->count - most);
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
                                    .table = write_table};

int rep_markdown_write(const struct an_result *result, const struct rep_options *options, FILE *out)
{
    struct markdown markdown = {.list = false};
    struct page page = {.out = out,
                        .ops = &ops,
                        .format = &markdown,
                        .utf8 = true,
                        .width = TEXT_COLUMNS,
                        .rows = options->ops,
                        .by = options->by,
                        .sections = options->sections,
                        .explain = options->explain};
    if (options->brief)
        rep_section_summary(&page, result, REP_DETAIL_MOST);
    else
        rep_sections_write(&page, result, options->definitions);
    close_fold(&page);
    return page_flush(&page);
}

int rep_markdown_document(const struct rep_document *document, const struct rep_options *options,
                          FILE *out)
{
    struct markdown markdown = {.list = false};
    struct page page = {
        .out = out, .ops = &ops, .format = &markdown, .utf8 = true, .rows = options->ops};
    document->write(&page, document->what);
    close_fold(&page);
    return page_flush(&page);
}

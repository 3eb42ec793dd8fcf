/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one file that people forward: HTML with everything in it. Nothing is fetched: the
 * policy of the page forbids it, and allows the one style and the scripts of this program by their
 * hashes. Without scripts everything can be read; they add sorting, zoom and, where Chart.js was
 * found at build time, two charts to explore.
 */
#include "reports/html/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "html_hashes.inc"
#include "reports/html/html_private.h"
#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"
#include "tacho_error.h"

#define TEXT_COLUMNS 1000
#define NAME_COLUMNS 160 /* of a name in a table */
#define ROWS         40  /* of a table, where the caller did not say */
#define FIRST_LEAST  40  /* bytes of the first sentence of a verdict: "fp32." ends none */
#define ROWS_OPEN    12  /* a table beside a picture folds when it has more */

static const char style[] =
#include "html.css.inc"
    ;
static const char script[] =
#include "html.js.inc"
    ;
#ifdef HTML_CHART_HASH
static const char chart[] =
#include "chart.js.inc"
    ;
#endif

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A part of the first screen is a block that the style sheet can set beside the next one. */
static void part(struct page *page, const char *name)
{
    struct html *html = page->format;
    html_close_list(page);
    if (html->part)
        fputs("</div>\n", page->out);
    html->part = name != NULL;
    if (name)
        fprintf(page->out, "<div class=\"part %s\">", name);
}

/* Closes everything that is open, so that the next section or the end of the document can
 * follow. */
static void close_section(struct page *page)
{
    struct html *html = page->format;
    html_close_list(page);
    part(page, NULL);
    if (html->details)
        fputs("</details>\n", page->out);
    if (html->open)
        fputs("</section>\n", page->out);
    if (html->header)
        fputs("</header>\n", page->out);
    html->details = html->open = html->header = false;
}

/* Begins a list, unless the one that is open is of its kind. */
static void list(struct page *page, enum html_list kind)
{
    struct html *html = page->format;
    html_open_section(page);
    if (html->list == kind)
        return;
    html_close_list(page);
    fputs(kind == HTML_TERMS ? "<dl>\n" : "<ol class=\"entries\">\n", page->out);
    html->list = kind;
}

/* The verdict is the heading of the document; what follows its first sentence is set smaller. */
static void title(struct page *page, const char *text)
{
    char first[PAGE_TEXT];
    const char *rest = text;
    while ((rest = strstr(rest, ". ")) != NULL && rest - text < FIRST_LEAST)
        rest += 2;
    snprintf(first, sizeof first, "%.*s", rest ? (int)(rest - text) + 1 : PAGE_TEXT - 1, text);
    html_block(page);
    fputs("<h1>", page->out);
    html_sentence(page->out, first);
    if (rest) {
        fputs(" <span>", page->out);
        html_sentence(page->out, rest + 2);
        fputs("</span>", page->out);
    }
    fputs("</h1>\n", page->out);
}

/* Notes the heading of a section. It is written by the first block that follows: an empty
 * section leaves no trace. */
static void section(struct page *page, const char *id, const char *heading, bool folded)
{
    struct html *html = page->format;
    close_section(page);
    html->id = id;
    html->heading = heading;
    html->folded = folded;
    html->waiting = true;
}

/* A heading inside a section. It is omitted where it would only repeat the heading of the
 * section. */
static void head(struct page *page, const char *text)
{
    struct html *html = page->format;
    if (html->heading && !strcmp(html->heading, text))
        return;
    html_block(page);
    int level = html->open ? 3 : 2; /* on the first screen below the verdict */
    fprintf(page->out, "<h%d id=\"part-%d\">", level, ++html->numbers);
    html_sentence(page->out, text);
    fprintf(page->out, "</h%d>\n", level);
}

static void card(struct page *page, const char *id, const char *text)
{
    html_block(page);
    html_between(page->out, "<h3 id=\"finding-", id, NAME_COLUMNS, "\">");
    html_sentence(page->out, text);
    fputs("</h3>\n", page->out);
}

/* An indented text below an entry of a list belongs to it. */
static void text_block(struct page *page, int indent, const char *text)
{
    const struct html *html = page->format;
    if (!indent || html->list != HTML_ENTRIES)
        html_block(page);
    fputs("<p>", page->out);
    html_sentence(page->out, text);
    fputs("</p>\n", page->out);
}

static void blank(struct page *page)
{
    (void)page; /* the style sheet separates blocks */
}

/* Begins a line of items: a term and its description, or without a label a paragraph of its own.
 * page->indent notes which of the two end() has to close. */
static void label(struct page *page, const char *text)
{
    if (!text) {
        html_block(page);
        fputs("<p class=\"run\">", page->out);
        page->indent = 0;
        return;
    }
    list(page, HTML_TERMS);
    while (*text == ' ')
        text++;
    if (*text) {
        fputs("<dt>", page->out);
        html_sentence(page->out, text);
        fputs("</dt>", page->out);
    }
    fputs("<dd>", page->out);
    page->indent = 1;
}

static void item(struct page *page, const char *text)
{
    if (page->joined)
        fputs(" \xc2\xb7 ", page->out);
    html_sentence(page->out, text);
}

static void end(struct page *page)
{
    fputs(page->indent ? "</dd>\n" : "</p>\n", page->out);
}

/* An entry of the list of things to do, linked to the card of the same id. */
static void entry(struct page *page, size_t number, const char *id, const char *gain,
                  const char *text)
{
    struct html *html = page->format;
    list(page, HTML_ENTRIES);
    fputs(html->entry ? "</li>\n" : "", page->out);
    html->entry = true;
    fprintf(page->out, "<li value=\"%zu\"><strong><a href=\"#finding-", number);
    html_text(page->out, id, NAME_COLUMNS);
    html_between(page->out, "\">", id, NAME_COLUMNS, "</a></strong> <span class=\"gain\">");
    html_text(page->out, gain, NAME_COLUMNS);
    fputs("</span>", page->out);
    if (*text)
        html_between(page->out, " <span class=\"setting\">", text, NAME_COLUMNS, "</span>");
    fputc('\n', page->out);
}

/* A word of the definitions with its unit and its meaning. */
static void term(struct page *page, const char *word, const char *unit, const char *text)
{
    list(page, HTML_TERMS);
    html_between(page->out, "<dt><code>", word, NAME_COLUMNS, "</code>");
    if (*unit) {
        html_between(page->out, " <span class=\"unit\">", unit, NAME_COLUMNS, "</span>");
    }
    fputs("</dt><dd>", page->out);
    html_sentence(page->out, text);
    fputs("</dd>\n", page->out);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A bar of per cent, at the right of a row. */
static void table_bar(FILE *out, double pct)
{
    fputs("<td class=\"bar\">", out);
    if (isfinite(pct) && pct > 0)
        fprintf(out,
                "<svg width=\"160\" height=\"10\" viewBox=\"0 0 100 10\" "
                "preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\"><rect "
                "width=\"%.4g\" height=\"10\"/></svg>",
                pct < 100 ? pct : 100);
    fputs("</td>", out);
}

/* A row without a name is the sum of the rows above it; style sheets set it apart. */
static void table_row(struct page *page, const struct rep_table *table, const void *row)
{
    char name[REP_NAME] = "", cell[REP_CELL];
    table->name(name, row);
    fputs(*name ? "<tr><th scope=\"row\">" : "<tr class=\"sum\"><th scope=\"row\">", page->out);
    html_text(page->out, rep_or(name, "together"), NAME_COLUMNS);
    fputs("</th>", page->out);
    for (size_t i = 0; i < table->columns; i++) {
        html_between(page->out, "<td>", rep_table_cell(table, i, row, cell), REP_CELL, "</td>");
    }
    if (table->bar)
        table_bar(page->out, table->bar(row));
    fputs("</tr>\n", page->out);
}

static void table_head(struct page *page, const struct rep_table *table, int id)
{
    fprintf(page->out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
            "aria-labelledby=\"table-%d\">\n<table>\n<caption "
            "id=\"table-%d\">",
            id, id);
    html_text(page->out, table->title, NAME_COLUMNS);
    fputs("</caption>\n<thead><tr><th scope=\"col\">Name</th>", page->out);
    for (size_t i = 0; i < table->columns; i++) {
        html_between(page->out, "<th scope=\"col\">", table->column[i].head, REP_CELL, "</th>");
    }
    fputs(table->bar ? "<td></td></tr></thead>\n<tbody>\n" : "</tr></thead>\n<tbody>\n", page->out);
}

/* Writes a table that scripts can sort. Beside a picture a long one is folded: the picture comes
 * first there. */
static void write_table(struct page *page, const struct rep_table *table)
{
    struct html *html = page->format;
    size_t most = rep_table_most(page, table);
    html_block(page);
    int id = ++html->numbers;
    bool fold = html->drawn && !html->details && most > ROWS_OPEN;
    if (fold) {
        fprintf(page->out, "<details>\n<summary>Table of %zu rows: ", most);
        html_text(page->out, table->title, NAME_COLUMNS);
        fputs("</summary>\n", page->out);
    }
    table_head(page, table, id);
    for (size_t i = 0; i < most; i++)
        table_row(page, table, rep_table_row(table, i));
    fputs("</tbody>\n</table>\n</div>\n", page->out);
    if (table->count > most)
        fprintf(page->out,
                "<p class=\"more\">%zu more rows: <code>--top N</code>, or <code>tacho report "
                "--json</code></p>\n",
                table->count - most);
    if (fold)
        fputs("</details>\n", page->out);
}

/* The chart of the steps is on the first screen; the section of steps only folds its tables below
 * it. */
static void draw_trend(struct page *page, const struct an_result *result)
{
    struct html *html = page->format;
    if (html->trend) {
        html_open_section(page);
        html->drawn = true;
    } else {
        html_trend(page, result);
    }
    html->trend = true;
}

/* Draws the picture that a section asks for. The table of pictures is here, above the files that
 * draw them. */
static void picture(struct page *page, enum page_picture which, const struct an_result *result)
{
    switch (which) {
    case PAGE_BUDGET:
        html_budget(page, result);
        break;
    case PAGE_TREND:
        draw_trend(page, result);
        break;
    case PAGE_TILES:
        html_tiles(page, result);
        break;
    case PAGE_CURVES:
        html_curves(page, result);
        break;
    case PAGE_ROOFLINE:
        html_roofline(page, result);
        break;
    case PAGE_TIMELINE:
        html_events(page, result);
        html_timeline(page, result);
        break;
    case PAGE_FLAME:
        html_flame(page, &result->flame, "Ranges of a step");
        break;
    case PAGE_STACKS:
        html_flame(page, &result->stacks.flame, "Call stacks");
        break;
    case PAGE_HEAT:
        html_heat(page, result);
        break;
    case PAGE_TRAFFIC:
        html_traffic(page, &result->communication.traffic);
        break;
    case PAGE_PATH:
        html_path(page, result);
        break;
    }
}

static const struct page_ops ops = {.title = title,
                                    .section = section,
                                    .head = head,
                                    .card = card,
                                    .text = text_block,
                                    .blank = blank,
                                    .label = label,
                                    .item = item,
                                    .end = end,
                                    .entry = entry,
                                    .term = term,
                                    .table = write_table,
                                    .part = part,
                                    .picture = picture};

/* ---- the document ---------------------------------------------------------------------------- */

/* The patterns of the classes, which tell them apart without colours. */
static void patterns(FILE *out)
{
    fputs("<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\" "
          "focusable=\"false\"><defs>\n",
          out);
    static const char *const marks[AN_CLASS_COUNT] = {
        [AN_CLASS_COMM] = "M0 8L8 0M-2 2L2 -2M6 10L10 6",
        [AN_CLASS_BUBBLE] = "M2 2h2M6 6h2",
        [AN_CLASS_COPY] = "M4 0v8",
        [AN_CLASS_INPUT] = "M0 0L8 8M6 -2L10 2M-2 6L2 10",
        [AN_CLASS_IO] = "M0 4h8",
        [AN_CLASS_HOST] = "M0 4h3M4 0v3",
        [AN_CLASS_UNATTRIBUTED] = "M0 0L8 8M0 8L8 0"};
    for (int i = 0; i < AN_CLASS_COUNT; i++) {
        fprintf(out,
                "<pattern id=\"pattern-%d\" width=\"8\" height=\"8\" "
                "patternUnits=\"userSpaceOnUse\"><rect class=\"b%d\" "
                "width=\"8\" height=\"8\"/>",
                i, i);
        if (marks[i])
            fprintf(out, "<path class=\"mark\" d=\"%s\"/>", marks[i]);
        fputs("</pattern>\n", out);
    }
}

/* Writes everything up to the body: the policy that allows only this style and these scripts, the
 * title, the style, and the patterns that tell classes apart without colour. */
static void document_head(const char *title_words, const char *of, FILE *out)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri "
          "'none'; form-action 'none'; "
          "img-src data:; style-src 'sha256-" HTML_STYLE_HASH
          "'; script-src 'sha256-" HTML_SCRIPT_HASH "'"
#ifdef HTML_CHART_HASH
          " 'sha256-" HTML_CHART_HASH "'"
#endif
          "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" "
          "href=\"data:,\">\n<title>",
          out);
    html_text(out, title_words, TEXT_COLUMNS);
    fputs(" \xc2\xb7 ", out);
    html_text(out, of, TEXT_COLUMNS);
    fprintf(out, " \xc2\xb7 tacho</title>\n<style>%s</style>\n</head>\n<body>\n", style);
    patterns(out);
    fputs("</defs></svg>\n<a class=\"skip\" href=\"#main\">to the report</a>\n", out);
}

/* Writes the data of the charts and the scripts. Everything before them can be read without
 * scripts. */
static void document_end(const struct rep_document *document, const char *data, FILE *out)
{
    fprintf(out,
            "</main>\n<footer><p>Made by tacho " TACHO_VERSION
            " from %s. Nothing in this file is fetched from anywhere.</p></footer>\n",
            document->origin);
    fprintf(out, "<script type=\"application/json\" id=\"chart-data\">{%s\"version\":1}</script>\n",
            data);
#ifdef HTML_CHART_HASH
    fprintf(out, "<script>%s</script>\n", chart);
#endif
    fprintf(out, "<script>%s</script>\n</body>\n</html>\n", script);
}

/* Parts of the document that are written in another order than they are found, in memory. */
struct parts {
    char *body, *nav, *data;
    size_t body_size, nav_size, data_size;
};

/* Writes all sections with the page's calls; they fill the body, the links to the sections and the
 * data of the charts at the same time. */
static int write_parts(struct parts *parts, const struct rep_document *document,
                       const struct rep_options *options)
{
    struct html html = {.header = true, .nav = open_memstream(&parts->nav, &parts->nav_size)};
    struct page page = {.out = open_memstream(&parts->body, &parts->body_size),
                        .ops = &ops,
                        .format = &html,
                        .utf8 = true,
                        .width = TEXT_COLUMNS,
                        .rows = options->ops ? options->ops : ROWS,
                        .by = options->by,
                        .sections = options->sections,
                        .explain = options->explain};
    html.data = open_memstream(&parts->data, &parts->data_size);
    bool ok = html.nav && html.data && page.out;
    if (ok) {
        fputs("<main id=\"main\">\n<header>\n", page.out);
        document->write(&page, document->what);
        close_section(&page);
    }
    FILE *all[] = {html.nav, html.data, page.out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && (ferror(all[i]) | fclose(all[i])))
            ok = false;
    return ok && !html.failed ? 0 : TACHO_ENOMEM;
}

/* Links to the sections and data of the charts are known only after the sections, but the links
 * precede them on the page. */
int rep_html_document(const struct rep_document *document, const struct rep_options *options,
                      FILE *out)
{
    struct parts parts = {0};
    int rc = write_parts(&parts, document, options);
    if (!rc) {
        document_head(document->title, document->of, out);
        fprintf(out,
                "<nav aria-label=\"Sections\">\n<ul>\n<li><a href=\"#main\">Overview</a></li>\n"
                "%s</ul>\n</nav>\n",
                parts.nav);
        fputs(parts.body, out);
        document_end(document, parts.data, out);
        if (ferror(out))
            rc = TACHO_EIO;
    }
    free(parts.body);
    free(parts.nav);
    free(parts.data);
    return rc;
}

static void write_sections(struct page *page, const void *what)
{
    rep_sections_write(page, what, true);
}

int rep_html_write(const struct an_result *result, const struct rep_options *options, FILE *out)
{
    struct rep_document document = {.title = rep_or(result->verdict_class, "report"),
                                    .of =
                                        *result->run.file ? result->run.file : result->run.program,
                                    .origin = "the run's own records",
                                    .write = write_sections,
                                    .what = result};
    return rep_html_document(&document, options, out);
}

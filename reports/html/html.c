/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as one file that people forward: HTML with everything in it. Nothing is fetched: the
 * policy of the page forbids it, and allows the one style and the scripts of this program by their
 * hashes. Without scripts everything can be read; they add sorting, zoom and, where Chart.js was
 * found at build time, two charts to explore.
 */
#include "reports/html/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "html_hashes.inc"
#include "reports/formats.h"
#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/escape.h"

#define TEXT_COLUMNS 1000
#define NAME_COLUMNS 160 /* of a name in a table */
#define ROWS         40  /* of a table, where the caller did not say */
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

enum html_list { NO_LIST, TERMS, ENTRIES };

/* ---- texts -------------------------------------------------------------------------------------------------------------- */

void html_text(FILE *out, const char *text, int columns)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, columns, true);
    for (const char *c = clean; *c; c++)
        switch (*c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*c, out);
        }
}

void html_json(FILE *out, const char *text, int columns)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, columns, true);
    fputc('"', out);
    for (const char *c = clean; *c; c++)
        if (strchr("\"\\<>&'", *c))
            fprintf(out, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, out);
    fputc('"', out);
}

/* Own sentences name commands between backticks: those are code. */
static void sentence(FILE *out, const char *text)
{
    while (*text == ' ')
        text++;
    for (const char *from; (from = strchr(text, '`'));) {
        const char *to = strchr(from + 1, '`');
        char part[PAGE_TEXT];
        if (!to)
            break;
        snprintf(part, sizeof part, "%.*s", (int)(from - text), text);
        html_text(out, part, TEXT_COLUMNS);
        snprintf(part, sizeof part, "%.*s", (int)(to - from - 1), from + 1);
        fputs("<code>", out);
        html_text(out, part, TEXT_COLUMNS);
        fputs("</code>", out);
        text = to + 1;
    }
    html_text(out, text, TEXT_COLUMNS);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------- */

static void close_list(struct page *p)
{
    static const char *const ends[] = {"", "</dl>\n", "</ol>\n"};
    struct html *h = p->format;
    fputs(ends[h->list], p->out);
    h->list = NO_LIST;
}

static void close_section(struct page *p)
{
    struct html *h = p->format;
    close_list(p);
    if (h->details)
        fputs("</details>\n", p->out);
    if (h->open)
        fputs("</section>\n", p->out);
    if (h->header)
        fputs("</header>\n", p->out);
    h->details = h->open = h->header = false;
}

static void begin(struct page *p)
{
    struct html *h = p->format;
    if (!h->waiting)
        return;
    fprintf(p->out, "<section id=\"%s\">\n<h2>%s</h2>\n", h->id, h->heading);
    fprintf(h->nav, "<li><a href=\"#%s\">%s</a></li>\n", h->id, h->heading);
    h->open = true;
    h->waiting = h->drawn = false;
    h->details = h->folded;
    if (h->folded)
        fprintf(p->out, "<details>\n<summary>Show: %s</summary>\n", h->heading);
}

void html_block(struct page *p)
{
    begin(p);
    close_list(p);
}

/* Begins a list, unless the one that is open is of its kind. */
static void list(struct page *p, int kind)
{
    struct html *h = p->format;
    begin(p);
    if (h->list == kind)
        return;
    close_list(p);
    fputs(kind == TERMS ? "<dl>\n" : "<ol class=\"entries\">\n", p->out);
    h->list = kind;
}

static void title(struct page *p, const char *text)
{
    html_block(p);
    fputs("<h1>", p->out);
    sentence(p->out, text);
    fputs("</h1>\n", p->out);
}

static void section(struct page *p, const char *id, const char *heading, bool folded)
{
    struct html *h = p->format;
    close_section(p);
    h->id = id;
    h->heading = heading;
    h->folded = folded;
    h->waiting = true;
}

static void head(struct page *p, const char *text)
{
    struct html *h = p->format;
    if (h->heading && !strcmp(h->heading, text))
        return;
    html_block(p);
    fprintf(p->out, "<h3 id=\"part-%d\">", ++h->numbers);
    sentence(p->out, text);
    fputs("</h3>\n", p->out);
}

static void card(struct page *p, const char *id, const char *text)
{
    html_block(p);
    fputs("<h3 id=\"finding-", p->out);
    html_text(p->out, id, NAME_COLUMNS);
    fputs("\">", p->out);
    sentence(p->out, text);
    fputs("</h3>\n", p->out);
}

static void text_block(struct page *p, int indent, const char *text)
{
    (void)indent;
    html_block(p);
    fputs("<p>", p->out);
    sentence(p->out, text);
    fputs("</p>\n", p->out);
}

static void blank(struct page *p)
{
    (void)p; /* the style parts blocks */
}

static void label(struct page *p, const char *text)
{
    if (!text) {
        html_block(p);
        fputs("<p class=\"run\">", p->out);
        p->indent = 0;
        return;
    }
    list(p, TERMS);
    while (*text == ' ')
        text++;
    if (*text) {
        fputs("<dt>", p->out);
        sentence(p->out, text);
        fputs("</dt>", p->out);
    }
    fputs("<dd>", p->out);
    p->indent = 1;
}

static void item(struct page *p, const char *text)
{
    if (p->joined)
        fputs(" \xc2\xb7 ", p->out);
    sentence(p->out, text);
}

static void end(struct page *p)
{
    fputs(p->indent ? "</dd>\n" : "</p>\n", p->out);
}

static void entry(struct page *p, size_t number, const char *id, const char *gain, const char *text)
{
    list(p, ENTRIES);
    fprintf(p->out, "<li value=\"%zu\"><strong><a href=\"#finding-", number);
    html_text(p->out, id, NAME_COLUMNS);
    fputs("\">", p->out);
    html_text(p->out, id, NAME_COLUMNS);
    fputs("</a></strong> <span class=\"gain\">", p->out);
    html_text(p->out, gain, NAME_COLUMNS);
    fputs("</span> ", p->out);
    sentence(p->out, text);
    fputs("</li>\n", p->out);
}

static void term(struct page *p, const char *word, const char *unit, const char *text)
{
    list(p, TERMS);
    fputs("<dt><code>", p->out);
    html_text(p->out, word, NAME_COLUMNS);
    fputs("</code>", p->out);
    if (*unit) {
        fputs(" <span class=\"unit\">", p->out);
        html_text(p->out, unit, NAME_COLUMNS);
        fputs("</span>", p->out);
    }
    fputs("</dt><dd>", p->out);
    sentence(p->out, text);
    fputs("</dd>\n", p->out);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------- */

static void table_row(struct page *p, const struct rep_table *t, const void *row)
{
    char name[REP_NAME] = "", cell[REP_CELL];
    t->name(name, row);
    fputs(*name ? "<tr><th scope=\"row\">" : "<tr class=\"sum\"><th scope=\"row\">", p->out);
    html_text(p->out, *name ? name : "together", NAME_COLUMNS);
    fputs("</th>", p->out);
    for (size_t k = 0; k < t->columns; k++) {
        cell[0] = 0;
        t->column[k].cell(cell, row);
        fputs("<td>", p->out);
        html_text(p->out, cell, REP_CELL);
        fputs("</td>", p->out);
    }
    fputs("</tr>\n", p->out);
}

static void table(struct page *p, const struct rep_table *t)
{
    struct html *h = p->format;
    size_t most = rep_table_most(p, t);
    html_block(p);
    int id = ++h->numbers;
    bool fold = h->drawn && !h->details && most > ROWS_OPEN;
    if (fold)
        fprintf(p->out, "<details>\n<summary>Table of %zu rows: ", most);
    if (fold) {
        html_text(p->out, t->title, NAME_COLUMNS);
        fputs("</summary>\n", p->out);
    }
    fprintf(p->out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
            "aria-labelledby=\"table-%d\">\n<table>\n<caption "
            "id=\"table-%d\">",
            id, id);
    html_text(p->out, t->title, NAME_COLUMNS);
    fputs("</caption>\n<thead><tr><th scope=\"col\">Name</th>", p->out);
    for (size_t k = 0; k < t->columns; k++) {
        fputs("<th scope=\"col\">", p->out);
        html_text(p->out, t->column[k].head, REP_CELL);
        fputs("</th>", p->out);
    }
    fputs("</tr></thead>\n<tbody>\n", p->out);
    for (size_t i = 0; i < most; i++)
        table_row(p, t, (const char *)t->rows + i * t->size);
    fputs("</tbody>\n</table>\n</div>\n", p->out);
    if (t->count > most)
        fprintf(p->out,
                "<p class=\"more\">%zu more rows: <code>--top N</code>, or <code>tacho report "
                "--json</code></p>\n",
                t->count - most);
    if (fold)
        fputs("</details>\n", p->out);
}

static void picture(struct page *p, enum page_picture which, const struct an_result *r)
{
    switch (which) {
    case PAGE_BUDGET:
        html_budget(p, r);
        break;
    case PAGE_TREND:
        html_trend(p, r);
        break;
    case PAGE_ROOFLINE:
        html_roofline(p, r);
        break;
    case PAGE_TIMELINE:
        html_timeline(p, r);
        break;
    case PAGE_FLAME:
        html_flame(p, &r->flame, "Ranges of a step");
        break;
    case PAGE_STACKS:
        html_flame(p, &r->stacks.flame, "Call stacks");
        break;
    case PAGE_HEAT:
        html_heat(p, r);
        break;
    case PAGE_PATH:
        html_path(p, r);
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
                                    .table = table,
                                    .picture = picture};

/* ---- the document ------------------------------------------------------------------------------------------------------- */

static void document_head(const struct an_result *r, FILE *out)
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
    html_text(out, r->verdict_class ? r->verdict_class : "report", TEXT_COLUMNS);
    fputs(" \xc2\xb7 ", out);
    html_text(out, *r->run.file ? r->run.file : r->run.program, TEXT_COLUMNS);
    fprintf(out, " \xc2\xb7 tacho</title>\n<style>%s</style>\n</head>\n<body>\n", style);
    /* patterns: a fill tells its class without its colour */
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
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        fprintf(out,
                "<pattern id=\"pattern-%d\" width=\"8\" height=\"8\" "
                "patternUnits=\"userSpaceOnUse\"><rect class=\"b%d\" "
                "width=\"8\" height=\"8\"/>%s%s%s</pattern>\n",
                k, k, marks[k] ? "<path class=\"mark\" d=\"" : "", marks[k] ? marks[k] : "",
                marks[k] ? "\"/>" : "");
    fputs("</defs></svg>\n<a class=\"skip\" href=\"#main\">to the report</a>\n", out);
}

static void document_end(const char *data, FILE *out)
{
    fputs("</main>\n<footer><p>Made by tacho " TACHO_VERSION
          " from the run's own records. Nothing in this file is fetched from "
          "anywhere.</p></footer>\n",
          out);
    fprintf(out, "<script type=\"application/json\" id=\"chart-data\">{%s\"version\":1}</script>\n",
            data);
#ifdef HTML_CHART_HASH
    fprintf(out, "<script>%s</script>\n", chart);
#endif
    fprintf(out, "<script>%s</script>\n</body>\n</html>\n", script);
}

/* The parts that come in another order than they are found, in memory. */
struct parts {
    char *body, *nav, *data;
    size_t body_size, nav_size, data_size;
};

static int write_parts(struct parts *x, const struct an_result *r, const struct rep_options *o)
{
    struct html h = {.header = true, .nav = open_memstream(&x->nav, &x->nav_size)};
    struct page p = {.out = open_memstream(&x->body, &x->body_size),
                     .ops = &ops,
                     .format = &h,
                     .utf8 = true,
                     .rows = o->ops ? o->ops : ROWS,
                     .by = o->by};
    h.data = open_memstream(&x->data, &x->data_size);
    bool ok = h.nav && h.data && p.out;
    if (ok) {
        fputs("<main id=\"main\">\n<header>\n", p.out);
        rep_sections_write(&p, r, true);
        close_section(&p);
    }
    FILE *all[] = {h.nav, h.data, p.out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && (ferror(all[i]) | fclose(all[i])))
            ok = false;
    return ok ? 0 : TACHO_ENOMEM;
}

int rep_html_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    struct parts x = {0};
    int rc = write_parts(&x, r, o);
    if (!rc) {
        document_head(r, out);
        fprintf(out, "<nav aria-label=\"Sections\">\n<ul>\n%s</ul>\n</nav>\n", x.nav);
        fputs(x.body, out);
        document_end(x.data, out);
        rc = ferror(out) ? TACHO_EIO : 0;
    }
    free(x.body);
    free(x.nav);
    free(x.data);
    return rc;
}

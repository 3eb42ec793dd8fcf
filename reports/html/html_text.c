/* SPDX-License-Identifier: Apache-2.0
 *
 * The lower part of the HTML format: text made safe for a page, and blocks that open the section
 * they belong to. The document (html.c) and its pictures are written with it.
 */
#include "reports/html/html_private.h"

#include <string.h>

#include "reports/words/escape.h"

#define SENTENCE_COLUMNS 1000

/* Escapes what HTML gives a meaning to, in text and in attributes. */
void html_text(FILE *out, const char *text, int columns)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, columns, true);
    for (const char *character = clean; *character; character++)
        switch (*character) {
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
            fputc(*character, out);
        }
}

void html_between(FILE *out, const char *before, const char *text, int columns, const char *after)
{
    fputs(before, out);
    html_text(out, text, columns);
    fputs(after, out);
}

/* Escapes by number what could end a script element, so that the text is safe there too. */
void html_json(FILE *out, const char *text, int columns)
{
    char clean[PAGE_TEXT];
    rep_clean(clean, sizeof clean, text, columns, true);
    fputc('"', out);
    for (const char *character = clean; *character; character++)
        if (strchr("\"\\<>&'", *character))
            fprintf(out, "\\u%04x", (unsigned)*character);
        else
            fputc(*character, out);
    fputc('"', out);
}

void html_sentence(FILE *out, const char *text)
{
    while (*text == ' ')
        text++;
    for (const char *open; (open = strchr(text, '`'));) {
        const char *close = strchr(open + 1, '`');
        char part[PAGE_TEXT];
        if (!close)
            break;
        snprintf(part, sizeof part, "%.*s", (int)(open - text), text);
        html_text(out, part, SENTENCE_COLUMNS);
        snprintf(part, sizeof part, "%.*s", (int)(close - open - 1), open + 1);
        html_between(out, "<code>", part, SENTENCE_COLUMNS, "</code>");
        text = close + 1;
    }
    html_text(out, text, SENTENCE_COLUMNS);
}

void html_close_list(struct page *page)
{
    static const char *const ends[] = {"", "</dl>\n", "</li>\n</ol>\n"};
    struct html *html = page->format;
    html->entry = false;
    fputs(ends[html->list], page->out);
    html->list = HTML_NO_LIST;
}

void html_open_section(struct page *page)
{
    struct html *html = page->format;
    if (!html->waiting)
        return;
    fprintf(page->out, "<section id=\"%s\">\n<h2>%s</h2>\n", html->id, html->heading);
    fprintf(html->nav, "<li><a href=\"#%s\">%s</a></li>\n", html->id, html->heading);
    html->open = true;
    html->waiting = html->drawn = false;
    html->details = html->folded;
    if (html->folded)
        fprintf(page->out, "<details>\n<summary>Show: %s</summary>\n", html->heading);
}

void html_block(struct page *page)
{
    html_open_section(page);
    html_close_list(page);
}

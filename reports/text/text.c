/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people in a terminal: the sections as lines of a width.
 */
#include "reports/text/text.h"

#include <stdlib.h>

#include "reports/page/lines.h"
#include "reports/sections/sections.h"
#include "tacho_error.h"

#define LINES_MOST 28
#define FULL_WIDTH 80

/* Prepares a page of lines; options may be NULL. */
static struct page open_page(const struct rep_options *options, FILE *out)
{
    static const struct rep_options defaults = {.width = 0};
    options = options ? options : &defaults;
    return (struct page){.out = out,
                         .ops = &page_lines,
                         .utf8 = options->utf8,
                         .color = options->color,
                         .rows = options->ops,
                         .by = options->by,
                         .sections = options->sections,
                         .explain = options->explain,
                         .width = page_lines_width(options->width)};
}

static size_t count_lines(const char *text, size_t bytes)
{
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Writes the first screen with the most detail that fits; below that, with the least. 0,
 * TACHO_ENOMEM or TACHO_EIO. */
static int write_brief(const struct an_result *result, const struct rep_options *options, FILE *out)
{
    int width = page_lines_width(options->width);
    size_t most = options->lines ? (size_t)options->lines : LINES_MOST;
    if (!options->lines && width < FULL_WIDTH) /* as much text in narrower lines */
        most = most * FULL_WIDTH / (size_t)width;
    for (int detail = REP_DETAIL_MOST; detail >= 0; detail--) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *memory = open_memstream(&text, &bytes);
        if (!memory)
            return TACHO_ENOMEM;
        struct page page = open_page(options, memory);
        rep_section_summary(&page, result, detail);
        bool failed = fclose(memory) != 0, fits = !failed && count_lines(text, bytes) <= most;
        if (!failed && (fits || !detail))
            fwrite(text, 1, bytes, out);
        free(text);
        if (failed)
            return TACHO_ENOMEM;
        if (fits)
            break;
    }
    return fflush(out) || ferror(out) ? TACHO_EIO : 0;
}

int rep_text_write(const struct an_result *result, const struct rep_options *options, FILE *out)
{
    if (options->brief)
        return write_brief(result, options, out);
    struct page page = open_page(options, out);
    rep_sections_write(&page, result, options->definitions);
    return page_flush(&page);
}

int rep_text_section(const char *id, const struct an_result *result,
                     const struct rep_options *options, FILE *out)
{
    struct page page = open_page(options, out);
    int rc = rep_sections_write_one(&page, result, id);
    return rc ? rc : page_flush(&page);
}

int rep_text_document(const struct rep_document *document, const struct rep_options *options,
                      FILE *out)
{
    struct page page = open_page(options, out);
    document->write(&page, document->what);
    return page_flush(&page);
}

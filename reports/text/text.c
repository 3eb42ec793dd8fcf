/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people in a terminal: the sections as lines of a width.
 */
#include "reports/text/text.h"
#include "reports/page/lines.h"
#include "reports/sections/sections.h"

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
                         .width = page_lines_width(options->width)};
}

int rep_text_write(const struct an_result *result, const struct rep_options *options, FILE *out)
{
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people in a terminal: the sections as lines of a width.
 */
#include "reports/formats.h"
#include "reports/page/lines.h"
#include "reports/sections/sections.h"

#define WIDTH_LEAST   40
#define WIDTH_MOST    200
#define WIDTH_DEFAULT 100

static struct page open_page(const struct rep_options *o, FILE *out)
{
    static const struct rep_options defaults = {.width = 0};
    o = o ? o : &defaults;
    int width = o->width ? o->width : WIDTH_DEFAULT;
    return (struct page){.out = out,
                         .ops = &page_lines,
                         .utf8 = o->utf8,
                         .color = o->color,
                         .rows = o->ops,
                         .by = o->by,
                         .width = width < WIDTH_LEAST  ? WIDTH_LEAST
                                  : width > WIDTH_MOST ? WIDTH_MOST
                                                       : width};
}

int rep_text_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    struct page p = open_page(o, out);
    rep_sections_write(&p, r, o->definitions);
    return ferror(out) ? TACHO_EIO : 0;
}

int rep_text_section(const char *id, const struct an_result *r, const struct rep_options *o,
                     FILE *out)
{
    struct page p = open_page(o, out);
    int rc = rep_sections_write_one(&p, r, id);
    return rc ? rc : fflush(out) || ferror(out) ? TACHO_EIO : 0;
}

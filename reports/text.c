/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for people in a terminal: the sections as lines of a width.
 */
#include "reports/formats.h"
#include "reports/page.h"
#include "reports/sections.h"

#define WIDTH_LEAST   40
#define WIDTH_MOST    200
#define WIDTH_DEFAULT 100

int rep_text_write(const struct an_result *r, const struct rep_options *o, FILE *out)
{
    int width = o->width ? o->width : WIDTH_DEFAULT;
    struct page p = {.out = out, .utf8 = o->utf8, .color = o->color, .rows = o->ops, .by = o->by};
    p.width = width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
    rep_sections_write(&p, r, o->definitions);
    return ferror(out) ? TACHO_EIO : 0;
}

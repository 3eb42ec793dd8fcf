/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of a report in their order, the same for every format that people read. A section is
 * written once, with the calls of page.h and table.h; the page knows the format. To add one: a function (text.h) and a row in
 * sections.c.
 */
#ifndef REPORTS_SECTIONS_H
#define REPORTS_SECTIONS_H

#include <stdbool.h>

#include "analyzers/result.h"
#include "reports/page.h"

struct rep_section {
    const char *id;                                           /* of the heading, unique; NULL: goes on in the section above */
    const char *title;                                        /* the heading, in formats that have some */
    void (*write)(struct page *p, const struct an_result *r); /* nothing where there is nothing to say */
};

extern const struct rep_section rep_sections[]; /* ends with write NULL */

/* What ran, the verdict, all sections; the definitions of every number where they are asked for. */
void rep_sections_write(struct page *p, const struct an_result *r, bool definitions);

#endif

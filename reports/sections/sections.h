/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the sections of a report in their order, the same for every format that
 * people read. A section is written once, with the calls of page.h and table.h; the page knows the
 * format. To add one: a function (text.h) and a row in sections.c.
 */
#ifndef REPORTS_SECTIONS_H
#define REPORTS_SECTIONS_H

#include <stdbool.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

enum rep_how {
    REP_SHOWN,
    REP_FOLDED, /* long: formats that fold do */
    REP_DRAWN   /* a picture with its table: not on lines, unless asked for */
};

struct rep_section {
    const char *id;    /* of the heading, unique; NULL: goes on in the section above */
    const char *title; /* the heading, in formats that have some */
    void (*write)(struct page *p,
                  const struct an_result *r); /* nothing where there is nothing to say */
    enum rep_how how;
};

extern const struct rep_section rep_sections[]; /* ends with write NULL */

/* What ran, the verdict, all sections; the definitions of every number where they are asked for. */
void rep_sections_write(struct page *page, const struct an_result *result, bool definitions);
/* One section and what goes on in it. TACHO_EUSAGE: none has this id. */
int rep_sections_write_one(struct page *page, const struct an_result *result, const char *id);

#endif

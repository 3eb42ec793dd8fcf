/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: lines of a text report that keep to a width. Texts may come from the profiled program: everything
 * printed goes through rep_clean. Errors of the stream stay with the stream (ferror).
 */
#ifndef REPORTS_PAGE_H
#define REPORTS_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "reports/number.h"

#define PAGE_LABEL 14 /* columns of the label at the left, where the page is wide enough */

struct page {
    FILE *out;
    int width;
    bool utf8, color;
    int column;     /* where the next item goes */
    int indent;     /* of lines that continue */
    int blanks;     /* that are written when something follows: no line ends in a blank */
    bool joined;    /* the line has an item already */
    bool gap;       /* the line above is blank */
    int rows;       /* of a table; 0: the default */
    const char *by; /* which table of device time: as rep_options */
};

/* A paragraph broken at blanks. */
void page_text(struct page *p, int indent, const char *text);
void page_head(struct page *p, const char *text); /* the same, bold where there is colour */
void page_blank(struct page *p);                  /* one, however often it is asked for */

/* A line of items after a label, joined with a dot and broken between items. A narrow page puts the label on its own line. */
void page_label(struct page *p, const char *label);
__attribute__((format(printf, 2, 3))) void page_item(struct page *p, const char *format, ...);
void page_end(struct page *p);

/* One cell of a table: cleaned, cut and padded to `columns`, at the left or (right) at the right. 0 columns: as long as it is.
 */
void page_cell(struct page *p, const char *text, int columns, bool right);
/* A bar of `cells` at 100 %, in eighths with UTF-8. */
void page_bar(struct page *p, double pct, int cells);
void page_newline(struct page *p);

#endif

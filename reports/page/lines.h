/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: a page as lines of a terminal that keep to a width. Everything printed goes
 * through rep_clean. No line ends in a blank.
 */
#ifndef REPORTS_LINES_H
#define REPORTS_LINES_H

#include "reports/page/page.h"

#define LINES_LABEL 14 /* columns of the label at the left, where the page is wide enough */

extern const struct page_ops page_lines;

/* One cell of a table: cleaned, cut and padded to `columns`, at the left or (right) at the right. 0
 * columns: as long as it is.
 */
void line_cell(struct page *page, const char *text, int columns, bool right);
/* A bar of `cells` at 100 %, in eighths with UTF-8. */
void line_bar(struct page *page, double pct, int cells);
void line_newline(struct page *page);
void line_bold(struct page *page, bool on); /* where there is colour */
void line_blank(struct page *page);

void line_table(struct page *page, const struct rep_table *table); /* table.c */

#endif

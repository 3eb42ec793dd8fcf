/* SPDX-License-Identifier: Apache-2.0
 *
 * The format of a terminal: a page as lines that keep to a width. Everything printed goes through
 * rep_clean. No line ends in a blank.
 */
#ifndef REPORTS_LINES_H
#define REPORTS_LINES_H

#include "reports/page/page.h"

extern const struct page_ops page_lines;

/* Columns of a page for a caller who asks for `width`: from 40 to 200; 0 means 100. */
int page_lines_width(int width);

#endif

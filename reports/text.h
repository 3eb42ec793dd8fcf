/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: parts of the text report that have a file of their own.
 */
#ifndef REPORTS_TEXT_H
#define REPORTS_TEXT_H

#include "analyzers/result.h"
#include "reports/page.h"

/* `most` rows; 0 = the default. */
void rep_text_ops(struct page *p, const struct an_result *r, int most);
void rep_text_trust(struct page *p, const struct an_result *r);
void rep_text_definitions(struct page *p);

#endif

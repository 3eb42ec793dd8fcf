/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTML report: a writer of the table of formats (report.c).
 */
#ifndef REPORTS_HTML_H
#define REPORTS_HTML_H

#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/page/options.h"

/* Options are never NULL. Returns 0, TACHO_ENOMEM or TACHO_EIO. */
int rep_html_write(const struct an_result *result, const struct rep_options *options, FILE *out);

/* Any other document of sections. Returns the same. */
int rep_html_document(const struct rep_document *document, const struct rep_options *options,
                      FILE *out);

#endif

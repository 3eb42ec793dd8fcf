/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: the formats, one file each. They return 0, TACHO_ENOMEM or TACHO_EIO;
 * options are never NULL.
 */
#ifndef REPORTS_FORMATS_H
#define REPORTS_FORMATS_H

#include "reports/report.h"

int rep_text_write(const struct an_result *result, const struct rep_options *options, FILE *out);
int rep_markdown_write(const struct an_result *result, const struct rep_options *options,
                       FILE *out);
int rep_html_write(const struct an_result *result, const struct rep_options *options, FILE *out);
int rep_json_write(const struct an_result *result, const struct rep_options *options, FILE *out);

#endif

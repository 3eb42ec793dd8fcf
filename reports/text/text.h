/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports made of plain characters: text for a terminal and Markdown for a ticket. Functions
 * return 0, TACHO_ENOMEM or TACHO_EIO.
 */
#ifndef REPORTS_TEXT_H
#define REPORTS_TEXT_H

#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/page/options.h"

/* Writers of the table of formats (report.c); options are never NULL. */
int rep_text_write(const struct an_result *result, const struct rep_options *options, FILE *out);
int rep_markdown_write(const struct an_result *result, const struct rep_options *options,
                       FILE *out);

/* Writes one section of the text report ("budget", "roofline" ...: sections.c) to `out`, including
 * what other formats draw as a picture. Also returns TACHO_EUSAGE: no section has this id. */
int rep_text_section(const char *id, const struct an_result *result,
                     const struct rep_options *options, FILE *out);

/* Any other document of sections, as lines and as Markdown; options are never NULL. */
int rep_text_document(const struct rep_document *document, const struct rep_options *options,
                      FILE *out);
int rep_markdown_document(const struct rep_document *document, const struct rep_options *options,
                          FILE *out);

#endif

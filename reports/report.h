/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room reports/: a result in a format. One model (analyzers/result/result.h),
 * one table of formats; to add a format write one `int (*write)(...)` and one line in the table in
 * reports/report.c.
 *
 * Names in a result come from the program that was profiled. Every format neutralises control
 * characters, escape sequences, invalid UTF-8 and overlong names.
 */
#ifndef REPORTS_REPORT_H
#define REPORTS_REPORT_H

#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/page/options.h"
#include "reports/text/text.h"
#include "tacho_error.h"

struct rep_format {
    const char *name;   /* "text", "json" */
    const char *help;   /* one line */
    const char *suffix; /* ".txt" */
    int (*write)(const struct an_result *result, const struct rep_options *options, FILE *out);
};

/* All formats; ends with name NULL. Static storage. */
extern const struct rep_format rep_formats[];

/* Writes `result` in the format `name` to `out`. `options` may be NULL. Errors: TACHO_EUSAGE
 * (unknown format), TACHO_EIO (the stream failed), TACHO_ENOMEM. */
int rep_write(const char *name, const struct an_result *result, const struct rep_options *options,
              FILE *out);

#endif

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

#include <stdbool.h>
#include <stdio.h>

#include "analyzers/result/result.h"
#include "tacho_error.h"

struct rep_options {
    int width;        /* columns of the text report, 40..200; 0 = 100 */
    bool color;       /* ANSI colour; never the only carrier of a meaning */
    bool utf8;        /* bars, dots and dashes in UTF-8, else ASCII */
    bool definitions; /* text: append the definitions of every metric (JSON never does) */
    int ops;          /* rows of the ops table in text; 0 = 12 */
    const char
        *by; /* which table of device time: "op" (also NULL), "module", "line", "annotation" */
};

struct rep_format {
    const char *name;   /* "text", "json" */
    const char *help;   /* one line */
    const char *suffix; /* ".txt" */
    int (*write)(const struct an_result *r, const struct rep_options *o, FILE *out);
};

/* All formats; ends with name NULL. Static storage. */
extern const struct rep_format rep_formats[];

/* Writes `r` in the format of that name to `out`. `o` may be NULL. Errors: TACHO_EUSAGE (unknown
 * format), TACHO_EIO (the stream failed), TACHO_ENOMEM. */
int rep_write(const char *format, const struct an_result *result, const struct rep_options *options,
              FILE *out);

/* One section of the text report ("budget", "roofline" ...: sections.c) to `out`, what is drawn in
 * other formats as well. Errors: as rep_write; TACHO_EUSAGE: no section has this id. */
int rep_text_section(const char *id, const struct an_result *result,
                     const struct rep_options *options, FILE *out);

#endif

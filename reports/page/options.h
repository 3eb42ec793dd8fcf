/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller may choose about a report. Part of the public headers of reports/ (report.h
 * includes it).
 */
#ifndef REPORTS_OPTIONS_H
#define REPORTS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct rep_options {
    int width;        /* columns of the text report, 40..200; 0 = 100 */
    bool color;       /* ANSI colour; never the only carrier of a meaning */
    bool utf8;        /* bars, dots and dashes in UTF-8, else ASCII */
    bool definitions; /* text: append the definitions of every metric (JSON never does) */
    int ops;          /* rows of the ops table in text; 0 = 12 */
    const char *by;   /* table of device time: "op" (also NULL), "module", "line", "annotation" */
    bool brief;     /* text, Markdown: the first screen only; of text at most `lines` lines where 80
                       columns are there */
    int lines;      /* of that screen; 0 = 28 */
    size_t explain; /* text, Markdown, HTML: only the card of this finding, from 1; 0: all */
    const char *sections; /* text, Markdown, HTML: only these, "budget,trust"; NULL: all */
};

struct page;

/* A document that is no report of a run. `write` writes its sections with the calls of page.h. */
struct rep_document {
    const char *title, *of; /* of the window: "plan", "llama-3-8b" */
    const char *origin;     /* what it was made from, in words */
    void (*write)(struct page *page, const void *what);
    const void *what;
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a section of a report is written with, once for every format. A page has the calls of its
 * format: lines of a terminal (lines.h), Markdown, HTML.
 *
 * Texts may come from the profiled program and hold any byte: the format neutralises them. Errors
 * of the stream stay with the stream (ferror).
 */
#ifndef REPORTS_PAGE_H
#define REPORTS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/words/number.h"

#define PAGE_TEXT 4096 /* bytes of an item or a paragraph; what is longer is cut */

struct an_result;
struct rep_table;
struct page_ops;

/* Pictures, for formats that draw. The table beside a picture is the section's. */
enum page_picture {
    PAGE_BUDGET,
    PAGE_TREND,
    PAGE_ROOFLINE,
    PAGE_TIMELINE,
    PAGE_FLAME,
    PAGE_STACKS,
    PAGE_HEAT,
    PAGE_PATH,
    PAGE_TILES,
    PAGE_CURVES,
    PAGE_TRAFFIC
};

struct page {
    FILE *out;
    const struct page_ops *ops;
    void *format; /* what the format keeps */
    int width;
    bool utf8, color;
    int column;           /* where the next item goes */
    int line;             /* lines that are written; 0 in formats without lines */
    int indent;           /* of lines that continue */
    int blanks;           /* that are written when something follows: no line ends in a blank */
    bool joined;          /* the line has an item already */
    bool gap;             /* the line above is blank */
    int rows;             /* of a table; 0: the default */
    const char *missing;  /* under each table: how heavy the loss of events is; NULL: not heavy */
    const char *by;       /* which table of device time: as rep_options */
    const char *sections; /* only these: as rep_options */
    size_t explain;       /* only the card of this finding: as rep_options */
};

/* What a format does with each of the calls below. */
struct page_ops {
    void (*title)(struct page *page, const char *text);
    void (*section)(struct page *page, const char *id, const char *heading,
                    bool folded); /* NULL: a format without headings */
    void (*head)(struct page *page, const char *text);
    void (*card)(struct page *page, const char *id, const char *text); /* NULL: as head */
    void (*text)(struct page *page, int indent, const char *text);
    void (*blank)(struct page *page);
    void (*label)(struct page *page, const char *label);
    void (*item)(struct page *page, const char *text);
    void (*end)(struct page *page);
    void (*entry)(struct page *page, size_t number, const char *id, const char *gain,
                  const char *text);
    void (*term)(struct page *page, const char *term, const char *unit, const char *text);
    void (*table)(struct page *page, const struct rep_table *table);
    void (*part)(struct page *page, const char *name); /* NULL: a format without columns */
    void (*picture)(struct page *page, enum page_picture which,
                    const struct an_result *result); /* NULL: a format without pictures */
};

/* Flushes the stream: 0 or TACHO_EIO. */
int page_flush(const struct page *page);

void page_title(struct page *page, const char *text); /* the verdict */
/* Begins a section. One in which nothing follows leaves no trace. folded: it is long; formats that
 * can fold it do. */
void page_section(struct page *page, const char *id, const char *heading, bool folded);
void page_head(struct page *page, const char *text); /* of a part of a section */
void page_card(struct page *page, const char *id,
               const char *text); /* of the card of a finding: where its entry may lead to */
/* A paragraph. indent: columns, on lines. */
void page_text(struct page *page, int indent, const char *text);
void page_blank(struct page *page); /* a blank line, however often it is asked for */

/* A line of items after a label. NULL: without a label; "": continues the line above. Blanks before
 * the label indent it on lines of a terminal. */
void page_label(struct page *page, const char *label);
__attribute__((format(printf, 2, 3))) void page_item(struct page *page, const char *format, ...);
/* An item with the value in `format`, where it is known. */
void page_value(struct page *page, struct an_value value, const char *format);
void page_end(struct page *page);
/* All three of them: a line of one item. */
__attribute__((format(printf, 3, 4))) void page_line(struct page *page, const char *label,
                                                     const char *format, ...);

/* One of a numbered list of things to do, which has a card of that id further down. */
void page_entry(struct page *page, size_t number, const char *id, const char *gain,
                const char *text);
/* A word and what it means. unit: "" for none. */
void page_term(struct page *page, const char *term, const char *unit, const char *text);
/* Begins a part of the first screen, which formats may set beside another one; NULL ends it. */
void page_part(struct page *page, const char *name);
/* A picture of a part of the result; nothing where the format draws none, or the part has no rows.
 */
void page_picture(struct page *page, enum page_picture which, const struct an_result *result);

#endif

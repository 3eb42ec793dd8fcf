/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/html/: the state of an HTML page, and what its pictures are made with.
 * Pictures are SVG that is drawn here, so that readers without scripts see them too. Colours and
 * patterns are in html.css, by class names: c0..c7 are enum an_class, h0..h8 levels of heat, f0..f5
 * hues of flames.
 */
#ifndef REPORTS_HTML_PRIVATE_H
#define REPORTS_HTML_PRIVATE_H

#include <stdint.h>

#include "analyzers/result/result.h"
#include "reports/page/page.h"

enum html_list { HTML_NO_LIST, HTML_TERMS, HTML_ENTRIES };

struct html {
    const char *id, *heading; /* of the section */
    bool waiting, folded, open,
        details; /* the heading waits for something that follows it; a section, a fold is open */
    bool drawn;  /* the section has a picture */
    bool header; /* the part above the first section is open */
    enum html_list list; /* which list is open */
    int numbers;         /* of ids: tables, heads, pictures */
    int flames;          /* flame graphs whose data are written */
    bool entry;          /* an entry of a list is open */
    bool part;           /* a part of the first screen is open */
    bool trend;          /* the chart of the steps is drawn */
    bool failed;         /* memory ran out */
    FILE *nav;           /* links to the sections, in memory */
    FILE *data; /* JSON of the charts that scripts draw, in memory; members end in a comma */
};

/* At most `columns` columns of a text of any bytes, as HTML: control characters visible, the rest
 * escaped. */
void html_text(FILE *out, const char *text, int columns);
/* The same between two pieces of HTML. */
void html_between(FILE *out, const char *before, const char *text, int columns, const char *after);
/* A sentence of tacho's own; a command between backticks in it becomes code. */
void html_sentence(FILE *out, const char *text);
/* A text of any bytes as a JSON string that is safe in a script element. */
void html_json(FILE *out, const char *text, int columns);
/* Writes the heading of a section that has none yet, and its entry in the navigation. */
void html_open_section(struct page *page);
void html_close_list(struct page *page);
/* Does both. Every block that is not an item of a list begins with it. */
void html_block(struct page *page);

/* Opens <figure> and <svg> of that size. `about` is the conclusion of the picture in words, for
 * readers who cannot see it. The drawing follows, then svg_end(). */
__attribute__((format(printf, 6, 7))) void svg_begin(struct page *page, const char *kind,
                                                     const char *caption, double width,
                                                     double height, const char *about, ...);
void svg_end(struct page *page);
enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };
__attribute__((format(printf, 6, 7))) void svg_text(struct page *page, double x, double y,
                                                    enum svg_anchor anchor, const char *class,
                                                    const char *format, ...);
/* Columns of a text that fit into `width` units in the bold letters of pictures (html.css), in any
 * of the fonts that may draw them; a text that is cut leaves room for its ellipsis. 0: none fits.
 */
int svg_letters(const char *text, double width);
void svg_line(struct page *page, double x1, double y1, double x2, double y2, const char *class);
/* A rectangle; title: shown when a pointer is over it, or NULL. */
void svg_rect(struct page *page, double x, double y, double width, double height, const char *class,
              const char *title);
/* Dashes of one height from left to right, as the shortest path data there is: to a hundredth of a
 * unit, each from the end of the last one. A pen of zeros begins at (x, y); the caller has opened
 * the path. */
struct svg_pen {
    bool down;
    long x; /* hundredths */
};
void svg_dash(struct page *page, struct svg_pen *pen, double x, double y, double width);
/* Classes of a step, those that `used` holds (bits), as letters with their fill and what they mean
 * in this picture. */
void svg_legend(struct page *page, unsigned used, const char *const name[AN_CLASS_COUNT]);
char svg_class_letter(int class);

/* An axis from 0 to `most` in about `ticks` round parts: the distance of two. */
double svg_tick(double most, int ticks);

/* Vertical lines at round times from 0 to `ms`, and the times below them. `scale`: units of a ns.
 */
void svg_time_axis(struct page *page, double ms, double left, double right, double scale,
                   double height);
/* The name of a track, right-aligned at (x, y), with its rank in a picture of several ranks. */
void svg_track_name(struct page *page, int x, double y, bool ranks, int64_t rank, const char *name);
/* Begins an item of a legend with the fill of the class `kind` and `number` of html.css. */
void svg_key(struct page *page, char kind, int number);
/* Orders int64_t, the largest first: for qsort. */
int svg_longest_first(const void *first, const void *second);

/* The pictures, html_*.c. Each writes nothing where the result has nothing to draw. */
void html_budget(struct page *page, const struct an_result *result);
void html_trend(struct page *page, const struct an_result *result);
void html_roofline(struct page *page, const struct an_result *result);
void html_timeline(struct page *page, const struct an_result *result);
/* What the colours and letters of a timeline mean: of the classes in `used`, a bit each. */
void html_classes(struct page *page, unsigned used);
void html_flame(struct page *page, const struct an_flame *flame, const char *caption);
void html_heat(struct page *page, const struct an_result *result);
/* Rank x rank: bytes. */
void html_traffic(struct page *page, const struct an_traffic *traffic);
void html_path(struct page *page, const struct an_result *result);
void html_tiles(struct page *page, const struct an_result *result);
void html_curves(struct page *page, const struct an_result *result);
/* A place for the timeline that a script draws, and its data (timeline.js). */
void html_events(struct page *page, const struct an_result *result);

#endif

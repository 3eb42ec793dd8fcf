/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit of the pictures: text, lines, rectangles and legends as SVG. Coordinates are units of
 * the view box; a browser scales them to the width of the page.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/words/compare.h"
#include "reports/words/escape.h"

#define TEXT_COLUMNS 200

/* The figure is labelled twice for readers who do not see it: the caption names it, and the
 * title inside the picture says what it shows. */
void svg_begin(struct page *page, const char *kind, const char *caption, double width,
               double height, const char *about, ...)
{
    struct html *html = page->format;
    char text[PAGE_TEXT];
    va_list arguments;
    va_start(arguments, about);
    vsnprintf(text, sizeof text, about, arguments);
    va_end(arguments);
    html_block(page);
    html->drawn = true;
    int id = ++html->numbers;
    fprintf(page->out,
            "<figure class=\"picture\" id=\"figure-%d\" data-kind=\"%s\">\n<figcaption "
            "id=\"caption-%d\">",
            id, kind, id);
    html_text(page->out, caption, TEXT_COLUMNS);
    fprintf(page->out,
            "</figcaption>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
            "aria-labelledby=\"caption-%d\">\n"
            "<svg viewBox=\"0 0 %.6g %.6g\" width=\"%.6g\" height=\"%.6g\" role=\"img\" "
            "aria-labelledby=\"about-%d\">\n<title "
            "id=\"about-%d\">",
            id, width, height, width, height, id, id);
    html_text(page->out, text, 1000);
    fputs("</title>\n", page->out);
}

void svg_end(struct page *page)
{
    fputs("</svg>\n</div>\n</figure>\n", page->out);
}

void svg_text(struct page *page, double x, double y, enum svg_anchor anchor, const char *class,
              const char *format, ...)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    char text[PAGE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(page->out, "<text x=\"%.5g\" y=\"%.5g\"%s", x, y, anchors[anchor]);
    if (*class)
        fprintf(page->out, " class=\"%s\"", class);
    fputc('>', page->out);
    html_text(page->out, text, TEXT_COLUMNS);
    fputs("</text>\n", page->out);
}

/* Of a bold letter of 12 units, in the widest of the fonts that html.css asks for (DejaVu Sans,
 * Arial): each row as wide as its widest. */
static double letter_width(long code)
{
    static const struct {
        const char *letters;
        double width;
    } row[] = {{"ijlI'/\\|,. ", 4.7}, {":;-f!()[]tr`", 6},
               {"*\"J_", 6.8},        {"ABCDEFGHKLNOPQRSTUVXYZ#+<=>^~", 10.3},
               {"&w", 11.2},          {"mMW%@", 13.3}};
    if (code < 0x20 || code == 0x7f)
        return 30; /* an escape */
    if (code > 0x7e)
        return 15;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strchr(row[i].letters, (int)code))
            return row[i].width;
    return 8.7;
}

/* Adds up the widths of the letters. A text that does not fit ends at the last place where an
 * ellipsis still fits. */
int svg_letters(const char *text, double width)
{
    double used = 0;
    int columns = 0, fits = 0;
    for (size_t left = strlen(text), bytes; left; text += bytes, left -= bytes) {
        long code = rep_decode(text, left, &bytes);
        used += letter_width(code);
        columns += code < 0 ? 4 : rep_char_width(code);
        if (used > width)
            return fits ? fits + 1 : 0;
        if (used + 12 <= width)
            fits = columns;
    }
    return columns;
}

void svg_line(struct page *page, double x1, double y1, double x2, double y2, const char *class)
{
    fprintf(page->out, "<path class=\"%s\" d=\"M%.5g %.5gL%.5g %.5g\"/>\n", class, x1, y1, x2, y2);
}

void svg_rect(struct page *page, double x, double y, double width, double height, const char *class,
              const char *title)
{
    fprintf(page->out, "<rect x=\"%.5g\" y=\"%.5g\" width=\"%.4g\" height=\"%.4g\" class=\"%s\"", x,
            y, width, height, class);
    if (!title) {
        fputs("/>\n", page->out);
        return;
    }
    html_between(page->out, "><title>", title, TEXT_COLUMNS, "</title></rect>\n");
}

/* Writes hundredths as short as path data allows: "12.5", ".07", "-3". */
static void put_hundredths(FILE *out, long value)
{
    long whole = labs(value) / 100, rest = labs(value) % 100;
    fputs(value < 0 ? "-" : "", out);
    if (whole || !rest)
        fprintf(out, "%ld", whole);
    if (rest % 10)
        fprintf(out, ".%02ld", rest);
    else if (rest)
        fprintf(out, ".%ld", rest / 10);
}

/* Each dash is placed relative to the end of the one before it: the shortest path data there is.
 * A dash has at least a hundredth of a unit. */
void svg_dash(struct page *page, struct svg_pen *pen, double x, double y, double width)
{
    long from = lround(x * 100), across = lround(width * 100);
    if (pen->down) {
        fputc('m', page->out);
        put_hundredths(page->out, from - pen->x);
        fputs(" 0h", page->out);
    } else {
        fprintf(page->out, "M%.5g %.4gh", (double)from / 100, y);
    }
    across = across > 0 ? across : 1;
    put_hundredths(page->out, across);
    *pen = (struct svg_pen){true, from + across};
}

char svg_class_letter(int class)
{
    static const char letters[AN_CLASS_COUNT] = {
        [AN_CLASS_COMPUTE] = 'C', [AN_CLASS_COMM] = 'N',        [AN_CLASS_BUBBLE] = 'B',
        [AN_CLASS_COPY] = 'M',    [AN_CLASS_INPUT] = 'I',       [AN_CLASS_IO] = 'O',
        [AN_CLASS_HOST] = 'H',    [AN_CLASS_UNATTRIBUTED] = '?'};
    return letters[class];
}

void svg_legend(struct page *page, unsigned used, const char *const name[AN_CLASS_COUNT])
{
    fputs("<ul class=\"legend\">\n", page->out);
    AN_EACH_CLASS(class)
        if (used >> class & 1) {
            svg_key(page, 'c', class);
            fprintf(page->out, "%c ", svg_class_letter(class));
            html_text(page->out, name[class], TEXT_COLUMNS);
            fputs("</li>\n", page->out);
        }
    fputs("</ul>\n", page->out);
}

double svg_tick(double most, int ticks)
{
    if (!(most > 0))
        return 1;
    static const double rounds[] = {1, 2, 5, 10};
    double step = pow(10, floor(log10(most / ticks))), parts = most / ticks / step;
    size_t i = 0;
    while (i < 3 && parts > rounds[i])
        i++;
    return step * rounds[i];
}

void svg_time_axis(struct page *page, double ms, double left, double right, double scale,
                   double height)
{
    double step = svg_tick(ms, 8);
    for (int i = 0; i * step <= ms; i++) {
        double tick = i * step, x = left + tick * 1e6 * scale;
        svg_line(page, x, 4, x, height - 22, "grid");
        if (x + 26 > right)
            svg_text(page, right, height - 6, SVG_END, "", "%s", TIME_TEXT(tick * 1e6));
        else
            svg_text(page, x, height - 6, SVG_MIDDLE, "", "%s", TIME_TEXT(tick * 1e6));
    }
}

void svg_track_name(struct page *page, int x, double y, bool ranks, int64_t rank, const char *name)
{
    fprintf(page->out, "<text x=\"%d\" y=\"%.5g\" text-anchor=\"end\">", x, y);
    if (ranks)
        fprintf(page->out, "%" PRId64 ": ", rank);
    html_text(page->out, name, ranks ? 22 : 26);
    fputs("</text>\n", page->out);
}

void svg_key(struct page *page, char kind, int number)
{
    fprintf(page->out,
            "<li><svg class=\"key\" width=\"22\" height=\"16\" aria-hidden=\"true\" "
            "focusable=\"false\"><rect class=\"%c%d\" width=\"22\" height=\"16\"/></svg> ",
            kind, number);
}

int svg_longest_first(const void *first, const void *second)
{
    const int64_t *left = first, *right = second;
    return REP_COMPARE(*right, *left);
}

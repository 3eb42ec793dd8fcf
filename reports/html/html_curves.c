/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss, throughput, processors, GPUs and memory over the run: a small chart for each quantity, all
 * with the same axis of time.
 */
#include <math.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/words/phrase.h"

#define WIDTH  640
#define LEFT   70
#define RIGHT  130
#define HEIGHT 150
#define TOP    10
#define BOTTOM 24

struct chart {
    const struct an_curve *line; /* those of one quantity are neighbours */
    size_t count;
    double last_s, low, high; /* of the axes */
};

static double at_x(const struct chart *chart, double start_s)
{
    return LEFT + fmin(1, fmax(0, start_s / chart->last_s)) * (WIDTH - LEFT - RIGHT);
}
static double at_y(const struct chart *chart, double value)
{
    return TOP + (chart->high - value) / (chart->high - chart->low) * (HEIGHT - TOP - BOTTOM);
}

static void value_text(char text[60], const char *unit, double value)
{
    if (!strcmp(unit, "bytes"))
        snprintf(text, 60, "%s", BYTES_TEXT(value));
    else
        snprintf(text, 60, "%s%s%s", NUMBER_TEXT(value), *unit ? " " : "", unit);
}

/* Levels of a loss need not begin at 0; amounts do. */
static void find_range(struct chart *chart)
{
    bool loss = !strcmp(chart->line->quantity, "loss");
    chart->low = loss ? INFINITY : 0;
    chart->high = -INFINITY;
    for (size_t k = 0; k < chart->count; k++)
        for (size_t i = 0; i < chart->line[k].count; i++) {
            chart->low = fmin(chart->low, chart->line[k].point[i].value);
            chart->high = fmax(chart->high, chart->line[k].point[i].value);
        }
    if (!(chart->high > chart->low))
        chart->high = chart->low + 1;
    chart->high += 0.05 * (chart->high - chart->low);
}

/* A round distance of two levels; of bytes it is round in KiB, MiB ... */
static double level_tick(const struct chart *chart)
{
    double range = chart->high - chart->low, unit = 1;
    while (!strcmp(chart->line->unit, "bytes") && range / unit > 1500)
        unit *= 1024;
    return unit * svg_tick(range / unit, 3);
}

static void draw_axes(struct page *page, const struct chart *chart)
{
    double step = level_tick(chart);
    bool bytes = !strcmp(chart->line->unit, "bytes");
    for (double v = ceil(chart->low / step) * step; v <= chart->high && v + step > v; v += step) {
        svg_line(page, LEFT, at_y(chart, v), WIDTH - RIGHT, at_y(chart, v), "grid");
        svg_text(page, LEFT - 6, at_y(chart, v) + 4, SVG_END, "", "%s",
                 bytes ? BYTES_TEXT(v) : NUMBER_TEXT(v));
    }
    step = svg_tick(chart->last_s, 6);
    for (double v = 0; v <= chart->last_s && v + step > v; v += step)
        svg_text(page, at_x(chart, v), HEIGHT - 6, v > 0.9 * chart->last_s ? SVG_END : SVG_MIDDLE,
                 "", "%s", TIME_TEXT(v * 1e9));
}

static void draw_line(struct page *page, const struct chart *chart, size_t k)
{
    const struct an_curve *line = &chart->line[k];
    fprintf(page->out, "<path class=\"line s%zu\" d=\"", k);
    for (size_t i = 0; i < line->count; i++)
        fprintf(page->out, "%s%.5g %.5g", i ? "L" : "M", at_x(chart, line->point[i].start_s),
                at_y(chart, line->point[i].value));
    fputs("\"/>\n", page->out);
}

/* Names of the lines and their last values at the right ends, each below the one above it. The
 * caption has the unit. */
static void draw_names(struct page *page, const struct chart *chart)
{
    double below = TOP;
    for (size_t k = 0; k < chart->count; k++) {
        char text[60];
        const struct an_curve *line = &chart->line[k];
        value_text(text, strcmp(line->unit, "bytes") ? "" : line->unit,
                   line->point[line->count - 1].value);
        fprintf(page->out, "<path class=\"line s%zu\" d=\"M%d %.5gh18\"/>\n", k, WIDTH - RIGHT + 6,
                below);
        svg_text(page, WIDTH - RIGHT + 28, below + 4, SVG_START, "", "%.20s", line->name);
        svg_text(page, WIDTH - RIGHT + 28, below + 18, SVG_START, "", "%s", text);
        below += 32;
    }
}

static void draw(struct page *page, struct chart *chart)
{
    const struct an_curve *line = chart->line;
    char first[60], last[60], caption[120];
    find_range(chart);
    value_text(first, line->unit, line->point[0].value);
    value_text(last, line->unit, line->point[line->count - 1].value);
    snprintf(caption, sizeof caption, "%c%.40s over the run%s%s",
             line->quantity[0] >= 'a' ? line->quantity[0] - 'a' + 'A' : line->quantity[0],
             line->quantity + 1, *line->unit ? ", " : "", line->unit);
    svg_begin(page, "curve", caption, WIDTH, HEIGHT, "%.60s begins at %s and ends at %s.",
              line->name, first, last);
    draw_axes(page, chart);
    for (size_t k = 0; k < chart->count; k++)
        draw_line(page, chart, k);
    draw_names(page, chart);
    svg_end(page);
}

void html_curves(struct page *page, const struct an_result *result)
{
    double last_s = 0;
    if (!result->curve_count)
        return;
    html_block(page);
    fputs("<div class=\"curves\">\n", page->out);
    for (size_t i = 0; i < result->curve_count; i++)
        last_s = fmax(last_s, result->curves[i].point[result->curves[i].count - 1].start_s);
    for (size_t i = 0; i < result->curve_count && last_s > 0;) {
        struct chart chart = {.line = &result->curves[i], .last_s = last_s};
        while (i < result->curve_count &&
               !strcmp(result->curves[i].quantity, chart.line->quantity)) {
            chart.count++;
            i++;
        }
        draw(page, &chart);
    }
    fputs("</div>\n", page->out);
}

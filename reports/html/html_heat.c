/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank x step as a map: how long steps were, and how long ranks waited and transferred in them.
 * Darker (on a dark page lighter) is more; the legend has the numbers of the levels.
 */
#include <inttypes.h>
#include <math.h>

#include "reports/html/html_private.h"

#define WIDTH        960
#define LEFT         90
#define PLOT         (WIDTH - LEFT - 10)
#define LEVELS       9
#define COLUMNS_MOST 80
#define ROW_MOST     22
#define HEIGHT_MOST  520

struct map {
    const struct an_heat *heat;
    const double *cell;
    size_t columns, each; /* shown; columns of the heat that make one */
    double low, high, row;
};

/* Mean of the cells that make a column; NAN: none is known. */
static double value(const struct map *map, size_t rank, size_t column)
{
    double sum = 0;
    size_t n = 0;
    for (size_t s = column * map->each; s < (column + 1) * map->each && s < map->heat->steps; s++) {
        double v = map->cell[rank * map->heat->steps + s];
        if (isfinite(v)) {
            sum += v;
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

static int level(const struct map *map, double v)
{
    if (!isfinite(v))
        return -1;
    int l = map->high > map->low ? (int)((v - map->low) / (map->high - map->low) * LEVELS) : 0;
    return l < 0 ? 0 : l >= LEVELS ? LEVELS - 1 : l;
}

/* All cells of a level as strokes of a row's height, in units of cells; neighbours in a row are one
 * stretch. */
static void draw_level(struct page *page, const struct map *map, int l)
{
    bool any = false;
    for (size_t r = 0; r < map->heat->ranks; r++) {
        struct svg_pen pen = {0};
        for (size_t c = 0, to; c < map->columns; c = to) {
            to = c + 1;
            if (level(map, value(map, r, c)) != l)
                continue;
            while (to < map->columns && level(map, value(map, r, to)) == l)
                to++;
            fputs(any ? "" : "<path d=\"", page->out);
            svg_dash(page, &pen, (double)c, (double)r, (double)(to - c));
            any = true;
        }
    }
    if (any)
        fprintf(page->out, "\"/>");
}

static void legend(struct page *page, const struct map *map)
{
    fputs("<ul class=\"legend\">\n", page->out);
    for (int l = 0; l < LEVELS; l += 2) {
        double v = map->low + (map->high - map->low) * (l + 0.5) / LEVELS;
        fprintf(page->out,
                "<li><svg class=\"key\" width=\"22\" height=\"16\" aria-hidden=\"true\" "
                "focusable=\"false\"><rect class=\"h%d\" "
                "width=\"22\" height=\"16\"/></svg> %s</li>\n",
                l, TIME_TEXT(v * 1e6));
    }
    fputs("</ul>\n", page->out);
}

static void labels(struct page *page, const struct map *map)
{
    size_t each = (size_t)ceil(14 / map->row);
    for (size_t r = 0; r < map->heat->ranks; r += each)
        svg_text(page, LEFT - 6, map->row * (double)r + map->row / 2 + 4, SVG_END, "",
                 "rank %" PRId64, map->heat->rank[r]);
    size_t wide = (map->columns + 9) / 10;
    for (size_t c = 0; c < map->columns; c += wide)
        svg_text(page, LEFT + PLOT / (double)map->columns * ((double)c + 0.5),
                 map->row * (double)map->heat->ranks + 16, SVG_MIDDLE, "", "%" PRId64,
                 map->heat->index[c * map->each]);
    svg_text(page, LEFT - 6, map->row * (double)map->heat->ranks + 16, SVG_END, "", "step");
}

static void draw(struct page *page, const struct an_heat *heat, const double *cell,
                 const char *what)
{
    struct map map = {.heat = heat, .cell = cell, .low = INFINITY, .high = -INFINITY};
    char caption[120];
    map.each = (heat->steps + COLUMNS_MOST - 1) / COLUMNS_MOST;
    map.columns = (heat->steps + map.each - 1) / map.each;
    map.row = (double)HEIGHT_MOST / (double)heat->ranks < ROW_MOST
                  ? (double)HEIGHT_MOST / (double)heat->ranks
                  : ROW_MOST;
    for (size_t r = 0; r < heat->ranks; r++)
        for (size_t c = 0; c < map.columns; c++) {
            double v = value(&map, r, c);
            if (isfinite(v)) {
                map.low = v < map.low ? v : map.low;
                map.high = v > map.high ? v : map.high;
            }
        }
    if (!(map.high > 0))
        return;
    snprintf(caption, sizeof caption, "%s: a row a rank, a column a step", what);
    svg_begin(page, "heat", caption, WIDTH, map.row * (double)heat->ranks + 24, "%s from %s to %s.",
              what, TIME_TEXT(map.low * 1e6), TIME_TEXT(map.high * 1e6));
    fprintf(page->out, "<g class=\"heat\" transform=\"translate(%d %.4g) scale(%.6g %.6g)\">\n",
            LEFT, map.row / 2, PLOT / (double)map.columns, map.row);
    for (int l = 0; l < LEVELS; l++) {
        fprintf(page->out, "<g class=\"h%d\">", l);
        draw_level(page, &map, l);
        fputs("</g>\n", page->out);
    }
    fputs("</g>\n", page->out);
    labels(page, &map);
    svg_end(page);
    legend(page, &map);
}

void html_heat(struct page *page, const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    if (heat->reason || !heat->ranks || !heat->steps)
        return;
    draw(page, heat, heat->step_ms, "Step time");
    draw(page, heat, heat->waiting_ms, "Waiting for other ranks");
    draw(page, heat, heat->transfer_ms, "Transfer that nothing hides");
}

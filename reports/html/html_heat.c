/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank x step as a map: how long steps were, and how long ranks waited and transferred in them.
 * Darker (on a dark page lighter) is more; the legend has the numbers of the levels.
 */
#include <inttypes.h>
#include <math.h>

#include "reports/html/html.h"

#define WIDTH        960
#define LEFT         90
#define PLOT         (WIDTH - LEFT - 10)
#define LEVELS       9
#define COLUMNS_MOST 80
#define ROW_MOST     22
#define HEIGHT_MOST  520

struct map {
    const struct an_heat *h;
    const double *cell;
    size_t columns, each; /* shown; columns of the heat that make one */
    double low, high, row;
};

/* Mean of the cells that make a column; NAN: none is known. */
static double value(const struct map *m, size_t rank, size_t column)
{
    double sum = 0;
    size_t n = 0;
    for (size_t s = column * m->each; s < (column + 1) * m->each && s < m->h->steps; s++) {
        double v = m->cell[rank * m->h->steps + s];
        if (isfinite(v)) {
            sum += v;
            n++;
        }
    }
    return n ? sum / (double)n : NAN;
}

static int level(const struct map *m, double v)
{
    if (!isfinite(v))
        return -1;
    int l = m->high > m->low ? (int)((v - m->low) / (m->high - m->low) * LEVELS) : 0;
    return l < 0 ? 0 : l >= LEVELS ? LEVELS - 1 : l;
}

/* All cells of a level as strokes of a row's height, in units of cells; neighbours in a row are one
 * stretch. */
static void draw_level(struct page *p, const struct map *m, int l)
{
    bool any = false;
    for (size_t r = 0; r < m->h->ranks; r++) {
        struct svg_pen pen = {0};
        for (size_t c = 0, to; c < m->columns; c = to) {
            to = c + 1;
            if (level(m, value(m, r, c)) != l)
                continue;
            while (to < m->columns && level(m, value(m, r, to)) == l)
                to++;
            fputs(any ? "" : "<path d=\"", p->out);
            svg_dash(p, &pen, (double)c, (double)r, (double)(to - c));
            any = true;
        }
    }
    if (any)
        fprintf(p->out, "\"/>");
}

static void legend(struct page *p, const struct map *m)
{
    char a[32];
    fputs("<ul class=\"legend\">\n", p->out);
    for (int l = 0; l < LEVELS; l += 2) {
        double v = m->low + (m->high - m->low) * (l + 0.5) / LEVELS;
        fprintf(p->out,
                "<li><svg class=\"key\" width=\"22\" height=\"16\" aria-hidden=\"true\" "
                "focusable=\"false\"><rect class=\"h%d\" "
                "width=\"22\" height=\"16\"/></svg> %s</li>\n",
                l, page_time(a, v * 1e6));
    }
    fputs("</ul>\n", p->out);
}

static void labels(struct page *p, const struct map *m)
{
    size_t each = (size_t)ceil(14 / m->row);
    for (size_t r = 0; r < m->h->ranks; r += each)
        svg_text(p, LEFT - 6, m->row * (double)r + m->row / 2 + 4, SVG_END, "", "rank %" PRId64,
                 m->h->rank[r]);
    size_t wide = (m->columns + 9) / 10;
    for (size_t c = 0; c < m->columns; c += wide)
        svg_text(p, LEFT + PLOT / (double)m->columns * ((double)c + 0.5),
                 m->row * (double)m->h->ranks + 16, SVG_MIDDLE, "", "%" PRId64,
                 m->h->index[c * m->each]);
    svg_text(p, LEFT - 6, m->row * (double)m->h->ranks + 16, SVG_END, "", "step");
}

static void draw(struct page *p, const struct an_heat *h, const double *cell, const char *what)
{
    struct map m = {.h = h, .cell = cell, .low = INFINITY, .high = -INFINITY};
    char caption[120], a[32], b[32];
    m.each = (h->steps + COLUMNS_MOST - 1) / COLUMNS_MOST;
    m.columns = (h->steps + m.each - 1) / m.each;
    m.row = (double)HEIGHT_MOST / (double)h->ranks < ROW_MOST
                ? (double)HEIGHT_MOST / (double)h->ranks
                : ROW_MOST;
    for (size_t r = 0; r < h->ranks; r++)
        for (size_t c = 0; c < m.columns; c++) {
            double v = value(&m, r, c);
            if (isfinite(v)) {
                m.low = v < m.low ? v : m.low;
                m.high = v > m.high ? v : m.high;
            }
        }
    if (!(m.high > 0))
        return;
    snprintf(caption, sizeof caption, "%s: a row a rank, a column a step", what);
    svg_begin(p, "heat", caption, WIDTH, m.row * (double)h->ranks + 24, "%s from %s to %s.", what,
              page_time(a, m.low * 1e6), page_time(b, m.high * 1e6));
    fprintf(p->out, "<g class=\"heat\" transform=\"translate(%d %.4g) scale(%.6g %.6g)\">\n", LEFT,
            m.row / 2, PLOT / (double)m.columns, m.row);
    for (int l = 0; l < LEVELS; l++) {
        fprintf(p->out, "<g class=\"h%d\">", l);
        draw_level(p, &m, l);
        fputs("</g>\n", p->out);
    }
    fputs("</g>\n", p->out);
    labels(p, &m);
    svg_end(p);
    legend(p, &m);
}

void html_heat(struct page *p, const struct an_result *r)
{
    const struct an_heat *h = &r->heat;
    if (h->reason || !h->ranks || !h->steps)
        return;
    draw(p, h, h->step_ms, "Step time");
    draw(p, h, h->waiting_ms, "Waiting for other ranks");
    draw(p, h, h->transfer_ms, "Transfer that nothing hides");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots with axes (chart.h).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/chart.h"

#define TICKS_MOST 16

/* Where a value lies between the ends of the axis: 0..1 inside. */
static double place(const struct tui_axis *a, double v)
{
    if (a->log)
        return v > 0 ? log(v / a->low) / log(a->high / a->low) : -INFINITY;
    return (v - a->low) / (a->high - a->low);
}

static bool is_usable(const struct tui_axis *a)
{
    return isfinite(a->low) && isfinite(a->high) && a->high > a->low && (!a->log || a->low > 0);
}

/* Smallest of 1, 2, 5 times a power of ten that makes at most `most` steps. */
static double round_step(double width, size_t most)
{
    static const double rounds[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(width / (double)most)));
    for (size_t i = 0; i < 4; i++)
        if (width / (rounds[i] * power) <= (double)most)
            return rounds[i] * power;
    return 10 * power;
}

size_t tui_ticks(const struct tui_axis *a, size_t most, double tick[TICKS_MOST])
{
    size_t n = 0;
    most = most < TICKS_MOST ? most : TICKS_MOST;
    if (!most || !is_usable(a))
        return 0;
    if (a->log) {
        double first = ceil(log10(a->low) - 1e-9), last = floor(log10(a->high) + 1e-9);
        double every = ceil((last - first + 1) / (double)most);
        for (double e = first; e <= last && n < most; e += every < 1 ? 1 : every)
            tick[n++] = pow(10, e);
        return n;
    }
    double width = a->high - a->low, step = round_step(width, most > 1 ? most - 1 : 1);
    double first = ceil(a->low / step - 1e-9) * step;
    for (int i = 0; n < most; i++) { /* multiplied, not added up: round numbers stay round */
        double v = first + i * step;
        if (v > a->high + step * 1e-9)
            break;
        tick[n++] = fabs(v) < step * 1e-9 ? 0 : v;
    }
    return n;
}

/* Columns of the widest label of the y axis. */
static int label_columns(const struct tui_cells *c, const struct tui_axis *y, size_t most)
{
    double tick[TICKS_MOST];
    size_t n = tui_ticks(y, most, tick);
    int widest = 0;
    char text[32];
    for (size_t i = 0; i < n; i++) {
        int w = tui_width(c, y->text(text, tick[i]));
        widest = w > widest ? w : widest;
    }
    return widest;
}

static void draw_y(const struct tui_plot *p, struct tui_rect labels, size_t most)
{
    double tick[TICKS_MOST];
    size_t n = tui_ticks(&p->y, most, tick);
    char text[32];
    bool ascii = p->c->glyphs == TUI_ASCII;
    int taken = -1;
    for (int row = 0; row < labels.rows; row++)
        tui_glyph(p->c, labels, row, labels.columns - 1, TUI_DIM, ascii ? '|' : 0x2502);
    for (size_t i = n; i-- > 0;) {
        int row = (int)lround((1 - place(&p->y, tick[i])) * (labels.rows - 1));
        struct tui_rect left = {labels.row, labels.column, labels.rows, labels.columns - 1};
        if (row <= taken)
            continue;
        taken = row;
        tui_text_right(p->c, left, row, TUI_DIM, p->y.text(text, tick[i]));
        tui_glyph(p->c, labels, row, labels.columns - 1, TUI_DIM, ascii ? '+' : 0x2524);
    }
}

static void draw_x(const struct tui_plot *p, struct tui_rect labels)
{
    double tick[TICKS_MOST];
    size_t n = tui_ticks(&p->x, (size_t)(labels.columns / 10 + 1), tick);
    char text[32];
    int free_from = 0, name = p->x.name ? tui_width(p->c, p->x.name) + 1 : 0;
    name = name < labels.columns / 2 ? name : 0; /* at the right end, where the axis leads */
    for (size_t i = 0; i < n; i++) {
        int at = (int)lround(place(&p->x, tick[i]) * (labels.columns - 1)),
            w = tui_width(p->c, p->x.text(text, tick[i]));
        int from = at - w / 2;
        from = from < 0 ? 0 : from;
        if (from < free_from || from + w > labels.columns - name)
            continue;
        tui_text(p->c, labels, 0, from, TUI_DIM, text);
        free_from = from + w + 1;
    }
    if (name)
        tui_text_right(p->c, labels, 0, TUI_DIM, p->x.name);
}

struct tui_plot tui_plot_open(struct tui_cells *c, struct tui_rect r, struct tui_axis x,
                              struct tui_axis y)
{
    struct tui_plot p = {.c = c, .area = r, .x = x, .y = y};
    bool bottom = r.rows >= 4 && is_usable(&x) && x.text,
         left = r.columns >= 24 && r.rows >= 3 && is_usable(&y) && y.text;
    size_t most = (size_t)(r.rows > 0 ? r.rows / 2 : 0);
    most = most < 2 ? 2 : most;
    if (bottom)
        p.area.rows--;
    if (left && y.name && p.area.rows >= 4) {
        tui_text(c, r, 0, 0, TUI_DIM, y.name);
        p.area.row++;
        p.area.rows--;
    }
    if (left) {
        int columns = label_columns(c, &y, most) + 1;
        columns = columns < r.columns / 2 ? columns : r.columns / 2;
        p.area.column += columns;
        p.area.columns -= columns;
        draw_y(&p, (struct tui_rect){p.area.row, r.column, p.area.rows, columns}, most);
    }
    if (bottom)
        draw_x(&p, (struct tui_rect){p.area.row + p.area.rows, p.area.column, 1, p.area.columns});
    return p;
}

static void dot_of(const struct tui_plot *p, double x, double y, double *dx, double *dy)
{
    int width, height;
    tui_dots(p->c, p->area, &width, &height);
    *dx = place(&p->x, x) * (width - 1);
    *dy = (1 - place(&p->y, y)) * (height - 1);
}

void tui_plot_line(const struct tui_plot *p, double x0, double y0, double x1, double y1,
                   enum tui_style style)
{
    double ax, ay, bx, by;
    int width, height;
    tui_dots(p->c, p->area, &width, &height);
    if (!is_usable(&p->x) || !is_usable(&p->y) || !width || !height)
        return;
    dot_of(p, x0, y0, &ax, &ay);
    dot_of(p, x1, y1, &bx, &by);
    if (!isfinite(ax) || !isfinite(ay) || !isfinite(bx) || !isfinite(by))
        return;
    if (ax > bx) {
        double tx = ax, ty = ay;
        ax = bx, ay = by, bx = tx, by = ty;
    }
    double slope = bx > ax ? (by - ay) / (bx - ax) : 0;
    int from = (int)lround(ax > 0 ? ax : 0), to = (int)lround(bx < width - 1 ? bx : width - 1),
        before = 0;
    for (int x = from; x <= to; x++) {
        double exact = bx > ax ? ay + (x - ax) * slope : ay;
        bool seen = exact > -2 * height && exact < 3 * height;
        int y = seen ? (int)lround(exact) : -1;
        if (seen && x > from && before != y)
            tui_dot_line(p->c, p->area, x, before + (y > before ? 1 : -1), x, y, style);
        else if (seen)
            tui_dot(p->c, p->area, x, y, style);
        before = seen ? y : exact <= 0 ? -1 : height;
    }
    if (!(bx > ax)) {
        double low = fmax(fmin(ay, by), 0), high = fmin(fmax(ay, by), height - 1);
        for (int y = (int)lround(low); y <= (int)lround(high); y++)
            tui_dot(p->c, p->area, from, y, style);
    }
}

bool tui_plot_mark(const struct tui_plot *p, double x, double y, enum tui_style style,
                   uint32_t glyph)
{
    double px = place(&p->x, x), py = place(&p->y, y);
    if (!is_usable(&p->x) || !is_usable(&p->y) || !(px >= 0 && px <= 1 && py >= 0 && py <= 1) ||
        p->area.rows <= 0 || p->area.columns <= 0)
        return false;
    tui_glyph(p->c, p->area, (int)lround((1 - py) * (p->area.rows - 1)),
              (int)lround(px * (p->area.columns - 1)), style, glyph);
    return true;
}

void tui_plot_trend(const struct tui_plot *p, const struct tui_samples *s, double limit,
                    enum tui_style style)
{
    if (is_usable(&p->y))
        tui_trend(p->c, p->area, s, (struct tui_range){p->y.low, p->y.high, limit}, style);
}

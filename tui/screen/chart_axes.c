/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes with ticks at round numbers, and lines, marks and curves in a plot (chart.h).
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/screen/chart.h"

#define TICKS_MOST 16

/* Where a value lies between the ends of the axis: 0..1 inside. */
static double place(const struct tui_axis *axis, double value)
{
    if (axis->log)
        return value > 0 ? log(value / axis->low) / log(axis->high / axis->low) : -INFINITY;
    return (value - axis->low) / (axis->high - axis->low);
}

static bool is_usable(const struct tui_axis *axis)
{
    return isfinite(axis->low) && isfinite(axis->high) && axis->high > axis->low &&
           (!axis->log || axis->low > 0);
}

/* How many multiples of `step` lie on the axis, and the first of them. */
static int multiples_of(const struct tui_axis *axis, double step, double *first)
{
    double low = ceil(axis->low / step - 1e-9), high = floor(axis->high / step + 1e-9);
    *first = low * step;
    return high < low ? 0 : (int)fmin(high - low + 1, INT_MAX);
}

/* Smallest of 1, 2, 5 times a power of ten of which at most `most` multiples lie on the axis: then
 * at least one does. */
static double round_step(const struct tui_axis *axis, size_t most)
{
    static const double rounds[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10((axis->high - axis->low) / (double)most))), first;
    for (size_t i = 0; i < 4; i++)
        if (multiples_of(axis, rounds[i] * power, &first) <= (int)most)
            return rounds[i] * power;
    return 20 * power;
}

size_t tui_ticks(const struct tui_axis *axis, size_t most, double tick[TICKS_MOST])
{
    size_t count = 0;
    most = most < TICKS_MOST ? most : TICKS_MOST;
    if (!most || !is_usable(axis))
        return 0;
    if (axis->log) {
        double first = ceil(log10(axis->low) - 1e-9), last = floor(log10(axis->high) + 1e-9);
        double every = ceil((last - first + 1) / (double)most);
        for (double power = first; power <= last && count < most; power += every < 1 ? 1 : every)
            tick[count++] = pow(10, power);
        return count;
    }
    double first, step = round_step(axis, most);
    count = (size_t)multiples_of(axis, step, &first);
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++) { /* multiplied, not added up: round numbers stay round */
        double value = first + (double)i * step;
        tick[i] = fabs(value) < step * 1e-9 ? 0 : value;
    }
    return count;
}

void tui_range_settle(struct tui_range *range)
{
    struct tui_axis axis = {.low = range->low, .high = range->high};
    double tick[16];
    size_t count = tui_ticks(&axis, 5, tick);
    double step = count > 1 ? tick[1] - tick[0] : 0;
    if (!(step > 0))
        return;
    range->low = floor(range->low / step + 1e-9) * step;
    range->high = ceil(range->high / step - 1e-9) * step +
                  (isfinite(range->limit) ? step : 0); /* spikes stand out */
}

/* Columns of the widest label of the y axis. */
static int label_columns(const struct tui_cells *cells, const struct tui_axis *axis, size_t most)
{
    double tick[TICKS_MOST];
    size_t count = tui_ticks(axis, most, tick);
    int widest = 0;
    char text[32];
    for (size_t i = 0; i < count; i++) {
        int width = tui_width(cells, axis->text(text, tick[i]));
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Draws the y axis. Of labels that would share a row only the upper one is drawn. */
static void draw_y(const struct tui_plot *plot, struct tui_rect labels, size_t most)
{
    double tick[TICKS_MOST];
    size_t count = tui_ticks(&plot->y, most, tick);
    char text[32];
    bool ascii = plot->cells->glyphs == TUI_ASCII;
    int taken = -1;
    for (int row = 0; row < labels.rows; row++)
        tui_glyph(plot->cells, labels, row, labels.columns - 1, TUI_DIM, ascii ? '|' : 0x2502);
    for (size_t i = count; i-- > 0;) {
        int row = (int)lround((1 - place(&plot->y, tick[i])) * (labels.rows - 1));
        struct tui_rect left = {labels.row, labels.column, labels.rows, labels.columns - 1};
        if (row <= taken)
            continue;
        taken = row;
        tui_text_right(plot->cells, left, row, TUI_DIM, plot->y.text(text, tick[i]));
        tui_glyph(plot->cells, labels, row, labels.columns - 1, TUI_DIM, ascii ? '+' : 0x2524);
    }
}

/* Draws the labels of the x axis, centred below their ticks, and its name at the right end. */
static void draw_x(const struct tui_plot *plot, struct tui_rect labels)
{
    double tick[TICKS_MOST];
    int most = labels.columns / 10 + 1;
    size_t count = tui_ticks(&plot->x, (size_t)most, tick);
    char text[32], last[32] = "";
    int free_from = 0, name = plot->x.name ? tui_width(plot->cells, plot->x.name) + 1 : 0;
    name = name < labels.columns / 2 ? name : 0; /* at the right end, where the axis leads */
    for (size_t i = 0; i < count; i++) {
        int middle = (int)lround(place(&plot->x, tick[i]) * (labels.columns - 1)),
            width = tui_width(plot->cells, plot->x.text(text, tick[i]));
        int begin = middle - width / 2;
        begin = begin < 0 ? 0 : begin;
        if (begin < free_from || begin + width > labels.columns - name || !strcmp(text, last))
            continue; /* a tick between two steps has the label of one of them */
        tui_text(plot->cells, labels, 0, begin, TUI_DIM, text);
        snprintf(last, sizeof last, "%s", text);
        free_from = begin + width + 1;
    }
    if (name)
        tui_text_right(plot->cells, labels, 0, TUI_DIM, plot->x.name);
}

/* Labels take their room first; the plot is what is left. */
struct tui_plot tui_plot_open(struct tui_cells *cells, struct tui_rect area, struct tui_axis x,
                              struct tui_axis y)
{
    struct tui_plot plot = {.cells = cells, .area = area, .x = x, .y = y};
    bool bottom = area.rows >= 3 && is_usable(&x) && x.text,
         left = area.columns >= 24 && area.rows >= 3 && is_usable(&y) && y.text;
    size_t most = (size_t)(area.rows > 0 ? area.rows / 2 : 0);
    most = most < 3 ? 3 : most; /* of two there may be one on the axis */
    if (bottom)
        plot.area.rows--;
    if (left && y.name && plot.area.rows >= 4) {
        tui_text(cells, area, 0, 0, TUI_DIM, y.name);
        plot.area.row++;
        plot.area.rows--;
    }
    if (left) {
        int columns = label_columns(cells, &y, most) + 1;
        columns = columns < area.columns / 2 ? columns : area.columns / 2;
        plot.area.column += columns;
        plot.area.columns -= columns;
        draw_y(&plot, (struct tui_rect){plot.area.row, area.column, plot.area.rows, columns}, most);
    }
    if (bottom)
        draw_x(&plot, (struct tui_rect){plot.area.row + plot.area.rows, plot.area.column, 1,
                                        plot.area.columns});
    return plot;
}

/* The place of a point in dots; it may lie outside of the plot. */
static void dot_of(const struct tui_plot *plot, double x, double y, double *dx, double *dy)
{
    int width, height;
    tui_dots(plot->cells, plot->area, &width, &height);
    *dx = place(&plot->x, x) * (width - 1);
    *dy = (1 - place(&plot->y, y)) * (height - 1);
}

/* Goes through the columns from left to right and connects the rows of neighbours, so that steep
 * lines have no gaps. Rows far outside are skipped, since a log axis makes them huge. */
void tui_plot_line(const struct tui_plot *plot, double x0, double y0, double x1, double y1,
                   enum tui_style style)
{
    double ax, ay, bx, by;
    int width, height;
    tui_dots(plot->cells, plot->area, &width, &height);
    if (!is_usable(&plot->x) || !is_usable(&plot->y) || !width || !height)
        return;
    dot_of(plot, x0, y0, &ax, &ay);
    dot_of(plot, x1, y1, &bx, &by);
    if (!isfinite(ax) || !isfinite(ay) || !isfinite(bx) || !isfinite(by))
        return;
    if (ax > bx) {
        double tx = ax, ty = ay;
        ax = bx, ay = by, bx = tx, by = ty;
    }
    double slope = bx > ax ? (by - ay) / (bx - ax) : 0;
    int from = (int)lround(fmax(ax, 0)), to = (int)lround(fmin(bx, width - 1)), before = 0;
    for (int x = from; x <= to; x++) {
        double exact = bx > ax ? ay + (x - ax) * slope : ay;
        bool seen = exact > -2 * height && exact < 3 * height;
        int y = seen ? (int)lround(exact) : -1;
        if (seen && x > from && before != y)
            tui_dot_line(plot->cells, plot->area, x, before + (y > before ? 1 : -1), x, y, style);
        else if (seen)
            tui_dot(plot->cells, plot->area, x, y, style);
        before = exact <= 0 ? -1 : height;
        if (seen)
            before = y;
    }
    if (!(bx > ax)) {
        double low = fmax(fmin(ay, by), 0), high = fmin(fmax(ay, by), height - 1);
        for (int y = (int)lround(low); y <= (int)lround(high); y++)
            tui_dot(plot->cells, plot->area, from, y, style);
    }
}

bool tui_plot_mark(const struct tui_plot *plot, double x, double y, enum tui_style style,
                   uint32_t glyph)
{
    double px = place(&plot->x, x), py = place(&plot->y, y);
    if (!is_usable(&plot->x) || !is_usable(&plot->y) ||
        !(px >= 0 && px <= 1 && py >= 0 && py <= 1) || plot->area.rows <= 0 ||
        plot->area.columns <= 0)
        return false;
    tui_glyph(plot->cells, plot->area, (int)lround((1 - py) * (plot->area.rows - 1)),
              (int)lround(px * (plot->area.columns - 1)), style, glyph);
    return true;
}

void tui_plot_trend(const struct tui_plot *plot, const struct tui_samples *samples, double limit,
                    enum tui_style style)
{
    if (is_usable(&plot->y))
        tui_trend(plot->cells, plot->area, samples,
                  (struct tui_range){plot->y.low, plot->y.high, limit}, style);
}

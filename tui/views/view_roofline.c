/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: log-log, a letter for each operation, and beside it a table by time that explains
 * the letters.
 */
#include <math.h>
#include <string.h>

#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/screen/table.h"
#include "tui/views/view_list.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static double key_time(const void *row)
{
    return (double)((const struct an_roofline_point *)row)->time_ns;
}
static double key_intensity(const void *row)
{
    return ((const struct an_roofline_point *)row)->intensity;
}
static double key_achieved(const void *row)
{
    return ((const struct an_roofline_point *)row)->achieved_flops;
}
static double key_share(const void *row)
{
    const struct an_roofline_point *point = row;
    return point->attainable_flops > 0 ? -point->achieved_flops / point->attainable_flops
                                       : NAN; /* farthest below its roof first */
}
static const struct tui_order orders[] = {
    {0, key_time}, {4, key_share}, {2, key_achieved}, {1, key_intensity}, {-1, NULL}};

static bool is_bandwidth(const struct an_ceiling *ceiling)
{
    return strcmp(ceiling->unit, "FLOP/s") != 0;
}

static const char *intensity_text(char *buf, double intensity)
{
    return page_si(buf, intensity, "");
}
static const char *rate_text(char *buf, double rate)
{
    return page_si(buf, rate, "");
}

/* Of the roofs of arithmetic those of the types that are computed in. NULL: not drawn. */
static const char *roof_label(const struct an_result *result, size_t i)
{
    const char *label = rep_ceiling_label(result, i);
    bool used = is_bandwidth(&result->ceilings[i]) || !*result->ceilings[i].dtype;
    for (size_t other = 0; label && !used && other < result->point_count; other++)
        used = result->points[other].dtype &&
               !strcmp(result->points[other].dtype, result->ceilings[i].dtype);
    return used ? label : NULL;
}

struct roofs {
    double flops, bandwidth, slowest; /* highest arithmetic, highest and lowest bytes/s; 0: none */
};

/* Finds the roofs that the axes must cover. */
static struct roofs roofs_of(const struct an_result *result)
{
    struct roofs roofs = {0};
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *ceiling = &result->ceilings[i];
        if (!roof_label(result, i))
            continue;
        if (!is_bandwidth(ceiling)) {
            roofs.flops = fmax(roofs.flops, ceiling->value);
        } else {
            roofs.bandwidth = fmax(roofs.bandwidth, ceiling->value);
            roofs.slowest =
                roofs.slowest > 0 ? fmin(roofs.slowest, ceiling->value) : ceiling->value;
        }
    }
    return roofs;
}

/* Ends of the axes: all points, and the ridge of the slowest memory; whole decades. */
static bool find_axes(const struct an_result *result, const struct roofs *roofs, struct tui_axis *x,
                      struct tui_axis *y)
{
    double left = INFINITY, right = 0, low = INFINITY, high = roofs->flops;
    for (size_t i = 0; i < result->point_count; i++) {
        const struct an_roofline_point *point = &result->points[i];
        if (!(point->intensity > 0 && isfinite(point->intensity) && point->achieved_flops > 0 &&
              isfinite(point->achieved_flops)))
            continue;
        left = fmin(left, point->intensity);
        right = fmax(right, point->intensity);
        low = fmin(low, point->achieved_flops);
        high = fmax(high, point->achieved_flops);
    }
    if (!(right > 0))
        return false;
    if (roofs->flops > 0 && roofs->slowest > 0)
        right = fmax(right, 3 * roofs->flops / roofs->slowest);
    *x = (struct tui_axis){.low = pow(10, floor(log10(left))),
                           .high = pow(10, ceil(log10(right * 1.01))),
                           .log = true,
                           .text = intensity_text,
                           .name = "FLOP/byte"};
    *y = (struct tui_axis){.low = pow(10, floor(log10(low))),
                           .high = high * 1.6,
                           .log = true,
                           .text = rate_text,
                           .name = "FLOP/s"};
    return true;
}

/* Draws the roofs, slopes of memory up to the ridge and horizontals of arithmetic, and their
 * labels below them at the right. */
static void draw_roofs(const struct tui_plot *plot, const struct an_result *result,
                       const struct roofs *roofs)
{
    int labels = 0;
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *ceiling = &result->ceilings[i];
        const char *label = roof_label(result, i);
        char text[100];
        if (!label || !(ceiling->value > 0))
            continue;
        if (is_bandwidth(ceiling)) {
            double ridge = roofs->flops > 0 ? roofs->flops / ceiling->value : plot->x.high;
            tui_plot_line(plot, plot->x.low, ceiling->value * plot->x.low, ridge,
                          ceiling->value * ridge, TUI_SERIES + 1);
        } else {
            double from = roofs->bandwidth > 0 ? ceiling->value / roofs->bandwidth : plot->x.low;
            tui_plot_line(plot, fmax(from, plot->x.low), ceiling->value, plot->x.high,
                          ceiling->value, TUI_SERIES);
        }
        snprintf(text, sizeof text, "%.20s%s %s", ceiling->dtype, label,
                 SI_TEXT(ceiling->value, is_bandwidth(ceiling) ? "B/s" : "FLOP/s"));
        if (plot->area.rows > labels + 6 &&
            plot->area.columns > 50) /* lower right: below the roofs */
            tui_text_right(plot->cells, tui_upper(plot->area, plot->area.rows),
                           plot->area.rows - 1 - labels++, TUI_DIM, text);
    }
}

/* Draws roofs and operations. The one selected in the table is drawn last, above the others. */
static void draw_picture(struct tui_cells *cells, struct tui_rect area,
                         const struct an_result *result, const void *under)
{
    struct roofs roofs = roofs_of(result);
    struct tui_axis x, y;
    if (area.rows < 3 || area.columns < 10 || !find_axes(result, &roofs, &x, &y))
        return;
    struct tui_plot plot = tui_plot_open(cells, area, x, y);
    draw_roofs(&plot, result, &roofs);
    for (size_t i = result->point_count; i-- > 0;) { /* what takes most of the time lies on top */
        const struct an_roofline_point *point = &result->points[i];
        bool memory = point->bound && !strcmp(point->bound, "memory");
        if (i < sizeof letters - 1 && point != under)
            tui_plot_mark(&plot, point->intensity, point->achieved_flops,
                          memory ? TUI_SERIES + 1 : TUI_BOLD, (uint32_t)letters[i]);
    }
    for (size_t i = 0; i < result->point_count && i < sizeof letters - 1; i++)
        if (&result->points[i] == under)
            tui_plot_mark(&plot, result->points[i].intensity, result->points[i].achieved_flops,
                          TUI_SELECTED, (uint32_t)letters[i]);
}

/* Draws the picture above the table or, on a wide screen, beside it. On a low screen only the
 * table remains. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    struct rep_table points;
    if (!result)
        return;
    rep_table_roofline(result, &points);
    if (!points.count) {
        tui_absent(cells, area, 0, "No roofline",
                   rep_or(result->roofline.reason, "no op has known FLOPs and bytes"));
        return;
    }
    struct tui_list list = {&points, orders, sizeof orders / sizeof *orders, letters};
    bool beside = area.columns >= 110;
    struct tui_rect picture =
        beside ? tui_left(area, area.columns / 2 - 1) : tui_upper(area, area.rows * 3 / 5);
    struct tui_rect lower =
        beside ? tui_right(area, area.columns / 2) : tui_lower(area, picture.rows);
    if (area.rows < 10 && !beside) { /* too low for both: the table has all of it */
        picture.rows = 0;
        lower = area;
    }
    if (state->open && state->cursor >= 0) {
        struct tui_rect details = tui_lower(lower, lower.rows > 8 ? lower.rows - 4 : lower.rows);
        const void *row =
            tui_table_draw(cells, tui_upper(lower, lower.rows - details.rows), &list, state);
        if (row)
            tui_table_details(cells, details, &points, row);
        draw_picture(cells, picture, result, row);
        return;
    }
    const void *row = tui_table_draw(cells, lower, &list, state);
    draw_picture(cells, picture, result, row);
}

const struct tui_view tui_view_roofline = {
    .key = '2',
    .name = "roofline",
    .brief = "roof",
    .help = "ops below the roofs; each letter is a row of the table",
    .keys = "s < >   sort by time, distance to the roof, FLOP/s, intensity, name\n"
            "Enter   all figures of the op under the cursor\n",
    .searches = true,
    .draw = draw};

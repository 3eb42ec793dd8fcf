/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline: log-log, a letter for each op, and beside it the table that says what the letters are,
 * by time.
 */
#include <math.h>
#include <string.h>

#include "tui/draw.h"
#include "tui/table.h"
#include "tui/views/views.h"

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
    const struct an_roofline_point *p = row;
    return p->attainable_flops > 0 ? -p->achieved_flops / p->attainable_flops
                                   : NAN; /* what is farthest below its roof */
}
static const struct tui_order orders[] = {
    {0, key_time}, {4, key_share}, {2, key_achieved}, {1, key_intensity}, {-1, NULL}};

static bool is_bandwidth(const struct an_ceiling *x)
{
    return strcmp(x->unit, "FLOP/s") != 0;
}

static const char *intensity_text(char *buf, double v)
{
    return page_si(buf, v, "");
}
static const char *rate_text(char *buf, double v)
{
    return page_si(buf, v, "");
}

/* Of the roofs of arithmetic those of the types that are computed in. NULL: not drawn. */
static const char *roof_label(const struct an_result *r, size_t i)
{
    const char *label = rep_ceiling_label(r, i);
    bool used = is_bandwidth(&r->ceilings[i]) || !*r->ceilings[i].dtype;
    for (size_t k = 0; label && !used && k < r->point_count; k++)
        used = r->points[k].dtype && !strcmp(r->points[k].dtype, r->ceilings[i].dtype);
    return used ? label : NULL;
}

struct roofs {
    double flops, bandwidth, slowest; /* highest arithmetic, highest and lowest bytes/s; 0: none */
};

static struct roofs roofs_of(const struct an_result *r)
{
    struct roofs f = {0};
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *x = &r->ceilings[i];
        if (!roof_label(r, i))
            continue;
        if (!is_bandwidth(x)) {
            f.flops = fmax(f.flops, x->value);
        } else {
            f.bandwidth = fmax(f.bandwidth, x->value);
            f.slowest = f.slowest > 0 ? fmin(f.slowest, x->value) : x->value;
        }
    }
    return f;
}

/* Ends of the axes: all points, and the ridge of the slowest memory; whole decades. */
static bool axes(const struct an_result *r, const struct roofs *f, struct tui_axis *x,
                 struct tui_axis *y)
{
    double left = INFINITY, right = 0, low = INFINITY, high = f->flops;
    for (size_t i = 0; i < r->point_count; i++) {
        const struct an_roofline_point *p = &r->points[i];
        if (!(p->intensity > 0 && isfinite(p->intensity) && p->achieved_flops > 0 &&
              isfinite(p->achieved_flops)))
            continue;
        left = fmin(left, p->intensity);
        right = fmax(right, p->intensity);
        low = fmin(low, p->achieved_flops);
        high = fmax(high, p->achieved_flops);
    }
    if (!(right > 0))
        return false;
    if (f->flops > 0 && f->slowest > 0)
        right = fmax(right, 3 * f->flops / f->slowest);
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

static void draw_roofs(const struct tui_plot *p, const struct an_result *r, const struct roofs *f)
{
    int labels = 0;
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *x = &r->ceilings[i];
        const char *label = roof_label(r, i);
        char value[32], text[100];
        if (!label || !(x->value > 0))
            continue;
        if (is_bandwidth(x)) {
            double ridge = f->flops > 0 ? f->flops / x->value : p->x.high;
            tui_plot_line(p, p->x.low, x->value * p->x.low, ridge, x->value * ridge,
                          TUI_SERIES + 1);
        } else {
            double from = f->bandwidth > 0 ? x->value / f->bandwidth : p->x.low;
            tui_plot_line(p, fmax(from, p->x.low), x->value, p->x.high, x->value, TUI_SERIES);
        }
        snprintf(text, sizeof text, "%.20s%s %s", x->dtype, label,
                 page_si(value, x->value, is_bandwidth(x) ? "B/s" : "FLOP/s"));
        if (p->area.rows > labels + 6 && p->area.columns > 50) /* lower right: below the roofs */
            tui_text_right(p->c, tui_upper(p->area, p->area.rows), p->area.rows - 1 - labels++,
                           TUI_DIM, text);
    }
}

static void draw_picture(struct tui_cells *c, struct tui_rect r, const struct an_result *result,
                         const void *under)
{
    struct roofs f = roofs_of(result);
    struct tui_axis x, y;
    if (r.rows < 3 || r.columns < 10 || !axes(result, &f, &x, &y))
        return;
    struct tui_plot p = tui_plot_open(c, r, x, y);
    draw_roofs(&p, result, &f);
    for (size_t i = result->point_count; i-- > 0;) { /* what takes most of the time lies on top */
        const struct an_roofline_point *q = &result->points[i];
        bool memory = q->bound && !strcmp(q->bound, "memory");
        if (i < sizeof letters - 1 && q != under)
            tui_plot_mark(&p, q->intensity, q->achieved_flops, memory ? TUI_SERIES + 1 : TUI_BOLD,
                          (uint32_t)letters[i]);
    }
    for (size_t i = 0; i < result->point_count && i < sizeof letters - 1; i++)
        if (&result->points[i] == under)
            tui_plot_mark(&p, result->points[i].intensity, result->points[i].achieved_flops,
                          TUI_SELECTED, (uint32_t)letters[i]);
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    struct rep_table t;
    if (!result)
        return;
    rep_table_roofline(result, &t);
    if (!t.count) {
        tui_absent(c, r, 0, "No roofline",
                   result->roofline.reason ? result->roofline.reason
                                           : "no op has known FLOPs and bytes");
        return;
    }
    struct tui_list list = {&t, orders, sizeof orders / sizeof *orders, letters};
    bool beside = r.columns >= 110;
    struct tui_rect picture =
        beside ? tui_left(r, r.columns / 2 - 1) : tui_upper(r, r.rows * 3 / 5);
    struct tui_rect table = beside ? tui_right(r, r.columns / 2) : tui_lower(r, picture.rows);
    if (r.rows < 10 && !beside) { /* too low for both: the table has all of it */
        picture.rows = 0;
        table = r;
    }
    if (s->open && s->cursor >= 0) {
        struct tui_rect details = tui_lower(table, table.rows > 8 ? table.rows - 4 : table.rows);
        const void *row = tui_table_draw(c, tui_upper(table, table.rows - details.rows), &list, s);
        if (row)
            tui_table_details(c, details, &t, row);
        draw_picture(c, picture, result, row);
        return;
    }
    const void *row = tui_table_draw(c, table, &list, s);
    draw_picture(c, picture, result, row);
}

const struct tui_view tui_view_roofline = {
    .key = '2',
    .name = "roofline",
    .brief = "roof",
    .help = "ops below the roofs of arithmetic and memory; letters are keyed to the table",
    .keys = "s < >   sort by time, distance to the roof, FLOP/s, intensity, name\n"
            "Enter   all figures of the op under the cursor\n",
    .searches = true,
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline in log-log: roofs of the machine, ridges, and the ops as circles with letters,
 * larger with their share of time.
 */
#include <math.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/sections/tables.h"
#include "reports/words/phrase.h"

#define WIDTH       960
#define HEIGHT      430
#define LEFT        92
#define RIGHT       190
#define TOP         14
#define BOTTOM      46
#define POINTS_MOST 60
#define LETTERS     26

struct plot {
    double x0, x1, y0, y1; /* log10 of the range */
};

static double px(const struct plot *plot, double intensity)
{
    return LEFT + (log10(intensity) - plot->x0) / (plot->x1 - plot->x0) * (WIDTH - LEFT - RIGHT);
}
static double py(const struct plot *plot, double flops)
{
    return TOP + (plot->y1 - log10(flops)) / (plot->y1 - plot->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool is_drawn(const struct an_roofline_point *point)
{
    return isfinite(point->intensity) && point->intensity > 0 && isfinite(point->achieved_flops) &&
           point->achieved_flops > 0;
}
static bool is_compute(const struct an_ceiling *ceiling)
{
    return !strcmp(ceiling->unit, "FLOP/s");
}

static void widen(double value, double *low, double *high)
{
    double power = log10(value);
    *low = power < *low ? power : *low;
    *high = power > *high ? power : *high;
}

/* Finds the highest roofs, of compute and of memory; 0 where none is known. */
static void highest(const struct an_result *result, double *flops, double *bytes)
{
    *flops = *bytes = 0;
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *ceiling = &result->ceilings[i];
        if (!rep_ceiling_label(result, i) || !(ceiling->value > 0))
            continue;
        double *most = is_compute(ceiling) ? flops : bytes;
        *most = ceiling->value > *most ? ceiling->value : *most;
    }
}

/* Finds the ends of both axes: all points, the roofs, and the ridges of the memory roofs, moved
 * outwards to round numbers. Returns false where there is no point to draw. */
static bool find_range(const struct an_result *result, struct plot *plot)
{
    double flops, bytes;
    *plot = (struct plot){INFINITY, -INFINITY, INFINITY, -INFINITY};
    highest(result, &flops, &bytes);
    for (size_t i = 0; i < result->point_count && i < POINTS_MOST; i++)
        if (is_drawn(&result->points[i])) {
            widen(result->points[i].intensity, &plot->x0, &plot->x1);
            widen(result->points[i].achieved_flops, &plot->y0, &plot->y1);
        }
    if (!isfinite(plot->x0))
        return false;
    for (size_t i = 0; i < result->ceiling_count; i++)
        if (rep_ceiling_label(result, i) && result->ceilings[i].value > 0) {
            if (is_compute(&result->ceilings[i]))
                widen(result->ceilings[i].value, &plot->y0, &plot->y1);
            else if (flops > 0) /* its ridge */
                widen(flops / result->ceilings[i].value, &plot->x0, &plot->x1);
        }
    plot->x0 = floor(plot->x0 - 0.1);
    plot->x1 = ceil(plot->x1 + 0.1);
    plot->y0 = floor(plot->y0 - 0.1);
    plot->y1 = ceil(plot->y1 * 10 + 2) / 10;
    return true;
}

static void draw_intensity_lines(struct page *page, const struct plot *plot)
{
    for (double power = plot->x0; power <= plot->x1 + 0.001; power++) {
        svg_line(page, px(plot, pow(10, power)), TOP, px(plot, pow(10, power)), HEIGHT - BOTTOM,
                 "grid");
        svg_text(page, px(plot, pow(10, power)), HEIGHT - BOTTOM + 18, SVG_MIDDLE, "", "%s",
                 SI_TEXT(pow(10, power), ""));
    }
}

/* Lines and labels at every power of ten of both axes. */
static void draw_grid(struct page *page, const struct plot *plot)
{
    draw_intensity_lines(page, plot);
    for (double power = plot->y0; power <= plot->y1 + 0.001; power++) {
        svg_line(page, LEFT, py(plot, pow(10, power)), WIDTH - RIGHT, py(plot, pow(10, power)),
                 "grid");
        svg_text(page, LEFT - 6, py(plot, pow(10, power)) + 4, SVG_END, "", "%s",
                 SI_TEXT(pow(10, power), "FLOP/s"));
    }
    svg_text(page, WIDTH - RIGHT, HEIGHT - 8, SVG_END, "", "FLOP a byte");
}

/* Returns the y of the next label of a roof, moved down until it covers none of the others. */
static double place_label(double *used, size_t count, double y)
{
    for (size_t i = 0; i < count; i++)
        if (fabs(used[i] - y) < 14) {
            y = used[i] + 14;
            i = (size_t)-1;
        }
    used[count] = y;
    return y;
}

static void draw_peak(struct page *page, const struct plot *plot, const struct an_ceiling *ceiling,
                      const char *label, double *used, size_t *placed)
{
    double y = py(plot, ceiling->value);
    svg_line(page, LEFT, y, WIDTH - RIGHT, y, "roof");
    svg_text(page, WIDTH - RIGHT + 6, place_label(used, (*placed)++, y + 4), SVG_START, "",
             "%.8s%s %s", ceiling->dtype, label, SI_TEXT(ceiling->value, "FLOP/s"));
}

/* One roof: a horizontal of compute, a slope of memory that ends at the highest roof of compute
 * (its ridge) or at the edge. */
static void draw_roof(struct page *page, const struct plot *plot, const struct an_ceiling *ceiling,
                      const char *label, double flops, double *used, size_t *placed)
{
    double left = pow(10, plot->x0), right = pow(10, plot->x1), bottom = pow(10, plot->y0),
           top = pow(10, plot->y1);
    if (is_compute(ceiling)) {
        draw_peak(page, plot, ceiling, label, used, placed);
        return;
    }
    double from = left, to = fmin((flops > 0 ? flops : top) / ceiling->value, right);
    if (left * ceiling->value < bottom)
        from = bottom / ceiling->value;
    if (from >= to)
        return;
    svg_line(page, px(plot, from), py(plot, from * ceiling->value), px(plot, to),
             py(plot, to * ceiling->value), "roof");
    if (flops > 0 && to < right)
        fprintf(page->out,
                "<circle class=\"ridge\" cx=\"%.5g\" cy=\"%.5g\" r=\"3\"><title>ridge of %.20s: %s "
                "FLOP a "
                "byte</title></circle>\n",
                px(plot, to), py(plot, to * ceiling->value), label, DIGITS_TEXT(to, 3));
    double mid = pow(10, (log10(from) + log10(to)) / 2);
    svg_text(page, px(plot, mid) - 8, py(plot, mid * ceiling->value) - 6, SVG_END, "", "%s %s",
             label, SI_TEXT(ceiling->value, "B/s"));
}

/* Draws one operation as a circle whose area grows with its share of time; the largest ones have
 * a letter. */
static void draw_point(struct page *page, const struct plot *plot,
                       const struct an_roofline_point *point, size_t index, double share)
{
    double x = px(plot, point->intensity), y = py(plot, point->achieved_flops),
           size = 6 + 12 * sqrt(share);
    bool memory = point->bound && strcmp(point->bound, "compute") != 0;
    fprintf(page->out, "<circle class=\"point %s\" cx=\"%.5g\" cy=\"%.5g\" r=\"%.3g\"><title>",
            memory ? "memory" : "compute", x, y, size);
    html_text(page->out, point->name, 100);
    fprintf(page->out, ": %s, %s, %s FLOP a byte, %s</title></circle>\n",
            TIME_TEXT((double)point->time_ns), SI_TEXT(point->achieved_flops, "FLOP/s"),
            DIGITS_TEXT(point->intensity, 3), rep_or(point->bound, "bound unknown"));
    if (index < LETTERS)
        svg_text(page, x, y + 4, SVG_MIDDLE, "on", "%c", (int)('A' + index));
}

/* What the letters mean, in the order of the table. */
static void write_letters(struct page *page, const struct an_result *result)
{
    fputs("<ol class=\"letters\" type=\"A\">\n", page->out);
    for (size_t i = 0; i < result->point_count && i < LETTERS; i++) {
        html_between(page->out, "<li>", rep_or(result->points[i].name, "(unnamed)"), 60, "</li>\n");
    }
    fputs("</ol>\n", page->out);
}

static void point_data(FILE *out, const struct an_result *result)
{
    size_t some = 0;
    for (size_t i = 0; i < result->point_count && i < POINTS_MOST; i++) {
        const struct an_roofline_point *x = &result->points[i];
        if (!is_drawn(x))
            continue;
        fprintf(out, "%s{\"name\":", some++ ? "," : "");
        html_json(out, x->name, 80);
        fprintf(out, ",\"x\":%.5g,\"y\":%.5g,\"ns\":%lld,\"memory\":%d}", x->intensity,
                x->achieved_flops, (long long)x->time_ns,
                x->bound && strcmp(x->bound, "compute") != 0);
    }
}

static void roof_data(FILE *out, const struct an_result *result)
{
    size_t some = 0;
    for (size_t i = 0; i < result->ceiling_count; i++) {
        const struct an_ceiling *x = &result->ceilings[i];
        char name[80];
        if (!rep_ceiling_label(result, i) || !(x->value > 0) || !isfinite(x->value))
            continue;
        snprintf(name, sizeof name, "%.20s%.20s", is_compute(x) ? x->dtype : "",
                 rep_ceiling_label(result, i));
        fprintf(out, "%s{\"name\":", some++ ? "," : "");
        html_json(out, name, 60);
        fprintf(out, ",\"%s\":%.6g}", is_compute(x) ? "flops" : "bytes", x->value);
    }
}

/* Writes roofs and points as JSON for the chart that scripts draw. */
static void write_data(struct html *html, const struct an_result *result, const struct plot *plot,
                       double flops)
{
    fprintf(html->data, "\"roofline\":{\"x\":[%.6g,%.6g],\"y\":[%.6g,%.6g],\"roofs\":[",
            pow(10, plot->x0), pow(10, plot->x1), pow(10, plot->y0), pow(10, plot->y1));
    roof_data(html->data, result);
    fprintf(html->data, "],\"most\":%.6g,\"points\":[", flops);
    point_data(html->data, result);
    fputs("]},", html->data);
}

static void draw_points(struct page *page, const struct plot *plot, const struct an_result *result,
                        double total)
{
    for (size_t i = result->point_count < POINTS_MOST ? result->point_count : POINTS_MOST;
         i-- > 0;) /* the largest on top */
        if (is_drawn(&result->points[i]))
            draw_point(page, plot, &result->points[i], i,
                       total > 0 ? (double)result->points[i].time_ns / total : 0);
}

static void draw_roofs(struct page *page, const struct plot *plot, const struct an_result *result,
                       double flops)
{
    double used[64];
    size_t labels = 0;
    for (size_t i = 0; i < result->ceiling_count && labels < sizeof used / sizeof *used; i++)
        if (rep_ceiling_label(result, i) && result->ceilings[i].value > 0)
            draw_roof(page, plot, &result->ceilings[i], rep_ceiling_label(result, i), flops, used,
                      &labels);
}

void html_roofline(struct page *page, const struct an_result *result)
{
    struct plot plot;
    double flops, bytes, total = 0;
    size_t under = 0, drawn = 0;
    if (result->roofline.reason || !result->point_count || !find_range(result, &plot))
        return;
    highest(result, &flops, &bytes);
    for (size_t i = 0; i < result->point_count; i++) {
        total += (double)result->points[i].time_ns;
        drawn += is_drawn(&result->points[i]);
        under += result->points[i].bound && strcmp(result->points[i].bound, "compute") != 0;
    }
    svg_begin(
        page, "roofline",
        "Roofline, log-log: circles grow with time; filled: memory-bound, ringed: compute-bound",
        WIDTH, HEIGHT,
        "%zu of %zu points are memory-bound; the one with the most time is %.80s. The table "
        "below lists all of them.",
        under, drawn, result->points[0].name);
    draw_grid(page, &plot);
    draw_roofs(page, &plot, result, flops);
    draw_points(page, &plot, result, total);
    svg_end(page);
    write_letters(page, result);
    write_data(page->format, result, &plot, flops);
}

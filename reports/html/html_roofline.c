/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline in log-log: roofs of the machine, ridges, and the ops as markers with names and
 * letters, larger with their share of time.
 */
#include <math.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/sections/tables.h"
#include "reports/words/escape.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"

#define WIDTH         960
#define HEIGHT        430
#define LEFT          92
#define RIGHT         190
#define TOP           14
#define BOTTOM        46
#define POINTS_MOST   60
#define ROOFS_MOST    8
#define LETTERS       26
#define LABELS_MOST   14 /* points that are named beside them */
#define LABEL_TALL    13
#define ROOF_WIDE     110
#define LABEL_COLUMNS 34
#define LETTER_WIDE   6.6

struct label_box {
    double left, right, top;
};

struct plot {
    double x0, x1, y0, y1;             /* log10 of the range */
    struct label_box roof[ROOFS_MOST]; /* where slopes have their names */
    size_t roofs;
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
    *plot = (struct plot){.x0 = INFINITY, .x1 = -INFINITY, .y0 = INFINITY, .y1 = -INFINITY};
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
    for (int power = (int)plot->x0; power <= (int)plot->x1; power++) {
        double x = px(plot, pow(10, power));
        svg_line(page, x, TOP, x, HEIGHT - BOTTOM, "grid");
        svg_text(page, x, HEIGHT - BOTTOM + 18, SVG_MIDDLE, "", "%s", SI_TEXT(pow(10, power), ""));
    }
}

/* Lines and labels at every power of ten of both axes. */
static void draw_grid(struct page *page, const struct plot *plot)
{
    draw_intensity_lines(page, plot);
    for (int power = (int)plot->y0; power <= (int)floor(plot->y1 + 0.001); power++) {
        double y = py(plot, pow(10, power));
        svg_line(page, LEFT, y, WIDTH - RIGHT, y, "grid");
        svg_text(page, LEFT - 6, y + 4, SVG_END, "", "%s", SI_TEXT(pow(10, power), "FLOP/s"));
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
static void draw_roof(struct page *page, struct plot *plot, const struct an_ceiling *ceiling,
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
    double x = px(plot, mid) - 8, y = py(plot, mid * ceiling->value) - 6;
    svg_text(page, x, y, SVG_END, "", "%s %s", label, SI_TEXT(ceiling->value, "B/s"));
    if (plot->roofs < ROOFS_MOST)
        plot->roof[plot->roofs++] = (struct label_box){x - ROOF_WIDE, x, y - 4};
}

/* One marker a bound, so that no colour is needed: a circle below the memory roof, a diamond below
 * the compute roof, a square where caches serve the bytes, triangles where the count or nothing is
 * known. */
static const struct marker {
    const char *bound, *class, *means;
    const char *path; /* within -1 .. 1 */
} markers[] = {
    {"memory", "memory", "memory-bound", "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0"},
    {"compute", "compute", "compute-bound", "M0-1.15L1.15 0L0 1.15L-1.15 0Z"},
    {"cached", "cached", "served by caches", "M-.9-.9H.9V.9H-.9Z"},
    {"reduced", "cached", "fewer multiplications than counted", "M0 1.1L1.05-.85H-1.05Z"},
    {NULL, "open", "bound not known", "M0-1.1L1.05.85H-1.05Z"},
};

static const struct marker *marker_of(const struct an_roofline_point *point)
{
    const struct marker *marker = markers;
    while (marker->bound && (!point->bound || strcmp(marker->bound, point->bound) != 0))
        marker++;
    return marker;
}

static double point_size(const struct an_roofline_point *point, double total)
{
    return 6 + 12 * sqrt(total > 0 ? (double)point->time_ns / total : 0);
}

/* Draws one operation as the marker of its bound, whose area grows with its share of time; the
 * largest ones have a letter. */
static void draw_point(struct page *page, const struct plot *plot,
                       const struct an_roofline_point *point, size_t index, double size)
{
    double x = px(plot, point->intensity), y = py(plot, point->achieved_flops);
    const struct marker *marker = marker_of(point);
    fprintf(page->out,
            "<path class=\"point %s\" transform=\"translate(%.5g %.5g) scale(%.3g)\" "
            "d=\"%s\"><title>",
            marker->class, x, y, size, marker->path);
    html_text(page->out, point->name, 100);
    fprintf(page->out, ": %s, %s, %s FLOP a byte, %s</title></path>\n",
            TIME_TEXT((double)point->time_ns), SI_TEXT(point->achieved_flops, "FLOP/s"),
            DIGITS_TEXT(point->intensity, 3), rep_or(point->bound, "bound unknown"));
    if (index < LETTERS)
        svg_text(page, x, y + 4, SVG_MIDDLE, "on", "%c", (int)('A' + index));
}

/* What an operation is called: with its pass, and with its work where several shapes of it have a
 * point. */
static void point_label(const struct an_result *result, size_t i, char *text, size_t size)
{
    const struct an_roofline_point *point = &result->points[i];
    bool several = false;
    char name[1200];
    for (size_t k = 0; k < result->point_count; k++)
        several = several || (k != i && !strcmp(result->points[k].name, point->name) &&
                              !strcmp(result->points[k].pass, point->pass));
    const char *pass = strstr(point->name, point->pass) ? "" : point->pass;
    rep_kernel_name(name, sizeof name, rep_or(point->name, "(unnamed)"));
    snprintf(text, size, "%.60s%s%.20s", name, *pass ? " " : "", pass);
    size_t used = strlen(text);
    if (several && point->flops_per_call.valid && used < size)
        snprintf(text + used, size - used, " %s",
                 SI_TEXT((double)point->flops_per_call.value, "FLOP"));
    else if (several && used < size) /* shapes of alike intensity */
        snprintf(text + used, size - used, " %s FLOP/byte", DIGITS_TEXT(point->intensity, 3));
}

static bool is_free(const struct label_box *used, size_t count, const struct label_box *box)
{
    for (size_t i = 0; i < count; i++)
        if (box->left < used[i].right && box->right > used[i].left &&
            fabs(box->top - used[i].top) < LABEL_TALL)
            return false;
    return box->left >= LEFT && box->right <= WIDTH - RIGHT && box->top > 0 &&
           box->top < HEIGHT - BOTTOM;
}

/* Names the points with most time beside them, where the name covers neither a point nor another
 * name; the list of letters has all names. */
static void draw_labels(struct page *page, const struct plot *plot, const struct an_result *result,
                        double total)
{
    struct label_box used[POINTS_MOST + LABELS_MOST + ROOFS_MOST];
    size_t count = plot->roofs;
    memcpy(used, plot->roof, count * sizeof *used);
    for (size_t i = 0; i < result->point_count && i < POINTS_MOST; i++)
        if (is_drawn(&result->points[i])) {
            double x = px(plot, result->points[i].intensity),
                   size = point_size(&result->points[i], total);
            used[count++] =
                (struct label_box){x - size, x + size, py(plot, result->points[i].achieved_flops)};
        }
    for (size_t i = 0; i < result->point_count && i < LABELS_MOST; i++) {
        char text[120];
        if (!is_drawn(&result->points[i]))
            continue;
        point_label(result, i, text, sizeof text);
        int columns = rep_clean((char[PAGE_TEXT]){0}, PAGE_TEXT, text, LABEL_COLUMNS, true);
        double x = px(plot, result->points[i].intensity),
               y = py(plot, result->points[i].achieved_flops), wide = columns * LETTER_WIDE,
               size = point_size(&result->points[i], total) + 3;
        const struct label_box place[] = {{x + size, x + size + wide, y},
                                          {x - size - wide, x - size, y},
                                          {x - wide / 2, x + wide / 2, y - size - 6},
                                          {x - wide / 2, x + wide / 2, y + size + 8}};
        for (size_t k = 0; k < sizeof place / sizeof *place; k++)
            if (is_free(used, count, &place[k])) {
                char clean[PAGE_TEXT];
                rep_clean(clean, sizeof clean, text, LABEL_COLUMNS, true);
                svg_text(page, place[k].left, place[k].top + 4, SVG_START, "name", "%s", clean);
                used[count++] = place[k];
                break;
            }
    }
}

/* The markers that occur and what they mean. */
static void write_markers(struct page *page, const struct an_result *result)
{
    fputs("<ul class=\"legend\">\n", page->out);
    for (size_t k = 0; k < sizeof markers / sizeof *markers; k++) {
        bool any = false;
        for (size_t i = 0; i < result->point_count && i < POINTS_MOST; i++)
            any = any ||
                  (is_drawn(&result->points[i]) && marker_of(&result->points[i]) == &markers[k]);
        if (any)
            fprintf(page->out,
                    "<li><svg class=\"key\" width=\"18\" height=\"18\" viewBox=\"-1.4 -1.4 2.8 "
                    "2.8\" aria-hidden=\"true\" focusable=\"false\"><path class=\"point %s\" "
                    "d=\"%s\"/></svg> %s</li>\n",
                    markers[k].class, markers[k].path, markers[k].means);
    }
    fputs("</ul>\n", page->out);
}

/* What the letters mean, in the order of the table. */
static void write_letters(struct page *page, const struct an_result *result)
{
    fputs("<ol class=\"letters\" type=\"A\">\n", page->out);
    for (size_t i = 0; i < result->point_count && i < LETTERS; i++) {
        char text[120];
        point_label(result, i, text, sizeof text);
        html_between(page->out, "<li>", text, 60, "</li>\n");
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
            draw_point(page, plot, &result->points[i], i, point_size(&result->points[i], total));
}

static void draw_roofs(struct page *page, struct plot *plot, const struct an_result *result,
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
    svg_begin(page, "roofline",
              "Roofline, log-log: markers grow with time, their form is the bound", WIDTH, HEIGHT,
              "%zu of %zu points are memory-bound; the one with the most time is %.80s. The table "
              "below lists all of them.",
              under, drawn, result->points[0].name);
    draw_grid(page, &plot);
    draw_roofs(page, &plot, result, flops);
    draw_points(page, &plot, result, total);
    draw_labels(page, &plot, result, total);
    svg_end(page);
    write_markers(page, result);
    write_letters(page, result);
    write_data(page->format, result, &plot, flops);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline in log-log: roofs of the machine, ridges, and the ops as circles with letters,
 * larger with their share of time.
 */
#include <math.h>
#include <string.h>

#include "reports/html/html.h"
#include "reports/sections/tables.h"

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

static double px(const struct plot *f, double intensity)
{
    return LEFT + (log10(intensity) - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}
static double py(const struct plot *f, double flops)
{
    return TOP + (f->y1 - log10(flops)) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool is_drawn(const struct an_roofline_point *x)
{
    return isfinite(x->intensity) && x->intensity > 0 && isfinite(x->achieved_flops) &&
           x->achieved_flops > 0;
}
static bool is_compute(const struct an_ceiling *x)
{
    return !strcmp(x->unit, "FLOP/s");
}

static void widen(double v, double *low, double *high)
{
    double l = log10(v);
    *low = l < *low ? l : *low;
    *high = l > *high ? l : *high;
}

/* Highest roofs: of compute and of memory; 0: none is known. */
static void highest(const struct an_result *r, double *flops, double *bytes)
{
    *flops = *bytes = 0;
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *x = &r->ceilings[i];
        if (!rep_ceiling_label(r, i) || !(x->value > 0))
            continue;
        double *most = is_compute(x) ? flops : bytes;
        *most = x->value > *most ? x->value : *most;
    }
}

static bool find_range(const struct an_result *r, struct plot *f)
{
    double flops, bytes;
    *f = (struct plot){INFINITY, -INFINITY, INFINITY, -INFINITY};
    highest(r, &flops, &bytes);
    for (size_t i = 0; i < r->point_count && i < POINTS_MOST; i++)
        if (is_drawn(&r->points[i])) {
            widen(r->points[i].intensity, &f->x0, &f->x1);
            widen(r->points[i].achieved_flops, &f->y0, &f->y1);
        }
    if (!isfinite(f->x0))
        return false;
    for (size_t i = 0; i < r->ceiling_count; i++)
        if (rep_ceiling_label(r, i) && r->ceilings[i].value > 0) {
            if (is_compute(&r->ceilings[i]))
                widen(r->ceilings[i].value, &f->y0, &f->y1);
            else if (flops > 0) /* its ridge */
                widen(flops / r->ceilings[i].value, &f->x0, &f->x1);
        }
    f->x0 = floor(f->x0 - 0.1);
    f->x1 = ceil(f->x1 + 0.1);
    f->y0 = floor(f->y0 - 0.1);
    f->y1 = ceil(f->y1 * 10 + 2) / 10;
    return true;
}

static void grid(struct page *p, const struct plot *f)
{
    char a[32];
    for (double e = f->x0; e <= f->x1 + 0.001; e++) {
        svg_line(p, px(f, pow(10, e)), TOP, px(f, pow(10, e)), HEIGHT - BOTTOM, "grid");
        svg_text(p, px(f, pow(10, e)), HEIGHT - BOTTOM + 18, SVG_MIDDLE, "", "%s",
                 page_si(a, pow(10, e), ""));
    }
    for (double e = f->y0; e <= f->y1 + 0.001; e++) {
        svg_line(p, LEFT, py(f, pow(10, e)), WIDTH - RIGHT, py(f, pow(10, e)), "grid");
        svg_text(p, LEFT - 6, py(f, pow(10, e)) + 4, SVG_END, "", "%s",
                 page_si(a, pow(10, e), "FLOP/s"));
    }
    svg_text(p, WIDTH - RIGHT, HEIGHT - 8, SVG_END, "", "FLOP a byte");
}

/* Labels of roofs at the right must not lie on each other: the y of the next one. */
static double place(double *used, size_t n, double y)
{
    for (size_t i = 0; i < n; i++)
        if (fabs(used[i] - y) < 14) {
            y = used[i] + 14;
            i = (size_t)-1;
        }
    used[n] = y;
    return y;
}

/* One roof: a horizontal of compute, a slope of memory that ends at the highest roof of compute
 * (its ridge) or at the edge. */
static void roof(struct page *p, const struct plot *f, const struct an_ceiling *x,
                 const char *label, double flops, double *used, size_t *n)
{
    char a[32];
    double left = pow(10, f->x0), right = pow(10, f->x1), bottom = pow(10, f->y0),
           top = pow(10, f->y1);
    if (is_compute(x)) {
        double y = py(f, x->value);
        svg_line(p, LEFT, y, WIDTH - RIGHT, y, "roof");
        svg_text(p, WIDTH - RIGHT + 6, place(used, (*n)++, y + 4), SVG_START, "", "%.8s%s %s",
                 x->dtype, label, page_si(a, x->value, "FLOP/s"));
        return;
    }
    double most = flops > 0 ? flops : top,
           from = left * x->value < bottom ? bottom / x->value : left, to = most / x->value;
    to = to > right ? right : to;
    if (from >= to)
        return;
    svg_line(p, px(f, from), py(f, from * x->value), px(f, to), py(f, to * x->value), "roof");
    if (flops > 0 && to < right)
        fprintf(p->out,
                "<circle class=\"ridge\" cx=\"%.5g\" cy=\"%.5g\" r=\"3\"><title>ridge of %.20s: %s "
                "FLOP a "
                "byte</title></circle>\n",
                px(f, to), py(f, to * x->value), label, page_digits(a, to, 3));
    double mid = pow(10, (log10(from) + log10(to)) / 2);
    svg_text(p, px(f, mid) - 8, py(f, mid * x->value) - 6, SVG_END, "", "%s %s", label,
             page_si(a, x->value, "B/s"));
}

static void point(struct page *p, const struct plot *f, const struct an_roofline_point *x,
                  size_t index, double share)
{
    char a[32], b[32], c[32];
    double cx = px(f, x->intensity), cy = py(f, x->achieved_flops), size = 6 + 12 * sqrt(share);
    bool memory = x->bound && strcmp(x->bound, "compute") != 0;
    fprintf(p->out, "<circle class=\"point %s\" cx=\"%.5g\" cy=\"%.5g\" r=\"%.3g\"><title>",
            memory ? "memory" : "compute", cx, cy, size);
    html_text(p->out, x->name, 100);
    fprintf(p->out, ": %s, %s, %s FLOP a byte, %s</title></circle>\n",
            page_time(a, (double)x->time_ns), page_si(b, x->achieved_flops, "FLOP/s"),
            page_digits(c, x->intensity, 3), x->bound ? x->bound : "bound not known");
    if (index < LETTERS)
        svg_text(p, cx, cy + 4, SVG_MIDDLE, "on", "%c", (int)('A' + index));
}

/* What the letters mean, in the order of the table. */
static void letters(struct page *p, const struct an_result *r)
{
    fputs("<ol class=\"letters\" type=\"A\">\n", p->out);
    for (size_t i = 0; i < r->point_count && i < LETTERS; i++) {
        fputs("<li>", p->out);
        html_text(p->out, *r->points[i].name ? r->points[i].name : "(unnamed)", 60);
        fputs("</li>\n", p->out);
    }
    fputs("</ol>\n", p->out);
}

static void data(struct html *h, const struct an_result *r, const struct plot *f, double flops)
{
    size_t some = 0;
    fprintf(h->data, "\"roofline\":{\"x\":[%.6g,%.6g],\"y\":[%.6g,%.6g],\"roofs\":[",
            pow(10, f->x0), pow(10, f->x1), pow(10, f->y0), pow(10, f->y1));
    for (size_t i = 0; i < r->ceiling_count; i++) {
        const struct an_ceiling *x = &r->ceilings[i];
        char name[80];
        if (!rep_ceiling_label(r, i) || !(x->value > 0) || !isfinite(x->value))
            continue;
        snprintf(name, sizeof name, "%.20s%.20s", is_compute(x) ? x->dtype : "",
                 rep_ceiling_label(r, i));
        fprintf(h->data, "%s{\"name\":", some++ ? "," : "");
        html_json(h->data, name, 60);
        fprintf(h->data, ",\"%s\":%.6g}", is_compute(x) ? "flops" : "bytes", x->value);
    }
    fprintf(h->data, "],\"most\":%.6g,\"points\":[", flops);
    some = 0;
    for (size_t i = 0; i < r->point_count && i < POINTS_MOST; i++) {
        const struct an_roofline_point *x = &r->points[i];
        if (!is_drawn(x))
            continue;
        fprintf(h->data, "%s{\"name\":", some++ ? "," : "");
        html_json(h->data, x->name, 80);
        fprintf(h->data, ",\"x\":%.5g,\"y\":%.5g,\"ns\":%lld,\"memory\":%d}", x->intensity,
                x->achieved_flops, (long long)x->time_ns,
                x->bound && strcmp(x->bound, "compute") != 0);
    }
    fputs("]},", h->data);
}

void html_roofline(struct page *p, const struct an_result *r)
{
    struct plot f;
    double flops, bytes, used[64], total = 0;
    size_t labels = 0, under = 0, drawn = 0;
    if (r->roofline.reason || !r->point_count || !find_range(r, &f))
        return;
    highest(r, &flops, &bytes);
    for (size_t i = 0; i < r->point_count; i++) {
        total += (double)r->points[i].time_ns;
        drawn += is_drawn(&r->points[i]);
        under += r->points[i].bound && strcmp(r->points[i].bound, "compute") != 0;
    }
    svg_begin(
        p, "roofline",
        "Roofline, log-log: circles grow with time; filled: bound by memory, ringed: by compute",
        WIDTH, HEIGHT,
        "%zu of %zu points lie under a roof of memory; the one with most time is %.80s. The table "
        "below has them all.",
        under, drawn, r->points[0].name);
    grid(p, &f);
    for (size_t i = 0; i < r->ceiling_count && labels < sizeof used / sizeof *used; i++)
        if (rep_ceiling_label(r, i) && r->ceilings[i].value > 0)
            roof(p, &f, &r->ceilings[i], rep_ceiling_label(r, i), flops, used, &labels);
    for (size_t i = r->point_count < POINTS_MOST ? r->point_count : POINTS_MOST;
         i-- > 0;) /* the largest on top */
        if (is_drawn(&r->points[i]))
            point(p, &f, &r->points[i], i, total > 0 ? (double)r->points[i].time_ns / total : 0);
    svg_end(p);
    letters(p, r);
    data(p->format, r, &f, flops);
}

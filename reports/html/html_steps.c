/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a step goes as bars that fill 100 %, and how long steps were over the run.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "reports/html/html.h"
#include "reports/sections/tables.h"

#define WIDTH       960
#define LABEL       150 /* at the left of bars */
#define BAR         34
#define BARS_MOST   16
#define POINTS_MOST 500 /* of a line */
#define RANKS_MOST  4   /* lines of a trend: as many as have a style of their own */
#define NAMED_MOST  5   /* slow steps with their number beside them */

/* ---- budget ------------------------------------------------------------------------------------------------------------- */

static void bar(struct page *p, const struct an_result *r, const struct an_budget *b, double y,
                double height)
{
    double x = LABEL, width = WIDTH - LABEL - 10;
    char title[100];
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char class[8];
        double w = b->pct[k].valid ? width * b->pct[k].value / 100 : 0;
        if (w <= 0)
            continue;
        snprintf(class, sizeof class, "c%d", k);
        snprintf(title, sizeof title, "%s %.1f %%", rep_class_name(r, k), b->pct[k].value);
        svg_rect(p, x, y, w, height, class, title);
        /* a telephone shows the picture at a third of its size: letters are larger there, and fewer
         */
        if (w >= 60)
            svg_text(p, x + w / 2, y + height / 2 + 5, SVG_MIDDLE, "on large", "%c %.1f %%",
                     svg_class_letter(k), b->pct[k].value);
        if (w >= 30)
            svg_text(p, x + w / 2, y + height / 2 + 5, SVG_MIDDLE, w >= 60 ? "on small" : "on",
                     "%c", svg_class_letter(k));
        else if (w >= 16)
            svg_text(p, x + w / 2, y + height / 2 + 5, SVG_MIDDLE, "on large", "%c",
                     svg_class_letter(k));
        x += w;
    }
}

static unsigned used_classes(const struct an_budget *b)
{
    unsigned used = 0;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        used |= (unsigned)(b->pct[k].valid && b->pct[k].value > 0) << k;
    return used;
}

/* How far a device is from the mean. */
struct distance {
    size_t device;
    double points; /* sum over the classes */
};

static double distance(const struct an_budget *x, const struct an_budget *mean)
{
    double sum = 0;
    for (int k = 0; k < AN_CLASS_COUNT && !x->reason; k++)
        if (x->pct[k].valid && mean->pct[k].valid)
            sum += fabs(x->pct[k].value - mean->pct[k].value);
    return sum;
}

static int farthest(const void *x, const void *y)
{
    const struct distance *a = x, *b = y;
    if (a->points < b->points || a->points > b->points)
        return a->points < b->points ? 1 : -1;
    return (a->device > b->device) - (a->device < b->device);
}

static int in_order(const void *x, const void *y)
{
    const struct distance *a = x, *b = y;
    return (a->device > b->device) - (a->device < b->device);
}

/* The devices that have a bar, by their order: all of a few, of many those that differ most from
 * the mean. Returns how many. */
static size_t chosen(const struct an_result *r, size_t device[BARS_MOST])
{
    size_t n = r->device_count < BARS_MOST ? r->device_count : BARS_MOST;
    struct distance *all = r->device_count > 1 ? malloc(r->device_count * sizeof *all) : NULL;
    if (!all)
        return 0;
    for (size_t i = 0; i < r->device_count; i++)
        all[i] = (struct distance){i, distance(&r->devices[i].budget, &r->budget)};
    qsort(all, r->device_count, sizeof *all, farthest);
    qsort(all, n, sizeof *all, in_order);
    for (size_t i = 0; i < n; i++)
        device[i] = all[i].device;
    free(all);
    return n;
}

void html_budget(struct page *p, const struct an_result *r)
{
    size_t device[BARS_MOST], devices = chosen(r, device);
    const char *name[AN_CLASS_COUNT];
    if (r->budget.reason)
        return;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        name[k] = rep_class_name(r, k);
    int largest = 0;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        if (r->budget.pct[k].valid && (!r->budget.pct[largest].valid ||
                                       r->budget.pct[k].value > r->budget.pct[largest].value))
            largest = k;
    svg_begin(p, "budget", "Step budget: 100 % of a step by class", WIDTH,
              BAR + 30 + 24 * (double)devices,
              "The largest part of a step is %s, %.1f %%. The table below has every class.",
              name[largest], r->budget.pct[largest].value);
    svg_text(p, LABEL - 8, 28, SVG_END, "", devices ? "mean" : "a step");
    bar(p, r, &r->budget, 6, BAR);
    for (size_t i = 0; i < devices; i++) {
        double y = BAR + 16 + 24 * (double)i;
        const struct an_device_budget *d = &r->devices[device[i]];
        svg_text(p, LABEL - 8, y + 14, SVG_END, "large", "rank %" PRId64 " %.12s", d->rank,
                 d->device);
        svg_text(p, LABEL - 8, y + 14, SVG_END, "small", "rank %" PRId64, d->rank);
        if (!d->budget.reason)
            bar(p, r, &d->budget, y, 20);
    }
    svg_end(p);
    svg_legend(p, used_classes(&r->budget), name);
    if (devices && r->device_count > devices)
        fprintf(p->out,
                "<p class=\"more\">%zu of %zu %s have a bar: those that differ most from the "
                "mean.</p>\n",
                devices, r->device_count, r->gpu.reason ? "ranks" : "devices");
}

/* ---- trend -------------------------------------------------------------------------------------------------------------- */

struct trend {
    double left, top, width, height, most_ms; /* the plot */
    int64_t first, last;                      /* indexes */
};

static double at_x(const struct trend *t, double index)
{
    double range = (double)t->last - (double)t->first;
    return t->left + (range > 0 ? (index - (double)t->first) / range : 0.5) * t->width;
}
static double at_y(const struct trend *t, double ms)
{
    return t->top + t->height * (1 - (ms < t->most_ms ? ms / t->most_ms : 1));
}

static void axes(struct page *p, const struct trend *t)
{
    char a[32];
    double step = svg_tick(t->most_ms, 5);
    for (double v = 0; v <= t->most_ms * 1.0001; v += step) {
        svg_line(p, t->left, at_y(t, v), t->left + t->width, at_y(t, v), "grid");
        svg_text(p, t->left - 6, at_y(t, v) + 4, SVG_END, "", "%s", page_time(a, v * 1e6));
    }
    double wide = fmax(1, svg_tick((double)t->last - (double)t->first, 8));
    /* indexes of a damaged file may be so large that one more is the same number */
    for (double v = ceil((double)t->first / wide) * wide; v <= (double)t->last && v + wide > v;
         v += wide)
        svg_text(p, at_x(t, v), t->top + t->height + 18, SVG_MIDDLE, "", "%.0f", v);
    svg_text(p, t->left + t->width, t->top + t->height + 36, SVG_END, "", "step");
}

/* The points of a rank as a line; those that do not count are squares. Returns the first point of
 * the next rank. */
static size_t line(struct page *p, const struct trend *t, const struct an_result *r, size_t from,
                   int series)
{
    size_t to = from, each, n;
    while (to < r->step_point_count && r->step_points[to].rank == r->step_points[from].rank)
        to++;
    n = to - from;
    each = (n + POINTS_MOST - 1) / POINTS_MOST;
    fprintf(p->out, "<path class=\"line s%d\" d=\"", series);
    bool up = true;
    for (size_t i = from; i < to; i += each) {
        double ms = 0;
        size_t k = i, with = 0;
        for (; k < to && k < i + each; k++)
            if (!r->step_points[k].excluded) {
                ms += r->step_points[k].ms;
                with++;
            }
        if (with)
            fprintf(p->out, "%s%.5g %.5g", up ? "M" : "L", at_x(t, (double)r->step_points[i].index),
                    at_y(t, ms / (double)with));
        up = up && !with;
    }
    fputs("\"/>\n", p->out);
    for (size_t i = from, shown = 0; i < to && shown < 20; i++)
        if (r->step_points[i].excluded) {
            const struct an_step_point *x = &r->step_points[i];
            char title[100], a[32];
            snprintf(title, sizeof title, "step %" PRId64 ", %s, left out: %.40s", x->index,
                     page_time(a, x->ms * 1e6), x->excluded);
            svg_rect(p, at_x(t, (double)x->index) - 3, at_y(t, x->ms) - 3, 6, 6, "excluded", title);
            shown++;
        }
    return to;
}

/* The number of a slow step above its circle; at the top edge beside it. */
static void outlier_name(struct page *p, const struct trend *t, double x, double y, int64_t index)
{
    bool above = y > t->top + 14, right = x > t->left + t->width - 60;
    enum svg_anchor at = right ? SVG_END : above && x > t->left + 60 ? SVG_MIDDLE : SVG_START;
    double aside = above ? 0 : right ? -8 : 8;
    svg_text(p, x + aside, above ? y - 8 : y + 4, at, "", "%" PRId64, index);
}

static void outliers(struct page *p, const struct trend *t, const struct an_result *r)
{
    char a[32];
    for (size_t i = 0; i < r->steps.outlier_count && i < 50; i++) {
        const struct an_step_outlier *x = &r->steps.outliers[i];
        double cx = at_x(t, (double)x->index), cy = at_y(t, x->ms);
        fprintf(p->out,
                "<circle class=\"outlier\" cx=\"%.5g\" cy=\"%.5g\" r=\"4\"><title>step %" PRId64
                ", %s</title></circle>\n",
                cx, cy, x->index, page_time(a, x->ms * 1e6));
        if (i < NAMED_MOST)
            outlier_name(p, t, cx, cy, x->index);
    }
}

static void level(struct page *p, const struct trend *t, const char *name, struct an_value ms,
                  double below)
{
    char a[32];
    if (!ms.valid || ms.value > t->most_ms)
        return;
    svg_line(p, t->left, at_y(t, ms.value), t->left + t->width, at_y(t, ms.value), "level");
    svg_text(p, t->left + t->width + 6, at_y(t, ms.value) + below, SVG_START, "", "%s %s", name,
             page_time(a, ms.value * 1e6));
}

/* The same points for the chart that scripts draw: index, ms; excluded ones left out. */
static void trend_data(struct html *h, const struct an_result *r)
{
    const struct an_step_point *x = r->step_points;
    size_t n = 0;
    while (n < r->step_point_count && x[n].rank == x[0].rank)
        n++;
    size_t each = (n + POINTS_MOST - 1) / POINTS_MOST, some = 0;
    fputs("\"trend\":[", h->data);
    for (size_t i = 0; i < n; i++) {
        bool slow = each > 1 && x[i].worst_ms > 1.5 * r->steps.median_ms.value;
        if (!x[i].excluded && (i % each == 0 || slow))
            fprintf(h->data, "%s[%" PRId64 ",%.6g]", some++ ? "," : "", x[i].index,
                    slow ? x[i].worst_ms : x[i].ms);
    }
    fputs("],", h->data);
}

/* Which line is which rank. */
static void trend_legend(struct page *p, const struct an_result *r)
{
    const struct an_step_point *x = r->step_points;
    size_t ranks = 0;
    for (size_t i = 0; i < r->step_point_count; i++)
        ranks += !i || x[i].rank != x[i - 1].rank;
    if (ranks < 2)
        return;
    fputs("<ul class=\"legend\">\n", p->out);
    for (size_t i = 0, k = 0; i < r->step_point_count && k < RANKS_MOST; i++)
        if (!i || x[i].rank != x[i - 1].rank)
            fprintf(p->out,
                    "<li><svg class=\"key\" width=\"36\" height=\"16\" aria-hidden=\"true\" "
                    "focusable=\"false\"><path class=\"line "
                    "s%zu\" d=\"M0 8h36\"/></svg> rank %" PRId64 "</li>\n",
                    k++, x[i].rank);
    fputs("</ul>\n", p->out);
    if (ranks > RANKS_MOST)
        fprintf(p->out, "<p class=\"more\">%zu more ranks have no line.</p>\n", ranks - RANKS_MOST);
}

void html_trend(struct page *p, const struct an_result *r)
{
    struct trend t = {.left = 80,
                      .top = 10,
                      .width = WIDTH - 80 - 150,
                      .height = 220,
                      .first = INT64_MAX,
                      .last = INT64_MIN};
    const struct an_steps *s = &r->steps;
    char a[32], b[32];
    for (size_t i = 0; i < r->step_point_count; i++) {
        const struct an_step_point *x = &r->step_points[i];
        t.first = x->index < t.first ? x->index : t.first;
        t.last = x->index > t.last ? x->index : t.last;
        if (!x->excluded && x->worst_ms > t.most_ms)
            t.most_ms = x->worst_ms;
    }
    if (r->step_point_count < 2 || !s->median_ms.valid || !(t.most_ms > 0))
        return;
    if (t.most_ms > 4 * s->p95_ms.value) /* one stall must not press the rest to the floor; it
                                            stands at the top edge */
        t.most_ms = 4 * s->p95_ms.value;
    t.most_ms *= 1.05;
    svg_begin(p, "trend",
              "Step time over the run; circles: slow steps, squares: left out of statistics", WIDTH,
              280, "Steps take %s in the median and %s at the 95th percentile; %zu are outliers.",
              page_time(a, s->median_ms.value * 1e6), page_time(b, s->p95_ms.value * 1e6),
              s->outlier_count);
    axes(p, &t);
    size_t at = 0;
    for (int k = 0; k < RANKS_MOST && at < r->step_point_count; k++)
        at = line(p, &t, r, at, k);
    double close = at_y(&t, s->median_ms.value) - at_y(&t, s->p95_ms.value) < 16 ? 12 : 4;
    level(p, &t, "median", s->median_ms, close);
    level(p, &t, "p95", s->p95_ms, close > 4 ? -4 : 4);
    outliers(p, &t, r);
    svg_end(p);
    trend_legend(p, r);
    trend_data(p->format, r);
}

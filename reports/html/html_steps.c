/* SPDX-License-Identifier: Apache-2.0
 *
 * Two pictures of the steps: where the time of a step goes, as bars that fill 100 %, and how long
 * steps were over the run.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "reports/html/html_private.h"
#include "reports/sections/tables.h"

#define WIDTH       960
#define LABEL       150 /* at the left of bars */
#define BAR         34
#define BARS_MOST   16
#define POINTS_MOST 500 /* of a line */
#define RANKS_MOST  4   /* lines of a trend: as many as have a style of their own */
#define NAMED_MOST  5   /* slow steps with their number beside them */

/* ---- budget ---------------------------------------------------------------------------------- */

/* Writes a class and its share in the middle of its part of a bar. */
static void name_part(struct page *page, int k, double pct, double w, double x, double y)
{
    /* a telephone shows the picture at a third of its size: letters are larger there, and fewer */
    if (w >= 60)
        svg_text(page, x, y, SVG_MIDDLE, "on large", "%c %.1f %%", svg_class_letter(k), pct);
    if (w >= 30)
        svg_text(page, x, y, SVG_MIDDLE, w >= 60 ? "on small" : "on", "%c", svg_class_letter(k));
    else if (w >= 16)
        svg_text(page, x, y, SVG_MIDDLE, "on large", "%c", svg_class_letter(k));
}

/* Draws the classes of a budget as parts of one bar. A letter and the share appear where the
 * part is wide enough for them: style sheets choose between the two sizes. */
static void draw_bar(struct page *page, const struct an_result *result,
                     const struct an_budget *budget, double y, double height)
{
    double x = LABEL, width = WIDTH - LABEL - 10;
    char title[100];
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char class[8];
        double w = budget->pct[k].valid ? width * budget->pct[k].value / 100 : 0;
        if (w <= 0)
            continue;
        snprintf(class, sizeof class, "c%d", k);
        snprintf(title, sizeof title, "%s %.1f %%", rep_class_name(result, k),
                 budget->pct[k].value);
        svg_rect(page, x, y, w, height, class, title);
        name_part(page, k, budget->pct[k].value, w, x + w / 2, y + height / 2 + 5);
        x += w;
    }
}

/* The classes that have a part of the bar, as bits. */
static unsigned used_classes(const struct an_budget *budget)
{
    unsigned used = 0;
    AN_EACH_CLASS(class)
        used |= (unsigned)(budget->pct[class].valid && budget->pct[class].value > 0) << class;
    return used;
}

/* How far a device is from the mean. */
struct distance {
    size_t device;
    double points; /* sum over the classes */
};

/* How far the shares of a device are from the mean, in points summed over the classes. */
static double distance(const struct an_budget *budget, const struct an_budget *mean)
{
    double sum = 0;
    for (int class = 0; class < AN_CLASS_COUNT && !budget->reason; class ++)
        if (budget->pct[class].valid && mean->pct[class].valid)
            sum += fabs(budget->pct[class].value - mean->pct[class].value);
    return sum;
}

/* Devices that differ most come first; equal ones by number. */
static int farthest(const void *left, const void *right)
{
    const struct distance *first = left, *second = right;
    if (first->points < second->points || first->points > second->points)
        return first->points < second->points ? 1 : -1;
    return (first->device > second->device) - (first->device < second->device);
}

static int in_order(const void *left, const void *right)
{
    const struct distance *first = left, *second = right;
    return (first->device > second->device) - (first->device < second->device);
}

/* The devices that have a bar, by their order: all of a few, of many those that differ most from
 * the mean. Returns how many. */
static size_t choose_devices(const struct an_result *result, size_t device[BARS_MOST])
{
    size_t count = result->device_count < BARS_MOST ? result->device_count : BARS_MOST;
    struct distance *all =
        result->device_count > 1 ? malloc(result->device_count * sizeof *all) : NULL;
    if (!all)
        return 0;
    for (size_t i = 0; i < result->device_count; i++)
        all[i] = (struct distance){i, distance(&result->devices[i].budget, &result->budget)};
    qsort(all, result->device_count, sizeof *all, farthest);
    qsort(all, count, sizeof *all, in_order);
    for (size_t i = 0; i < count; i++)
        device[i] = all[i].device;
    free(all);
    return count;
}

/* The class with the largest share of a step. */
static int largest_class(const struct an_budget *budget)
{
    int largest = 0;
    AN_EACH_CLASS(class)
        if (budget->pct[class].valid &&
            (!budget->pct[largest].valid || budget->pct[class].value > budget->pct[largest].value))
            largest = class;
    return largest;
}

/* The bar of one device. */
static void draw_device(struct page *page, const struct an_result *result,
                        const struct an_device_budget *budget, double y)
{
    svg_text(page, LABEL - 8, y + 14, SVG_END, "large", "rank %" PRId64 " %.12s", budget->rank,
             budget->device);
    svg_text(page, LABEL - 8, y + 14, SVG_END, "small", "rank %" PRId64, budget->rank);
    if (!budget->budget.reason)
        draw_bar(page, result, &budget->budget, y, 20);
}

/* One bar for the mean of all devices and, for several devices, one for each, or for those that
 * differ most from the mean. */
void html_budget(struct page *page, const struct an_result *result)
{
    size_t device[BARS_MOST], devices = choose_devices(result, device);
    const char *name[AN_CLASS_COUNT];
    if (result->budget.reason)
        return;
    AN_EACH_CLASS(class)
        name[class] = rep_class_name(result, class);
    int largest = largest_class(&result->budget);
    svg_begin(page, "budget", "Step budget: 100 % of a step by class", WIDTH,
              BAR + 30 + 24 * (double)devices,
              "The largest part of a step is %s, %.1f %%. The table below has every class.",
              name[largest], result->budget.pct[largest].value);
    svg_text(page, LABEL - 8, 28, SVG_END, "", devices ? "mean" : "a step");
    draw_bar(page, result, &result->budget, 6, BAR);
    for (size_t i = 0; i < devices; i++) {
        draw_device(page, result, &result->devices[device[i]], BAR + 16 + 24 * (double)i);
    }
    svg_end(page);
    svg_legend(page, used_classes(&result->budget), name);
    if (devices && result->device_count > devices)
        fprintf(page->out,
                "<p class=\"more\">%zu of %zu %s have a bar: those that differ most from the "
                "mean.</p>\n",
                devices, result->device_count, result->gpu.reason ? "ranks" : "devices");
}

/* ---- trend ----------------------------------------------------------------------------------- */

struct trend {
    double left, top, width, height, most_ms; /* the plot */
    int64_t first, last;                      /* indexes */
};

static double at_x(const struct trend *trend, double index)
{
    double range = (double)trend->last - (double)trend->first;
    return trend->left + (range > 0 ? (index - (double)trend->first) / range : 0.5) * trend->width;
}
static double at_y(const struct trend *trend, double ms)
{
    return trend->top + trend->height * (1 - (ms < trend->most_ms ? ms / trend->most_ms : 1));
}

static void draw_time_lines(struct page *page, const struct trend *trend)
{
    double step = svg_tick(trend->most_ms, 5);
    for (int i = 0; i * step <= trend->most_ms * 1.0001; i++) {
        double v = i * step;
        svg_line(page, trend->left, at_y(trend, v), trend->left + trend->width, at_y(trend, v),
                 "grid");
        svg_text(page, trend->left - 6, at_y(trend, v) + 4, SVG_END, "", "%s", TIME_TEXT(v * 1e6));
    }
}

/* Horizontal lines at round times, and indexes of steps below the plot. */
static void draw_axes(struct page *page, const struct trend *trend)
{
    draw_time_lines(page, trend);
    double wide = fmax(1, svg_tick((double)trend->last - (double)trend->first, 8));
    /* indexes of a damaged file may be so large that one more is the same number */
    for (double v = ceil((double)trend->first / wide) * wide;
         v <= (double)trend->last && v + wide > v; v += wide)
        svg_text(page, at_x(trend, v), trend->top + trend->height + 18, SVG_MIDDLE, "", "%.0f", v);
    svg_text(page, trend->left + trend->width, trend->top + trend->height + 36, SVG_END, "",
             "step");
}

static void draw_excluded(struct page *page, const struct trend *trend,
                          const struct an_result *result, size_t begin, size_t end)
{
    for (size_t i = begin, shown = 0; i < end && shown < 20; i++)
        if (result->step_points[i].excluded) {
            const struct an_step_point *point = &result->step_points[i];
            char title[100];
            snprintf(title, sizeof title, "step %" PRId64 ", %s, excluded: %.40s", point->index,
                     TIME_TEXT(point->ms * 1e6), point->excluded);
            svg_rect(page, at_x(trend, (double)point->index) - 3, at_y(trend, point->ms) - 3, 6, 6,
                     "excluded", title);
            shown++;
        }
}

static size_t end_of_rank(const struct an_result *result, size_t begin)
{
    size_t end = begin;
    while (end < result->step_point_count &&
           result->step_points[end].rank == result->step_points[begin].rank)
        end++;
    return end;
}

/* Draws the points of a rank as a line, and the steps that statistics exclude as squares. */
static void draw_line(struct page *page, const struct trend *trend, const struct an_result *result,
                      size_t begin, int series)
{
    size_t end = end_of_rank(result, begin), each, count;
    count = end - begin;
    each = (count + POINTS_MOST - 1) / POINTS_MOST;
    fprintf(page->out, "<path class=\"line s%d\" d=\"", series);
    bool pen_up = true;
    for (size_t i = begin; i < end; i += each) {
        double ms = 0;
        size_t next = i, with = 0;
        for (; next < end && next < i + each; next++)
            if (!result->step_points[next].excluded) {
                ms += result->step_points[next].ms;
                with++;
            }
        if (with)
            fprintf(page->out, "%s%.5g %.5g", pen_up ? "M" : "L",
                    at_x(trend, (double)result->step_points[i].index),
                    at_y(trend, ms / (double)with));
        pen_up = pen_up && !with;
    }
    fputs("\"/>\n", page->out);
    draw_excluded(page, trend, result, begin, end);
}

/* The number of a slow step above its circle; at the top edge beside it. */
static void name_outlier(struct page *page, const struct trend *trend, double x, double y,
                         int64_t index)
{
    bool above = y > trend->top + 14, right = x > trend->left + trend->width - 60;
    enum svg_anchor anchor = right ? SVG_END : SVG_START;
    if (above) {
        if (!right && x > trend->left + 60)
            anchor = SVG_MIDDLE;
        svg_text(page, x, y - 8, anchor, "", "%" PRId64, index);
    } else {
        svg_text(page, x + (right ? -8 : 8), y + 4, anchor, "", "%" PRId64, index);
    }
}

/* Circles for the slow steps; the first few have their number beside them. */
static void draw_outliers(struct page *page, const struct trend *trend,
                          const struct an_result *result)
{
    for (size_t i = 0; i < result->steps.outlier_count && i < 50; i++) {
        const struct an_step_outlier *step_outlier = &result->steps.outliers[i];
        double x = at_x(trend, (double)step_outlier->index), y = at_y(trend, step_outlier->ms);
        fprintf(page->out,
                "<circle class=\"outlier\" cx=\"%.5g\" cy=\"%.5g\" r=\"4\"><title>step %" PRId64
                ", %s</title></circle>\n",
                x, y, step_outlier->index, TIME_TEXT(step_outlier->ms * 1e6));
        if (i < NAMED_MOST)
            name_outlier(page, trend, x, y, step_outlier->index);
    }
}

/* A line across the plot at the median or at the 95th percentile, named at its right end. */
static void draw_level(struct page *page, const struct trend *trend, const char *name,
                       struct an_value ms, double below)
{
    if (!ms.valid || ms.value > trend->most_ms)
        return;
    svg_line(page, trend->left, at_y(trend, ms.value), trend->left + trend->width,
             at_y(trend, ms.value), "level");
    svg_text(page, trend->left + trend->width + 6, at_y(trend, ms.value) + below, SVG_START, "",
             "%s %s", name, TIME_TEXT(ms.value * 1e6));
}

/* The same points for the chart that scripts draw: index, ms; without the excluded ones. */
static void trend_data(struct html *html, const struct an_result *result)
{
    const struct an_step_point *point = result->step_points;
    size_t count = 0;
    while (count < result->step_point_count && point[count].rank == point[0].rank)
        count++;
    size_t each = (count + POINTS_MOST - 1) / POINTS_MOST, some = 0;
    fputs("\"trend\":[", html->data);
    for (size_t i = 0; i < count; i++) {
        bool slow = each > 1 && point[i].worst_ms > 1.5 * result->steps.median_ms.value;
        double ms = slow ? point[i].worst_ms : point[i].ms;
        if (!point[i].excluded && (i % each == 0 || slow))
            fprintf(html->data, "%s[%" PRId64 ",%.6g]", some++ ? "," : "", point[i].index, ms);
    }
    fputs("],", html->data);
}

/* First points of the ranks that have a line: the one that holds the others back first. *ranks: how
 * many there are. Returns how many have a line. */
static size_t choose_lines(const struct an_result *result, size_t begin[RANKS_MOST], size_t *ranks)
{
    int64_t slow = an_straggler_rank(&result->ranks);
    size_t count = 0;
    *ranks = 0;
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < result->step_point_count; i = end_of_rank(result, i)) {
            *ranks += (size_t)others;
            if (count < RANKS_MOST && (result->step_points[i].rank == slow) == !others)
                begin[count++] = i;
        }
    return count;
}

/* Which line is which rank. */
static void trend_legend(struct page *page, const struct an_result *result)
{
    const struct an_step_point *point = result->step_points;
    size_t begin[RANKS_MOST], ranks, lines = choose_lines(result, begin, &ranks);
    int64_t slow = an_straggler_rank(&result->ranks);
    if (ranks < 2)
        return;
    fputs("<ul class=\"legend\">\n", page->out);
    for (size_t line = 0; line < lines; line++)
        fprintf(page->out,
                "<li><svg class=\"key\" width=\"36\" height=\"16\" aria-hidden=\"true\" "
                "focusable=\"false\"><path class=\"line "
                "s%zu\" d=\"M0 8h36\"/></svg> rank %" PRId64 "%s</li>\n",
                line, point[begin[line]].rank,
                point[begin[line]].rank == slow ? ", the slowest" : "");
    fputs("</ul>\n", page->out);
    if (ranks > lines)
        fprintf(page->out, "<p class=\"more\">%zu more ranks have no line.</p>\n", ranks - lines);
}

static void draw_levels(struct page *page, const struct trend *trend, const struct an_steps *steps)
{
    double close =
        at_y(trend, steps->median_ms.value) - at_y(trend, steps->p95_ms.value) < 16 ? 12 : 4;
    draw_level(page, trend, "median", steps->median_ms, close);
    draw_level(page, trend, "p95", steps->p95_ms, close > 4 ? -4 : 4);
}

static void draw_lines(struct page *page, const struct trend *trend, const struct an_result *result)
{
    size_t begin[RANKS_MOST], ranks, lines = choose_lines(result, begin, &ranks);
    for (size_t line = 0; line < lines; line++)
        draw_line(page, trend, result, begin[line], (int)line);
}

static void begin_trend(struct page *page, const struct an_steps *steps)
{
    svg_begin(page, "trend",
              "Step time over the run; circles: slow steps, squares: excluded from statistics",
              WIDTH, 280,
              "Steps take %s in the median and %s at the 95th percentile; %zu are outliers.",
              TIME_TEXT(steps->median_ms.value * 1e6), TIME_TEXT(steps->p95_ms.value * 1e6),
              steps->outlier_count);
}

static void find_bounds(struct trend *trend, const struct an_result *result)
{
    for (size_t i = 0; i < result->step_point_count; i++) {
        const struct an_step_point *point = &result->step_points[i];
        trend->first = point->index < trend->first ? point->index : trend->first;
        trend->last = point->index > trend->last ? point->index : trend->last;
        if (!point->excluded && point->worst_ms > trend->most_ms)
            trend->most_ms = point->worst_ms;
    }
}

/* One line for each of some ranks. The scale ends at four times the 95th percentile at
 * most: a longer step is drawn at the upper edge. */
void html_trend(struct page *page, const struct an_result *result)
{
    struct trend trend = {.left = 80,
                          .top = 10,
                          .width = WIDTH - 80 - 150,
                          .height = 220,
                          .first = INT64_MAX,
                          .last = INT64_MIN};
    const struct an_steps *steps = &result->steps;
    find_bounds(&trend, result);
    if (result->step_point_count < 2 || !steps->median_ms.valid || !(trend.most_ms > 0))
        return;
    if (trend.most_ms > 4 * steps->p95_ms.value) /* one stall does not flatten the rest */
        trend.most_ms = 4 * steps->p95_ms.value;
    trend.most_ms *= 1.05;
    begin_trend(page, steps);
    draw_axes(page, &trend);
    draw_lines(page, &trend, result);
    draw_levels(page, &trend, steps);
    draw_outliers(page, &trend, result);
    svg_end(page);
    trend_legend(page, result);
    trend_data(page->format, result);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of the critical path through a step: a row for each track, time to the right, and an
 * arrow wherever one track hands over to another. A cause has the colour of the class of time it is
 * nearest to, and a number of its own.
 */
#include <inttypes.h>
#include <string.h>

#include "reports/html/html.h"

#define WIDTH      960
#define LEFT       190
#define PLOT       (WIDTH - LEFT - 10)
#define TOP        24
#define BAR        22
#define ROW        42 /* a bar, and room for the names of hand-overs */
#define TOLD_WIDTH 3  /* from here on a pointer over it tells what it is */
#define NAME_WIDTH 60 /* from here on a bar has its name in it */
#define EDGE_CHAR  6.2

struct drawing {
    const struct an_path_step *step;
    double scale; /* of a ns */
};

static double x_of(const struct drawing *d, int64_t ns)
{
    return LEFT + (double)ns * d->scale;
}
static double y_of(int lane)
{
    return TOP + (double)lane * ROW;
}

/* Where a stretch is drawn: a gap stands where the path was before it, or goes on. */
static int row_of(const struct an_path_step *x, size_t i)
{
    size_t k = i;
    while (k && x->stretch[k].lane < 0)
        k--;
    while (k < x->stretch_count && x->stretch[k].lane < 0)
        k++;
    return k < x->stretch_count ? x->stretch[k].lane : 0;
}

static void axis(struct page *p, const struct drawing *d, double height)
{
    char a[32];
    double step = svg_tick(d->step->ms, 8);
    for (double v = 0; v <= d->step->ms; v += step) {
        double x = LEFT + v * 1e6 * d->scale;
        svg_line(p, x, 4, x, height - 22, "grid");
        bool last = x + 26 > WIDTH;
        svg_text(p, last ? WIDTH : x, height - 6, last ? SVG_END : SVG_MIDDLE, "", "%s",
                 page_time(a, v * 1e6));
    }
}

static void lanes(struct page *p, const struct an_path_step *x)
{
    bool ranks = false;
    for (size_t k = 0; k < x->lane_count; k++)
        ranks = ranks || x->lane[k].rank != x->lane[0].rank;
    for (size_t k = 0; k < x->lane_count; k++) {
        double y = y_of((int)k);
        char label[40] = "";
        if (ranks)
            snprintf(label, sizeof label, "%" PRId64 ": ", x->lane[k].rank);
        svg_rect(p, LEFT, y, PLOT, BAR, "lane", NULL);
        fprintf(p->out, "<text x=\"%d\" y=\"%.5g\" text-anchor=\"end\">%s", LEFT - 6, y + BAR - 7,
                label);
        html_text(p->out, x->lane[k].name, ranks ? 22 : 26);
        fputs("</text>\n", p->out);
    }
}

static void bar(struct page *p, const struct drawing *d, size_t i)
{
    const struct an_path_stretch *s = &d->step->stretch[i];
    const struct an_path_reason *why = &d->step->reason[s->reason];
    bool hands = an_path_hands_over(d->step, i);
    char class[16], title[300], a[32], b[32], more[40] = "";
    double x = x_of(d, s->start_ns), y = y_of(row_of(d->step, i)),
           width = (double)s->dur_ns * d->scale;
    if (s->merged > 1)
        snprintf(more, sizeof more, " (the longest of %" PRIu32 ")", s->merged);
    snprintf(class, sizeof class, "c%d%s", why->what, s->lane < 0 ? " gap" : "");
    snprintf(title, sizeof title, "%.60s%s: %s at %s, %.60s%s%.12s%s",
             *s->name ? s->name : why->key, more, page_time(a, (double)s->dur_ns),
             page_time(b, (double)s->start_ns), why->text, hands ? "; hands over by " : "",
             hands ? s->link : "", hands && s->inferred ? " (inferred)" : "");
    svg_rect(p, x, y, width < 0.4 ? 0.4 : width, BAR, class, width < TOLD_WIDTH ? NULL : title);
    if (width >= NAME_WIDTH) {
        fprintf(p->out, "<text class=\"on\" x=\"%.5g\" y=\"%.5g\">%d ", x + 4, y + BAR - 7,
                s->reason + 1);
        html_text(p->out, *s->name ? s->name : why->key,
                  svg_letters(*s->name ? s->name : why->key, width - 28));
        fputs("</text>\n", p->out);
    } else if (width >= 18) {
        svg_text(p, x + width / 2, y + BAR - 7, SVG_MIDDLE, "on", "%d", s->reason + 1);
    }
}

static size_t edges(struct page *p, const struct drawing *d, bool inferred)
{
    size_t n = 0;
    for (size_t i = 0; i < d->step->stretch_count; i++) {
        const struct an_path_stretch *s = &d->step->stretch[i];
        if (!an_path_hands_over(d->step, i) || s->inferred != inferred)
            continue;
        bool down = s[1].lane > s->lane;
        double x = x_of(d, s[1].start_ns), from = y_of(s->lane) + (down ? BAR : 0),
               to = y_of(s[1].lane) + (down ? 0 : BAR);
        if (!n++)
            fprintf(p->out, "<path class=\"edge%s\" d=\"", inferred ? " inferred" : "");
        fprintf(p->out, "M%.5g %.5gV%.5gm-3 %dl3 %dl3 %d", x, from, to, down ? -5 : 5,
                down ? 5 : -5, down ? -5 : 5);
    }
    if (n)
        fputs("\"/>\n", p->out);
    return n;
}

/* What the arrows are, where there is room: each stands beside the head of its arrow, in the space
 * before that track. */
static void edge_names(struct page *p, const struct drawing *d)
{
    double free_from[AN_PATH_LANES_MOST + 1] = {0};
    for (size_t i = 0; i < d->step->stretch_count; i++) {
        const struct an_path_stretch *s = &d->step->stretch[i];
        if (!an_path_hands_over(d->step, i))
            continue;
        int space = s[1].lane > s->lane ? s[1].lane : s[1].lane + 1;
        double x = x_of(d, s[1].start_ns) + 4, width = EDGE_CHAR * (double)strlen(s->link);
        if (space > AN_PATH_LANES_MOST || x < free_from[space])
            continue;
        bool left = x + width > WIDTH;
        svg_text(p, left ? x - 8 : x, y_of(space) - 7, left ? SVG_END : SVG_START, "edge-name",
                 "%s", s->link);
        free_from[space] = x + width + 4;
    }
}

static void legend(struct page *p, const struct an_path_step *x)
{
    char a[32];
    fputs("<ul class=\"legend\">\n", p->out);
    for (size_t i = 0; i < x->reason_count; i++) {
        fprintf(p->out,
                "<li><svg class=\"key\" width=\"22\" height=\"16\" aria-hidden=\"true\" "
                "focusable=\"false\"><rect "
                "class=\"c%d\" width=\"22\" height=\"16\"/></svg> %zu ",
                x->reason[i].what, i + 1);
        html_text(p->out, x->reason[i].text, 100);
        fprintf(p->out, ", %s</li>\n", page_time(a, (double)x->reason[i].ns));
    }
    fputs("</ul>\n", p->out);
}

void html_path(struct page *p, const struct an_result *r)
{
    const struct an_path_step *x = &r->critical_path.step;
    if (!x->stretch_count || x->lane_count > AN_PATH_LANES_MOST || !(x->ms > 0))
        return;
    struct drawing d = {.step = x, .scale = PLOT / (x->ms * 1e6)};
    double height = TOP + (double)(x->lane_count ? x->lane_count : 1) * ROW + 20;
    char caption[200], a[32], b[32];
    snprintf(caption, sizeof caption,
             "Step %" PRId64 " of rank %" PRId64 ", %s: what the next step waits for", x->index,
             x->rank, page_time(a, x->ms * 1e6));
    svg_begin(p, "path", caption, WIDTH, height,
              "The critical path goes over %zu tracks. It spends most of the step, %s, with: %s. "
              "The tables below have every "
              "hand-over and the longest stretches.",
              x->lane_count, page_time(b, (double)x->reason[0].ns), x->reason[0].text);
    axis(p, &d, height);
    lanes(p, x);
    for (size_t i = 0; i < x->stretch_count; i++)
        bar(p, &d, i);
    size_t recorded = edges(p, &d, false), inferred = edges(p, &d, true);
    edge_names(p, &d);
    svg_end(p);
    legend(p, x);
    if (recorded + inferred)
        fprintf(p->out, "<p>An arrow: one track hands over to another%s.</p>\n",
                !inferred   ? ", as the file says"
                : !recorded ? "; dashed, as only times tell"
                            : ", as the file says; dashed: only times tell");
}

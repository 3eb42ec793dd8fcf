/* SPDX-License-Identifier: Apache-2.0
 *
 * What every thread and stream does in a step: a row for each, time to the right. What is wide
 * enough to point at is a rectangle of its own, the rest one outline for each class, so that a page
 * has a bounded size.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "reports/html/html.h"

#define WIDTH       960
#define LEFT        190
#define PLOT        (WIDTH - LEFT - 10)
#define ROW         22
#define ROW_NESTED  16
#define NAMED_MOST  300  /* rectangles with a name, the longest */
#define SMALL_MOST  3000 /* stretches of outlines */
#define PIECES_MOST 1500 /* of the critical path */
#define NAME_WIDTH  46   /* from here on a rectangle has its name in it */

/* A step with the shortest stretches that get a name, and that are drawn at all. */
struct drawing {
    const struct an_timeline_step *step;
    int64_t named_ns, least_ns;
};

static int longest(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a < *b) - (*a > *b);
}

/* How long a stretch must be to be one of the longest `most`; 0 or -1 (no memory). */
static int threshold(const struct an_timeline_step *s, size_t most, int64_t *out)
{
    size_t n = 0;
    *out = 0;
    for (size_t k = 0; k < s->track_count; k++)
        n += s->track[k].span_count;
    if (n <= most)
        return 0;
    int64_t *all = malloc(n * sizeof *all);
    if (!all)
        return -1;
    n = 0;
    for (size_t k = 0; k < s->track_count; k++)
        for (size_t i = 0; i < s->track[k].span_count; i++)
            all[n++] = s->track[k].span[i].dur_ns;
    qsort(all, n, sizeof *all, longest);
    *out = all[most] + 1;
    free(all);
    return 0;
}

static double scale(const struct drawing *s)
{
    return PLOT / (s->step->ms > 0 ? s->step->ms * 1e6 : 1);
}

static void named(struct page *p, const struct drawing *s, const struct an_timeline_span *x,
                  double y, double height)
{
    char class[16], title[400], a[32], b[32];
    double from = LEFT + (double)x->start_ns * scale(s), width = (double)x->dur_ns * scale(s);
    snprintf(class, sizeof class, "c%d", x->what);
    if (x->merged > 1)
        snprintf(title, sizeof title,
                 "%s at %s: %" PRIu32 " ranges, %.0f %% of it; the longest: %.80s",
                 page_time(a, (double)x->dur_ns), page_time(b, (double)x->start_ns), x->merged,
                 100 * (double)x->busy, x->name);
    else
        snprintf(title, sizeof title, "%.80s: %s at %s%s", *x->name ? x->name : "(unnamed)",
                 page_time(a, (double)x->dur_ns), page_time(b, (double)x->start_ns),
                 x->critical ? ", on the critical path" : "");
    svg_rect(p, from, y, width, height, class, title);
    if (width >= NAME_WIDTH && height > 12) {
        fprintf(p->out, "<text class=\"on\" x=\"%.5g\" y=\"%.5g\">%c ", from + 4, y + height - 5,
                svg_class_letter(x->what));
        html_text(p->out, x->name, svg_letters(x->name, width - 24));
        fputs("</text>\n", p->out);
    } else if (width >= 12) {
        svg_text(p, from + width / 2, y + height - 4, SVG_MIDDLE, "on", "%c",
                 svg_class_letter(x->what));
    }
}

/* Stretches of a class that are busy to one of four degrees, as strokes from the bottom of the row.
 */
static void strokes(struct page *p, const struct drawing *s, const struct an_timeline_track *k,
                    int class, int degree, double bottom, double height)
{
    double tall = height * degree / 4;
    struct svg_pen pen = {0};
    for (size_t i = 0; i < k->span_count; i++) {
        const struct an_timeline_span *x = &k->span[i];
        int busy = 1 + (int)(x->busy * 3.99f);
        if (x->what != class || x->dur_ns >= s->named_ns || x->dur_ns < s->least_ns ||
            busy != degree)
            continue;
        if (!pen.down)
            fprintf(p->out, "<path class=\"c%d\" stroke-width=\"%.3g\" d=\"", class, tall);
        svg_dash(p, &pen, LEFT + (double)x->start_ns * scale(s), bottom - tall / 2,
                 (double)x->dur_ns * scale(s));
    }
    if (pen.down)
        fputs("\"/>\n", p->out);
}

/* The stretches of a track that are too short for a name of their own. */
static void outlines(struct page *p, const struct drawing *s, const struct an_timeline_track *k,
                     double y, double height)
{
    for (int class = 0; class < AN_CLASS_COUNT; class ++)
        for (int degree = 1; degree <= 4; degree++)
            strokes(p, s, k, class, degree, y + height, height);
}

/* A line under what is on the critical path; neighbours are one. *left: pieces that the picture may
 * still have. */
static void critical(struct page *p, const struct drawing *s, const struct an_timeline_track *k,
                     double y, int *left)
{
    struct svg_pen pen = {0};
    for (size_t i = 0; i<k->span_count && * left> 0; i++) {
        if (!k->span[i].critical)
            continue;
        --*left;
        int64_t from = k->span[i].start_ns, to = from + k->span[i].dur_ns;
        for (; i + 1 < k->span_count && k->span[i + 1].critical; i++) {
            if ((double)(k->span[i + 1].start_ns - to) * scale(s) >= 1)
                break;
            to = k->span[i + 1].start_ns + k->span[i + 1].dur_ns;
        }
        if (!pen.down)
            fputs("<path class=\"critical\" d=\"", p->out);
        svg_dash(p, &pen, LEFT + (double)from * scale(s), y, (double)(to - from) * scale(s));
    }
    if (pen.down)
        fputs("\"/>\n", p->out);
}

static void axis(struct page *p, const struct drawing *s, double height)
{
    char a[32];
    double step = svg_tick(s->step->ms, 8);
    for (double v = 0; v <= s->step->ms; v += step) {
        double x = LEFT + v * 1e6 * scale(s);
        svg_line(p, x, 4, x, height - 22, "grid");
        bool last = x + 26 > WIDTH;
        svg_text(p, last ? WIDTH : x, height - 6, last ? SVG_END : SVG_MIDDLE, "", "%s",
                 page_time(a, v * 1e6));
    }
}

static double row_height(const struct an_timeline_track *k)
{
    return k->depth ? ROW_NESTED : ROW;
}

static unsigned draw(struct page *p, const struct an_timeline_step *s, bool ranks)
{
    double height = 34, y = 6;
    struct drawing x = {.step = s};
    unsigned used = 0;
    int left = PIECES_MOST;
    char caption[200], rank[40], a[32];
    for (size_t k = 0; k < s->track_count; k++)
        height += row_height(&s->track[k]);
    if (threshold(s, NAMED_MOST, &x.named_ns) || threshold(s, NAMED_MOST + SMALL_MOST, &x.least_ns))
        return 0;
    snprintf(rank, sizeof rank, " of rank %" PRId64, s->rank);
    snprintf(caption, sizeof caption, "%s step: %" PRId64 "%s, %s",
             s->which[0] == 't' ? "Typical" : "Worst", s->index, ranks ? rank : "",
             page_time(a, s->ms * 1e6));
    svg_begin(p, "timeline", caption, WIDTH, height,
              "Rows of threads and streams over the %s of the step. The table below says how busy "
              "each was.",
              page_time(a, s->ms * 1e6));
    axis(p, &x, height);
    for (size_t k = 0; k < s->track_count; k++) {
        const struct an_timeline_track *t = &s->track[k];
        double tall = row_height(t) - 4;
        if (!t->depth) {
            char label[80] = "";
            if (ranks)
                snprintf(label, sizeof label, "%" PRId64 ": ", t->rank);
            fprintf(p->out, "<text x=\"%d\" y=\"%.5g\" text-anchor=\"end\">%s", LEFT - 6,
                    y + tall - 4, label);
            html_text(p->out, t->name, ranks ? 22 : 26);
            fputs("</text>\n", p->out);
        }
        outlines(p, &x, t, y, tall);
        for (size_t i = 0; i < t->span_count; i++) {
            used |= 1u << t->span[i].what;
            if (t->span[i].dur_ns >= x.named_ns)
                named(p, &x, &t->span[i], y, tall);
        }
        critical(p, &x, t, y + tall + 1.5, &left);
        y += row_height(t);
    }
    svg_end(p);
    return used;
}

void html_timeline(struct page *p, const struct an_result *r)
{
    const struct an_timeline *t = &r->timeline;
    static const char *const name[AN_CLASS_COUNT] = {
        [AN_CLASS_COMPUTE] = "compute",
        [AN_CLASS_COMM] = "communication",
        [AN_CLASS_BUBBLE] = "waiting in a pipeline",
        [AN_CLASS_COPY] = "copy",
        [AN_CLASS_INPUT] = "input: the loader, and waiting for it",
        [AN_CLASS_IO] = "storage",
        [AN_CLASS_HOST] = "host: launches, framework, waits",
        [AN_CLASS_UNATTRIBUTED] = "ranges that do not say what they are"};
    unsigned used = 0;
    bool ranks = false, path = false;
    for (size_t i = 0; i < t->step_count; i++)
        for (size_t k = 0; k < t->step[i].track_count; k++) {
            const struct an_timeline_track *x = &t->step[i].track[k];
            ranks = ranks || x->rank != t->step[i].rank;
            for (size_t j = 0; j < x->span_count; j++)
                path = path || x->span[j].critical;
        }
    for (size_t i = 0; i < t->step_count && !t->reason; i++)
        used |= draw(p, &t->step[i], ranks);
    if (!used)
        return;
    svg_legend(p, used, name);
    if (path)
        fputs("<p>A line below a row: on the critical path.</p>\n", p->out);
}

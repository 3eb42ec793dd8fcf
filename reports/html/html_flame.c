/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph that hangs: the root on top, below each row what it consists of, wide as its share
 * of time.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "reports/html/html.h"

#define WIDTH       960
#define ROW         20 /* html.css: rectangles are a unit lower */
#define DEPTH_MOST  40
#define ROWS_MOST   350
#define WIDTH_LEAST 1.0 /* of what is drawn */
#define NAME_WIDTH  28  /* from here on a frame has its name in it */

struct flame {
    struct page *p;
    const struct an_flame *x;
    double *left; /* of every row; -1: not drawn */
    double *next; /* where its next child begins */
    int *depth;
};

/* The same name has the same hue everywhere. */
static unsigned hue(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h % 6;
}

static double width_of(const struct flame *f, size_t i)
{
    return WIDTH * (double)f->x->row[i].total_ns / (double)f->x->row[0].total_ns;
}

static int descending(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a < *b) - (*a > *b);
}

/* The time a row must have to be among the ROWS_MOST widest: they are drawn, wherever they stand.
 */
static int64_t least_of(const struct an_flame *x)
{
    int64_t *total = x->row_count > ROWS_MOST ? malloc(x->row_count * sizeof *total) : NULL,
            least = 0;
    for (size_t i = 0; total && i < x->row_count; i++)
        total[i] = x->row[i].total_ns;
    if (total) {
        qsort(total, x->row_count, sizeof *total, descending);
        least = total[ROWS_MOST - 1];
    }
    free(total);
    return least;
}

/* Places of the rows; returns the deepest row that is drawn. */
static int layout(struct flame *f)
{
    int deepest = 0;
    size_t drawn = 0;
    int64_t least = least_of(f->x);
    for (size_t i = 0; i < f->x->row_count; i++) {
        uint32_t up = f->x->row[i].parent;
        f->left[i] = -1;
        f->depth[i] = i ? f->depth[up] + 1 : 0;
        if (i && (f->left[up] < 0 || f->depth[i] >= DEPTH_MOST || f->x->row[i].total_ns < least ||
                  width_of(f, i) < WIDTH_LEAST || drawn >= ROWS_MOST))
            continue;
        f->left[i] = f->next[i] = i ? f->next[up] : 0;
        if (i)
            f->next[up] += width_of(f, i);
        deepest = f->depth[i] > deepest ? f->depth[i] : deepest;
        drawn++;
    }
    return deepest;
}

static void draw_row(const struct flame *f, size_t i)
{
    const struct an_flame_row *row = &f->x->row[i];
    const char *name = *row->name ? row->name : "(unnamed)";
    char a[32];
    double x = f->left[i], width = width_of(f, i), y = ROW * f->depth[i];
    fprintf(f->p->out,
            "<g class=\"frame\"><rect x=\"%.5g\" y=\"%.4g\" width=\"%.5g\" class=\"f%u\"><title>",
            x, y + 1, width, hue(row->name));
    html_text(f->p->out, name, 80);
    fprintf(f->p->out, ": %s, %.1f %%, %" PRId64 " times</title></rect>",
            page_time(a, (double)row->total_ns), 100 * width / WIDTH, row->count);
    int letters = svg_letters(name, width - 6);
    if (width >= NAME_WIDTH && letters) {
        fprintf(f->p->out, "<text class=\"on\" x=\"%.5g\" y=\"%.4g\">", x + 3, y + ROW - 5);
        html_text(f->p->out, name, letters);
        fputs("</text>", f->p->out);
    }
    fputs("</g>\n", f->p->out);
}

void html_flame(struct page *p, const struct an_flame *x, const char *caption)
{
    struct flame f = {.p = p, .x = x};
    size_t n = x->row_count, largest = 0;
    char text[200];
    if (x->reason || n < 2 || x->row[0].total_ns <= 0)
        return;
    f.left = calloc(n, sizeof *f.left);
    f.next = calloc(n, sizeof *f.next);
    f.depth = calloc(n, sizeof *f.depth);
    if (f.left && f.next && f.depth) {
        int deepest = layout(&f);
        for (size_t i = 1; i < n; i++)
            if (f.depth[i] == 1 && (!largest || x->row[i].total_ns > x->row[largest].total_ns))
                largest = i;
        snprintf(text, sizeof text, "%s, from the root down; %.80s", caption,
                 x->source ? x->source : "");
        svg_begin(p, "flame", text, WIDTH, ROW * (deepest + 1) + 2,
                  "Below the root the widest is %.80s with %.1f %%.",
                  largest ? x->row[largest].name : "nothing",
                  largest ? 100 * width_of(&f, largest) / WIDTH : 0);
        for (size_t i = 0; i < n; i++)
            if (f.left[i] >= 0)
                draw_row(&f, i);
        svg_end(p);
    }
    free(f.left);
    free(f.next);
    free(f.depth);
}

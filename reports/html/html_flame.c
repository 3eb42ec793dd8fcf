/* SPDX-License-Identifier: Apache-2.0
 *
 * A flame graph that hangs: the root is on top, and below each row are the rows it consists of,
 * each as wide as its share of time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/words/phrase.h"
#include "tacho_error.h"

#define WIDTH        960
#define ROW          20 /* html.css: rectangles are a unit lower */
#define DEPTH_MOST   40
#define ROWS_MOST    350
#define WIDTH_LEAST  1.0  /* of what is drawn */
#define DATA_MOST    1500 /* rows that a script can draw */
#define NAME_COLUMNS 80
#define NAME_WIDTH   28 /* from here on a frame has its name in it */

struct flame {
    struct page *page;
    const struct an_flame *flame;
    double *left; /* of every row; -1: not drawn */
    double *next; /* where its next child begins */
    int *depth;
};

/* The same name has the same hue everywhere. */
static unsigned hue(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % 6;
}

static double width_of(const struct flame *flame, size_t i)
{
    return WIDTH * (double)flame->flame->row[i].total_ns / (double)flame->flame->row[0].total_ns;
}

/* The time that makes a row one of the ROWS_MOST widest, which are drawn at any depth. */
static int64_t least_of(const struct an_flame *flame)
{
    int64_t *total = flame->row_count > ROWS_MOST ? malloc(flame->row_count * sizeof *total) : NULL,
            least = 0;
    for (size_t i = 0; total && i < flame->row_count; i++)
        total[i] = flame->row[i].total_ns;
    if (total) {
        qsort(total, flame->row_count, sizeof *total, svg_longest_first);
        least = total[ROWS_MOST - 1];
    }
    free(total);
    return least;
}

/* Gives every row that is drawn its place: below its parent, right of its siblings. Rows that are
 * too deep, too narrow or not among the widest are omitted with all below them. Returns the
 * deepest level that is drawn. */
static int layout(struct flame *flame)
{
    int deepest = 0;
    size_t drawn = 0;
    int64_t least = least_of(flame->flame);
    for (size_t i = 0; i < flame->flame->row_count; i++) {
        uint32_t parent = flame->flame->row[i].parent;
        flame->left[i] = -1;
        flame->depth[i] = i ? flame->depth[parent] + 1 : 0;
        if (i && (flame->left[parent] < 0 || flame->depth[i] >= DEPTH_MOST ||
                  flame->flame->row[i].total_ns < least || width_of(flame, i) < WIDTH_LEAST ||
                  drawn >= ROWS_MOST))
            continue;
        flame->left[i] = flame->next[i] = i ? flame->next[parent] : 0;
        if (i)
            flame->next[parent] += width_of(flame, i);
        deepest = flame->depth[i] > deepest ? flame->depth[i] : deepest;
        drawn++;
    }
    return deepest;
}

/* Draws one row of the graph with its name as far as it fits; a pointer over it shows name,
 * time, share and count. */
static void draw_row(const struct flame *flame, size_t i)
{
    const struct an_flame_row *row = &flame->flame->row[i];
    const char *name = rep_or(row->name, "(unnamed)");
    double x = flame->left[i], width = width_of(flame, i), y = ROW * flame->depth[i];
    fprintf(flame->page->out,
            "<g class=\"frame\" data-row=\"%zu\"><rect x=\"%.5g\" y=\"%.4g\" width=\"%.5g\" "
            "class=\"f%u\"><title>",
            i, x, y + 1, width, hue(row->name));
    html_text(flame->page->out, name, 80);
    fprintf(flame->page->out, ": %s, %.1f %%, %" PRId64 " times</title></rect>",
            TIME_TEXT((double)row->total_ns), 100 * width / WIDTH, row->count);
    int letters = svg_letters(name, width - 6);
    if (width >= NAME_WIDTH && letters) {
        fprintf(flame->page->out, "<text class=\"on\" x=\"%.5g\" y=\"%.4g\">", x + 3, y + ROW - 5);
        html_text(flame->page->out, name, letters);
        fputs("</text>", flame->page->out);
    }
    fputs("</g>\n", flame->page->out);
}

/* The row with most time right above the root; 0: there is none. */
static size_t widest_of(const struct flame *drawing)
{
    const struct an_flame *flame = drawing->flame;
    size_t largest = 0;
    for (size_t i = 1; i < flame->row_count; i++)
        if (drawing->depth[i] == 1 &&
            (!largest || flame->row[i].total_ns > flame->row[largest].total_ns))
            largest = i;
    return largest;
}

static void draw(struct flame *drawing, const char *caption)
{
    const struct an_flame *flame = drawing->flame;
    struct page *page = drawing->page;
    char text[200];
    int deepest = layout(drawing);
    size_t largest = widest_of(drawing);
    snprintf(text, sizeof text, "%s, from the root down; %.80s", caption,
             rep_or(flame->source, ""));
    const char *widest = largest ? flame->row[largest].name : "nothing";
    svg_begin(page, "flame", text, WIDTH, ROW * (deepest + 1) + 2,
              "Below the root the widest is %.80s with %.1f %%.", widest,
              largest ? 100 * width_of(drawing, largest) / WIDTH : 0);
    for (size_t i = 0; i < flame->row_count; i++)
        if (drawing->left[i] >= 0)
            draw_row(drawing, i);
    svg_end(page);
}

/* All rows as data, so that a script can draw what is too narrow here: [parent, ns, count, name,
 * hue], and the names once. */
static int write_data(struct html *html, const struct an_flame *flame)
{
    size_t rows = flame->row_count < DATA_MOST ? flame->row_count : DATA_MOST, names = 0;
    size_t *name = calloc(rows, sizeof *name), *first = calloc(rows, sizeof *first);
    if (!name || !first) {
        free(name);
        free(first);
        return TACHO_ENOMEM;
    }
    fprintf(html->data, "\"flame%d\":{\"rows\":[", html->flames++);
    for (size_t i = 0; i < rows; i++) {
        size_t k = 0;
        while (k < names && strcmp(flame->row[first[k]].name, flame->row[i].name) != 0)
            k++;
        if (k == names)
            first[names++] = i;
        fprintf(html->data, "%s[%" PRIu32 ",%" PRId64 ",%" PRId64 ",%zu,%u]", i ? "," : "",
                flame->row[i].parent, flame->row[i].total_ns, flame->row[i].count, k,
                hue(flame->row[i].name));
    }
    fputs("],\"names\":[", html->data);
    for (size_t k = 0; k < names; k++) {
        fputs(k ? "," : "", html->data);
        html_json(html->data, flame->row[first[k]].name, NAME_COLUMNS);
    }
    fputs("]},\n", html->data);
    free(name);
    free(first);
    return 0;
}

/* Parents precede their children in a flame graph, so one pass gives every row its place. */
void html_flame(struct page *page, const struct an_flame *flame, const char *caption)
{
    struct flame drawing = {.page = page, .flame = flame};
    size_t count = flame->row_count;
    if (flame->reason || count < 2 || flame->row[0].total_ns <= 0)
        return;
    drawing.left = calloc(count, sizeof *drawing.left);
    drawing.next = calloc(count, sizeof *drawing.next);
    drawing.depth = calloc(count, sizeof *drawing.depth);
    struct html *html = page->format;
    if (drawing.left && drawing.next && drawing.depth) {
        draw(&drawing, caption);
        html->failed = write_data(html, flame) || html->failed;
    }
    free(drawing.left);
    free(drawing.next);
    free(drawing.depth);
}

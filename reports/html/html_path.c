/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path through a step: a row for each track, time to the right, and an arrow
 * wherever the path continues on another track. A cause has the colour of the class of time it is
 * nearest to, and a number of its own.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/html/html_private.h"
#include "reports/words/phrase.h"

#define WIDTH      960
#define LEFT       190
#define PLOT       (WIDTH - LEFT - 10)
#define TOP        24
#define BAR        22
#define ROW        42 /* a bar, and room for the names of arrows */
#define HINT_WIDTH 3  /* from here on a pointer over it shows what it is */
#define NAME_WIDTH 60 /* from here on a bar has its name in it */
#define ARROW_CHAR 6.2

struct drawing {
    const struct an_path_step *step;
    double scale; /* of a ns */
};

static double x_of(const struct drawing *drawing, int64_t ns)
{
    return LEFT + (double)ns * drawing->scale;
}
static double y_of(int lane)
{
    return TOP + (double)lane * ROW;
}

/* The row that segment i of the path is drawn in. A gap belongs to no lane: it takes the row of the
 * segment before it, else of the one after. */
static int row_of(const struct an_path_step *step, size_t i)
{
    size_t place = i;
    while (place && step->stretch[place].lane < 0)
        place--;
    while (place < step->stretch_count && step->stretch[place].lane < 0)
        place++;
    return place < step->stretch_count ? step->stretch[place].lane : 0;
}

/* A background and a name for each track; the rank is named where there are several. */
static void draw_tracks(struct page *page, const struct an_path_step *step)
{
    bool ranks = false;
    for (size_t i = 0; i < step->lane_count; i++)
        ranks = ranks || step->lane[i].rank != step->lane[0].rank;
    for (size_t i = 0; i < step->lane_count; i++) {
        double y = y_of((int)i);
        svg_rect(page, LEFT, y, PLOT, BAR, "lane", NULL);
        svg_track_name(page, LEFT - 6, y + BAR - 7, ranks, step->lane[i].rank, step->lane[i].name);
    }
}

static void name_segment(struct page *page, const struct an_path_stretch *stretch, const char *name,
                         double x, double y, double width)
{
    if (width >= NAME_WIDTH) {
        fprintf(page->out, "<text class=\"on\" x=\"%.5g\" y=\"%.5g\">%d ", x + 4, y + BAR - 7,
                stretch->reason + 1);
        html_text(page->out, name, svg_letters(name, width - 28));
        fputs("</text>\n", page->out);
    } else if (width >= 18) {
        svg_text(page, x + width / 2, y + BAR - 7, SVG_MIDDLE, "on", "%d", stretch->reason + 1);
    }
}

/* Draws one segment of the path as a bar in the row of its track: the number of its cause and
 * its name where they fit, the rest when a pointer is over it. */
static void draw_segment(struct page *page, const struct drawing *drawing, size_t i)
{
    const struct an_path_stretch *stretch = &drawing->step->stretch[i];
    const struct an_path_reason *why = &drawing->step->reason[stretch->reason];
    const char *name = rep_or(stretch->name, why->key);
    char class[16], title[300], more[40] = "", link[60] = "";
    double x = x_of(drawing, stretch->start_ns), y = y_of(row_of(drawing->step, i)),
           width = (double)stretch->dur_ns * drawing->scale;
    if (stretch->merged > 1)
        snprintf(more, sizeof more, " (the longest of %" PRIu32 ")", stretch->merged);
    snprintf(class, sizeof class, "c%d%s", why->what, stretch->lane < 0 ? " gap" : "");
    if (an_path_hands_over(drawing->step, i))
        snprintf(link, sizeof link, "; dependency: %.12s%s", stretch->link,
                 stretch->inferred ? " (inferred)" : "");
    snprintf(title, sizeof title, "%.60s%s: %s at %s, %.60s%s", name, more,
             TIME_TEXT((double)stretch->dur_ns), TIME_TEXT((double)stretch->start_ns), why->text,
             link);
    svg_rect(page, x, y, fmax(width, 0.4), BAR, class, width < HINT_WIDTH ? NULL : title);
    name_segment(page, stretch, name, x, y, width);
}

/* Draws the arrows between tracks as one path: those that were recorded, or those that were
 * inferred. Returns how many there are. */
static size_t draw_arrows(struct page *page, const struct drawing *drawing, bool inferred)
{
    size_t drawn = 0;
    for (size_t i = 0; i < drawing->step->stretch_count; i++) {
        const struct an_path_stretch *stretch = &drawing->step->stretch[i];
        if (!an_path_hands_over(drawing->step, i) || stretch->inferred != inferred)
            continue;
        bool down = stretch[1].lane > stretch->lane;
        double x = x_of(drawing, stretch[1].start_ns), from = y_of(stretch->lane),
               to = y_of(stretch[1].lane);
        *(down ? &from : &to) += BAR; /* from the edge of a bar to the near edge of the other */
        if (!drawn++)
            fprintf(page->out, "<path class=\"edge%s\" d=\"", inferred ? " inferred" : "");
        int back = down ? -5 : 5;
        fprintf(page->out, "M%.5g %.5gV%.5gm-3 %dl3 %dl3 %d", x, from, to, back, -back, back);
    }
    if (drawn)
        fputs("\"/>\n", page->out);
    return drawn;
}

/* Names the arrows where there is room: beside the head of the arrow, in the space above its track.
 */
static void name_arrows(struct page *page, const struct drawing *drawing)
{
    double free_from[AN_PATH_LANES_MOST + 1] = {0};
    for (size_t i = 0; i < drawing->step->stretch_count; i++) {
        const struct an_path_stretch *stretch = &drawing->step->stretch[i];
        if (!an_path_hands_over(drawing->step, i))
            continue;
        int space = stretch[1].lane > stretch->lane ? stretch[1].lane : stretch[1].lane + 1;
        double x = x_of(drawing, stretch[1].start_ns) + 4,
               width = ARROW_CHAR * (double)strlen(stretch->link);
        if (space > AN_PATH_LANES_MOST || x < free_from[space])
            continue;
        if (x + width > WIDTH)
            svg_text(page, x - 8, y_of(space) - 7, SVG_END, "edge-name", "%s", stretch->link);
        else
            svg_text(page, x, y_of(space) - 7, SVG_START, "edge-name", "%s", stretch->link);
        free_from[space] = x + width + 4;
    }
}

/* The causes with their numbers, colours and times: the key to the bars. */
static void legend(struct page *page, const struct an_path_step *step)
{
    fputs("<ul class=\"legend\">\n", page->out);
    for (size_t i = 0; i < step->reason_count; i++) {
        svg_key(page, 'c', step->reason[i].what);
        fprintf(page->out, "%zu ", i + 1);
        html_text(page->out, step->reason[i].text, 100);
        fprintf(page->out, ", %s</li>\n", TIME_TEXT((double)step->reason[i].ns));
    }
    fputs("</ul>\n", page->out);
}

static void explain_arrows(struct page *page, bool recorded, bool inferred)
{
    const char *source = recorded ? " (recorded)" : " (dashed: inferred from times)";
    if (recorded && inferred)
        source = " (solid: recorded; dashed: inferred from times)";
    if (recorded || inferred)
        fprintf(page->out, "<p>An arrow: a dependency between tracks%s.</p>\n", source);
}

void html_path(struct page *page, const struct an_result *result)
{
    const struct an_path_step *step = &result->critical_path.step;
    if (!step->stretch_count || step->lane_count > AN_PATH_LANES_MOST || !(step->ms > 0))
        return;
    struct drawing drawing = {.step = step, .scale = PLOT / (step->ms * 1e6)};
    double height = TOP + (double)(step->lane_count ? step->lane_count : 1) * ROW + 20;
    char caption[200];
    snprintf(caption, sizeof caption,
             "Step %" PRId64 " of rank %" PRId64 ", %s: what the next step waits for", step->index,
             step->rank, TIME_TEXT(step->ms * 1e6));
    svg_begin(page, "path", caption, WIDTH, height,
              "The critical path crosses %zu tracks. Its largest part of the step, %s, is: %s. "
              "The tables below have all "
              "dependencies and the longest segments.",
              step->lane_count, TIME_TEXT((double)step->reason[0].ns), step->reason[0].text);
    svg_time_axis(page, step->ms, LEFT, WIDTH, drawing.scale, height);
    draw_tracks(page, step);
    for (size_t i = 0; i < step->stretch_count; i++)
        draw_segment(page, &drawing, i);
    bool recorded = draw_arrows(page, &drawing, false) > 0,
         inferred = draw_arrows(page, &drawing, true) > 0;
    name_arrows(page, &drawing);
    svg_end(page);
    legend(page, step);
    explain_arrows(page, recorded, inferred);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What every thread and stream does in a step: a row for each, time to the right. Spans that are
 * wide enough to point at are rectangles of their own; the others are one outline for each class,
 * so that a page has a bounded size.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "reports/html/html_private.h"
#include "reports/words/phrase.h"

#define WIDTH       960
#define LEFT        190
#define PLOT        (WIDTH - LEFT - 10)
#define ROW         22
#define ROW_NESTED  16
#define NAMED_MOST  300  /* rectangles with a name, the longest */
#define SMALL_MOST  3000 /* pieces of outlines */
#define PIECES_MOST 1500 /* of the critical path */
#define NAME_WIDTH  46   /* from here on a rectangle has its name in it */

/* A step, with the least durations of spans that get a rectangle, and that are drawn at all. */
struct drawing {
    const struct an_timeline_step *step;
    int64_t named_ns, least_ns;
};

/* Finds how long a span must be to be one of the longest `most`. Returns 0 or -1 (no memory). */
static int find_threshold(const struct an_timeline_step *step, size_t most, int64_t *out)
{
    size_t count = 0;
    *out = 0;
    for (size_t k = 0; k < step->track_count; k++)
        count += step->track[k].span_count;
    if (count <= most)
        return 0;
    int64_t *all = malloc(count * sizeof *all);
    if (!all)
        return -1;
    count = 0;
    for (size_t k = 0; k < step->track_count; k++)
        for (size_t i = 0; i < step->track[k].span_count; i++)
            all[count++] = step->track[k].span[i].dur_ns;
    qsort(all, count, sizeof *all, svg_longest_first);
    *out = all[most] + 1;
    free(all);
    return 0;
}

static double scale(const struct drawing *drawing)
{
    return PLOT / (drawing->step->ms > 0 ? drawing->step->ms * 1e6 : 1);
}

static void name_span(struct page *page, const struct an_timeline_span *span, double from,
                      double width, double y, double height)
{
    if (width >= NAME_WIDTH && height > 12) {
        fprintf(page->out, "<text class=\"on\" x=\"%.5g\" y=\"%.5g\">%c ", from + 4, y + height - 5,
                svg_class_letter(span->what));
        html_text(page->out, span->name, svg_letters(span->name, width - 24));
        fputs("</text>\n", page->out);
    } else if (width >= 12) {
        svg_text(page, from + width / 2, y + height - 4, SVG_MIDDLE, "on", "%c",
                 svg_class_letter(span->what));
    }
}

/* Draws a span that is long enough to point at, with the letter of its class and as much of its
 * name as fits. */
static void draw_named(struct page *page, const struct drawing *drawing,
                       const struct an_timeline_span *span, double y, double height)
{
    char class[16], title[400];
    double from = LEFT + (double)span->start_ns * scale(drawing),
           width = (double)span->dur_ns * scale(drawing);
    snprintf(class, sizeof class, "c%d", span->what);
    if (span->merged > 1)
        snprintf(title, sizeof title,
                 "%s at %s: %" PRIu32 " ranges, %.0f %% of it; the longest: %.80s",
                 TIME_TEXT((double)span->dur_ns), TIME_TEXT((double)span->start_ns), span->merged,
                 100 * (double)span->busy, span->name);
    else
        snprintf(title, sizeof title, "%.80s: %s at %s%s", rep_or(span->name, "(unnamed)"),
                 TIME_TEXT((double)span->dur_ns), TIME_TEXT((double)span->start_ns),
                 span->critical ? ", on the critical path" : "");
    svg_rect(page, from, y, width, height, class, title);
    name_span(page, span, from, width, y, height);
}

/* Draws the short spans of one class that are busy to one of four degrees, as strokes from the
 * bottom of the row. */
static void draw_strokes(struct page *page, const struct drawing *drawing,
                         const struct an_timeline_track *track, int class, int degree,
                         double bottom, double height)
{
    double tall = height * degree / 4;
    struct svg_pen pen = {0};
    for (size_t i = 0; i < track->span_count; i++) {
        const struct an_timeline_span *span = &track->span[i];
        int busy = 1 + (int)(span->busy * 3.99f);
        if (span->what != class || span->dur_ns >= drawing->named_ns ||
            span->dur_ns < drawing->least_ns || busy != degree)
            continue;
        if (!pen.down)
            fprintf(page->out, "<path class=\"c%d\" stroke-width=\"%.3g\" d=\"", class, tall);
        svg_dash(page, &pen, LEFT + (double)span->start_ns * scale(drawing), bottom - tall / 2,
                 (double)span->dur_ns * scale(drawing));
    }
    if (pen.down)
        fputs("\"/>\n", page->out);
}

/* Draws the spans of a track that are too short for a rectangle of their own. */
static void draw_outlines(struct page *page, const struct drawing *drawing,
                          const struct an_timeline_track *track, double y, double height)
{
    AN_EACH_CLASS(class)
        for (int degree = 1; degree <= 4; degree++)
            draw_strokes(page, drawing, track, class, degree, y + height, height);
}

/* Draws a line under what is on the critical path; neighbours share one. *pieces_left: pieces that
 * the picture may still have. */
static void draw_critical(struct page *page, const struct drawing *drawing,
                          const struct an_timeline_track *track, double y, int *pieces_left)
{
    struct svg_pen pen = {0};
    for (size_t i = 0; i<track->span_count && * pieces_left> 0; i++) {
        if (!track->span[i].critical)
            continue;
        --*pieces_left;
        int64_t begin = track->span[i].start_ns, end = begin + track->span[i].dur_ns;
        for (; i + 1 < track->span_count && track->span[i + 1].critical; i++) {
            if ((double)(track->span[i + 1].start_ns - end) * scale(drawing) >= 1)
                break;
            end = track->span[i + 1].start_ns + track->span[i + 1].dur_ns;
        }
        if (!pen.down)
            fputs("<path class=\"critical\" d=\"", page->out);
        svg_dash(page, &pen, LEFT + (double)begin * scale(drawing), y,
                 (double)(end - begin) * scale(drawing));
    }
    if (pen.down)
        fputs("\"/>\n", page->out);
}

static double row_height(const struct an_timeline_track *track)
{
    return track->depth ? ROW_NESTED : ROW;
}

/* Draws a row of a thread or a stream. Returns the classes that it has, a bit each. */
static unsigned draw_track(struct page *page, const struct drawing *drawing,
                           const struct an_timeline_track *track, double y, bool ranks, int *left)
{
    unsigned used = 0;
    double tall = row_height(track) - 4;
    if (!track->depth)
        svg_track_name(page, LEFT - 6, y + tall - 4, ranks, track->rank, track->name);
    draw_outlines(page, drawing, track, y, tall);
    for (size_t i = 0; i < track->span_count; i++) {
        used |= 1u << track->span[i].what;
        if (track->span[i].dur_ns >= drawing->named_ns)
            draw_named(page, drawing, &track->span[i], y, tall);
    }
    draw_critical(page, drawing, track, y + tall + 1.5, left);
    return used;
}

/* The caption names the step and, of several ranks, the one that holds the others back; slow: that
 * rank, -1: none does. */
static void begin_step(struct page *page, const struct an_timeline_step *step, bool ranks,
                       int64_t slow, double height)
{
    char caption[200], rank[40] = "", slowest[60] = "";
    if (ranks)
        snprintf(rank, sizeof rank, " of rank %" PRId64, step->rank);
    if (ranks && slow >= 0)
        snprintf(slowest, sizeof slowest, "; rank %" PRId64 " is the slowest", slow);
    snprintf(caption, sizeof caption, "%s step: %" PRId64 "%s, %s%s",
             step->which[0] == 't' ? "Typical" : "Worst", step->index, rank,
             TIME_TEXT(step->ms * 1e6), slowest);
    svg_begin(page, "timeline", caption, WIDTH, height,
              "Rows of threads and streams over the %s of the step. The table below says how busy "
              "each was.",
              TIME_TEXT(step->ms * 1e6));
}

/* Draws one step. `ranks`: tracks of several ranks are in the picture, so labels name the rank.
 * Returns the classes that occur, as bits. */
static unsigned draw_step(struct page *page, const struct an_timeline_step *step, bool ranks,
                          int64_t slow)
{
    double height = 34, y = 6;
    struct drawing drawing = {.step = step};
    unsigned used = 0;
    int left = PIECES_MOST;
    for (size_t k = 0; k < step->track_count; k++)
        height += row_height(&step->track[k]);
    if (find_threshold(step, NAMED_MOST, &drawing.named_ns) ||
        find_threshold(step, NAMED_MOST + SMALL_MOST, &drawing.least_ns))
        return 0;
    begin_step(page, step, ranks, slow, height);
    svg_time_axis(page, step->ms, LEFT, WIDTH, scale(&drawing), height);
    for (size_t k = 0; k < step->track_count; k++) {
        const struct an_timeline_track *track = &step->track[k];
        used |= draw_track(page, &drawing, track, y, ranks, &left);
        y += row_height(track);
    }
    svg_end(page);
    return used;
}

/* Are there rows of several ranks, and a critical path? */
static void find_features(const struct an_timeline *timeline, bool *ranks, bool *path)
{
    for (size_t i = 0; i < timeline->step_count; i++)
        for (size_t k = 0; k < timeline->step[i].track_count; k++) {
            const struct an_timeline_track *track = &timeline->step[i].track[k];
            *ranks = *ranks || track->rank != timeline->step[i].rank;
            for (size_t j = 0; j < track->span_count; j++)
                *path = *path || track->span[j].critical;
        }
}

void html_classes(struct page *page, unsigned used)
{
    static const char *const name[AN_CLASS_COUNT] = {
        [AN_CLASS_COMPUTE] = "compute",
        [AN_CLASS_COMM] = "communication",
        [AN_CLASS_BUBBLE] = "pipeline bubble",
        [AN_CLASS_COPY] = "copy",
        [AN_CLASS_INPUT] = "input: data loading and data wait",
        [AN_CLASS_IO] = "storage",
        [AN_CLASS_HOST] = "host: launches, framework, waits",
        [AN_CLASS_UNATTRIBUTED] = "ranges without a declared role"};
    svg_legend(page, used, name);
}

/* Finds first whether several ranks, and the critical path, are in any of the steps: labels and
 * the note below depend on it. */
void html_timeline(struct page *page, const struct an_result *result)
{
    const struct an_timeline *timeline = &result->timeline;
    unsigned used = 0;
    bool ranks = false, path = false;
    int64_t slow = an_straggler_rank(&result->ranks);
    find_features(timeline, &ranks, &path);
    for (size_t i = 0; i < timeline->step_count && !timeline->reason; i++)
        used |= draw_step(page, &timeline->step[i], ranks, slow);
    if (!used)
        return;
    html_classes(page, used);
    if (path)
        fputs("<p>A line below a row marks the critical path.</p>\n", page->out);
}

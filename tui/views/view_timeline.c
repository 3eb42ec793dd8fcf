/* SPDX-License-Identifier: Apache-2.0
 *
 * One step, track by track: each cell is a stretch of time, its letter the class that fills most of
 * it (a capital where it fills half of the cell and more), or its height how busy the track is.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/kernel_name.h"
#include "tui/draw.h"
#include "tui/views/views.h"

#define MODES 2
enum { LETTERS, BUSY };

/* The part of the step that can be seen. */
struct window {
    double from_ns, to_ns;
    int columns;
};

static struct window window_of(const struct an_timeline_step *step, struct tui_view_state *s,
                               int columns)
{
    double all = step->ms * 1e6, zoom = s->zoom >= 1 ? s->zoom : 1, width = all / zoom;
    s->pan = s->pan > 0 ? s->pan < 1 ? s->pan : 1 : 0;
    double from = s->pan * (all - width);
    return (struct window){from, from + width, columns};
}

/* What a cell shows: share of its time that is busy, the class of most of that, whether it is on
 * the critical path. */
struct bin {
    double busy;
    int class;
    bool critical;
};

static struct bin bin_of(const struct an_timeline_track *t, size_t *from, double begin, double end)
{
    double ns[AN_CLASS_COUNT] = {0}, sum = 0;
    struct bin b = {0};
    while (*from < t->span_count &&
           (double)(t->span[*from].start_ns + t->span[*from].dur_ns) <= begin)
        ++*from;
    for (size_t i = *from; i < t->span_count && (double)t->span[i].start_ns < end; i++) {
        const struct an_timeline_span *x = &t->span[i];
        double lap =
            fmin(end, (double)(x->start_ns + x->dur_ns)) - fmax(begin, (double)x->start_ns);
        if (lap <= 0 || x->what < 0 || x->what >= AN_CLASS_COUNT)
            continue;
        ns[x->what] += lap * (double)x->busy;
        sum += lap * (double)x->busy;
        b.critical = b.critical || x->critical;
    }
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        b.class = ns[k] > ns[b.class] ? k : b.class;
    b.busy = end > begin ? sum / (end - begin) : 0;
    return b;
}

static struct bin bin_at(const struct an_timeline_track *t, size_t *from, const struct window *w,
                         int column)
{
    double width = (w->to_ns - w->from_ns) / w->columns;
    return bin_of(t, from, w->from_ns + column * width, w->from_ns + (column + 1) * width);
}

static void draw_track(struct tui_cells *c, struct tui_rect r, const struct an_timeline_track *t,
                       const struct window *w, int mode)
{
    size_t from = 0;
    for (int x = 0; x < w->columns; x++) {
        struct bin b = bin_at(t, &from, w, x);
        enum tui_style style =
            b.critical ? TUI_CRITICAL_PATH : (enum tui_style)(TUI_CLASS + b.class);
        uint32_t letter = tui_class_letter(c, b.class);
        if (b.busy <= 0)
            continue;
        if (mode == BUSY)
            tui_level(c, r, 0, x, b.busy, style);
        else
            tui_glyph(c, r, 0, x, style,
                      b.busy < 0.5 && letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A' : letter);
    }
}

/* Which track each instant of the critical path is on: the letter of its row. */
static bool draw_path(struct tui_cells *c, struct tui_rect r, const struct an_timeline_step *step,
                      const struct window *w)
{
    bool any = false;
    for (size_t k = 0; k < step->track_count; k++) {
        size_t from = 0;
        for (int x = 0; x < w->columns; x++)
            if (bin_at(&step->track[k], &from, w, x).critical) {
                tui_glyph(c, r, 0, x, TUI_CRITICAL_PATH, k < 26 ? (uint32_t)('a' + k) : '+');
                any = true;
            }
    }
    return any;
}

static bool has_path(const struct an_timeline_step *step)
{
    for (size_t k = 0; k < step->track_count; k++)
        for (size_t i = 0; i < step->track[k].span_count; i++)
            if (step->track[k].span[i].critical)
                return true;
    return false;
}

static void track_label(struct tui_cells *c, struct tui_rect r, const struct an_timeline_step *step,
                        size_t k, bool selected)
{
    const struct an_timeline_track *t = &step->track[k], *before = k ? &step->track[k - 1] : NULL;
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    bool nested =
        before && t->depth > 0 && before->process == t->process && !strcmp(before->name, t->name);
    char text[200];
    for (int x = 0; selected && x < r.columns; x++)
        tui_glyph(c, r, 0, x, style, ' ');
    const char *rank = "";
    char number[32];
    if (step->track[0].rank != step->track[step->track_count - 1].rank) {
        snprintf(number, sizeof number, " r%" PRId64, t->rank);
        rank = number;
    }
    snprintf(text, sizeof text, "%c %s%.100s%s", k < 26 ? (char)('a' + k) : '+',
             nested ? "\xe2\x94\x94 " : "", nested ? "inside" : t->name, rank);
    if (nested && c->glyphs == TUI_ASCII)
        snprintf(text, sizeof text, "%c  inside%s", k < 26 ? (char)('a' + k) : '+', rank);
    tui_text(c, r, 0, 0, style, text);
}

/* Marks of time at round numbers. */
static void draw_scale(struct tui_cells *c, struct tui_rect r, const struct window *w)
{
    struct tui_axis a = {.low = w->from_ns, .high = w->to_ns};
    double tick[16];
    size_t n = tui_ticks(&a, (size_t)(w->columns / 12 + 1), tick);
    for (size_t i = 0; i < n; i++) {
        char text[40], time[32];
        int x = (int)((tick[i] - w->from_ns) / (w->to_ns - w->from_ns) * w->columns);
        snprintf(text, sizeof text, "%s%s", c->glyphs == TUI_ASCII ? "|" : "\xe2\x94\x82",
                 page_time(time, tick[i]));
        if (x + tui_width(c, text) <= w->columns)
            tui_text(c, r, 0, x, TUI_DIM, text);
    }
}

static int longer(const void *a, const void *b)
{
    const struct an_timeline_span *const *x = a, *const *y = b;
    return (*x)->dur_ns != (*y)->dur_ns
               ? (*x)->dur_ns < (*y)->dur_ns ? 1 : -1
               : ((*x)->start_ns > (*y)->start_ns) - ((*x)->start_ns < (*y)->start_ns);
}

/* The longest spans of a track in the window. */
static void draw_spans(struct tui_cells *c, struct tui_rect r, const struct an_timeline_track *t,
                       const struct window *w)
{
    const struct an_timeline_span **list =
        malloc((t->span_count ? t->span_count : 1) * sizeof *list);
    size_t n = 0;
    for (size_t i = 0; list && i < t->span_count; i++)
        if ((double)t->span[i].start_ns < w->to_ns &&
            (double)(t->span[i].start_ns + t->span[i].dur_ns) > w->from_ns)
            list[n++] = &t->span[i];
    if (list)
        qsort(list, n, sizeof *list, longer);
    bool critical = false;
    for (size_t i = 0; list && i < n && (int)i + 1 < r.rows; i++) {
        char a[32], b[32], name[200];
        const struct an_timeline_span *x = list[i];
        int row = (int)i + 1;
        rep_kernel_name(name, sizeof name, x->name);
        tui_text_right(c, tui_left(r, 10), row, TUI_NORMAL, page_time(a, (double)x->dur_ns));
        tui_printf(c, tui_left(r, 24), row, 12, TUI_DIM, "at %s",
                   page_time(b, (double)x->start_ns));
        tui_glyph(c, r, row, 24, (enum tui_style)(TUI_CLASS + (x->what & 7)),
                  tui_class_letter(c, x->what));
        struct tui_rect rest = tui_right(r, 26);
        int at = tui_text(c, rest, row, 2, x->critical ? TUI_CRITICAL_PATH : TUI_NORMAL,
                          *name ? name : "(unnamed)");
        if (x->merged > 1)
            tui_printf(c, rest, row, 2 + at, TUI_DIM, " and %u more, %.0f %% busy", x->merged - 1,
                       100 * (double)x->busy);
        if (x->critical)
            tui_glyph(c, rest, row, 0, TUI_CRITICAL_PATH, '*');
        critical = critical || x->critical;
    }
    tui_rule(c, r, 0);
    tui_printf(c, r, 0, 2, TUI_TITLE, " %.60s: %zu in the window, the longest first%s ", t->name, n,
               critical ? ", * on the critical path" : "");
    free(list);
}

static void head(struct tui_cells *c, struct tui_rect r, const struct an_timeline_step *step,
                 const struct window *w, const struct tui_view_state *s, size_t steps)
{
    char a[32], b[32], d[32];
    struct tui_line l = {c, r, 0, 0, 0};
    tui_item(&l, TUI_TITLE, "%s step %" PRId64 " of rank %" PRId64 ", %s", step->which, step->index,
             step->rank, page_time(a, step->ms * 1e6));
    if (s->zoom > 1)
        tui_item(&l, TUI_NORMAL, "%s to %s", page_time(b, w->from_ns), page_time(d, w->to_ns));
    tui_item(&l, TUI_DIM, "a cell is %s", page_time(b, (w->to_ns - w->from_ns) / w->columns));
    if (steps > 1)
        tui_item(&l, TUI_KEY, "[ ] step");
    tui_item(&l, TUI_KEY, "+ - zoom");
    tui_item(&l, TUI_KEY, "m %s", s->mode % MODES ? "letters" : "heights");
    tui_item(&l, TUI_KEY, "Enter ranges");
}

static void legend(struct tui_cells *c, struct tui_rect r, const struct an_timeline_step *step)
{
    bool seen[AN_CLASS_COUNT] = {false};
    int column = 0;
    for (size_t k = 0; k < step->track_count; k++)
        for (size_t i = 0; i < step->track[k].span_count; i++)
            seen[step->track[k].span[i].what & 7] = true;
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        if (seen[k]) {
            tui_glyph(c, r, 0, column, (enum tui_style)(TUI_CLASS + k), tui_class_letter(c, k));
            column += 4 + tui_text(c, r, 0, column + 2, TUI_DIM, tui_class_word(k));
        }
    if (r.columns - column > 42)
        tui_text(c, r, 0, column, TUI_DIM, "small letter: less than half of the cell");
}

static void draw_step(struct tui_cells *c, struct tui_rect r, const struct an_timeline_step *step,
                      size_t steps, struct tui_view_state *s)
{
    int label = r.columns / 4 < 20 ? r.columns / 4 : 20, share = r.columns >= 60 ? 6 : 0;
    struct tui_rect foot = tui_lower(r, r.rows > 6 ? r.rows - 1 : r.rows),
                    body = tui_upper(r, r.rows - foot.rows);
    struct window w = window_of(step, s, r.columns - label - share);
    bool path = has_path(step);
    if (w.columns < 1 || r.rows < 1)
        return;
    if (body.rows >= 3) {
        head(c, body, step, &w, s, steps);
        draw_scale(c, tui_right(tui_lower(body, 1), label), &w);
        body = tui_lower(body, 2);
    }
    if (path && body.rows > 1) {
        tui_text(c, tui_left(body, label), 0, 0, TUI_CRITICAL_PATH, "path");
        draw_path(c, tui_right(body, label), step, &w);
        body = tui_lower(body, 1);
    }
    int tracks = (int)step->track_count;
    bool details = s->open || body.rows - tracks >= 5;
    int room = details && tracks > (body.rows + 1) / 2 ? (body.rows + 1) / 2 : body.rows;
    tui_state_clamp(s, tracks, room);
    s->page = room;
    int row = 0;
    for (int k = s->top; k < tracks && row < room; k++, row++) {
        const struct an_timeline_track *t = &step->track[k];
        struct tui_rect line = tui_upper(tui_lower(body, row), 1);
        track_label(c, tui_left(line, label - 1), step, (size_t)k, k == s->cursor);
        draw_track(c, tui_left(tui_right(line, label), w.columns), t, &w,
                   ((s->mode % MODES) + MODES) % MODES);
        if (share && step->ms > 0)
            tui_printf(c, tui_right(line, r.columns - share), 0, 1, TUI_NORMAL, "%3.0f %%",
                       (double)t->busy_ns / step->ms / 1e4);
    }
    if (details && s->cursor >= 0 && s->cursor < tracks)
        draw_spans(c, tui_lower(body, row), &step->track[s->cursor], &w);
    if (foot.rows)
        legend(c, foot, step);
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    if (!result)
        return;
    const struct an_timeline *t = &result->timeline;
    if (t->reason || !t->step_count) {
        tui_absent(c, r, 0, "No timeline", t->reason ? t->reason : result->steps.reason);
        return;
    }
    long n = (long)t->step_count;
    draw_step(c, r, &t->step[((s->span % n) + n) % n], t->step_count, s);
}

const struct tui_view tui_view_timeline = {
    .key = '3',
    .name = "timeline",
    .brief = "time",
    .help = "a typical and the worst step, track by track; the critical path",
    .keys = "[ ]     the typical, the worst step\n"
            "+ - 0   zoom in, out, all; left and right move\n"
            "m       letters of classes, heights of how busy it is\n"
            "Enter   the ranges of the track under the cursor\n",
    .draw = draw};

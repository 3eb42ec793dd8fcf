/* SPDX-License-Identifier: Apache-2.0
 *
 * One step, track by track. Each cell is a piece of time: its letter is the class that fills most
 * of it (a capital where that is half of the cell or more), or its height shows how busy the
 * track is.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/compare.h"
#include "reports/words/kernel_name.h"
#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

#define MODES 2
enum { LETTERS, BUSY };

/* The part of the step that can be seen. */
struct window {
    double from_ns, to_ns;
    int columns;
};

/* The visible part of the step; pan is limited to what exists. */
static struct window window_of(const struct an_timeline_step *step, struct tui_view_state *state,
                               int columns)
{
    double all = step->ms * 1e6, width = all / fmax(state->zoom, 1);
    state->pan = rep_clamp_real(state->pan, 0, 1);
    double from = state->pan * (all - width);
    return (struct window){from, from + width, columns};
}

/* What a cell shows: share of its time that is busy, the class of most of that, whether it is on
 * the critical path. */
struct bin {
    double busy;
    int class;
    bool critical;
};

/* Sums up the spans between two times. *from: the first span that may reach into them; it only
 * moves forward, since cells are asked for from left to right. */
static struct bin bin_of(const struct an_timeline_track *track, size_t *from, double begin,
                         double end)
{
    double ns[AN_CLASS_COUNT] = {0}, sum = 0;
    struct bin bin = {0};
    while (*from < track->span_count &&
           (double)(track->span[*from].start_ns + track->span[*from].dur_ns) <= begin)
        ++*from;
    for (size_t i = *from; i < track->span_count && (double)track->span[i].start_ns < end; i++) {
        const struct an_timeline_span *span = &track->span[i];
        double lap = fmin(end, (double)(span->start_ns + span->dur_ns)) -
                     fmax(begin, (double)span->start_ns);
        if (lap <= 0 || span->what < 0 || span->what >= AN_CLASS_COUNT)
            continue;
        ns[span->what] += lap * (double)span->busy;
        sum += lap * (double)span->busy;
        bin.critical = bin.critical || span->critical;
    }
    AN_EACH_CLASS(class)
        bin.class = ns[class] > ns[bin.class] ? class : bin.class;
    bin.busy = end > begin ? sum / (end - begin) : 0;
    return bin;
}

static struct bin bin_at(const struct an_timeline_track *track, size_t *from,
                         const struct window *window, int column)
{
    double width = (window->to_ns - window->from_ns) / window->columns;
    return bin_of(track, from, window->from_ns + column * width,
                  window->from_ns + (column + 1) * width);
}

/* Draws one track: a letter or a level for each cell in which it was busy. */
static void draw_track(struct tui_cells *cells, struct tui_rect area,
                       const struct an_timeline_track *track, const struct window *window, int mode)
{
    size_t from = 0;
    for (int x = 0; x < window->columns; x++) {
        struct bin bin = bin_at(track, &from, window, x);
        enum tui_style style =
            bin.critical ? TUI_CRITICAL_PATH : (enum tui_style)(TUI_CLASS + bin.class);
        uint32_t letter = tui_class_letter(cells, bin.class);
        if (bin.busy <= 0)
            continue;
        if (mode == BUSY)
            tui_level(cells, area, 0, x, bin.busy, style);
        else
            tui_glyph(cells, area, 0, x, style,
                      bin.busy < 0.5 && letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A'
                                                                       : letter);
    }
}

/* Which track each instant of the critical path is on: the letter of its row. */
static bool draw_path(struct tui_cells *cells, struct tui_rect area,
                      const struct an_timeline_step *step, const struct window *window)
{
    bool any = false;
    for (size_t track = 0; track < step->track_count; track++) {
        size_t from = 0;
        for (int x = 0; x < window->columns; x++)
            if (bin_at(&step->track[track], &from, window, x).critical) {
                tui_glyph(cells, area, 0, x, TUI_CRITICAL_PATH,
                          track < 26 ? (uint32_t)('a' + track) : '+');
                any = true;
            }
    }
    return any;
}

/* Is any span of the step on the critical path? */
static bool has_path(const struct an_timeline_step *step)
{
    for (size_t track = 0; track < step->track_count; track++)
        for (size_t i = 0; i < step->track[track].span_count; i++)
            if (step->track[track].span[i].critical)
                return true;
    return false;
}

/* "r41 slow ", "r0 ": the rank of a track, in a step of several ranks; "". */
static void rank_words(const struct an_timeline_step *step, const struct an_timeline_track *track,
                       bool culprit, char *text, size_t size)
{
    bool several = step->track[0].rank != step->track[step->track_count - 1].rank;
    *text = 0;
    if (several)
        snprintf(text, size, "r%" PRId64 " %s", track->rank, culprit ? "slow " : "");
}

/* For a search: a track's label and the names of its ranges. */
static bool track_holds(const void *owner, int row, const char *words)
{
    const struct an_timeline_step *step = owner;
    const struct an_timeline_track *track = &step->track[row];
    char rank[32];
    rank_words(step, track, false, rank, sizeof rank);
    if (tui_holds(track->name, words) || tui_holds(rank, words))
        return true;
    for (size_t i = 0; i < track->span_count; i++)
        if (tui_holds(rep_or(track->span[i].name, ""), words))
            return true;
    return false;
}

/* Labels a track with the letter that the row of the critical path uses, its rank where there are
 * several, and its name, the rank first because labels may be cut; `slow` is the rank that the
 * others wait for, below 0: none. Nested tracks follow the track that they belong to. */
static void label_track(struct tui_cells *cells, struct tui_rect area,
                        const struct an_timeline_step *step, size_t index, int64_t slow,
                        bool selected)
{
    const struct an_timeline_track *track = &step->track[index],
                                   *before = index ? &step->track[index - 1] : NULL;
    bool culprit = slow >= 0 && track->rank == slow;
    enum tui_style style = culprit ? TUI_WARN : TUI_NORMAL;
    bool nested = before && track->depth > 0 && before->process == track->process &&
                  !strcmp(before->name, track->name);
    char text[200], rank[32];
    if (selected) {
        style = TUI_SELECTED;
        tui_fill(cells, area, 0, style);
    }
    rank_words(step, track, culprit, rank, sizeof rank);
    char letter = index < 26 ? (char)('a' + index) : '+';
    if (!nested)
        snprintf(text, sizeof text, "%c %s%.100s", letter, rank, track->name);
    else if (cells->glyphs == TUI_ASCII)
        snprintf(text, sizeof text, "%c  %sinside", letter, rank);
    else
        snprintf(text, sizeof text, "%c \xe2\x94\x94 %sinside", letter, rank);
    tui_text(cells, area, 0, 0, style, text);
}

/* Marks of time at round numbers. */
static void draw_scale(struct tui_cells *cells, struct tui_rect area, const struct window *window)
{
    struct tui_axis axis = {.low = window->from_ns, .high = window->to_ns};
    double tick[16];
    int most = window->columns / 12 + 1;
    size_t count = tui_ticks(&axis, (size_t)most, tick);
    for (size_t i = 0; i < count; i++) {
        char text[40];
        int x = (int)((tick[i] - window->from_ns) / (window->to_ns - window->from_ns) *
                      window->columns);
        snprintf(text, sizeof text, "%s%s", cells->glyphs == TUI_ASCII ? "|" : "\xe2\x94\x82",
                 TIME_TEXT(tick[i]));
        if (x + tui_width(cells, text) <= window->columns)
            tui_text(cells, area, 0, x, TUI_DIM, text);
    }
}

static int longer(const void *left, const void *right)
{
    const struct an_timeline_span *const *first = left, *const *second = right;
    int order = REP_COMPARE((*second)->dur_ns, (*first)->dur_ns);
    return order ? order : REP_COMPARE((*first)->start_ns, (*second)->start_ns);
}

/* Lists the spans of a track that lie in the window, the longest first. */
static void draw_spans(struct tui_cells *cells, struct tui_rect area,
                       const struct an_timeline_track *track, const struct window *window,
                       const char *search)
{
    const struct an_timeline_span **list =
        malloc((track->span_count ? track->span_count : 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < track->span_count; i++)
        if ((double)track->span[i].start_ns < window->to_ns &&
            (double)(track->span[i].start_ns + track->span[i].dur_ns) > window->from_ns)
            list[count++] = &track->span[i];
    if (list)
        qsort(list, count, sizeof *list, longer);
    bool critical = false;
    for (size_t i = 0; list && i < count && (int)i + 1 < area.rows; i++) {
        char name[200];
        const struct an_timeline_span *span = list[i];
        int row = (int)i + 1;
        rep_kernel_name(name, sizeof name, span->name);
        tui_text_right(cells, tui_left(area, 10), row, TUI_NORMAL, TIME_TEXT((double)span->dur_ns));
        tui_printf(cells, tui_left(area, 24), row, 12, TUI_DIM, "at %s",
                   TIME_TEXT((double)span->start_ns));
        tui_glyph(cells, area, row, 24, (enum tui_style)(TUI_CLASS + (span->what & 7)),
                  tui_class_letter(cells, span->what));
        struct tui_rect rest = tui_right(area, 26);
        enum tui_style style = span->critical ? TUI_CRITICAL_PATH : TUI_NORMAL;
        if (*search && tui_holds(name, search))
            style = TUI_SELECTED;
        int width = tui_text(cells, rest, row, 2, style, rep_or(name, "(unnamed)"));
        if (span->merged > 1)
            tui_printf(cells, rest, row, 2 + width, TUI_DIM, " and %u more, %.0f %% busy",
                       span->merged - 1, 100 * (double)span->busy);
        if (span->critical)
            tui_glyph(cells, rest, row, 0, TUI_CRITICAL_PATH, '*');
        critical = critical || span->critical;
    }
    tui_rule(cells, area, 0);
    tui_printf(cells, area, 0, 2, TUI_TITLE, " %.60s: %zu in the window, the longest first%s ",
               track->name, count, critical ? ", * on the critical path" : "");
    free(list);
}

/* Draws which step is shown, the visible part of it, and the keys. */
static void draw_head(struct tui_cells *cells, struct tui_rect area,
                      const struct an_timeline_step *step, const struct window *window,
                      const struct tui_view_state *state, size_t steps)
{
    struct tui_line line = {cells, area, 0, 0, 0};
    tui_item(&line, TUI_TITLE, "%s step %" PRId64 " of rank %" PRId64 ", %s", step->which,
             step->index, step->rank, TIME_TEXT(step->ms * 1e6));
    if (state->zoom > 1)
        tui_item(&line, TUI_NORMAL, "%s to %s", TIME_TEXT(window->from_ns),
                 TIME_TEXT(window->to_ns));
    tui_item(&line, TUI_DIM, "a cell is %s",
             TIME_TEXT((window->to_ns - window->from_ns) / window->columns));
    if (steps > 1)
        tui_item(&line, TUI_KEY, "[ ] step");
    tui_item(&line, TUI_KEY, "+ - zoom");
    tui_item(&line, TUI_KEY, "m %s", state->mode % MODES ? "letters" : "heights");
    tui_item(&line, TUI_KEY, "Enter ranges");
}

/* Draws the letters of the classes that occur in this step. */
static void draw_legend(struct tui_cells *cells, struct tui_rect area,
                        const struct an_timeline_step *step)
{
    bool seen[AN_CLASS_COUNT] = {false};
    int column = 0;
    for (size_t class = 0; class < step->track_count; class ++)
        for (size_t i = 0; i < step->track[class].span_count; i++)
            seen[step->track[class].span[i].what & 7] = true;
    AN_EACH_CLASS(class)
        if (seen[class]) {
            tui_glyph(cells, area, 0, column, (enum tui_style)(TUI_CLASS + class),
                      tui_class_letter(cells, class));
            column += 4 + tui_text(cells, area, 0, column + 2, TUI_DIM, tui_class_word(class));
        }
    if (area.columns - column > 42)
        tui_text(cells, area, 0, column, TUI_DIM, "small letter: less than half of the cell");
}

/* Draws one step of the result's timeline: head, scale, the critical path, a row for each track,
 * the spans of the selected track where there is room, and the legend. */
static void draw_step(struct tui_cells *cells, struct tui_rect area, const struct an_result *result,
                      const struct an_timeline_step *step, struct tui_view_state *state)
{
    int label = rep_clamp(area.columns / 4, 0, 20), share = area.columns >= 60 ? 6 : 0;
    struct tui_rect foot = tui_lower(area, area.rows > 6 ? area.rows - 1 : area.rows),
                    body = tui_upper(area, area.rows - foot.rows);
    struct window window = window_of(step, state, area.columns - label - share);
    bool path = has_path(step);
    if (window.columns < 1 || area.rows < 1)
        return;
    if (body.rows >= 3) {
        draw_head(cells, body, step, &window, state, result->timeline.step_count);
        draw_scale(cells, tui_right(tui_lower(body, 1), label), &window);
        body = tui_lower(body, 2);
    }
    if (path && body.rows > 1) {
        tui_text(cells, tui_left(body, label), 0, 0, TUI_CRITICAL_PATH, "path");
        draw_path(cells, tui_right(body, label), step, &window);
        body = tui_lower(body, 1);
    }
    int tracks = (int)step->track_count;
    bool details = state->open || body.rows - tracks >= 5;
    int room = details && tracks > (body.rows + 1) / 2 ? (body.rows + 1) / 2 : body.rows;
    tui_seek(state, tracks, track_holds, step);
    tui_state_clamp(state, tracks, room);
    state->page = room;
    int64_t slow = an_straggler_rank(&result->ranks);
    int row = 0;
    for (int index = state->top; index < tracks && row < room; index++, row++) {
        const struct an_timeline_track *track = &step->track[index];
        struct tui_rect line = tui_upper(tui_lower(body, row), 1);
        label_track(cells, tui_left(line, label - 1), step, (size_t)index, slow,
                    index == state->cursor);
        draw_track(cells, tui_left(tui_right(line, label), window.columns), track, &window,
                   tui_wrap(state->mode, MODES));
        if (share && step->ms > 0)
            tui_printf(cells, tui_right(line, area.columns - share), 0, 1, TUI_NORMAL, "%3.0f %%",
                       (double)track->busy_ns / step->ms / 1e4);
    }
    if (details && state->cursor >= 0 && state->cursor < tracks)
        draw_spans(cells, tui_lower(body, row), &step->track[state->cursor], &window,
                   state->search);
    if (foot.rows)
        draw_legend(cells, foot, step);
}

/* Draws the step that was chosen, or the reason why it is absent. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    const struct an_timeline *timeline = &result->timeline;
    if (timeline->reason || !timeline->step_count) {
        tui_absent(cells, area, 0, "No timeline",
                   timeline->reason ? timeline->reason : result->steps.reason);
        return;
    }
    draw_step(cells, area, result, &timeline->step[tui_wrap(state->span, timeline->step_count)],
              state);
}

const struct tui_view tui_view_timeline = {
    .key = '3',
    .name = "timeline",
    .brief = "time",
    .help = "a typical and the worst step, by track; the critical path",
    .keys = "[ ]     the typical, the worst step\n"
            "+ - 0   zoom in, out, all; left and right move\n"
            "m       letters for classes, heights for the busy share\n"
            "Enter   the ranges of the track under the cursor\n"
            "/       a track, by its name, its rank or the ranges on it\n",
    .texts = true,
    .draw = draw};

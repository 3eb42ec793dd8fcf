/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves of the overview: the steps with a baseline behind them and a mark where they changed, the
 * loss.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/views/overview.h"
#include "tui/views/step_change.h"

#define PLOT_LEAST 4 /* rows: figures, two of the curve with its labels, those of the x axis */

/* ---- steps ----------------------------------------------------------------------------------- */

/* Steps as they are tailed; of a file that has none of its own (an imported trace), those that the
 * analysis found. */
const struct an_step_point *tui_overview_points(const struct tui_model *model, size_t *count)
{
    bool tailed = model->step_count || !model->result;
    *count = tailed ? model->step_count : model->result->step_point_count;
    return tailed ? model->step : model->result->step_points;
}

/* Durations of the steps of the first rank in ns, in order, over their index from the first one on;
 * the caller frees `value`. Steps excluded from statistics are in the picture. */
static struct tui_samples step_durations(const struct an_step_point *step, size_t all, bool grows)
{
    size_t count = 0;
    double *ns = malloc((2 * all + 1) * sizeof *ns);
    if (!ns)
        return (struct tui_samples){0};
    double *index = ns + all;
    bool ascends = true;
    for (; count < all && step[count].rank == step[0].rank; count++) {
        ns[count] = (step[count].steps > 1 ? step[count].worst_ms : step[count].ms) * 1e6;
        index[count] = (double)(step[count].index - step[0].index);
        ascends = ascends && (!count || index[count] > index[count - 1]);
    }
    double end = (double)count;
    if (count && ascends)
        end = index[count - 1] + (double)step[count - 1].steps;
    return (struct tui_samples){ns, ascends ? index : NULL, count, 0, tui_slots(end, grows), end};
}

/* Writes "p50 1.07 s p95 1.12 s max 1.54 s @ 97" of the analysed steps; the slowest is that of all.
 */
static void step_statistics(const struct tui_model *model, char text[160])
{
    const struct an_steps *steps = model->result ? &model->result->steps : NULL;
    text[0] = 0;
    if (!steps || !steps->median_ms.valid)
        return;
    size_t used = (size_t)snprintf(text, 160, "p50 %s", TIME_TEXT(steps->median_ms.value * 1e6));
    if (steps->p95_ms.valid)
        used += (size_t)snprintf(text + used, 160 - used, "  p95 %s",
                                 TIME_TEXT(steps->p95_ms.value * 1e6));
    if (!steps->max_ms.valid)
        return;
    used +=
        (size_t)snprintf(text + used, 160 - used, "  max %s", TIME_TEXT(steps->max_ms.value * 1e6));
    size_t all;
    const struct an_step_point *step = tui_overview_points(model, &all);
    for (size_t i = 0; i < all; i++)
        if (!step[i].excluded &&
            fabs(step[i].worst_ms - steps->max_ms.value) < 1e-6 * steps->max_ms.value) {
            snprintf(text + used, 160 - used, " @ %" PRId64, step[i].index);
            return;
        }
}

static const char *step_text(char *buf, double step)
{
    snprintf(buf, 32, "%.0f", step);
    return buf;
}

/* What is drawn with a quantity besides itself: a baseline behind it, a mark where it changed. */
struct extras {
    const struct tui_samples *behind; /* NULL: none */
    double mark;                      /* place on the axis; NAN: none */
};

/* Draws as many whole figures as there is room for; "@ 97" belongs to the one before it, but may be
 * left out alone. */
static void draw_figures(struct tui_cells *cells, struct tui_rect area, const char *figures)
{
    char text[200];
    snprintf(text, sizeof text, "%s", figures);
    while (tui_width(cells, text) > area.columns) {
        char *end = text + strlen(text);
        while (end > text && strncmp(end, "  ", 2) != 0 && strncmp(end, " @", 2) != 0)
            end--;
        *end = 0;
    }
    tui_text(cells, area, 0, 0, TUI_NORMAL, text);
}

/* Draws the plot with its axes below a row of figures. */
static void draw_plot(struct tui_cells *cells, struct tui_rect area, const char *label,
                      const struct tui_samples *samples, const char *figures,
                      const char *(*text)(char *, double), enum tui_style style, struct tui_axis x,
                      struct tui_range range, struct extras extras)
{
    struct tui_range behind;
    int width = tui_text(cells, area, 0, 1, TUI_TITLE, label);
    draw_figures(cells, tui_right(area, 3 + width), figures);
    bool baseline =
        extras.behind && tui_range_of(extras.behind->value, extras.behind->count, &behind);
    if (baseline) {
        range.low = fmin(range.low, behind.low);
        range.high = fmax(range.high, behind.high);
    }
    struct tui_axis y = {.low = range.low, .high = range.high, .text = text};
    struct tui_plot plot = tui_plot_open(cells, tui_lower(area, 1), x, y);
    if (baseline)
        tui_plot_trend(&plot, extras.behind, INFINITY, TUI_DIM);
    tui_plot_trend(&plot, samples, range.limit, style);
    if (isfinite(extras.mark))
        tui_plot_mark(&plot, extras.mark, range.low, TUI_WARN,
                      cells->glyphs == TUI_ASCII ? '^' : 0x25b2);
}

/* A quantity over steps: a row of dots with figures at the right; where there is room, a plot with
 * axes under the figures. */
static void draw_trend(struct tui_cells *cells, struct tui_rect area, const char *label,
                       const struct tui_samples *samples, const char *figures,
                       const char *(*text)(char *, double), enum tui_style style, struct tui_axis x,
                       struct extras extras)
{
    struct tui_range range;
    if (!tui_range_of(samples->value, samples->count, &range))
        return;
    if (style !=
        TUI_SERIES) /* long steps are worth a spike; that a loss was high at first is not */
        range.limit = INFINITY;
    if (samples->high > samples->end)
        tui_range_settle(&range);
    if (area.rows >= PLOT_LEAST) {
        draw_plot(cells, area, label, samples, figures, text, style, x, range, extras);
        return;
    }
    int column = area.columns < 50 ? 6 : TUI_LABEL, right = tui_width(cells, figures) + 2;
    tui_text(cells, tui_left(area, column - 1), 0, area.columns < 50 ? 0 : 1, TUI_TITLE, label);
    char shown[160];
    snprintf(shown, sizeof shown, "%s", figures);
    while (column + right >
           area.columns / 2 +
               14) { /* the picture keeps half of the row: the last figures are dropped */
        char *last = NULL;
        for (char *p = strstr(shown, "  "); p; p = strstr(p + 2, "  "))
            last = p;
        if (last)
            *last = 0;
        right = last ? tui_width(cells, shown) + 2 : 0;
    }
    tui_trend(cells, tui_left(tui_right(area, column), area.columns - column - right), samples,
              range, style);
    if (right)
        tui_text(cells, tui_right(area, area.columns - right + 1), 0, 0, TUI_NORMAL, shown);
}

/* The steps of the first rank: how many there are of it. */
size_t tui_overview_first_rank(const struct an_step_point *step, size_t all)
{
    size_t count = 0;
    while (count < all && step[count].rank == step[0].rank)
        count++;
    return count;
}

/* Adds to the figures how the newest steps compare with the baseline. */
static void against_figures(const struct tui_model *model, char figures[160])
{
    const struct tui_against *against = model->against;
    bool live = model->state == TUI_LIVE || !model->result;
    double now = live || !model->result->steps.median_ms.valid
                     ? model->recent_ms
                     : model->result->steps.median_ms.value;
    if (!against || !(against->median_ms > 0))
        return;
    char rest[160];
    snprintf(rest, sizeof rest, "%s", figures);
    int used = snprintf(figures, 160, "against %s", TIME_TEXT(against->median_ms * 1e6));
    if (isfinite(now))
        used += snprintf(figures + used, 160 - (size_t)used, ": %+.0f %%",
                         100 * (now / against->median_ms - 1));
    snprintf(figures + used, 160 - (size_t)used, "  %.90s", rest);
}

/* Draws the durations of the steps with their statistics, or why there are no steps; behind them
 * those of the baseline, and a mark where they changed. */
void tui_overview_draw_steps(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    size_t all;
    char figures[160];
    struct tui_change change;
    const struct an_step_point *step = tui_overview_points(model, &all);
    struct tui_samples samples = step_durations(step, all, model->state == TUI_LIVE), behind;
    struct extras extras = {.mark = NAN};
    behind.value = NULL;
    if (samples.value && samples.count) {
        step_statistics(model, figures);
        against_figures(model, figures);
        if (model->against && model->against->step_count) {
            behind = step_durations(model->against->step, model->against->step_count, false);
            behind.low = samples.low;
            behind.high = samples.high;
            extras.behind = behind.value ? &behind : NULL;
        }
        if (tui_change_find(model, step, tui_overview_first_rank(step, all), &change))
            extras.mark = (double)change.index;
        struct tui_axis axis = {.low = (double)step[0].index,
                                .high = (double)step[0].index + samples.high,
                                .text = step_text,
                                .name = "step"};
        draw_trend(cells, area, "step", &samples, figures, page_time, TUI_SERIES, axis, extras);
    } else {
        const char *why = model->state == TUI_LIVE ? "no step has ended yet" : model->result_reason;
        if (model->result && model->result->steps.reason)
            why = model->result->steps.reason;
        tui_paragraph(cells, area, 0, 1, TUI_DIM, why);
    }
    free((void *)(uintptr_t)behind.value);
    free((void *)(uintptr_t)samples.value);
}

/* Draws when the step time changed, by how much, and what changed with it. */
void tui_overview_draw_change(struct tui_cells *cells, struct tui_rect area,
                              const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    size_t all;
    char text[200];
    struct tui_change change;
    bool plain = cells->glyphs == TUI_ASCII;
    const struct an_step_point *step = tui_overview_points(model, &all);
    if (!tui_change_find(model, step, tui_overview_first_rank(step, all), &change))
        return;
    enum tui_style style = change.after_ms > change.before_ms ? TUI_WARN : TUI_GOOD;
    tui_glyph(cells, area, 0, 1, style, plain ? '^' : 0x25b2);
    tui_text(cells, area, 0, 3, style,
             tui_change_text(&change, plain ? "->" : "\xe2\x86\x92", text));
}

/* Draws the loss over the time of the run, from its first to its newest value. */
void tui_overview_draw_loss(struct tui_cells *cells, struct tui_rect area,
                            const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    char figures[100];
    const struct tui_series *series = tui_model_series(model, "loss");
    if (!series || !series->count)
        return;
    snprintf(figures, sizeof figures, "%s \xe2\x86\x92 %s", NUMBER_TEXT(series->value[0]),
             NUMBER_TEXT(series->last));
    double end = series->time_s[series->count - 1] > 0 ? series->time_s[series->count - 1] : 1;
    struct tui_samples samples = {series->value,
                                  series->time_s,
                                  series->count,
                                  0,
                                  tui_slots(end, model->state == TUI_LIVE),
                                  end};
    struct tui_axis axis = {
        .low = 0, .high = samples.high, .text = tui_seconds, .name = "of the run"};
    draw_trend(cells, area, "loss", &samples, figures, page_number, TUI_SERIES + 1, axis,
               (struct extras){.mark = NAN});
}

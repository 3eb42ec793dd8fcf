/* SPDX-License-Identifier: Apache-2.0
 *
 * The first screen: how steps go, where their time goes, what to change; enough to know what holds
 * the run back.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/sections/tables.h"
#include "reports/words/compare.h"
#include "reports/words/phrase.h"
#include "tui/screen/draw.h"
#include "tui/views/overview.h"
#include "tui/views/view_list.h"

enum { CAUTION, TREND, LOSS, STEP, RULE_1, LINES, RULE_2, FINDINGS, TRUST, PANELS };

/* ---- steps ----------------------------------------------------------------------------------- */

/* Steps as they are tailed; of a file that has none of its own (an imported trace), those that the
 * analysis found. */
static const struct an_step_point *points_of(const struct tui_model *model, size_t *count)
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
    double *ns = malloc((2 * all + 1) * sizeof *ns), *index = ns + all;
    bool ascends = true;
    for (; ns && count < all && step[count].rank == step[0].rank; count++) {
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
    const struct an_step_point *step = points_of(model, &all);
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

/* A quantity over steps: a row of dots with figures at the right; where there is room, a plot with
 * axes under the figures. */
static void draw_trend(struct tui_cells *cells, struct tui_rect area, const char *label,
                       const struct tui_samples *samples, const char *figures,
                       const char *(*text)(char *, double), enum tui_style style, struct tui_axis x)
{
    struct tui_range range;
    if (!tui_range_of(samples->value, samples->count, &range))
        return;
    if (style !=
        TUI_SERIES) /* long steps are worth a spike; that a loss was high at first is not */
        range.limit = INFINITY;
    if (samples->high > samples->end)
        tui_range_settle(&range);
    if (area.rows >= 5) {
        int width = tui_text(cells, area, 0, 1, TUI_TITLE, label);
        tui_text(cells, area, 0, 3 + width, TUI_NORMAL, figures);
        struct tui_axis y = {.low = range.low, .high = range.high, .text = text};
        struct tui_plot p = tui_plot_open(cells, tui_lower(area, 1), x, y);
        tui_plot_trend(&p, samples, range.limit, style);
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

/* Draws the durations of the steps with their statistics, or why there are no steps. */
static void draw_steps(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    (void)state;
    size_t all;
    char figures[160];
    const struct an_step_point *step = points_of(model, &all);
    struct tui_samples samples = step_durations(step, all, model->state == TUI_LIVE);
    if (samples.value && samples.count) {
        step_statistics(model, figures);
        struct tui_axis axis = {.low = (double)step[0].index,
                                .high = (double)step[0].index + samples.high,
                                .text = step_text,
                                .name = "step"};
        draw_trend(cells, area, "step", &samples, figures, page_time, TUI_SERIES, axis);
    } else {
        tui_paragraph(cells, area, 0, 1, TUI_DIM,
                      model->result && model->result->steps.reason ? model->result->steps.reason
                                                                   : "no step has ended yet");
    }
    free((void *)(uintptr_t)samples.value);
}

/* Draws the loss over the time of the run, from its first to its newest value. */
static void draw_loss(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_view_state *state)
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
    draw_trend(cells, area, "loss", &samples, figures, page_number, TUI_SERIES + 1, axis);
}

/* ---- where a step goes ----------------------------------------------------------------------- */

/* The largest shares in ms, in rows below the bar where there is room. */
static void budget_rows(struct tui_cells *cells, struct tui_rect area,
                        const struct an_budget *budget)
{
    double pct[AN_CLASS_COUNT];
    tui_class_shares(budget, pct);
    double step_ns = budget->steps > 0 ? (double)budget->step_ns / (double)budget->steps : 0;
    int row = 0;
    AN_EACH_CLASS(class) {
        if (pct[class] <= 0 || row >= area.rows)
            continue;
        tui_glyph(cells, area, row, 1, (enum tui_style)(TUI_CLASS + class),
                  tui_class_letter(cells, class));
        tui_text(cells, tui_left(area, 34), row, 3, TUI_NORMAL,
                 an_class_label((enum an_class) class));
        tui_text_right(cells, tui_left(area, 45), row, TUI_NORMAL,
                       TIME_TEXT(step_ns * pct[class] / 100));
        tui_printf(cells, area, row, 46, TUI_NORMAL, "%5.1f %%", pct[class]);
        tui_bar(cells, area, row, 55, area.columns - 56, pct[class] / 100,
                (enum tui_style)(TUI_CLASS + class));
        row++;
    }
}

/* Counts the classes that have a share of a step. */
static int budget_classes(const struct tui_model *model)
{
    double pct[AN_CLASS_COUNT];
    int count = 0;
    if (!model->result)
        return 0;
    tui_class_shares(&model->result->budget, pct);
    AN_EACH_CLASS(class)
        count += pct[class] > 0;
    return count;
}

/* Draws where a step goes as one bar; below it the classes in ms where there is room, else a
 * legend. */
static void draw_budget(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    double pct[AN_CLASS_COUNT];
    const struct an_result *result = model->result;
    if (area.rows <= 0)
        return;
    if (!result || result->budget.reason) {
        const char *why = model->result_reason;
        if (result)
            why = rep_or(result->steps.reason, result->budget.reason);
        tui_absent(cells, area, 0, "Where a step goes", why);
        return;
    }
    int column = area.columns < 50 ? 6 : TUI_LABEL;
    tui_class_shares(&result->budget, pct);
    tui_text(cells, area, 0, area.columns < 50 ? 0 : 1, TUI_TITLE, "where");
    tui_class_bar(cells, area, 0, column, area.columns - column - 1, pct);
    if (area.rows > budget_classes(model) && area.rows > 2 && area.columns >= 64)
        budget_rows(cells, tui_lower(area, 1), &result->budget);
    else
        tui_class_legend(cells, tui_right(area, column < area.columns / 4 ? column : 0), 1,
                         area.rows - 1, pct);
}

/* ---- what to change -------------------------------------------------------------------------- */

/* Says what was looked for when nothing was found. */
static void draw_healthy(struct tui_cells *cells, struct tui_rect area,
                         const struct an_result *result)
{
    char text[1024];
    size_t used = 0;
    if (result->healthy)
        used = (size_t)snprintf(text, sizeof text,
                                "Healthy: nothing above 2 %% of a step was found. ");
    for (size_t i = 0; i < result->checked_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.100s",
                                 i ? "; " : "Looked at: ", result->checked[i]);
    for (size_t i = 0; i < result->not_checked_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.100s",
                                 i ? "; " : ". Not checked: ", result->not_checked[i].check);
    if (used)
        tui_paragraph(cells, area, 0, area.columns >= 50, result->healthy ? TUI_GOOD : TUI_NORMAL,
                      text);
}

#define ACTION_AT 20 /* column, after number and id; narrow: on a row of its own */
#define WIDE      60

/* Prints the gain, and returns the columns it takes with the blank before it. */
static int gain_columns(const struct tui_cells *cells, const struct an_finding *finding,
                        char gain[64])
{
    rep_gain_text(gain, 64, &finding->gain);
    return tui_width(cells, gain) + 1;
}

/* Rows that a finding takes in full: what to do, beside the gain, and the claim below. */
static int finding_rows(const struct tui_cells *cells, int columns,
                        const struct an_finding *finding)
{
    char gain[64];
    if (columns < WIDE)
        return 1 + tui_paragraph_rows(cells, columns - 3, finding->action);
    size_t next;
    tui_line_of(cells, finding->action,
                columns - gain_columns(cells, finding, gain) - 1 - ACTION_AT, &next);
    return 2 + tui_paragraph_rows(cells, columns - ACTION_AT - 1, finding->action + next);
}

/* Draws one finding: number, id and gain; what to do beside them or, on a narrow screen, below;
 * then the claim in the rows that are left. */
static void finding_row(struct tui_cells *cells, struct tui_rect area,
                        const struct an_finding *finding, size_t number)
{
    char gain[64];
    int column = tui_printf(cells, area, 0, 0, TUI_BOLD, "%2zu ", number),
        right = gain_columns(cells, finding, gain);
    column += tui_text(cells, area, 0, column, TUI_WARN, finding->id);
    if (area.columns - right > column + 2)
        tui_text(cells, tui_right(area, area.columns - right), 0, 0, TUI_GOOD, gain);
    if (area.columns < WIDE) {
        tui_paragraph(cells, area, 1, 3, TUI_NORMAL, finding->action);
        return;
    }
    int begin = column < ACTION_AT ? ACTION_AT : column + 1, used = 1;
    size_t next,
        length = tui_line_of(cells, finding->action, area.columns - right - 1 - begin, &next);
    if (area.rows > 1 && next) {
        tui_printf(cells, area, 0, begin, TUI_NORMAL, "%.*s", (int)length, finding->action);
        used += tui_paragraph(cells, tui_left(area, area.columns - 1), 1, ACTION_AT, TUI_NORMAL,
                              finding->action + next);
    } else {
        tui_text(cells, tui_left(area, area.columns - right - 1), 0, begin, TUI_NORMAL,
                 finding->action);
    }
    tui_paragraph(cells, tui_upper(area, used + 1), used, ACTION_AT, TUI_DIM, finding->claim);
}

/* Draws the findings. Rows that are left after one row for each go to the first ones. */
static void draw_findings(struct tui_cells *cells, struct tui_rect area,
                          const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    const struct an_result *result = model->result;
    if (!result || area.rows <= 0)
        return;
    if (!result->finding_count) {
        draw_healthy(cells, area, result);
        return;
    }
    int extra = area.rows - (int)result->finding_count,
        row = 0; /* the first ones get their rows first */
    for (size_t i = 0; i < result->finding_count && row < area.rows; i++) {
        int rows = finding_rows(cells, area.columns, &result->findings[i]);
        rows = 1 + rep_clamp(rows - 1, 0, extra);
        finding_row(cells, tui_upper(tui_lower(area, row), rows), &result->findings[i], i + 1);
        row += rows;
        extra -= rows - 1;
    }
}

/* Rows that all findings take together. */
static int findings_rows(const struct tui_cells *cells, int columns, const struct an_result *result)
{
    int rows = 0;
    for (size_t i = 0; result && i < result->finding_count; i++)
        rows += finding_rows(cells, columns, &result->findings[i]);
    return rows;
}

/* Draws the last line: how much was recorded and lost, the overhead, and which part of the run
 * was analysed. */
static void draw_trust(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    (void)state;
    char events[32];
    struct tui_line line = {cells, area, 0, 1, 1};
    if (area.rows <= 0)
        return;
    int64_t steps =
        !model->steps_seen && model->result ? model->result->steps.count : model->steps_seen;
    tui_item(&line, TUI_DIM, "%" PRId64 " %s", steps, REP_PLURAL(steps, "step", "steps"));
    if (model->result) {
        const struct an_trust *trust = &model->result->trust;
        page_si(events, (double)trust->events, "");
        tui_item(&line, TUI_DIM, "%s%sevents", events,
                 events[strlen(events) - 1] == ' ' ? "" : " ");
        if (trust->missing && trust->lost_pct.valid)
            tui_item(&line, TUI_BAD, "%.1f %% lost", trust->lost_pct.value);
        else if (trust->lost_events.valid)
            tui_item(&line, trust->lost_events.value ? TUI_BAD : TUI_DIM, "%" PRId64 " lost",
                     trust->lost_events.value);
        else
            tui_item(&line, TUI_WARN, "lost: unknown");
        if (trust->overhead_pct.valid)
            tui_item(&line, TUI_DIM, "overhead %.1f %%", trust->overhead_pct.value);
        else
            tui_item(&line, TUI_DIM, "%s",
                     model->state == TUI_LIVE ? "overhead unknown so far" : "overhead unknown");
    }
    if (!*rep_or(model->window, ""))
        return;
    if (model->result)
        tui_item(&line, TUI_DIM, "analysed: %.60s", model->window);
    else
        tui_item(&line, TUI_DIM, "not analysed");
}

/* Draws what makes the figures of this run doubtful. */
static void draw_caution(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    tui_paragraph(cells, area, 0, area.columns > 30, TUI_WARN, model->result->caution);
}

static void draw_lines(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    (void)state;
    tui_overview_draw_lines(cells, area, model);
}

static void draw_rule(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_view_state *state)
{
    (void)model;
    (void)state;
    tui_rule(cells, area, 0);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Lays out the panels of the first screen: caution, steps, loss, the budget of a step, lines
 * about what matters most for this run, findings, trust. Panels that this run has no data for
 * keep no rows. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = model->result;
    const struct tui_series *loss = tui_model_series(model, "loss");
    int classes = budget_classes(model), lines = tui_overview_lines(model);
    size_t points;
    points_of(model, &points);
    bool tall = area.rows >= 28, roomy = area.rows > 12;
    struct tui_panel panel[PANELS] = {
        [TREND] = {1, tall ? area.rows / 3 : 1, 90, draw_steps, {0}},
        [STEP] = {2, 2, 100, draw_budget, {0}},
        [RULE_1] = {lines && roomy, lines && roomy, 25, draw_rule, {0}},
        [LINES] = {lines > 0, lines, 70, draw_lines, {0}},
        [RULE_2] = {roomy, roomy, 20, draw_rule, {0}},
        [FINDINGS] = {1, 4, 95, draw_findings, {0}},
        [TRUST] = {1, 1, 50, draw_trust, {0}},
    };
    if (result && result->caution) {
        int columns = area.columns > 8 ? area.columns - 4 : 4;
        panel[CAUTION] = (struct tui_panel){
            1, 1 + tui_width(cells, result->caution) / columns, 97, draw_caution, {0}};
    }
    if (loss && loss->count)
        panel[LOSS] = (struct tui_panel){1, tall ? area.rows / 4 : 1, 60, draw_loss, {0}};
    if (tall && area.columns >= 64 && classes > 1)
        panel[STEP].most = 1 + classes;
    if (result && result->steps.reason && !points) { /* no steps: the reason takes their place */
        panel[TREND].most = tall ? area.rows / 3 : 4;
        panel[STEP].least = panel[STEP].most = 0;
    }
    if (result && result->finding_count) {
        panel[FINDINGS].least = 1 + rep_clamp((int)result->finding_count, 0, 3);
        panel[FINDINGS].most = findings_rows(cells, area.columns, result);
    }
    tui_panels_draw(cells, area, panel, PANELS, model, state);
}

const struct tui_view tui_view_overview = {
    .key = '1',
    .name = "overview",
    .brief = "over",
    .help = "step times, where their time goes, what to change",
    .keys = "Enter   the card of the first finding: why, how much, how to verify\n",
    .draw = draw};

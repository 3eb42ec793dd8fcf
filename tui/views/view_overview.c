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
#include "tui/views/step_change.h"
#include "tui/views/view_list.h"

enum { FIXES, CAUTION, CHANGE, TREND, LOSS, STEP, RULE_1, LINES, RULE_2, FINDINGS, TRUST, PANELS };

/* ---- where a step goes ----------------------------------------------------------------------- */

/* Draws where a step goes as one bar, with a legend. */
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

#define ACTION_LEAST 20 /* column of the action, after number and id; narrow: a row of its own */
#define WIDE         60
#define LOW          12 /* rows: up to here the findings come first */
#define MIDDLE       24

/* The column at which all actions begin: after the longest id. */
static int action_column(const struct an_result *result)
{
    int column = ACTION_LEAST;
    for (size_t i = 0; i < result->finding_count; i++) {
        int behind = 4 + (int)strlen(result->findings[i].id);
        if (!result->findings[i].repeats && behind > column)
            column = behind;
    }
    return column;
}

/* Prints the gain, and returns the columns it takes with the blank before it. */
static int gain_columns(const struct tui_cells *cells, const struct an_finding *finding,
                        char gain[64])
{
    rep_gain_text(gain, 64, &finding->gain);
    return tui_width(cells, gain) + 1;
}

/* Rows that a finding takes in full: what to do, beside the gain, and the claim below. */
static int finding_rows(const struct tui_cells *cells, int columns, int action,
                        const struct an_finding *finding)
{
    char gain[64];
    if (columns < WIDE)
        return 1 + tui_paragraph_rows(cells, columns - 3, finding->action);
    size_t next;
    tui_line_of(cells, finding->action, columns - gain_columns(cells, finding, gain) - 1 - action,
                &next);
    return 2 + tui_paragraph_rows(cells, columns - action - 1, finding->action + next);
}

/* Draws one finding: number, id and gain; what to do from the column `action` on or, on a narrow
 * screen, below; then the claim in the rows that are left. */
static void finding_row(struct tui_cells *cells, struct tui_rect area, int action,
                        const struct an_finding *finding, size_t number)
{
    char gain[64];
    int column = tui_printf(cells, area, 0, 0, TUI_BOLD, "%2zu ", number),
        right = gain_columns(cells, finding, gain);
    column += tui_text(cells, area, 0, column, TUI_WARN, finding->id);
    if (area.columns - right >= column)
        tui_text(cells, tui_right(area, area.columns - right + 1), 0, 0, TUI_GOOD, gain);
    if (area.columns < WIDE) {
        tui_paragraph(cells, area, 1, 3, TUI_NORMAL, finding->action);
        return;
    }
    int used = 1;
    size_t next,
        length = tui_line_of(cells, finding->action, area.columns - right - 1 - action, &next);
    if (area.rows > 1 && next) {
        tui_printf(cells, area, 0, action, TUI_NORMAL, "%.*s", (int)length, finding->action);
        used += tui_paragraph(cells, tui_left(area, area.columns - 1), 1, action, TUI_NORMAL,
                              finding->action + next);
    } else {
        tui_text(cells, tui_left(area, area.columns - right - 1), 0, action, TUI_NORMAL,
                 finding->action);
    }
    tui_paragraph(cells, tui_upper(area, used + 1), used, action, TUI_DIM, finding->claim);
}

/* How many findings are listed: all that do not repeat another one. */
static int findings_listed(const struct an_result *result)
{
    int listed = 0;
    for (size_t i = 0; i < result->finding_count; i++)
        listed += !result->findings[i].repeats;
    return listed;
}

/* Rows of a list of findings beyond one for each that it has room for. On a narrow screen, where
 * what to do is below the id, the first finding is whole before the second one has a row. */
static int extra_rows(const struct tui_cells *cells, struct tui_rect area,
                      const struct an_result *result, int action)
{
    int extra = area.rows - findings_listed(result);
    if (area.columns >= WIDE)
        return extra;
    int first = finding_rows(cells, area.columns, action, result->findings);
    return extra > first - 1 ? extra : first - 1;
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
    int action = action_column(result), extra = extra_rows(cells, area, result, action),
        row = 0; /* the first ones get their rows first */
    for (size_t i = 0; i < result->finding_count && row < area.rows; i++) {
        const struct an_finding *finding = &result->findings[i];
        if (finding->repeats)
            continue;
        int rows = finding_rows(cells, area.columns, action, finding);
        rows = 1 + rep_clamp(rows - 1, 0, extra);
        finding_row(cells, tui_upper(tui_lower(area, row), rows), action, finding, i + 1);
        row += rows;
        extra -= rows - 1;
    }
}

/* Rows that all findings take together. */
static int findings_rows(const struct tui_cells *cells, int columns, const struct an_result *result)
{
    int rows = 0, action = action_column(result);
    for (size_t i = 0; i < result->finding_count; i++)
        if (!result->findings[i].repeats)
            rows += finding_rows(cells, columns, action, &result->findings[i]);
    return rows;
}

/* Draws the last line: how much was recorded and lost, the overhead, and which part of the run
 * was analysed. */
static void draw_trust(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    (void)state;
    char events[32], overhead[60];
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
        if (rep_overhead_text(trust, overhead, sizeof overhead))
            tui_item(&line, TUI_DIM, "%s", overhead);
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
    if (model->pending)
        tui_item(&line, TUI_DIM, "the whole run follows");
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

enum shape {
    SHAPE_NARROW,
    SHAPE_TWO,
    SHAPE_LARGE,
    SHAPE_THREE
}; /* how many panels stand beside each other */

/* Which panels stand beside others at this size. */
static enum shape shape_of(struct tui_rect area)
{
    if (area.columns >= 170 && area.rows >= 34)
        return SHAPE_THREE;
    if (area.columns >= 110 && area.rows >= 24)
        return SHAPE_LARGE;
    return area.columns >= 76 && area.rows >= 15 ? SHAPE_TWO : SHAPE_NARROW;
}

/* Curves of steps and loss above each other. */
static void draw_curves(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, struct tui_view_state *state)
{
    const struct tui_series *loss = tui_model_series(model, "loss");
    bool both = loss && loss->count;
    struct tui_panel panel[] = {{1, area.rows, 90, tui_overview_draw_steps, {0}},
                                {both, both ? area.rows / 2 : 0, 60, tui_overview_draw_loss, {0}}};
    if (both && area.rows < 12)
        panel[1].most = 1;
    tui_panels_draw(cells, area, panel, 2, model, state);
}

static void draw_where(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    (void)state;
    tui_overview_draw_where(cells, area, model);
}

static void draw_machine(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    tui_overview_draw_curves(cells, area, model);
}

#define WHERE_LEAST 5 /* the title and the four largest parts */

/* Where the step goes, and below it curves of the machine. */
static void draw_side(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_view_state *state)
{
    int curves = tui_overview_curve_rows(model), where = tui_overview_where_rows(model);
    struct tui_panel panel[] = {{rep_clamp(where, 2, WHERE_LEAST), where, 100, draw_where, {0}},
                                {curves > 0, curves > 0, 10, NULL, {0}},
                                {curves ? 2 : 0, curves, 50, draw_machine, {0}}};
    tui_panels_draw(cells, area, panel, 3, model, state);
}

/* A column between panels beside each other, then the one at its right. */
static struct tui_rect beside(struct tui_cells *cells, struct tui_rect area, int column)
{
    for (int row = 0; row < area.rows; row++)
        tui_glyph(cells, area, row, column - 2, TUI_DIM, cells->glyphs == TUI_ASCII ? '|' : 0x2502);
    return tui_right(area, column);
}

/* The upper part of a screen that is wide enough: curves, where the step goes, on the widest one
 * also what to change. */
static void draw_upper(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    bool widest = area.columns >= 170;
    int left = area.columns * (area.columns >= 110 ? 58 : 54) / 100;
    if (widest)
        left = area.columns * 42 / 100;
    draw_curves(cells, tui_left(area, left - 3), model, state);
    struct tui_rect rest = beside(cells, area, left);
    if (!widest) {
        draw_side(cells, rest, model, state);
        return;
    }
    int middle = rest.columns / 2;
    draw_side(cells, tui_left(rest, middle - 3), model, state);
    rest = beside(cells, rest, middle);
    tui_text(cells, rest, 0, 0, TUI_TITLE, "what to change");
    draw_findings(cells, tui_lower(rest, 1), model, state);
}

/* A warning about the figures takes the rows of its text, of which the view `trust` has all; on a
 * screen of middle height at most two. A change of pace takes one. */
static void notes(const struct tui_cells *cells, struct tui_rect area,
                  const struct tui_model *model, struct tui_panel *panel)
{
    size_t all;
    struct tui_change change;
    const struct an_result *result = model->result;
    const struct an_step_point *step = tui_overview_points(model, &all);
    if (result && rep_shows_caution(result)) {
        int rows = tui_paragraph_rows(cells, area.columns - 1, result->caution);
        int most = area.rows > MIDDLE ? rows : rep_clamp(rows, 1, 2);
        panel[CAUTION] = (struct tui_panel){1, most, 97, draw_caution, {0}};
    }
    if (tui_change_find(model, step, tui_overview_first_rank(step, all), &change))
        panel[CHANGE] = (struct tui_panel){1, 1, 96, tui_overview_draw_change, {0}};
}

/* The findings: after the rest where there is room. On a low screen they come right below the
 * verdict, and the first of them stays longer than what makes the figures doubtful; three rows are
 * left for that and for where the step goes. */
static void place_findings(const struct tui_cells *cells, struct tui_rect area,
                           const struct an_result *result, struct tui_panel *panel)
{
    int most = findings_rows(cells, area.columns, result), others = findings_listed(result) - 1;
    if (area.rows > LOW) {
        panel[FINDINGS].least = 1 + rep_clamp(others + 1, 0, 3);
        panel[FINDINGS].most = most;
        return;
    }
    int first = finding_rows(cells, area.columns, action_column(result), result->findings);
    int least = rep_clamp(first + others, 1, area.rows > 5 ? area.rows - 3 : 2);
    panel[FIXES] = (struct tui_panel){least, most, 101, draw_findings, {0}};
    panel[FINDINGS].least = panel[FINDINGS].most = 0;
}

/* Lays out the panels of the first screen: caution, change of pace, steps, loss, the budget of a
 * step, lines about what matters most for this run, findings, trust. A wide screen has some of them
 * beside each other, a low one the findings at its top. Panels that this run has no data for keep
 * no rows. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = model->result;
    const struct tui_series *loss = tui_model_series(model, "loss");
    enum shape shape = shape_of(area);
    int lines = tui_overview_lines(model), where = tui_overview_where_rows(model);
    size_t points;
    tui_overview_points(model, &points);
    bool roomy = area.rows > LOW, none = result && result->steps.reason && !points;
    struct tui_panel panel[PANELS] = {
        [TREND] = {1, 1, 90, tui_overview_draw_steps, {0}},
        [STEP] = {2, 2, 100, draw_budget, {0}},
        [RULE_1] = {lines && roomy, lines && roomy, 25, draw_rule, {0}},
        [LINES] = {lines > 0, lines, 70, draw_lines, {0}},
        [RULE_2] = {roomy, roomy, 20, draw_rule, {0}},
        [FINDINGS] = {1, 4, 95, draw_findings, {0}},
        [TRUST] = {1, 1, 50, draw_trust, {0}},
    };
    notes(cells, area, model, panel);
    if (loss && loss->count && shape == SHAPE_NARROW)
        panel[LOSS] = (struct tui_panel){1, 1, 60, tui_overview_draw_loss, {0}};
    if (none) { /* no steps: the reason takes their place */
        panel[TREND].most = area.rows >= 28 ? area.rows / 3 : 4;
        panel[STEP].least = panel[STEP].most = 0;
    } else if (shape != SHAPE_NARROW) {
        int least = rep_clamp(where, 5, shape == SHAPE_TWO ? 6 : area.rows / 3);
        int most = shape == SHAPE_THREE ? area.rows : area.rows * 2 / 3;
        panel[TREND] = (struct tui_panel){least, most, 100, draw_upper, {0}};
        panel[STEP].least = panel[STEP].most = 0;
    }
    if (result && result->finding_count)
        place_findings(cells, area, result, panel);
    if (shape == SHAPE_THREE && !none)
        panel[RULE_2].least = panel[RULE_2].most = panel[FINDINGS].least = panel[FINDINGS].most = 0;
    tui_panels_draw(cells, area, panel, PANELS, model, state);
}

const struct tui_view tui_view_overview = {
    .key = '1',
    .name = "overview",
    .brief = "over",
    .help = "step times, where their time goes, what to change",
    .keys = "Enter   the card of the first finding: why, how much, how to verify\n",
    .draw = draw};

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
#include "tui/draw.h"
#include "tui/views/overview.h"
#include "tui/views/views.h"

enum { CAUTION, TREND, LOSS, STEP, RULE_1, LINES, RULE_2, FINDINGS, TRUST, PANELS };

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

/* Steps as they are tailed; of a file that has none of its own (an imported trace), those that the
 * analysis found. */
static const struct an_step_point *points_of(const struct tui_model *m, size_t *count)
{
    bool tailed = m->step_count || !m->r;
    *count = tailed ? m->step_count : m->r->step_point_count;
    return tailed ? m->step : m->r->step_points;
}

/* Durations of the steps of the first rank in ns, in order, over their index from the first one on;
 * the caller frees `value`. Steps left out of statistics are in the picture. */
static struct tui_samples durations(const struct an_step_point *step, size_t all, bool grows)
{
    size_t n = 0;
    double *ns = malloc((2 * all + 1) * sizeof *ns), *x = ns + all;
    bool ascends = true;
    for (; ns && n < all && step[n].rank == step[0].rank; n++) {
        ns[n] = (step[n].steps > 1 ? step[n].worst_ms : step[n].ms) * 1e6;
        x[n] = (double)(step[n].index - step[0].index);
        ascends = ascends && (!n || x[n] > x[n - 1]);
    }
    double end = !n ? 0 : ascends ? x[n - 1] + (double)step[n - 1].steps : (double)n;
    return (struct tui_samples){ns, ascends ? x : NULL, n, 0, tui_slots(end, grows), end};
}

/* "p50 1.07 s  p95 1.12 s  max 1.54 s @ 97": of the analysed steps; of all steps the slowest. */
static void statistics(const struct tui_model *m, char text[160])
{
    char a[32], b[32], c[32];
    const struct an_steps *s = m->r ? &m->r->steps : NULL;
    text[0] = 0;
    if (!s || !s->median_ms.valid)
        return;
    size_t used = (size_t)snprintf(text, 160, "p50 %s", page_time(a, s->median_ms.value * 1e6));
    if (s->p95_ms.valid)
        used += (size_t)snprintf(text + used, 160 - used, "  p95 %s",
                                 page_time(b, s->p95_ms.value * 1e6));
    if (!s->max_ms.valid)
        return;
    used +=
        (size_t)snprintf(text + used, 160 - used, "  max %s", page_time(c, s->max_ms.value * 1e6));
    size_t all;
    const struct an_step_point *step = points_of(m, &all);
    for (size_t i = 0; i < all; i++)
        if (!step[i].excluded &&
            fabs(step[i].worst_ms - s->max_ms.value) < 1e-6 * s->max_ms.value) {
            snprintf(text + used, 160 - used, " @ %" PRId64, step[i].index);
            return;
        }
}

static const char *step_text(char *buf, double v)
{
    snprintf(buf, 32, "%.0f", v);
    return buf;
}

/* A quantity over steps: a row of dots with figures at the right; where there is room, a plot with
 * axes under the figures. */
static void trend(struct tui_cells *c, struct tui_rect r, const char *label,
                  const struct tui_samples *v, const char *figures,
                  const char *(*text)(char *, double), enum tui_style style, struct tui_axis x)
{
    struct tui_range g;
    if (!tui_range_of(v->value, v->count, &g))
        return;
    if (style != TUI_SERIES) /* of steps long ones are news; that a loss was high at first is none:
                                it is cut off there */
        g.limit = INFINITY;
    if (v->high > v->end)
        tui_range_settle(&g);
    if (r.rows >= 5) {
        int w = tui_text(c, r, 0, 1, TUI_TITLE, label);
        tui_text(c, r, 0, 3 + w, TUI_NORMAL, figures);
        struct tui_axis y = {.low = g.low, .high = g.high, .text = text};
        struct tui_plot p = tui_plot_open(c, tui_lower(r, 1), x, y);
        tui_plot_trend(&p, v, g.limit, style);
        return;
    }
    int column = r.columns < 50 ? 6 : TUI_LABEL, right = tui_width(c, figures) + 2;
    tui_text(c, tui_left(r, column - 1), 0, r.columns < 50 ? 0 : 1, TUI_TITLE, label);
    char shown[160];
    snprintf(shown, sizeof shown, "%s", figures);
    while (column + right >
           r.columns / 2 + 14) { /* the picture keeps its half: the last figures go */
        char *last = NULL;
        for (char *p = strstr(shown, "  "); p; p = strstr(p + 2, "  "))
            last = p;
        if (last)
            *last = 0;
        right = last ? tui_width(c, shown) + 2 : 0;
    }
    tui_trend(c, tui_left(tui_right(r, column), r.columns - column - right), v, g, style);
    if (right)
        tui_text(c, tui_right(r, r.columns - right + 1), 0, 0, TUI_NORMAL, shown);
}

static void draw_steps(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    (void)s;
    size_t all;
    char figures[160];
    const struct an_step_point *step = points_of(m, &all);
    struct tui_samples v = durations(step, all, m->state == TUI_LIVE);
    if (v.value && v.count) {
        statistics(m, figures);
        struct tui_axis x = {.low = (double)step[0].index,
                             .high = (double)step[0].index + v.high,
                             .text = step_text,
                             .name = "step"};
        trend(c, r, "step", &v, figures, page_time, TUI_SERIES, x);
    } else {
        tui_paragraph(c, r, 0, 1, TUI_DIM,
                      m->r && m->r->steps.reason ? m->r->steps.reason : "no step has ended yet");
    }
    free((void *)(uintptr_t)v.value);
}

static void draw_loss(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                      struct tui_view_state *state)
{
    (void)state;
    char figures[100], last[32], first[32];
    const struct tui_series *s = tui_model_series(m, "loss");
    if (!s || !s->count)
        return;
    snprintf(figures, sizeof figures, "%s \xe2\x86\x92 %s", page_number(first, s->value[0]),
             page_number(last, s->last));
    double end = s->time_s[s->count - 1] > 0 ? s->time_s[s->count - 1] : 1;
    struct tui_samples v = {s->value, s->time_s, s->count, 0, tui_slots(end, m->state == TUI_LIVE),
                            end};
    struct tui_axis x = {.low = 0, .high = v.high, .text = tui_seconds, .name = "of the run"};
    trend(c, r, "loss", &v, figures, page_number, TUI_SERIES + 1, x);
}

/* ---- where a step goes -------------------------------------------------------------------------------------------------------- */

/* The largest shares in ms, in rows below the bar where there is room. */
static void budget_rows(struct tui_cells *c, struct tui_rect r, const struct an_budget *b)
{
    double pct[AN_CLASS_COUNT];
    tui_class_shares(b, pct);
    double step_ns = b->steps > 0 ? (double)b->step_ns / (double)b->steps : 0;
    int row = 0;
    for (int k = 0; k < AN_CLASS_COUNT; k++) {
        char time[32];
        if (pct[k] <= 0 || row >= r.rows)
            continue;
        tui_glyph(c, r, row, 1, (enum tui_style)(TUI_CLASS + k), tui_class_letter(c, k));
        tui_text(c, tui_left(r, 34), row, 3, TUI_NORMAL, an_class_label((enum an_class)k));
        tui_text_right(c, tui_left(r, 45), row, TUI_NORMAL,
                       page_time(time, step_ns * pct[k] / 100));
        tui_printf(c, r, row, 46, TUI_NORMAL, "%5.1f %%", pct[k]);
        tui_bar(c, r, row, 55, r.columns - 56, pct[k] / 100, (enum tui_style)(TUI_CLASS + k));
        row++;
    }
}

static int budget_classes(const struct tui_model *m)
{
    double pct[AN_CLASS_COUNT];
    int n = 0;
    if (!m->r)
        return 0;
    tui_class_shares(&m->r->budget, pct);
    for (int k = 0; k < AN_CLASS_COUNT; k++)
        n += pct[k] > 0;
    return n;
}

static void draw_budget(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                        struct tui_view_state *s)
{
    (void)s;
    double pct[AN_CLASS_COUNT];
    const struct an_result *result = m->r;
    if (r.rows <= 0)
        return;
    if (!result || result->budget.reason) {
        const char *why = !result                ? m->r_reason
                          : result->steps.reason ? result->steps.reason
                                                 : result->budget.reason;
        tui_absent(c, r, 0, "Where a step goes", why);
        return;
    }
    int column = r.columns < 50 ? 6 : TUI_LABEL;
    tui_class_shares(&result->budget, pct);
    tui_text(c, r, 0, r.columns < 50 ? 0 : 1, TUI_TITLE, "where");
    tui_class_bar(c, r, 0, column, r.columns - column - 1, pct);
    if (r.rows > budget_classes(m) && r.rows > 2 && r.columns >= 64)
        budget_rows(c, tui_lower(r, 1), &result->budget);
    else
        tui_class_legend(c, tui_right(r, column < r.columns / 4 ? column : 0), 1, r.rows - 1, pct);
}

/* ---- what to change ------------------------------------------------------------------------------------------------------------ */

static void healthy(struct tui_cells *c, struct tui_rect r, const struct an_result *result)
{
    char text[1024];
    size_t used = 0;
    if (result->healthy)
        used = (size_t)snprintf(text, sizeof text,
                                "Healthy: nothing above 2 %% of a step was found. ");
    for (size_t i = 0; i < result->checked_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.100s",
                                 i ? "; " : "Looked for: ", result->checked[i]);
    if (used)
        tui_paragraph(c, r, 0, r.columns < 50 ? 0 : 1, result->healthy ? TUI_GOOD : TUI_NORMAL,
                      text);
}

#define ACTION_AT 20 /* column, behind number and id; narrow: on a row of its own */
#define WIDE      60

static int gain_columns(const struct tui_cells *c, const struct an_finding *f, char gain[64])
{
    rep_gain_text(gain, 64, &f->gain);
    return tui_width(c, gain) + 1;
}

/* Rows of all that is to be said: what to do, beside the gain, and the claim below. */
static int finding_rows(const struct tui_cells *c, int columns, const struct an_finding *f)
{
    char gain[64];
    if (columns < WIDE)
        return 1 + tui_paragraph_rows(c, columns - 3, f->action);
    size_t next;
    tui_line_of(c, f->action, columns - gain_columns(c, f, gain) - 1 - ACTION_AT, &next);
    return 2 + tui_paragraph_rows(c, columns - ACTION_AT - 1, f->action + next);
}

static void finding_row(struct tui_cells *c, struct tui_rect r, const struct an_finding *f,
                        size_t number)
{
    char gain[64];
    int column = tui_printf(c, r, 0, 0, TUI_BOLD, "%2zu ", number),
        right = gain_columns(c, f, gain);
    column += tui_text(c, r, 0, column, TUI_WARN, f->id);
    if (r.columns - right > column + 2)
        tui_text(c, tui_right(r, r.columns - right), 0, 0, TUI_GOOD, gain);
    if (r.columns < WIDE) {
        tui_paragraph(c, r, 1, 3, TUI_NORMAL, f->action);
        return;
    }
    int at = column < ACTION_AT ? ACTION_AT : column + 1, used = 1;
    size_t next, length = tui_line_of(c, f->action, r.columns - right - 1 - at, &next);
    if (r.rows > 1 && next) {
        tui_printf(c, r, 0, at, TUI_NORMAL, "%.*s", (int)length, f->action);
        used += tui_paragraph(c, tui_left(r, r.columns - 1), 1, ACTION_AT, TUI_NORMAL,
                              f->action + next);
    } else {
        tui_text(c, tui_left(r, r.columns - right - 1), 0, at, TUI_NORMAL, f->action);
    }
    tui_paragraph(c, tui_upper(r, used + 1), used, ACTION_AT, TUI_DIM, f->claim);
}

static void draw_findings(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                          struct tui_view_state *s)
{
    (void)s;
    const struct an_result *result = m->r;
    if (!result || r.rows <= 0)
        return;
    if (!result->finding_count) {
        healthy(c, r, result);
        return;
    }
    int extra = r.rows - (int)result->finding_count,
        row = 0; /* the first one says all it has to say first */
    for (size_t i = 0; i < result->finding_count && row < r.rows; i++) {
        int rows = finding_rows(c, r.columns, &result->findings[i]);
        rows = rows - 1 < extra ? rows : extra > 0 ? 1 + extra : 1;
        finding_row(c, tui_upper(tui_lower(r, row), rows), &result->findings[i], i + 1);
        row += rows;
        extra -= rows - 1;
    }
}

/* Rows that all findings take together. */
static int findings_rows(const struct tui_cells *c, int columns, const struct an_result *result)
{
    int rows = 0;
    for (size_t i = 0; result && i < result->finding_count; i++)
        rows += finding_rows(c, columns, &result->findings[i]);
    return rows;
}

static void draw_trust(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    (void)s;
    char n[32];
    struct tui_line l = {c, r, 0, 1, 1};
    if (r.rows <= 0)
        return;
    int64_t steps = !m->steps_seen && m->r ? m->r->steps.count : m->steps_seen;
    tui_item(&l, TUI_DIM, "%" PRId64 " %s", steps, steps == 1 ? "step" : "steps");
    if (m->r) {
        const struct an_trust *t = &m->r->trust;
        page_si(n, (double)t->events, "");
        tui_item(&l, TUI_DIM, "%s%sevents", n, n[strlen(n) - 1] == ' ' ? "" : " ");
        if (t->lost_events.valid)
            tui_item(&l, t->lost_events.value ? TUI_BAD : TUI_DIM, "%" PRId64 " lost",
                     t->lost_events.value);
        else
            tui_item(&l, TUI_WARN, "lost: not known");
        if (t->overhead_pct.valid)
            tui_item(&l, TUI_DIM, "overhead %.1f %%", t->overhead_pct.value);
        else
            tui_item(&l, TUI_DIM, "%s",
                     m->state == TUI_LIVE ? "overhead not known yet" : "overhead not known");
    }
    if (m->window && *m->window)
        tui_item(&l, TUI_DIM, "%s%.60s", m->r ? "analysed: " : "not analysed",
                 m->r ? m->window : "");
}

/* What makes the run a bad witness. */
static void draw_caution(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                         struct tui_view_state *s)
{
    (void)s;
    tui_paragraph(c, r, 0, r.columns > 30, TUI_WARN, m->r->caution);
}

static void draw_lines(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    (void)s;
    tui_overview_draw_lines(c, r, m);
}

static void draw_rule(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                      struct tui_view_state *s)
{
    (void)m;
    (void)s;
    tui_rule(c, r, 0);
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------ */

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = m->r;
    const struct tui_series *loss = tui_model_series(m, "loss");
    int findings = result ? (int)result->finding_count : 0, classes = budget_classes(m),
        lines = tui_overview_lines(m);
    int caution = result && result->caution
                      ? 1 + tui_width(c, result->caution) / (r.columns > 8 ? r.columns - 4 : 4)
                      : 0;
    size_t points;
    points_of(m, &points);
    bool tall = r.rows >= 28, no_steps = result && result->steps.reason && !points;
    struct tui_panel panel[PANELS] = {
        [CAUTION] = {caution > 0, caution, 97, draw_caution, {0}},
        [TREND] = {1,
                   tall       ? r.rows / 3
                   : no_steps ? 4
                              : 1,
                   90,
                   draw_steps,
                   {0}},
        [LOSS] = {loss && loss->count,
                  loss && loss->count ? tall ? r.rows / 4 : 1 : 0,
                  60,
                  draw_loss,
                  {0}},
        [STEP] = {no_steps ? 0 : 2,
                  no_steps                                 ? 0
                  : tall && r.columns >= 64 && classes > 1 ? 1 + classes
                                                           : 2,
                  100,
                  draw_budget,
                  {0}},
        [RULE_1] = {lines && r.rows > 12, lines && r.rows > 12, 25, draw_rule, {0}},
        [LINES] = {lines > 0, lines, 70, draw_lines, {0}},
        [RULE_2] = {r.rows > 12, r.rows > 12, 20, draw_rule, {0}},
        [FINDINGS] = {findings ? 1 + (findings < 3 ? findings : 3) : 1,
                      findings ? findings_rows(c, r.columns, result) : 4,
                      95,
                      draw_findings,
                      {0}},
        [TRUST] = {1, 1, 50, draw_trust, {0}},
    };
    tui_panels_draw(c, r, panel, PANELS, m, s);
}

const struct tui_view tui_view_overview = {
    .key = '1',
    .name = "overview",
    .brief = "over",
    .help = "how steps go, where their time goes, what to change",
    .keys = "Enter   the card of the first finding: why, how much, how to verify\n",
    .draw = draw};

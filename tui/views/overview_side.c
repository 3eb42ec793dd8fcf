/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels of the overview for screens that are wide enough to have some beside others: where the
 * step goes as rows, curves of the machine, ranks with the slow one named.
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

/* Columns of a row of the step: its label on a narrow panel, the two figures, the least bar beside
 * whole labels. */
#define LABEL_LEAST 13
#define FIGURES     18
#define BAR_LEAST   8

/* ---- where a step goes ----------------------------------------------------------------------- */

int tui_overview_where_rows(const struct tui_model *model)
{
    struct rep_share_row row[REP_STEP_ROWS];
    double step_ms;
    return model->result ? 1 + (int)rep_step_rows(model->result, row, &step_ms) : 1;
}

/* Is it time that no computing takes? Where that is much, its row is a warning. */
static bool is_loss(const char *label)
{
    static const char *const losses[] = {"data wait", "exposed communication", "exposed copies",
                                         "pipeline bubble"};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (!strcmp(label, losses[i]))
            return true;
    return false;
}

/* A label for LABEL_LEAST columns, of those that are longer. */
static const char *brief_label(const char *label)
{
    static const char *const briefs[][2] = {{"exposed communication", "exposed comm"},
                                            {"exposed copies", "copies"},
                                            {"pipeline bubble", "bubble"},
                                            {"host: launches, framework, waits", "host"},
                                            {"in ranges without a declared role", "in ranges"}};
    for (size_t i = 0; i < sizeof briefs / sizeof *briefs; i++)
        if (!strcmp(label, briefs[i][0]))
            return briefs[i][1];
    return label;
}

/* Columns for the labels with the blank after them: the longest one beside which a bar has room. */
static int label_columns(const struct rep_share_row *row, size_t count, int columns)
{
    int longest = LABEL_LEAST;
    for (size_t i = 0; i < count; i++) {
        int label = (int)strlen(row[i].label) + 1;
        if (label > longest && label + FIGURES + BAR_LEAST <= columns)
            longest = label;
    }
    return longest;
}

void tui_overview_draw_where(struct tui_cells *cells, struct tui_rect area,
                             const struct tui_model *model)
{
    struct rep_share_row row[REP_STEP_ROWS];
    double step_ms = 0;
    size_t count = model->result ? rep_step_rows(model->result, row, &step_ms) : 0;
    if (area.rows <= 0)
        return;
    if (!count) {
        const char *why = model->result_reason;
        if (model->result)
            why = rep_or(model->result->steps.reason, model->result->budget.reason);
        tui_absent(cells, area, 0, "Where a step goes", why);
        return;
    }
    tui_text(cells, area, 0, 0, TUI_TITLE, "where a step goes");
    tui_text_right(cells, area, 0, TUI_DIM, TIME_TEXT(step_ms * 1e6));
    int label = label_columns(row, count, area.columns), bar = label + FIGURES;
    for (int i = 0; i < (int)count && i + 1 < area.rows; i++) {
        enum tui_style style = is_loss(row[i].label) && row[i].pct >= 10 ? TUI_WARN : TUI_NORMAL;
        bool whole = (int)strlen(row[i].label) < label;
        tui_text(cells, tui_left(area, label), i + 1, 0, style,
                 whole ? row[i].label : brief_label(row[i].label));
        tui_text_right(cells, tui_left(area, label + 9), i + 1, style, TIME_TEXT(row[i].ms * 1e6));
        tui_printf(cells, area, i + 1, label + 10, style, "%5.1f %%", row[i].pct);
        if (area.columns > bar + 4)
            tui_bar(cells, area, i + 1, bar, area.columns - bar, row[i].pct / 100, style);
    }
}

/* ---- ranks ----------------------------------------------------------------------------------- */

bool tui_overview_has_ranks(const struct tui_model *model)
{
    return model->result && !model->result->ranks.reason && model->result->ranks.row_count > 1;
}

/* The rank that the others wait for, else the one with the longest own time. */
static const struct an_rank_row *slowest(const struct an_ranks *ranks)
{
    const struct an_rank_row *most = NULL;
    for (size_t i = 0; i < ranks->row_count; i++) {
        const struct an_rank_row *row = &ranks->row[i];
        if (ranks->straggler.count && row->rank == ranks->straggler.rank)
            return row;
        if (row->own_ms.valid && (!most || row->own_ms.value > most->own_ms.value))
            most = row;
    }
    return most;
}

/* A column for each rank, or for neighbours the longest of them, so that no outlier disappears; and
 * the slow rank by its number. */
void tui_overview_rank_items(struct tui_line *line, const struct tui_model *model)
{
    const struct an_ranks *ranks = &model->result->ranks;
    const struct an_rank_row *most = slowest(ranks);
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < ranks->row_count; i++)
        if (ranks->row[i].own_ms.valid) {
            low = fmin(low, ranks->row[i].own_ms.value);
            high = fmax(high, ranks->row[i].own_ms.value);
        }
    if (most && most->own_ms.valid)
        tui_item(line, ranks->straggler.count ? TUI_WARN : TUI_NORMAL, "%s rank %" PRId64 " %s",
                 ranks->straggler.count ? "slow:" : "longest:", most->rank,
                 TIME_TEXT(most->own_ms.value * 1e6));
    if (most && most->excess_pct.valid && ranks->straggler.count)
        tui_item(line, TUI_WARN, "%+.0f %%", most->excess_pct.value);
    if (ranks->frontier.stage < AN_STAGE_COUNT && !ranks->frontier.reason && most &&
        ranks->frontier.rank == most->rank)
        tui_item(line, TUI_NORMAL, "in %s", an_stage_key(ranks->frontier.stage));
    int columns = (int)ranks->row_count < 32 ? (int)ranks->row_count : 32, column = -1;
    for (; high > 0 && column < 0 && columns >= 4; columns -= column < 0 ? 2 : 0)
        column = tui_item_room(line, columns);
    double floor = low - (high - low) / 7; /* the shortest is still seen */
    for (int i = 0; column >= 0 && i < columns; i++) {
        size_t first = (size_t)i * ranks->row_count / (size_t)columns,
               end = (size_t)(i + 1) * ranks->row_count / (size_t)columns;
        double value = 0;
        bool named = false;
        for (size_t k = first; k < end; k++) {
            value = fmax(value, ranks->row[k].own_ms.valid ? ranks->row[k].own_ms.value : 0);
            named |= most == &ranks->row[k];
        }
        tui_level(line->cells, line->area, line->row, column + i,
                  high > floor ? (value - floor) / (high - floor) : 1,
                  named && ranks->straggler.count ? TUI_WARN : TUI_NORMAL);
    }
    tui_item(line, TUI_DIM, "%" PRId64 " ranks, own time", model->result->run.ranks);
}

/* ---- curves ---------------------------------------------------------------------------------- */

static const char *const curves[] = {"cpu_busy", "cpu_time", "queue_depth", "rss", "disk_read"};
#define CURVES (sizeof curves / sizeof *curves)

int tui_overview_curve_rows(const struct tui_model *model)
{
    int count = 0;
    for (size_t i = 0; i < CURVES; i++)
        count += tui_model_series(model, curves[i]) != NULL;
    return count ? count + 1 : 0;
}

void tui_overview_draw_curves(struct tui_cells *cells, struct tui_rect area,
                              const struct tui_model *model)
{
    int row = 1;
    if (area.rows <= 0)
        return;
    tui_text(cells, area, 0, 0, TUI_TITLE, "machine and loader");
    for (size_t i = 0; i < CURVES && row < area.rows; i++) {
        const struct tui_series *series = tui_model_series(model, curves[i]);
        struct tui_curve curve;
        if (!series || !tui_curve_of(model, series, &curve))
            continue;
        tui_curve_owner(model, series, &curve);
        tui_curve_row(cells, area, row++, &curve);
        free(curve.value);
    }
}

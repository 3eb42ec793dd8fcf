/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: does the step wait for it, what a batch costs, how busy the workers are, how
 * full the queue.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/words/compare.h"
#include "store/store.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

enum { WORDS, STAGES, WORKERS, QUEUE, PANELS };

/* A bar for each stage of a batch, beside what one step needs. */
static void draw_stages(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, struct tui_view_state *state)
{
    const struct an_loader *loader = &model->result->loader;
    (void)state;
    double most = 0;
    int row = 1, label = area.columns < 60 ? 12 : 20, right = 12;
    for (size_t i = 0; i < loader->stage_count; i++)
        if (loader->stages[i].ms_per_batch.valid && strcmp(loader->stages[i].name, "queue_wait"))
            most = fmax(most, loader->stages[i].ms_per_batch.value);
    tui_text(cells, area, 0, 0, TUI_TITLE, "Stages, time per batch");
    for (size_t i = 0; i < loader->stage_count && row < area.rows; i++, row++) {
        const struct an_stage *stage = &loader->stages[i];
        bool idle = !strcmp(stage->name, "queue_wait"); /* waits for room: costs nothing */
        tui_text(cells, tui_left(area, label - 1), row, 1, TUI_NORMAL,
                 idle ? "wait for room" : stage->name);
        if (!stage->ms_per_batch.valid) {
            tui_text(cells, tui_right(area, label), row, 0, TUI_DIM, stage->ms_per_batch.reason);
            continue;
        }
        tui_text_right(cells, tui_left(area, label + right - 2), row, TUI_NORMAL,
                       TIME_TEXT(stage->ms_per_batch.value * 1e6));
        if (idle)
            tui_text(cells, tui_right(area, label + right), row, 0, TUI_DIM,
                     "no cost: the queue is full");
        else
            tui_bar(cells, area, row, label + right, area.columns - label - right - 1,
                    most > 0 ? stage->ms_per_batch.value / most : 0, TUI_CLASS + AN_CLASS_INPUT);
    }
}

/* A row for each worker: the share of its time that it was busy, as a number and a bar, and the
 * batches it made. */
static void draw_workers(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state)
{
    const struct an_loader *loader = &model->result->loader;
    (void)state;
    int row = 1, label = area.columns < 60 ? 12 : 28;
    bool ranks = loader->rank_count > 1;
    tui_text(cells, area, 0, 0, TUI_TITLE, "Workers, busy share of the time");
    for (size_t i = 0; i < loader->worker_count && row < area.rows; i++, row++) {
        const struct an_loader_worker *worker = &loader->worker[i];
        char name[100], rank[32] = "";
        if (ranks)
            snprintf(rank, sizeof rank, "rank %" PRId64 " ", worker->rank);
        snprintf(name, sizeof name, "%s%.60s", rank, worker->name);
        tui_text(cells, tui_left(area, label - 1), row, 1, TUI_NORMAL, name);
        if (!worker->busy_pct.valid) {
            tui_text(cells, tui_right(area, label), row, 0, TUI_DIM, worker->busy_pct.reason);
            continue;
        }
        tui_printf(cells, area, row, label, worker->busy_pct.value >= 90 ? TUI_WARN : TUI_NORMAL,
                   "%3.0f %%", worker->busy_pct.value);
        tui_bar(cells, area, row, label + 7, area.columns - label - 24,
                worker->busy_pct.value / 100,
                worker->busy_pct.value >= 90 ? TUI_WARN : TUI_CLASS + AN_CLASS_INPUT);
        struct tui_rect end = tui_right(area, area.columns - 15);
        if (area.columns >= 60)
            tui_printf(cells, end, row, 0, TUI_DIM, "%" PRId64 " batches", worker->batches);
    }
    if (row == area.rows && (size_t)(area.rows - 1) < loader->worker_count && area.rows > 1) {
        char more[40];
        snprintf(more, sizeof more, " and %zu more",
                 loader->worker_count - (size_t)(area.rows - 1));
        tui_text_right(cells, area, 0, TUI_DIM, more);
    }
}

/* The batches that were ready over the run, of the rank whose queue is the emptiest unless
 * another one was chosen. */
static void draw_queue(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    size_t all;
    const struct tui_series *series = tui_lowest_series(model, "queue_depth", state->span, &all);
    char whose[48] = "";
    double most = 1;
    for (size_t i = 0; i < series->count; i++)
        most = series->value[i] > most ? series->value[i] : most;
    if (all > 1 && series->rank != STORE_ABSENT)
        snprintf(whose, sizeof whose, ", rank %" PRId64 " ([ ] another)", series->rank);
    if (area.columns < 60)
        tui_printf(cells, area, 0, 0, TUI_TITLE, "Queue%s: now %.3g, 0: waits", whose,
                   series->last);
    else
        tui_printf(cells, area, 0, 0, TUI_TITLE,
                   "Batches ready%s: now %.3g; 0 means that the step waits", whose, series->last);
    double first = series->time_s[0], width = series->time_s[series->count - 1] - first;
    width = width > 0 ? width : 1;
    struct tui_samples samples = {series->value,
                                  series->time_s,
                                  series->count,
                                  first,
                                  first + tui_slots(width, model->state == TUI_LIVE),
                                  first + width};
    struct tui_axis x = {
        .low = samples.low, .high = samples.high, .text = tui_seconds, .name = "time of the run"};
    struct tui_axis y = {.low = 0, .high = most, .text = page_number};
    struct tui_plot plot = tui_plot_open(cells, tui_lower(area, 1), x, y);
    tui_plot_trend(&plot, &samples, INFINITY, TUI_CLASS + AN_CLASS_INPUT);
}

/* The lines of the report about the loader, or why it is empty. */
static void draw_words(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_loader, rep_section_loader_ranks, NULL};
    if (model->result->loader.reason)
        tui_absent(cells, area, 0, "No loader data", model->result->loader.reason);
    else
        tui_sections(cells, area, model->result, words, state);
}

/* Lays out the panels: words, stages, workers, queue. A panel without data has no rows. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    const struct an_loader *loader = &result->loader;
    const struct tui_series *series = tui_model_series(model, "queue_depth");
    if (loader->reason && (!series || !series->count)) {
        tui_absent(cells, area, 0, "No loader data", loader->reason);
        return;
    }
    if (!loader->reason && !rep_loader_says(result) && (!series || !series->count)) {
        tui_absent(cells, area, 0, "No loader data", loader->wait_ms_per_step.reason);
        return;
    }
    int words = loader->rank_count > 1 ? 7 + (int)loader->rank_count : 6;
    struct tui_panel panel[PANELS] = {
        [WORDS] = {2, area.columns < 60 ? 9 : words, 100, draw_words, {0}},
        [STAGES] = {2, (int)loader->stage_count + 1, 80, draw_stages, {0}},
        [WORKERS] = {2, (int)loader->worker_count + 1, 60, draw_workers, {0}},
        [QUEUE] = {4, 14, 70, draw_queue, {0}},
    };
    if (!loader->stage_count)
        panel[STAGES].least = panel[STAGES].most = 0;
    if (!loader->worker_count)
        panel[WORKERS].least = panel[WORKERS].most = 0;
    if (!series || !series->count)
        panel[QUEUE].least = panel[QUEUE].most = 0;
    tui_panels_draw(cells, area, panel, PANELS, model, state);
}

const struct tui_view tui_view_loader = {
    .key = '4',
    .name = "loader",
    .brief = "load",
    .help = "data wait of the step, and the stage that causes it",
    .keys = "[ ]     the queue of another rank, the emptiest first\n",
    .texts = true,
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The data loader: does the step wait for it, what a batch costs, how busy the workers are, how
 * full the queue.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/text/text.h"
#include "store/store.h"
#include "tui/draw.h"
#include "tui/views/views.h"

enum { WORDS, STAGES, WORKERS, QUEUE, PANELS };

/* A bar for each stage of a batch, beside what one step needs. */
static void draw_stages(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                        struct tui_view_state *s)
{
    const struct an_loader *l = &m->r->loader;
    (void)s;
    double most = 0;
    int row = 1, label = r.columns < 60 ? 12 : 20, right = 12;
    for (size_t i = 0; i < l->stage_count; i++)
        if (l->stages[i].ms_per_batch.valid && strcmp(l->stages[i].name, "queue_wait"))
            most = fmax(most, l->stages[i].ms_per_batch.value);
    tui_text(c, r, 0, 0, TUI_TITLE, "Stages, time of a batch");
    for (size_t i = 0; i < l->stage_count && row < r.rows; i++, row++) {
        const struct an_stage *stage = &l->stages[i];
        bool idle = !strcmp(stage->name, "queue_wait"); /* waits for room: costs nothing */
        char a[32];
        tui_text(c, tui_left(r, label - 1), row, 1, TUI_NORMAL,
                 idle ? "wait for room" : stage->name);
        if (!stage->ms_per_batch.valid) {
            tui_text(c, tui_right(r, label), row, 0, TUI_DIM, stage->ms_per_batch.reason);
            continue;
        }
        tui_text_right(c, tui_left(r, label + right - 2), row, TUI_NORMAL,
                       page_time(a, stage->ms_per_batch.value * 1e6));
        if (idle)
            tui_text(c, tui_right(r, label + right), row, 0, TUI_DIM,
                     "costs nothing: the queue is full");
        else
            tui_bar(c, r, row, label + right, r.columns - label - right - 1,
                    most > 0 ? stage->ms_per_batch.value / most : 0, TUI_CLASS + AN_CLASS_INPUT);
    }
}

static void draw_workers(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                         struct tui_view_state *s)
{
    const struct an_loader *l = &m->r->loader;
    (void)s;
    int row = 1, label = r.columns < 60 ? 12 : 28;
    bool ranks = l->rank_count > 1;
    tui_text(c, r, 0, 0, TUI_TITLE, "Workers, share of the time busy");
    for (size_t i = 0; i < l->worker_count && row < r.rows; i++, row++) {
        const struct an_loader_worker *w = &l->worker[i];
        char name[100], rank[32] = "";
        if (ranks)
            snprintf(rank, sizeof rank, "rank %" PRId64 " ", w->rank);
        snprintf(name, sizeof name, "%s%.60s", rank, w->name);
        tui_text(c, tui_left(r, label - 1), row, 1, TUI_NORMAL, name);
        if (!w->busy_pct.valid) {
            tui_text(c, tui_right(r, label), row, 0, TUI_DIM, w->busy_pct.reason);
            continue;
        }
        tui_printf(c, r, row, label, w->busy_pct.value >= 90 ? TUI_WARN : TUI_NORMAL, "%3.0f %%",
                   w->busy_pct.value);
        tui_bar(c, r, row, label + 7, r.columns - label - 24, w->busy_pct.value / 100,
                w->busy_pct.value >= 90 ? TUI_WARN : TUI_CLASS + AN_CLASS_INPUT);
        struct tui_rect end = tui_right(r, r.columns - 15);
        if (r.columns >= 60)
            tui_printf(c, end, row, 0, TUI_DIM, "%" PRId64 " batches", w->batches);
    }
    if (row == r.rows && (size_t)(r.rows - 1) < l->worker_count && r.rows > 1) {
        char more[40];
        snprintf(more, sizeof more, " and %zu more", l->worker_count - (size_t)(r.rows - 1));
        tui_text_right(c, r, 0, TUI_DIM, more);
    }
}

static void draw_queue(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    size_t all;
    const struct tui_series *q = tui_lowest_series(m, "queue_depth", s->span, &all);
    char whose[48] = "";
    double most = 1;
    for (size_t i = 0; i < q->count; i++)
        most = q->value[i] > most ? q->value[i] : most;
    if (all > 1 && q->rank != STORE_ABSENT)
        snprintf(whose, sizeof whose, ", rank %" PRId64 " ([ ] another)", q->rank);
    if (r.columns < 60)
        tui_printf(c, r, 0, 0, TUI_TITLE, "Queue%s: now %.3g, 0: waits", whose, q->last);
    else
        tui_printf(c, r, 0, 0, TUI_TITLE, "Batches ready%s: now %.3g; 0 means that the step waits",
                   whose, q->last);
    double first = q->time_s[0], width = q->time_s[q->count - 1] - first;
    width = width > 0 ? width : 1;
    struct tui_samples v = {
        q->value,     q->time_s, q->count, first, first + tui_slots(width, m->state == TUI_LIVE),
        first + width};
    struct tui_axis x = {
        .low = v.low, .high = v.high, .text = tui_seconds, .name = "time of the run"};
    struct tui_axis y = {.low = 0, .high = most, .text = page_number};
    struct tui_plot p = tui_plot_open(c, tui_lower(r, 1), x, y);
    tui_plot_trend(&p, &v, INFINITY, TUI_CLASS + AN_CLASS_INPUT);
}

static void draw_words(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_loader, rep_text_loader_ranks, NULL};
    if (m->r->loader.reason)
        tui_absent(c, r, 0, "Nothing about a loader", m->r->loader.reason);
    else
        tui_sections(c, r, m->r, words, s);
}

static void draw(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s)
{
    const struct an_result *result = tui_result(c, r, m);
    if (!result)
        return;
    const struct an_loader *l = &result->loader;
    const struct tui_series *q = tui_model_series(m, "queue_depth");
    if (l->reason && (!q || !q->count)) {
        tui_absent(c, r, 0, "Nothing about a loader", l->reason);
        return;
    }
    int stages = l->stage_count ? (int)l->stage_count + 1 : 0,
        workers = l->worker_count ? (int)l->worker_count + 1 : 0;
    bool queue = q && q->count;
    struct tui_panel panel[PANELS] = {
        [WORDS] = {2,
                   r.columns < 60      ? 9
                   : l->rank_count > 1 ? 7 + (int)(l->rank_count < 8 ? l->rank_count : 8)
                                       : 6,
                   100,
                   draw_words,
                   {0}},
        [STAGES] = {stages ? 2 : 0, stages, 80, draw_stages, {0}},
        [WORKERS] = {workers ? 2 : 0, workers, 60, draw_workers, {0}},
        [QUEUE] = {queue ? 4 : 0, queue ? 14 : 0, 70, draw_queue, {0}},
    };
    tui_panels_draw(c, r, panel, PANELS, m, s);
}

const struct tui_view tui_view_loader = {
    .key = '4',
    .name = "loader",
    .brief = "load",
    .help = "does the step wait for its batch, and which stage is why",
    .keys = "[ ]     the queue of another rank: the emptiest comes first\n",
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard without a terminal: the same data side and the same views, as text or for a
 * program.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "tui/config.h"
#include "tui/data/clock.h"
#include "tui/data/data.h"
#include "tui/frame.h"

#define FIRST_S 60 /* so long the first frame waits for an analysis */

/* Waits for models until the time `until` and keeps the newest. With `complete` the first one that
 * has an analysis, or the reason why it has no analysis, ends the wait. */
static void wait_model(struct tui_data *data, struct tui_model **model, double until, bool complete)
{
    for (;;) {
        struct tui_model *newer = tui_data_take(data);
        if (newer) {
            tui_model_free(*model);
            *model = newer;
        }
        if (complete && *model &&
            ((*model)->result || (*model)->failed || (*model)->state == TUI_LOST))
            return;
        double left = until - tui_now_s();
        if (left <= 0)
            return;
        struct pollfd pollfd = {.fd = tui_data_fd(data), .events = POLLIN};
        poll(&pollfd, 1, (int)(left * 1e3) + 1);
    }
}

/* Calls `frame` for each frame. It returns 0, or a code that ends it. */
static int each(const struct tui_source *source, const struct tui_options *options,
                int (*frame)(void *ctx, const struct tui_model *model), void *ctx,
                struct tacho_error *err)
{
    struct tui_data *data;
    struct tui_model *model = NULL;
    int rc = tui_data_start(source, options->interval_ms, &data, err);
    if (rc)
        return rc;
    wait_model(data, &model, tui_now_s() + FIRST_S, true);
    double next = tui_now_s();
    for (int i = 0; !rc && model; i++) {
        rc = frame(ctx, model);
        if ((options->frames >= 0 && i + 1 >= options->frames) ||
            (options->frames < 0 && model->state != TUI_LIVE && !model->pending))
            break;
        next += options->interval_ms / 1e3;
        wait_model(data, &model, next, false);
    }
    tui_model_free(model);
    if (!tui_data_stop(data) &&
        !rc) { /* it is busy with a long read, and there is nothing left to print */
        fflush(NULL);
        _exit(0);
    }
    return rc;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct text {
    struct tui_cells cells;
    struct tui_ui ui;
    FILE *out;
    int rows, columns, frames;
};

/* Prints one frame; a blank line precedes all but the first. */
static int text_frame(void *ctx, const struct tui_model *model)
{
    struct text *text = ctx;
    text->cells.glyphs = text->ui.glyphs;
    int rc = tui_cells_resize(&text->cells, text->rows, text->columns);
    if (rc)
        return rc;
    if (text->frames++)
        fputc('\n', text->out);
    tui_frame_draw(&text->cells, model, &text->ui);
    rc = tui_cells_print(&text->cells, false, text->out);
    return rc || fflush(text->out) ? TACHO_EIO : 0;
}

/* Without --glyphs text has braille where the locale allows it. */
int tui_batch(const struct tui_source *source, const struct tui_options *options, FILE *out,
              struct tacho_error *err)
{
    struct text text = {.out = out, .rows = options->rows, .columns = options->columns};
    tui_ui_init(&text.ui);
    text.ui.glyphs = options->glyphs >= 0 ? (enum tui_glyphs)options->glyphs : TUI_BRAILLE;
    text.ui.glyphs = options->utf8 ? text.ui.glyphs : TUI_ASCII;
    text.ui.view =
        options->view && tui_view_of(options->view) >= 0 ? tui_view_of(options->view) : 0;
    int rc = each(source, options, text_frame, &text, err);
    tui_cells_free(&text.cells);
    return rc;
}

/* ---- for a program --------------------------------------------------------------------------- */

struct program {
    int (*frame)(void *ctx, const struct tui_facts *f, const struct an_result *r);
    void *ctx;
};

/* Translates a model into the facts of the public header (tui.h) and calls the program. */
static int program_frame(void *ctx, const struct tui_model *model)
{
    static const char *const states[] = {"opening", "live", "ended", "lost"};
    struct program *program = ctx;
    struct tui_fact *fact = calloc(model->series_count ? model->series_count : 1, sizeof *fact);
    if (!fact)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < model->series_count; i++) {
        const struct tui_series *series = &model->series[i];
        fact[i] = (struct tui_fact){series->name, series->unit,    series->device,
                                    series->rank, series->process, series->last};
    }
    struct tui_facts facts = {.run = model->run,
                              .state = states[model->state],
                              .message = *model->message ? model->message : NULL,
                              .now_s = model->now_s,
                              .age_s = model->age_s,
                              .recent_ms = model->recent_ms,
                              .recent_tokens_per_s = model->recent_tokens_per_s,
                              .left_s = tui_model_left_s(model),
                              .steps = model->steps_seen,
                              .expected = model->steps_expected,
                              .last_index = model->last_index,
                              .slices = model->slices,
                              .series = fact,
                              .series_count = model->series_count};
    if (model->result)
        facts.window = model->result->run.window;
    else
        facts.reason = model->result_reason;
    int rc = program->frame(program->ctx, &facts, model->result);
    free(fact);
    return rc;
}

int tui_each(const struct tui_source *source, const struct tui_options *options,
             int (*frame)(void *ctx, const struct tui_facts *f, const struct an_result *r),
             void *ctx, struct tacho_error *err)
{
    struct program program = {frame, ctx};
    return each(source, options, program_frame, &program, err);
}

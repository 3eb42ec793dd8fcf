/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard without a terminal: the same data side and the same views, as text or for a
 * program.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/config.h"
#include "tui/data.h"
#include "tui/frame.h"

#define FIRST_S 60 /* so long the first frame waits for an analysis */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The newest model at `until`; before that time only if `complete` and one with an analysis is
 * there. */
static void wait_model(struct tui_data *d, struct tui_model **m, double until, bool complete)
{
    for (;;) {
        struct tui_model *newer = tui_data_take(d);
        if (newer) {
            tui_model_free(*m);
            *m = newer;
        }
        if (complete && *m && ((*m)->r || (*m)->state == TUI_LOST))
            return;
        double left = until - now_s();
        if (left <= 0)
            return;
        struct pollfd p = {.fd = tui_data_fd(d), .events = POLLIN};
        poll(&p, 1, (int)(left * 1e3) + 1);
    }
}

/* Calls `frame` for each frame. It returns 0, or a code that ends it. */
static int each(const struct tui_source *s, const struct tui_options *o,
                int (*frame)(void *ctx, const struct tui_model *m), void *ctx,
                struct tacho_error *err)
{
    struct tui_data *d;
    struct tui_model *m = NULL;
    int rc = tui_data_start(s, o->interval_ms, &d, err);
    if (rc)
        return rc;
    wait_model(d, &m, now_s() + FIRST_S, true);
    double next = now_s();
    for (int i = 0; !rc && m; i++) {
        rc = frame(ctx, m);
        if ((o->frames >= 0 && i + 1 >= o->frames) || (o->frames < 0 && m->state != TUI_LIVE))
            break;
        next += o->interval_ms / 1e3;
        wait_model(d, &m, next, false);
    }
    tui_model_free(m);
    if (!tui_data_stop(d) &&
        !rc) { /* it is in the middle of a long read, and nothing more is to be said */
        fflush(NULL);
        _exit(0);
    }
    return rc;
}

/* ---- text ----------------------------------------------------------------------------------------------------------------------- */

struct text {
    struct tui_cells cells;
    struct tui_ui ui;
    FILE *out;
    int rows, columns, frames;
};

static int text_frame(void *ctx, const struct tui_model *m)
{
    struct text *t = ctx;
    t->cells.glyphs = t->ui.glyphs;
    int rc = tui_cells_resize(&t->cells, t->rows, t->columns);
    if (rc)
        return rc;
    if (t->frames++)
        fputc('\n', t->out);
    tui_frame_draw(&t->cells, m, &t->ui);
    rc = tui_cells_print(&t->cells, false, t->out);
    return rc || fflush(t->out) ? TACHO_EIO : 0;
}

int tui_batch(const struct tui_source *s, const struct tui_options *o, FILE *out,
              struct tacho_error *err)
{
    struct text t = {.out = out, .rows = o->rows, .columns = o->columns};
    tui_ui_init(&t.ui);
    t.ui.glyphs = o->glyphs >= 0 ? (enum tui_glyphs)o->glyphs : TUI_BRAILLE;
    t.ui.glyphs = o->utf8 ? t.ui.glyphs : TUI_ASCII;
    t.ui.view = o->view && tui_view_of(o->view) >= 0 ? tui_view_of(o->view) : 0;
    int rc = each(s, o, text_frame, &t, err);
    tui_cells_free(&t.cells);
    return rc;
}

/* ---- for a program --------------------------------------------------------------------------------------------------------------- */

struct program {
    int (*frame)(void *ctx, const struct tui_facts *f, const struct an_result *r);
    void *ctx;
};

static int program_frame(void *ctx, const struct tui_model *m)
{
    static const char *const states[] = {"opening", "live", "ended", "lost"};
    struct program *p = ctx;
    struct tui_fact *fact = calloc(m->series_count ? m->series_count : 1, sizeof *fact);
    if (!fact)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < m->series_count; i++) {
        const struct tui_series *x = &m->series[i];
        fact[i] = (struct tui_fact){x->name, x->unit, x->device, x->rank, x->process, x->last};
    }
    struct tui_facts f = {.run = m->run,
                          .state = states[m->state],
                          .message = *m->message ? m->message : NULL,
                          .window = m->r ? m->r->run.window : NULL,
                          .reason = m->r ? NULL : m->r_reason,
                          .now_s = m->now_s,
                          .age_s = m->age_s,
                          .recent_ms = m->recent_ms,
                          .recent_tokens_per_s = m->recent_tokens_per_s,
                          .left_s = tui_model_left_s(m),
                          .steps = m->steps_seen,
                          .expected = m->steps_expected,
                          .last_index = m->last_index,
                          .slices = m->slices,
                          .series = fact,
                          .series_count = m->series_count};
    int rc = p->frame(p->ctx, &f, m->r);
    free(fact);
    return rc;
}

int tui_each(const struct tui_source *s, const struct tui_options *o,
             int (*frame)(void *ctx, const struct tui_facts *f, const struct an_result *r),
             void *ctx, struct tacho_error *err)
{
    struct program p = {frame, ctx};
    return each(s, o, program_frame, &p, err);
}

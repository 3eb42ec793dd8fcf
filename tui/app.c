/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard on a terminal: waits for keys, models and signals, and draws when one of them came.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tui/config.h"
#include "tui/data.h"
#include "tui/frame.h"
#include "tui/terminal.h"

#define FIRST_MS   60   /* so long the first frame waits for something to show */
#define MODEL_MS   250  /* models that follow each other faster are drawn together */
#define PAUSED_MS  1000 /* the age of a paused screen */
#define EXPORT_MIN 100  /* columns */

/* What a line may carry without anybody noticing. Frames that nobody asked for wait while they have
 * written more than that, but for as much as a whole screen: the first analysis, or a picture that
 * doubles its room, does not hold up what follows. */
#define BYTES_24_80 1600.0 /* a second, on a screen of that size; more on a larger one, up to: */
#define BYTES_MOST  6000.0
#define SCREEN      2.0  /* bytes a cell: text and the ways to it */
#define WAIT_MOST   3000 /* ms */

struct app {
    const struct tui_options *o;
    struct tui_data *data;
    struct tui_model *model;
    struct tui_cells cells;
    struct tui_ui ui, began;    /* began: as it was before the first key */
    bool leave, dirty, changed; /* changed: options that are to be kept */
    double drawn, paused_at;    /* s */
    double written;             /* bytes that the line has not had time for yet, at `drawn` */
    int wait_ms;                /* from that frame to the next one that nobody asked for */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Terminals whose fonts have no braille, whatever the locale says: the console of Linux, those of
 * old. */
static bool has_plain_font(void)
{
    static const char *const names[] = {"linux", "vt1", "vt2", "vt3", "cons25", "ansi"};
    const char *term = getenv("TERM");
    for (size_t i = 0; term && i < sizeof names / sizeof *names; i++)
        if (!strncmp(term, names[i], strlen(names[i])))
            return true;
    return false;
}

/* The file of options first, then what the command line says; a locale without UTF-8 allows ASCII
 * only. */
static void choose(struct tui_ui *ui, const struct tui_options *o)
{
    tui_ui_init(ui);
    if (has_plain_font())
        ui->glyphs = TUI_ASCII;
    tui_config_read(ui);
    if (o->theme >= 0)
        ui->theme = o->theme;
    if (o->glyphs >= 0)
        ui->glyphs = (enum tui_glyphs)o->glyphs;
    if (o->mouse >= 0)
        ui->mouse = o->mouse > 0;
    if (o->view && tui_view_of(o->view) >= 0)
        ui->view = tui_view_of(o->view);
    ui->glyphs_most = o->utf8 ? TUI_BRAILLE : TUI_ASCII;
    if (ui->glyphs > ui->glyphs_most)
        ui->glyphs = ui->glyphs_most;
}

static double rate_of(const struct app *a)
{
    double rate = BYTES_24_80 * a->cells.rows * a->cells.columns / (24 * 80);
    return rate > BYTES_MOST ? BYTES_MOST : rate < BYTES_24_80 ? BYTES_24_80 : rate;
}

static int wait_for_line(const struct app *a)
{
    double over = a->written - SCREEN * a->cells.rows * a->cells.columns,
           ms = over / rate_of(a) * 1e3;
    return ms < MODEL_MS ? MODEL_MS : ms > WAIT_MOST ? WAIT_MOST : (int)ms;
}

/* `asked`: a key did. */
static void draw(struct app *a, bool asked)
{
    int rows, columns;
    tui_terminal_size(&rows, &columns);
    a->cells.glyphs = a->ui.glyphs;
    a->ui.paused_s = a->ui.paused ? now_s() - a->paused_at : 0;
    a->dirty = false;
    double now = now_s(), rested = a->cells.cell ? (now - a->drawn) * rate_of(a) : 0;
    a->drawn = now;
    a->written = a->written > rested ? a->written - rested : 0;
    if (tui_cells_resize(&a->cells, rows, columns))
        return;
    tui_frame_draw(&a->cells, a->model, &a->ui);
    int bytes = tui_terminal_show(&a->cells);
    a->written += asked ? 0 : bytes;
    a->wait_ms = asked ? MODEL_MS : wait_for_line(a);
}

static void export_view(struct app *a)
{
    char name[128], stamp[32];
    time_t t = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&t, &tm));
    snprintf(name, sizeof name, "tacho-%.40s-%s.txt", tui_views[a->ui.view]->name, stamp);
    FILE *f = fopen(name, "wxe");
    if (!f) {
        snprintf(a->ui.note, sizeof a->ui.note, "%s: %s", name, strerror(errno));
        return;
    }
    int columns = a->cells.columns > EXPORT_MIN ? a->cells.columns : EXPORT_MIN;
    int rc = tui_frame_export(a->model, &a->ui, columns, f), error = fclose(f) ? errno : 0;
    if (rc || error) {
        unlink(name);
        snprintf(a->ui.note, sizeof a->ui.note, "%s: %s", name,
                 error ? strerror(error) : tacho_error_text(rc));
    } else {
        snprintf(a->ui.note, sizeof a->ui.note, "written: %s", name);
    }
}

static void options_changed(struct app *a)
{
    tui_terminal_theme(a->ui.theme, a->o->color);
    tui_terminal_mouse(a->ui.mouse);
    a->changed = true;
}

/* Another part of the run; a paused screen goes on, or it would not come. */
static void move(struct app *a, int parts)
{
    const struct an_result *r = a->model ? a->model->r : NULL;
    if (!r || !r->run.window) {
        snprintf(a->ui.note, sizeof a->ui.note, "%s",
                 r ? "the whole run is analysed: it has no other part" : "not analysed yet");
        return;
    }
    a->ui.paused = false;
    snprintf(a->ui.note, sizeof a->ui.note, "analysing the part %s: %s",
             parts < 0 ? "before" : "behind", a->model->window);
    tui_data_move(a->data, parts);
}

static void act(struct app *a, enum tui_action action)
{
    switch (action) {
    case TUI_QUIT:
        a->leave = true;
        break;
    case TUI_EXPORT:
        export_view(a);
        break;
    case TUI_PAUSE:
        a->paused_at = now_s();
        break;
    case TUI_OPTIONS:
        options_changed(a);
        break;
    case TUI_REFRESH:
        tui_data_refresh(a->data);
        break;
    case TUI_EARLIER:
    case TUI_LATER:
        move(a, action == TUI_EARLIER ? -1 : 1);
        break;
    case TUI_REDRAW:
        tui_terminal_redraw();
        break;
    default:
        break;
    }
}

/* A click on the key bar is its key; one in the view is the view's. */
static int click(struct app *a, int row, int column)
{
    struct tui_layout l = tui_frame_layout(&a->cells, a->model, &a->ui);
    struct tui_view_state *s = &a->ui.state[a->ui.view];
    if (row == l.keys.row && l.keys.rows) {
        for (; column >= 0; column--) {
            const struct tui_cell *x = &a->cells.cell[row * a->cells.columns + column];
            if (x->style == TUI_KEY && x->glyph && x->glyph < 128)
                return x->glyph == 'e' || x->glyph == 'S' || x->glyph == 'p' || x->glyph == 'a' ||
                               x->glyph == 'c'
                           ? ' ' /* the word Space */
                           : (int)x->glyph;
        }
        return 0;
    }
    s->click_row = row - l.body.row;
    s->click_column = column;
    return row >= l.body.row && row < l.body.row + l.body.rows ? TUI_KEY_CLICK : 0;
}

static void take_keys(struct app *a)
{
    int row = 0, column = 0, key;
    while ((key = tui_terminal_key(&row, &column)) != TUI_TERMINAL_NO_KEY && !a->leave) {
        a->dirty = true;
        if (key == TUI_TERMINAL_GONE)
            a->leave = true;
        else if (key == TUI_TERMINAL_RESIZED)
            continue;
        else if (key == TUI_KEY_CLICK)
            key = click(a, row, column);
        if (key > 0)
            act(a, tui_ui_key(&a->ui, key));
    }
}

static void take_model(struct app *a)
{
    if (a->ui.paused && a->model)
        return;
    struct tui_model *m = tui_data_take(a->data);
    if (!m)
        return;
    const struct tui_model *was = a->model;
    if (!was || (!was->r && m->r) || was->state != m->state ||
        strcmp(was->message, m->message) != 0)
        a->wait_ms = MODEL_MS; /* news that somebody waits for */
    tui_model_free(a->model);
    a->model = m;
    a->dirty = true;
}

/* How long to sleep: until a model may be drawn that came soon after the last frame; a paused
 * screen shows its age. */
static int patience(const struct app *a)
{
    double since = (now_s() - a->drawn) * 1e3;
    if (a->dirty)
        return since >= a->wait_ms ? 0 : (int)(a->wait_ms - since) + 1;
    return a->ui.paused ? PAUSED_MS : -1;
}

static void loop(struct app *a)
{
    while (!a->leave) {
        struct pollfd p[] = {
            {.fd = STDIN_FILENO, .events = POLLIN},
            {.fd = tui_terminal_signal_fd(), .events = POLLIN},
            {.fd = a->ui.paused && a->model ? -1 : tui_data_fd(a->data), .events = POLLIN}};
        int n = poll(p, 3, patience(a));
        bool typed = n < 0 || p[0].revents ||
                     p[1].revents; /* n < 0: a signal came, which may be that of a new size */
        if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            a->leave = true;
        if (typed)
            take_keys(a);
        if (n >= 0 && p[2].revents)
            take_model(a);
        if (a->leave)
            break;
        if (typed || (n == 0 && a->ui.paused) ||
            (a->dirty && (now_s() - a->drawn) * 1e3 >= a->wait_ms))
            draw(a, typed);
    }
}

int tui_run(const struct tui_source *s, const struct tui_options *o, struct tacho_error *err)
{
    struct app a = {.o = o};
    char path[4096];
    int rc = tui_terminal_open(err);
    if (rc)
        return rc;
    choose(&a.ui, o);
    a.began = a.ui;
    tui_terminal_theme(a.ui.theme, o->color);
    tui_terminal_mouse(a.ui.mouse);
    rc = tui_data_start(s, o->interval_ms, &a.data, err);
    if (!rc) {
        struct pollfd p = {.fd = tui_data_fd(a.data), .events = POLLIN};
        poll(&p, 1, FIRST_MS);
        take_model(&a);
        draw(&a, true);
        loop(&a);
    }
    if (a.changed)
        tui_config_write(&a.ui, &a.began, path, sizeof path); /* a wish: no reason to fail */
    tui_terminal_close();
    bool ended = tui_data_stop(a.data);
    tui_model_free(a.model);
    tui_cells_free(&a.cells);
    if (!ended && !rc)
        _exit(0); /* its thread reads on and must not see the program's exit handlers */
    return rc;
}

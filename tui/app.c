/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard on a terminal: waits for keys, models and signals, and draws when one of them
 * arrives.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reports/words/compare.h"
#include "tui/config.h"
#include "tui/data/clock.h"
#include "tui/data/data.h"
#include "tui/frame.h"
#include "tui/picker.h"
#include "tui/terminal.h"
#include "tui/views.h"

#define FIRST_MS   60   /* so long the first frame waits for something to show */
#define MODEL_MS   250  /* models that follow each other faster are drawn together */
#define PAUSED_MS  1000 /* the age of a paused screen */
#define EXPORT_MIN 100  /* columns */

/* What a slow line carries without being noticed. A frame that no key asked for waits while the
 * frames before it wrote more than that. One whole screen is free of charge, so that the first
 * analysis, or a picture that doubles its room, does not delay the next frames. */
#define BYTES_24_80 1600.0 /* a second, on a screen of that size; more on a larger one, up to: */
#define BYTES_MOST  6000.0
#define SCREEN      2.0  /* bytes a cell: text and the ways to it */
#define WAIT_MOST   3000 /* ms */

struct app {
    const struct tui_options *options;
    struct tui_data *data;
    struct tui_model *model;
    struct tui_cells cells;
    struct tui_ui ui, began;    /* began: as it was before the first key */
    bool leave, dirty, changed; /* changed: options that are to be kept */
    double drawn, paused_at;    /* s */
    double written;             /* bytes that the line has not had time for yet, at `drawn` */
    int wait_ms;                /* from that frame to the next one that no key asks for */
};

/* Is it a terminal whose font has no braille, whatever the locale: the console of Linux, old ones?
 */
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
static void choose_options(struct tui_ui *ui, const struct tui_options *options)
{
    tui_ui_init(ui);
    if (has_plain_font())
        ui->glyphs = TUI_ASCII;
    tui_config_read(ui);
    if (options->theme >= 0)
        ui->theme = options->theme;
    if (options->glyphs >= 0)
        ui->glyphs = (enum tui_glyphs)options->glyphs;
    if (options->mouse >= 0)
        ui->mouse = options->mouse > 0;
    if (options->view && tui_view_of(options->view) >= 0)
        ui->view = tui_view_of(options->view);
    ui->glyphs_most = options->utf8 ? TUI_BRAILLE : TUI_ASCII;
    if (ui->glyphs > ui->glyphs_most)
        ui->glyphs = ui->glyphs_most;
}

static double rate_of(const struct app *app)
{
    double rate = BYTES_24_80 * app->cells.rows * app->cells.columns / (24 * 80);
    return rep_clamp_real(rate, BYTES_24_80, BYTES_MOST);
}

static int wait_for_line(const struct app *app)
{
    double over = app->written - SCREEN * app->cells.rows * app->cells.columns;
    return (int)rep_clamp_real(over / rate_of(app) * 1e3, MODEL_MS, WAIT_MOST);
}

/* Draws a frame and keeps the account of bytes written, which decides how long the next frame
 * that no key asks for has to wait. `asked`: a key asked for this one. */
static void draw(struct app *app, bool asked)
{
    int rows, columns;
    tui_terminal_size(&rows, &columns);
    app->cells.glyphs = app->ui.glyphs;
    app->ui.paused_s = app->ui.paused ? tui_now_s() - app->paused_at : 0;
    app->dirty = false;
    double now = tui_now_s(), rested = app->cells.cell ? (now - app->drawn) * rate_of(app) : 0;
    app->drawn = now;
    app->written = app->written > rested ? app->written - rested : 0;
    if (tui_cells_resize(&app->cells, rows, columns))
        return;
    tui_frame_draw(&app->cells, app->model, &app->ui);
    int bytes = tui_terminal_show(&app->cells);
    app->written += asked ? 0 : bytes;
    app->wait_ms = asked ? MODEL_MS : wait_for_line(app);
}

/* Writes the view into a new text file of the current folder, and a note with its name or with
 * what failed. */
static void export_view(struct app *app)
{
    char name[128], stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    snprintf(name, sizeof name, "tacho-%.40s-%s.txt", tui_views[app->ui.view]->name, stamp);
    FILE *file = fopen(name, "wxe");
    if (!file) {
        snprintf(app->ui.note, sizeof app->ui.note, "%s: %s", name, strerror(errno));
        return;
    }
    int columns = app->cells.columns > EXPORT_MIN ? app->cells.columns : EXPORT_MIN;
    int rc = tui_frame_export(app->model, &app->ui, columns, file),
        error = fclose(file) ? errno : 0;
    if (rc || error) {
        unlink(name);
        snprintf(app->ui.note, sizeof app->ui.note, "%s: %s", name,
                 error ? strerror(error) : tacho_error_text(rc));
    } else {
        snprintf(app->ui.note, sizeof app->ui.note, "written: %s", name);
    }
}

static void options_changed(struct app *app)
{
    tui_terminal_theme(app->ui.theme, app->options->color);
    tui_terminal_mouse(app->ui.mouse);
    app->changed = true;
}

/* Has another part of the run analysed. A paused screen continues, since it would not show it. */
static void move_part(struct app *app, int parts)
{
    const struct an_result *result = app->model ? app->model->result : NULL;
    if (!result || !result->run.window) {
        snprintf(app->ui.note, sizeof app->ui.note, "%s",
                 result ? "the whole run is analysed: it has no other part" : "not analysed yet");
        return;
    }
    app->ui.paused = false;
    snprintf(app->ui.note, sizeof app->ui.note, "analysing the part %s: %s",
             parts < 0 ? "before" : "after", app->model->window);
    tui_data_move(app->data, parts);
}

/* Does what a key asked for beyond the state of the screen. */
static void carry_out(struct app *app, enum tui_action action)
{
    switch (action) {
    case TUI_QUIT:
        app->leave = true;
        break;
    case TUI_EXPORT:
        export_view(app);
        break;
    case TUI_PAUSE:
        app->paused_at = tui_now_s();
        break;
    case TUI_OPTIONS:
        options_changed(app);
        break;
    case TUI_REFRESH:
        tui_data_refresh(app->data);
        break;
    case TUI_EARLIER:
    case TUI_LATER:
        move_part(app, action == TUI_EARLIER ? -1 : 1);
        break;
    case TUI_LIST:
        tui_data_list(app->data);
        break;
    case TUI_CHOOSE:
        if (tui_picker_run(app->model, &app->ui))
            tui_data_choose(app->data, tui_picker_run(app->model, &app->ui));
        break;
    case TUI_REDRAW:
        tui_terminal_redraw();
        break;
    default:
        break;
    }
}

/* A click on the key bar is its key; one in the view is the view's. */
static int click(struct app *app, int row, int column)
{
    struct tui_layout layout = tui_frame_layout(&app->cells, app->model, &app->ui);
    struct tui_view_state *state = &app->ui.state[app->ui.view];
    if (row == layout.keys.row && layout.keys.rows) {
        for (; column >= 0; column--) {
            const struct tui_cell *cell = &app->cells.cell[row * app->cells.columns + column];
            if (cell->style == TUI_KEY && cell->glyph && cell->glyph < 128)
                return strchr("Space", (int)cell->glyph) ? ' ' : (int)cell->glyph;
        }
        return 0;
    }
    state->click_row = row - layout.body.row;
    state->click_column = column;
    return row >= layout.body.row && row < layout.body.row + layout.body.rows ? TUI_KEY_CLICK : 0;
}

/* Handles all keys that are waiting. The terminal may be gone, or have a new size. */
static void take_keys(struct app *app)
{
    int row = 0, column = 0, key;
    while ((key = tui_terminal_key(&row, &column)) != TUI_TERMINAL_NO_KEY && !app->leave) {
        app->dirty = true;
        if (key == TUI_TERMINAL_GONE)
            app->leave = true;
        else if (key == TUI_TERMINAL_RESIZED)
            continue;
        else if (key == TUI_KEY_CLICK)
            key = click(app, row, column);
        if (key > 0)
            carry_out(app, tui_ui_key(&app->ui, key));
    }
}

/* Takes the newest model, unless the screen is paused. News that the user waits for need not
 * wait for the line; the first model and the first verdict wait for nothing. */
static void take_model(struct app *app)
{
    if (app->ui.paused && app->model)
        return;
    struct tui_model *model = tui_data_take(app->data);
    if (!model)
        return;
    const struct tui_model *was = app->model;
    if (!was || (!was->result && model->result))
        app->wait_ms = 0;
    else if (was->state != model->state || strcmp(was->message, model->message) != 0)
        app->wait_ms = MODEL_MS;
    tui_model_free(app->model);
    app->model = model;
    app->dirty = true;
}

/* How long to sleep in ms: until a model that arrived soon after the last frame may be drawn. A
 * paused screen is drawn again to show its age. -1: until something happens. */
static int sleep_ms(const struct app *app)
{
    double since = (tui_now_s() - app->drawn) * 1e3;
    if (app->dirty)
        return since >= app->wait_ms ? 0 : (int)(app->wait_ms - since) + 1;
    return app->ui.paused ? PAUSED_MS : -1;
}

/* Sleeps until a key, a signal or a model arrives, or until a frame is due, and draws. A resized
 * terminal interrupts poll(). */
static void loop(struct app *app)
{
    while (!app->leave) {
        struct pollfd sources[] = {
            {.fd = STDIN_FILENO, .events = POLLIN},
            {.fd = tui_terminal_signal_fd(), .events = POLLIN},
            {.fd = app->ui.paused && app->model ? -1 : tui_data_fd(app->data), .events = POLLIN}};
        int ready = poll(sources, 3, sleep_ms(app));
        bool typed = ready < 0 || sources[0].revents ||
                     sources[1].revents; /* n < 0: a signal came, which may be that of a new size */
        if (sources[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            app->leave = true;
        if (typed)
            take_keys(app);
        if (ready >= 0 && sources[2].revents)
            take_model(app);
        if (app->leave)
            break;
        if (typed || (ready == 0 && app->ui.paused) ||
            (app->dirty && (tui_now_s() - app->drawn) * 1e3 >= app->wait_ms))
            draw(app, typed);
    }
}

/* Writing the options may fail without a word: they are a convenience. When the thread of the
 * data side does not end in time, the program ends around it. */
int tui_run(const struct tui_source *source, const struct tui_options *options,
            struct tacho_error *err)
{
    struct app app = {.options = options};
    char path[4096];
    int rc = tui_terminal_open(err);
    if (rc)
        return rc;
    choose_options(&app.ui, options);
    app.began = app.ui;
    tui_terminal_theme(app.ui.theme, options->color);
    tui_terminal_mouse(app.ui.mouse);
    rc = tui_data_start(source, options->interval_ms, &app.data, err);
    if (!rc) {
        struct pollfd pollfd = {.fd = tui_data_fd(app.data), .events = POLLIN};
        poll(&pollfd, 1, FIRST_MS);
        take_model(&app);
        draw(&app, true);
        loop(&app);
    }
    if (app.changed)
        tui_config_write(&app.ui, &app.began, path, sizeof path); /* a wish: no reason to fail */
    tui_terminal_close();
    bool ended = tui_data_stop(app.data);
    tui_model_free(app.model);
    tui_cells_free(&app.cells);
    if (!ended && !rc)
        _exit(0); /* the thread still reads, so exit handlers must not run */
    return rc;
}

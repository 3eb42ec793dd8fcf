/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole screen as cells: header, verdict, view, message, keys. Everything here is a pure
 * function of the model and of what the user chose; the same screen is drawn on a terminal,
 * printed as text, and compared in tests.
 */
#include "tui/frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "reports/words/escape.h"
#include "reports/words/number.h"
#include "reports/words/phrase.h"
#include "tacho_error.h"
#include "tui/picker.h"
#include "tui/screen/layout.h"
#include "tui/tui.h"
#include "tui/views.h"

#define STALE_S       5  /* a live run that writes nothing for longer: its age is shown */
#define STALE_STEPS   10 /* ... or without a step for this many lengths of a step */
#define EXPORT_ROWS   400
#define VERDICT_BYTES 1024
#define VERDICT_EVERYWHERE \
    16 /* rows: on smaller screens only the first view has more than one row of it */

/* ---- one line of parts, of which the least important are omitted ---------------------------- */

#define PARTS_MOST 12
struct part {
    char text[96];
    enum tui_style style;
    int importance;
};
struct line {
    struct part part[PARTS_MOST];
    int count;
};

__attribute__((format(printf, 4, 5))) static void
part(struct line *line, int importance, enum tui_style style, const char *format, ...)
{
    va_list arguments;
    if (line->count == PARTS_MOST)
        return;
    struct part *part = &line->part[line->count++];
    va_start(arguments, format);
    vsnprintf(part->text, sizeof part->text, format, arguments);
    va_end(arguments);
    part->style = style;
    part->importance = importance;
}

/* Drops parts until the line fits, then draws it. */
static void line_draw(struct tui_cells *cells, struct tui_rect area, struct line *line, int columns)
{
    for (;;) {
        int width = 0, least = -1, left = 0;
        for (int i = 0; i < line->count; i++) {
            if (!*line->part[i].text)
                continue;
            width += tui_width(cells, line->part[i].text) + 2;
            left++;
            if (least < 0 || line->part[i].importance < line->part[least].importance)
                least = i;
        }
        if (width - 1 <= columns || left < 2)
            break;
        *line->part[least].text = 0;
    }
    int column = 1;
    area.columns = columns < area.columns ? columns : area.columns;
    for (int i = 0; i < line->count; i++)
        if (*line->part[i].text)
            column += tui_text(cells, area, 0, column, line->part[i].style, line->part[i].text) + 2;
}

/* ---- header, verdict ------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Seconds since the newest step ended, of a run that still writes counters: it hangs, evaluates, or
 * writes a checkpoint. 0: too short to mention. */
static double without_step_s(const struct tui_model *model)
{
    double newest = -INFINITY;
    for (size_t i = 0; i < model->step_count; i++)
        newest = fmax(newest, model->step[i].start_s +
                                  model->step[i].ms * (double)model->step[i].steps / 1e3);
    double since = model->now_s - newest + model->age_s;
    return since >= STALE_S && since > STALE_STEPS * model->recent_ms / 1e3 ? since : 0;
}

/* Says how the run is doing in a word and a sign. Returns the style of both. */
static enum tui_style state_text(const struct tui_cells *cells, const struct tui_model *model,
                                 const struct tui_ui *ui, char *text, size_t size)
{
    bool signs = cells->glyphs != TUI_ASCII;
    if (ui->paused) {
        snprintf(text, size, "%s paused %.0f s", signs ? "‖" : "=", ui->paused_s);
        return TUI_WARN;
    }
    switch (model->state) {
    case TUI_LIVE:
        if (model->age_s >= STALE_S) {
            snprintf(text, size, "%s silent for %.0f s", signs ? "●" : "*", model->age_s);
            return TUI_WARN;
        }
        if (model->step_count && without_step_s(model) > 0) {
            snprintf(text, size, "%s no step for %.0f s", signs ? "●" : "*", without_step_s(model));
            return TUI_WARN;
        }
        snprintf(text, size, "%s live", signs ? "●" : "*");
        return TUI_GOOD;
    case TUI_ENDED:
        snprintf(text, size, "%s ended", signs ? "■" : "#");
        return TUI_DIM;
    case TUI_LOST:
        snprintf(text, size, "! lost");
        return TUI_BAD;
    default:
        snprintf(text, size, "reading");
        return TUI_DIM;
    }
}

/* "40 s", "12 min", "3.4 h": no more digits than such an estimate has. */
static const char *left_text(char text[32], double seconds)
{
    if (seconds < 100)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 100 * 60)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else if (seconds < 100 * 3600)
        snprintf(text, 32, "%.1f h", seconds / 3600);
    else
        snprintf(text, 32, "%.0f d", seconds / 86400);
    return text;
}

/* Progress and speed: of the last steps while the run is live, else of all of them. */
static void progress_parts(struct line *line, const struct tui_model *model)
{
    char text[32];
    const struct an_result *result = model->result;
    bool live = model->state == TUI_LIVE;
    if (model->last_index >= 0 && model->steps_expected > 0)
        part(line, 8, TUI_NORMAL, "step %" PRId64 "/%" PRId64, model->last_index + 1,
             model->steps_expected);
    else if (model->last_index >= 0)
        part(line, 8, TUI_NORMAL, "step %" PRId64, model->last_index);
    if (isfinite(tui_model_left_s(model)))
        part(line, 6, TUI_NORMAL, "%s left", left_text(text, tui_model_left_s(model)));
    double ms = live || !result || !result->steps.median_ms.valid ? model->recent_ms
                                                                  : result->steps.median_ms.value;
    if (isfinite(ms))
        part(line, 7, TUI_NORMAL, "%s", page_time(text, ms * 1e6));
    double rate = live || !result || !result->steps.tokens_per_s.valid
                      ? model->recent_tokens_per_s
                      : result->steps.tokens_per_s.value;
    if (isfinite(rate))
        part(line, 5, TUI_NORMAL, "%s tok/s", page_number(text, rate));
}

/* Draws the first row: program, progress, speed, loss, MFU, and at the right end the state of
 * the run. Parts that do not fit are omitted, the least important first. */
static void draw_header(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, const struct tui_ui *ui)
{
    struct line line = {.count = 0};
    char state[64];
    const struct an_result *result = model->result;
    const struct tui_series *loss = tui_model_series(model, "loss");
    enum tui_style style = state_text(cells, model, ui, state, sizeof state);
    int width = tui_width(cells, state);
    const char *name = *model->run ? base_name(model->run) : "tacho top";
    if (result && *result->run.program)
        name = result->run.program;
    part(&line, 9, TUI_BOLD, "%.60s", name);
    progress_parts(&line, model);
    if (loss && isfinite(loss->last))
        part(&line, 4, TUI_NORMAL, "loss %.4g", loss->last);
    if (result && result->utilization.mfu.valid)
        part(&line, 3, TUI_NORMAL, "MFU %s %%", SHARE_TEXT(100 * result->utilization.mfu.value));
    if (result && result->run.ranks > 1)
        part(&line, 2, TUI_DIM, "%" PRId64 " ranks", result->run.ranks);
    if (result && *result->run.program)
        part(&line, 1, TUI_DIM, "%.80s", base_name(model->run));
    if (area.columns > width + 8) {
        line_draw(cells, area, &line, area.columns - width - 2);
        tui_text(cells, area, 0, area.columns - width - 1, style, state);
    } else { /* too narrow for both: the state matters more */
        tui_text(cells, area, 0, 0, style, state);
    }
}

/* Bytes of the text's first words that fit in the columns; at least one byte of a text that is not
 * empty. */
static size_t fitting(const struct tui_cells *cells, const char *text, int columns)
{
    char head[512];
    size_t best = 0, length = strlen(text);
    for (size_t i = 1; i <= length && i < sizeof head; i++) {
        if (text[i] && text[i] != ' ')
            continue;
        memcpy(head, text, i);
        head[i] = 0;
        if (tui_width(cells, head) > columns)
            break;
        best = i;
    }
    return best ? best : length;
}

/* The text below the header. In a live run, having no steps may also mean that the first one has
 * not ended. */
static const char *verdict_text(const struct tui_model *model, char text[VERDICT_BYTES])
{
    const char *verdict =
        model->result && model->result->verdict ? model->result->verdict : model->result_reason;
    if (model->state != TUI_LIVE || !model->result || !model->result->steps.reason ||
        model->step_count)
        return verdict;
    static const char class[] = "NO STEPS: "; /* what the new beginning says too */
    if (!strncmp(verdict, class, sizeof class - 1))
        snprintf(text, VERDICT_BYTES, "NO STEP HAS ENDED YET: %s", verdict + sizeof class - 1);
    else
        snprintf(text, VERDICT_BYTES, "NO STEP HAS ENDED YET. %s", verdict);
    return text;
}

/* Rows that the verdict takes when it is broken into lines of these columns. */
static int verdict_rows(const struct tui_cells *cells, const struct tui_model *model, int columns)
{
    char some[VERDICT_BYTES];
    const char *text = verdict_text(model, some);
    int rows = 0;
    for (; *text && rows < 16; rows++)
        for (text += fitting(cells, text, columns - 1); *text == ' ';)
            text++;
    return rows;
}

/* Draws the verdict, and after its end at the right the part of the run that was analysed, where
 * both fit. */
static void draw_verdict(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model)
{
    char some[VERDICT_BYTES];
    const char *text = verdict_text(model, some);
    enum tui_style style = TUI_DIM;
    if (model->result)
        style = model->result->healthy ? TUI_GOOD : TUI_WARN;
    int column = 0, row = 0;
    for (; row < area.rows && *text; row++) {
        size_t bytes = row + 1 < area.rows ? fitting(cells, text, area.columns - 1) : strlen(text);
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)bytes, text);
        column = 1 + tui_text(cells, area, row, 1, style, line);
        for (text += bytes; *text == ' ';)
            text++;
    }
    if (model->result && model->result->run.window && row &&
        column + tui_width(cells, model->window) + 3 < area.columns)
        tui_text(cells, area, row - 1, area.columns - tui_width(cells, model->window) - 1, TUI_DIM,
                 model->window);
}

/* ---- keys, help ------------------------------------------------------------------------------ */

/* How much of the views the bar names. */
enum naming { NAME_NONE, NAME_HERE, NAME_GROUP, NAME_ALL };

static bool is_named(enum naming naming, const struct tui_view_group *group, int view, int here)
{
    bool same = here >= group->first && here < group[1].first;
    return naming == NAME_ALL || view == here || (naming == NAME_GROUP && same);
}

/* Columns that the views take on the bar. */
static int views_width(enum naming naming, int here)
{
    int width = 0;
    for (const struct tui_view_group *group = tui_view_groups; group->name; group++) {
        width += naming >= NAME_GROUP ? (int)strlen(group->name) + 2 : 0;
        for (int i = group->first; i < group[1].first; i++) {
            bool named = naming != NAME_NONE && is_named(naming, group, i, here);
            width += 1 + (named ? (int)strlen(tui_views[i]->brief) : 0) + (naming != NAME_NONE);
        }
    }
    return width;
}

/* Draws the views by group, each with its key. Returns the column after them. */
static int draw_views(struct tui_cells *cells, struct tui_rect area, int column, enum naming naming,
                      int here)
{
    for (const struct tui_view_group *group = tui_view_groups; group->name; group++) {
        if (naming >= NAME_GROUP)
            column += 1 + tui_text(cells, area, 0, column, TUI_DIM, group->name);
        for (int i = group->first; i < group[1].first; i++) {
            char key[2] = {tui_views[i]->key, 0};
            column += tui_text(cells, area, 0, column, i == here ? TUI_SELECTED : TUI_KEY, key);
            if (naming != NAME_NONE && is_named(naming, group, i, here))
                column += tui_text(cells, area, 0, column, i == here ? TUI_SELECTED : TUI_NORMAL,
                                   tui_views[i]->brief);
            column += naming != NAME_NONE;
        }
        column += naming >= NAME_GROUP;
    }
    return column;
}

/* Draws a key and what it does, where there is room. */
static int draw_key(struct tui_cells *cells, struct tui_rect area, int column, const char *key,
                    const char *what)
{
    if (column + (int)strlen(key) + (int)strlen(what) + 3 > area.columns)
        return column;
    column += tui_text(cells, area, 0, column, TUI_KEY, key);
    return column + tui_text(cells, area, 0, column, TUI_NORMAL, what) + 1;
}

/* Draws the last row: the views by group, with names as far as there is room, then the keys that
 * work here. */
static void draw_keys(struct tui_cells *cells, struct tui_rect area, const struct tui_ui *ui)
{
    const struct tui_view *view = tui_views[ui->view];
    int column = 1, keys = view->searches || view->texts ? 8 : 2;
    enum naming naming = NAME_ALL;
    column += tui_text(cells, area, 0, column, TUI_KEY, "?");
    column += tui_text(cells, area, 0, column, TUI_NORMAL, "help ");
    while (naming && column + views_width(naming, ui->view) + keys > area.columns)
        naming--;
    bool fits = column + views_width(naming, ui->view) + 2 <= area.columns;
    if (fits)
        column = draw_views(cells, area, column, naming, ui->view);
    if (!naming && column > 7) {
        column++;
        column += tui_text(cells, area, 0, column, TUI_TITLE, view->name) + 1;
    }
    if (view->searches || view->texts)
        column = draw_key(cells, area, column, "/", "find");
    if (naming == NAME_ALL) {
        column = draw_key(cells, area, column, "o", "runs");
        column = draw_key(cells, area, column, "Space", ui->paused ? " go" : " pause");
    }
    if (column + 1 < area.columns)
        tui_text(cells, area, 0, column, TUI_KEY, "q");
}

/* The prompt takes the place of the keys. */
static void draw_prompt(struct tui_cells *cells, struct tui_rect area, const struct tui_ui *ui)
{
    int column = tui_text(cells, area, 0, 0, TUI_KEY,
                          ui->prompt == TUI_ASK_SEARCH ? "search: " : "only rows with: ");
    column += tui_text(cells, area, 0, column, TUI_NORMAL, ui->input);
    tui_glyph(cells, area, 0, column, TUI_SELECTED, ' ');
}

struct help {
    struct tui_cells *cells;
    struct tui_rect area;
    int line, top;
};

/* Draws one line of help if it is visible, and counts it in any case. */
static void help_line(struct help *help, enum tui_style style, const char *text, size_t bytes)
{
    if (help->line >= help->top)
        tui_printf(help->cells, help->area, help->line - help->top, 1, style, "%.*s", (int)bytes,
                   text);
    help->line++;
}

static void help_lines(struct help *help, enum tui_style style, const char *text)
{
    for (const char *line = text; line && *line;) {
        size_t length = strcspn(line, "\n");
        help_line(help, style, line, length);
        line += length + (line[length] == '\n');
    }
}

/* How many lines the help has; draws those from ui->help_top on. */
static int help_draw(struct tui_cells *cells, struct tui_rect area, const struct tui_ui *ui)
{
    const struct tui_view *view = tui_views[ui->view];
    struct help help = {cells, area, 0, ui->help_top};
    char title[160];
    snprintf(title, sizeof title, "%s: %s", view->name, rep_or(view->help, ""));
    help_lines(&help, TUI_TITLE, title);
    help_lines(&help, TUI_NORMAL, view->keys);
    help_line(&help, TUI_NORMAL, "", 0);
    help_lines(&help, TUI_TITLE, "everywhere (any key closes this)");
    for (int i = 0; tui_help_lines[i]; i++)
        help_lines(&help, TUI_NORMAL, tui_help_lines[i]);
    help_line(&help, TUI_NORMAL, "", 0);
    for (int i = 0; tui_views[i]; i++) {
        for (const struct tui_view_group *group = tui_view_groups; group->name; group++)
            if (group->first == i) {
                snprintf(title, sizeof title, "views: %s", group->name);
                help_lines(&help, TUI_TITLE, title);
            }
        snprintf(title, sizeof title, "%c  %-14s %s", tui_views[i]->key, tui_views[i]->name,
                 rep_or(tui_views[i]->help, ""));
        help_lines(&help, TUI_NORMAL, title);
    }
    help_line(&help, TUI_NORMAL, "", 0);
    help_lines(&help, TUI_DIM,
               "What the numbers mean: docs/metrics.md, or tacho report --definitions");
    return help.line;
}

/* Lays the help out once without drawing, to learn how far it may scroll. */
static void draw_help(struct tui_cells *cells, struct tui_rect area, struct tui_ui *ui)
{
    int lines = help_draw(cells, (struct tui_rect){0, 0, 0, 0}, ui);
    if (ui->help_top > lines - area.rows)
        ui->help_top = lines > area.rows ? lines - area.rows : 0;
    help_draw(cells, area, ui);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void draw_view(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_ui *ui)
{
    if (area.rows > 0 && area.columns > 0)
        tui_views[ui->view]->draw(cells, area, model, &ui->state[ui->view]);
}

static const struct tui_model nothing = {.state = TUI_OPENING,
                                         .run = "",
                                         .message = "",
                                         .last_index = -1,
                                         .recent_ms = NAN,
                                         .recent_tokens_per_s = NAN,
                                         .result_reason = "reading the run",
                                         .window = ""};

struct tui_layout tui_frame_layout(const struct tui_cells *cells, const struct tui_model *model,
                                   const struct tui_ui *ui)
{
    model = model ? model : &nothing;
    int verdict = ui->view && cells->rows < VERDICT_EVERYWHERE
                      ? 1
                      : verdict_rows(cells, model, cells->columns - 1);
    return tui_layout(cells->rows, cells->columns, *ui->note || *model->message, verdict);
}

/* Draws all parts in the order in which they lie on the screen. */
void tui_frame_draw(struct tui_cells *cells, const struct tui_model *model, struct tui_ui *ui)
{
    model = model ? model : &nothing;
    const char *message = *ui->note ? ui->note : model->message;
    struct tui_layout layout = tui_frame_layout(cells, model, ui);
    tui_cells_clear(cells, (struct tui_rect){0, 0, cells->rows, cells->columns});
    draw_header(cells, layout.header, model, ui);
    draw_verdict(cells, layout.verdict, model);
    if (layout.rule.rows)
        tui_rule(cells, layout.rule, 0);
    if (ui->help)
        draw_help(cells, layout.body, ui);
    else if (ui->picking)
        tui_picker_draw(cells, layout.body, model, ui);
    else
        draw_view(cells, layout.body, model, ui);
    if (layout.rule2.rows)
        tui_rule(cells, layout.rule2, 0);
    tui_text(cells, layout.message, 0, 1,
             model->state == TUI_LOST && !*ui->note ? TUI_BAD : TUI_WARN, message);
    if (ui->prompt)
        draw_prompt(cells, layout.keys, ui);
    else
        draw_keys(cells, layout.keys, ui);
}

/* ---- as text --------------------------------------------------------------------------------- */

/* The end of a row without the blanks after it. */
static int row_end(const struct tui_cells *cells, int row)
{
    int end = cells->columns;
    while (end > 0 &&
           cells->cell[(size_t)row * (size_t)cells->columns + (size_t)end - 1].glyph == ' ')
        end--;
    return end;
}

int tui_cells_print(const struct tui_cells *cells, bool trim, FILE *out)
{
    int rows = cells->rows;
    while (trim && rows > 0 && !row_end(cells, rows - 1))
        rows--;
    for (int row = 0; row < rows; row++) {
        int end = row_end(cells, row);
        for (int column = 0; column < end; column++) {
            uint32_t glyph =
                cells->cell[(size_t)row * (size_t)cells->columns + (size_t)column].glyph;
            char text[4];
            if (glyph)
                fwrite(text, 1, rep_encode(text, (long)glyph), out);
        }
        fputc('\n', out);
    }
    return ferror(out) ? TACHO_EIO : 0;
}

/* Draws the view on a surface that is high enough for any of them, and gives its state back
 * unchanged. */
int tui_frame_export(const struct tui_model *model, struct tui_ui *ui, int columns, FILE *out)
{
    struct tui_cells cells = {.glyphs = ui->glyphs};
    struct tui_view_state before = ui->state[ui->view];
    struct tui_rect head = {0, 0, 1, columns}, verdict = {1, 0, 3, columns},
                    body = {5, 0, EXPORT_ROWS, columns};
    int rc = tui_cells_resize(&cells, EXPORT_ROWS + 5, columns);
    if (rc)
        return rc;
    model = model ? model : &nothing;
    draw_header(&cells, head, model, ui);
    draw_verdict(&cells, verdict, model);
    draw_view(&cells, body, model, ui);
    ui->state[ui->view] = before;
    rc = tui_cells_print(&cells, true, out);
    tui_cells_free(&cells);
    return rc;
}

const char *const *tui_view_names(void)
{
    static const char *names[TUI_VIEWS_MOST + 1];
    for (int i = 0; i < TUI_VIEWS_MOST && tui_views[i]; i++)
        names[i] = tui_views[i]->name;
    return names;
}

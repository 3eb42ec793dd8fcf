/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "reports/words/number.h"
#include "tacho_error.h"
#include "tui/layout.h"
#include "tui/tui.h"

#define STALE_S       5  /* a live run that tells nothing for longer: its age is shown */
#define STALE_STEPS   10 /* ... or without a step for so many times a step's length */
#define EXPORT_ROWS   400
#define VERDICT_BYTES 1024
#define VERDICT_EVERYWHERE \
    16 /* rows: on smaller screens only the first view has more than one row of it */

/* ---- one line of parts, of which the least important are left out ----------------------------------------------------------------- */

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
part(struct line *l, int importance, enum tui_style style, const char *format, ...)
{
    va_list ap;
    if (l->count == PARTS_MOST)
        return;
    struct part *p = &l->part[l->count++];
    va_start(ap, format);
    vsnprintf(p->text, sizeof p->text, format, ap);
    va_end(ap);
    p->style = style;
    p->importance = importance;
}

/* Drops parts until the line fits, then draws it. */
static void line_draw(struct tui_cells *c, struct tui_rect r, struct line *l, int columns)
{
    for (;;) {
        int width = 0, least = -1, left = 0;
        for (int i = 0; i < l->count; i++) {
            if (!*l->part[i].text)
                continue;
            width += tui_width(c, l->part[i].text) + 2;
            left++;
            if (least < 0 || l->part[i].importance < l->part[least].importance)
                least = i;
        }
        if (width - 1 <= columns || left < 2)
            break;
        *l->part[least].text = 0;
    }
    int column = 1;
    r.columns = columns < r.columns ? columns : r.columns;
    for (int i = 0; i < l->count; i++)
        if (*l->part[i].text)
            column += tui_text(c, r, 0, column, l->part[i].style, l->part[i].text) + 2;
}

/* ---- header, verdict -------------------------------------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Seconds since the newest step ended, of a run whose clock goes on (its counters tell): it hangs,
 * evaluates, writes. 0: not worth a word. */
static double without_step_s(const struct tui_model *m)
{
    double newest = -INFINITY;
    for (size_t i = 0; i < m->step_count; i++)
        newest = fmax(newest, m->step[i].start_s + m->step[i].ms * (double)m->step[i].steps / 1e3);
    double since = m->now_s - newest + m->age_s;
    return since >= STALE_S && since > STALE_STEPS * m->recent_ms / 1e3 ? since : 0;
}

/* How the run is doing, in a word and a sign; its style. */
static enum tui_style state_text(const struct tui_cells *c, const struct tui_model *m,
                                 const struct tui_ui *ui, char *text, size_t size)
{
    bool signs = c->glyphs != TUI_ASCII;
    if (ui->paused) {
        snprintf(text, size, "%s paused %.0f s", signs ? "‖" : "=", ui->paused_s);
        return TUI_WARN;
    }
    switch (m->state) {
    case TUI_LIVE:
        if (m->age_s >= STALE_S) {
            snprintf(text, size, "%s silent for %.0f s", signs ? "●" : "*", m->age_s);
            return TUI_WARN;
        }
        if (m->step_count && without_step_s(m) > 0) {
            snprintf(text, size, "%s no step for %.0f s", signs ? "●" : "*", without_step_s(m));
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
static const char *left_text(char a[32], double s)
{
    if (s < 100)
        snprintf(a, 32, "%.0f s", s);
    else if (s < 100 * 60)
        snprintf(a, 32, "%.0f min", s / 60);
    else if (s < 100 * 3600)
        snprintf(a, 32, "%.1f h", s / 3600);
    else
        snprintf(a, 32, "%.0f d", s / 86400);
    return a;
}

static void draw_header(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                        const struct tui_ui *ui)
{
    struct line l = {.count = 0};
    char state[64], a[32];
    const struct an_result *x = m->r;
    const struct tui_series *loss = tui_model_series(m, "loss");
    enum tui_style style = state_text(c, m, ui, state, sizeof state);
    int width = tui_width(c, state);
    bool live = m->state == TUI_LIVE;
    part(&l, 9, TUI_BOLD, "%.60s",
         x && *x->run.program ? x->run.program
         : *m->run            ? base_name(m->run)
                              : "tacho top");
    if (m->last_index >= 0 && m->steps_expected > 0)
        part(&l, 8, TUI_NORMAL, "step %" PRId64 "/%" PRId64, m->last_index + 1, m->steps_expected);
    else if (m->last_index >= 0)
        part(&l, 8, TUI_NORMAL, "step %" PRId64, m->last_index);
    if (isfinite(tui_model_left_s(m)))
        part(&l, 6, TUI_NORMAL, "%s left", left_text(a, tui_model_left_s(m)));
    double ms = live || !x || !x->steps.median_ms.valid ? m->recent_ms : x->steps.median_ms.value;
    if (isfinite(ms))
        part(&l, 7, TUI_NORMAL, "%s", page_time(a, ms * 1e6));
    double rate = live || !x || !x->steps.tokens_per_s.valid ? m->recent_tokens_per_s
                                                             : x->steps.tokens_per_s.value;
    if (isfinite(rate))
        part(&l, 5, TUI_NORMAL, "%s tok/s", page_number(a, rate));
    if (loss && isfinite(loss->last))
        part(&l, 4, TUI_NORMAL, "loss %.4g", loss->last);
    if (x && x->utilization.mfu.valid)
        part(&l, 3, TUI_NORMAL, "MFU %.1f %%", 100 * x->utilization.mfu.value);
    if (x && x->run.ranks > 1)
        part(&l, 2, TUI_DIM, "%" PRId64 " ranks", x->run.ranks);
    if (x && *x->run.program)
        part(&l, 1, TUI_DIM, "%.80s", base_name(m->run));
    if (r.columns > width + 8) {
        line_draw(c, r, &l, r.columns - width - 2);
        tui_text(c, r, 0, r.columns - width - 1, style, state);
    } else { /* too narrow for both: the state is what must not be missed */
        tui_text(c, r, 0, 0, style, state);
    }
}

/* Bytes of the text's first words that fit in the columns; at least one byte of a text that is not
 * empty. */
static size_t fitting(const struct tui_cells *c, const char *text, int columns)
{
    char some[512];
    size_t best = 0, n = strlen(text);
    for (size_t i = 1; i <= n && i < sizeof some; i++) {
        if (text[i] && text[i] != ' ')
            continue;
        memcpy(some, text, i);
        some[i] = 0;
        if (tui_width(c, some) > columns)
            break;
        best = i;
    }
    return best ? best : n;
}

/* What stands under the header. Of a run that lives, no steps may also mean that the first one is
 * not over. */
static const char *verdict_text(const struct tui_model *m, char text[VERDICT_BYTES])
{
    const char *verdict = m->r && m->r->verdict ? m->r->verdict : m->r_reason;
    if (m->state != TUI_LIVE || !m->r || !m->r->steps.reason || m->step_count)
        return verdict;
    static const char class[] = "NO STEPS: "; /* says the same, and less */
    bool same = !strncmp(verdict, class, sizeof class - 1);
    snprintf(text, VERDICT_BYTES, "NO STEP HAS ENDED YET%s %s", same ? ":" : ".",
             verdict + (same ? sizeof class - 1 : 0));
    return text;
}

static int verdict_rows(const struct tui_cells *c, const struct tui_model *m, int columns)
{
    char some[VERDICT_BYTES];
    const char *text = verdict_text(m, some);
    int rows = 0;
    for (; *text && rows < 16; rows++)
        for (text += fitting(c, text, columns - 1); *text == ' ';)
            text++;
    return rows;
}

static void draw_verdict(struct tui_cells *c, struct tui_rect r, const struct tui_model *m)
{
    char some[VERDICT_BYTES];
    const char *text = verdict_text(m, some);
    enum tui_style style = !m->r ? TUI_DIM : m->r->healthy ? TUI_GOOD : TUI_WARN;
    int column = 0, row = 0;
    for (; row < r.rows && *text; row++) {
        size_t n = row + 1 < r.rows ? fitting(c, text, r.columns - 1) : strlen(text);
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        column = 1 + tui_text(c, r, row, 1, style, line);
        for (text += n; *text == ' ';)
            text++;
    }
    if (m->r && m->r->run.window && row && column + tui_width(c, m->window) + 3 < r.columns)
        tui_text(c, r, row - 1, r.columns - tui_width(c, m->window) - 1, TUI_DIM, m->window);
}

/* ---- keys, help ------------------------------------------------------------------------------------------------------------------- */

/* How many views in their order can have their name on the bar, so that all others, and `rest`
 * columns, still fit. */
static int named_views(int columns, int here, int rest)
{
    int named = 0;
    for (int i = 0; tui_views[i]; i++)
        rest += 2;
    rest += (int)strlen(tui_views[here]->brief);
    for (; tui_views[named]; named++) {
        rest += named == here ? 0 : (int)strlen(tui_views[named]->brief);
        if (rest > columns)
            break;
    }
    return named;
}

static void draw_keys(struct tui_cells *c, struct tui_rect r, const struct tui_ui *ui)
{
    int column = 1, letters = 0, named;
    while (tui_views[letters])
        letters++;
    column += tui_text(c, r, 0, column, TUI_KEY, "?");
    column += tui_text(c, r, 0, column, TUI_NORMAL, "help ");
    named = named_views(r.columns, ui->view, column + 2);
    bool names = named >= 4, all = named == letters; /* a few names would only take the room */
    for (int i = 0; i < letters && (names || column + letters + 2 <= r.columns); i++) {
        char key[2] = {tui_views[i]->key, 0};
        bool here = i == ui->view;
        column += tui_text(c, r, 0, column, here ? TUI_SELECTED : TUI_KEY, key);
        if (names && (i < named || here))
            column +=
                tui_text(c, r, 0, column, here ? TUI_SELECTED : TUI_NORMAL, tui_views[i]->brief);
        column += names;
    }
    if (!names && column > 7) {
        column++;
        column += tui_text(c, r, 0, column, TUI_TITLE, tui_views[ui->view]->name) + 1;
    }
    if (column + 14 < r.columns && all) {
        column += tui_text(c, r, 0, column, TUI_KEY, "Space") + 1;
        column += tui_text(c, r, 0, column, TUI_NORMAL, ui->paused ? "go " : "pause ");
    }
    if (column + 1 < r.columns)
        tui_text(c, r, 0, column, TUI_KEY, "q");
}

static void draw_prompt(struct tui_cells *c, struct tui_rect r, const struct tui_ui *ui)
{
    int column = tui_text(c, r, 0, 0, TUI_KEY,
                          ui->prompt == TUI_ASK_SEARCH ? "search: " : "only rows with: ");
    column += tui_text(c, r, 0, column, TUI_NORMAL, ui->input);
    tui_glyph(c, r, 0, column, TUI_SELECTED, ' ');
}

struct help {
    struct tui_cells *c;
    struct tui_rect r;
    int line, top;
};

static void help_line(struct help *h, enum tui_style style, const char *text, size_t bytes)
{
    if (h->line >= h->top)
        tui_printf(h->c, h->r, h->line - h->top, 1, style, "%.*s", (int)bytes, text);
    h->line++;
}

static void help_lines(struct help *h, enum tui_style style, const char *text)
{
    for (const char *line = text; line && *line;) {
        size_t n = strcspn(line, "\n");
        help_line(h, style, line, n);
        line += n + (line[n] == '\n');
    }
}

/* How many lines the help has; draws those from ui->help_top on. */
static int help_draw(struct tui_cells *c, struct tui_rect r, const struct tui_ui *ui)
{
    const struct tui_view *v = tui_views[ui->view];
    struct help h = {c, r, 0, ui->help_top};
    char title[160];
    snprintf(title, sizeof title, "%s: %s", v->name, v->help ? v->help : "");
    help_lines(&h, TUI_TITLE, title);
    help_lines(&h, TUI_NORMAL, v->keys);
    help_line(&h, TUI_NORMAL, "", 0);
    help_lines(&h, TUI_TITLE, "everywhere (any key closes this)");
    for (int i = 0; tui_help_lines[i]; i++)
        help_lines(&h, TUI_NORMAL, tui_help_lines[i]);
    help_line(&h, TUI_NORMAL, "", 0);
    help_lines(&h, TUI_TITLE, "views");
    for (int i = 0; tui_views[i]; i++) {
        snprintf(title, sizeof title, "%c  %-14s %s", tui_views[i]->key, tui_views[i]->name,
                 tui_views[i]->help ? tui_views[i]->help : "");
        help_lines(&h, TUI_NORMAL, title);
    }
    help_line(&h, TUI_NORMAL, "", 0);
    help_lines(&h, TUI_DIM,
               "What the numbers mean: docs/metrics.md, or tacho report --definitions");
    return h.line;
}

static void draw_help(struct tui_cells *c, struct tui_rect r, struct tui_ui *ui)
{
    int lines = help_draw(c, (struct tui_rect){0, 0, 0, 0}, ui);
    if (ui->help_top > lines - r.rows)
        ui->help_top = lines > r.rows ? lines - r.rows : 0;
    help_draw(c, r, ui);
}

/* ---- all of it -------------------------------------------------------------------------------------------------------------------- */

static void draw_view(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                      struct tui_ui *ui)
{
    if (r.rows > 0 && r.columns > 0)
        tui_views[ui->view]->draw(c, r, m, &ui->state[ui->view]);
}

static const struct tui_model nothing = {.state = TUI_OPENING,
                                         .run = "",
                                         .message = "",
                                         .last_index = -1,
                                         .recent_ms = NAN,
                                         .recent_tokens_per_s = NAN,
                                         .r_reason = "reading the run",
                                         .window = ""};

struct tui_layout tui_frame_layout(const struct tui_cells *c, const struct tui_model *m,
                                   const struct tui_ui *ui)
{
    m = m ? m : &nothing;
    int verdict = ui->view && c->rows < VERDICT_EVERYWHERE ? 1 : verdict_rows(c, m, c->columns - 1);
    return tui_layout(c->rows, c->columns, *ui->note || *m->message, verdict);
}

void tui_frame_draw(struct tui_cells *c, const struct tui_model *m, struct tui_ui *ui)
{
    m = m ? m : &nothing;
    const char *message = *ui->note ? ui->note : m->message;
    struct tui_layout l = tui_frame_layout(c, m, ui);
    tui_cells_clear(c, (struct tui_rect){0, 0, c->rows, c->columns});
    draw_header(c, l.header, m, ui);
    draw_verdict(c, l.verdict, m);
    if (l.rule.rows)
        tui_rule(c, l.rule, 0);
    if (ui->help)
        draw_help(c, l.body, ui);
    else
        draw_view(c, l.body, m, ui);
    if (l.rule2.rows)
        tui_rule(c, l.rule2, 0);
    tui_text(c, l.message, 0, 1, m->state == TUI_LOST && !*ui->note ? TUI_BAD : TUI_WARN, message);
    if (ui->prompt)
        draw_prompt(c, l.keys, ui);
    else
        draw_keys(c, l.keys, ui);
}

/* ---- as text ---------------------------------------------------------------------------------------------------------------------- */

static void put_glyph(uint32_t g, FILE *out)
{
    if (g < 0x80) {
        fputc((int)g, out);
    } else if (g < 0x800) {
        fputc((int)(0xc0 | g >> 6), out);
        fputc((int)(0x80 | (g & 0x3f)), out);
    } else if (g < 0x10000) {
        fputc((int)(0xe0 | g >> 12), out);
        fputc((int)(0x80 | (g >> 6 & 0x3f)), out);
        fputc((int)(0x80 | (g & 0x3f)), out);
    } else {
        fputc((int)(0xf0 | g >> 18), out);
        fputc((int)(0x80 | (g >> 12 & 0x3f)), out);
        fputc((int)(0x80 | (g >> 6 & 0x3f)), out);
        fputc((int)(0x80 | (g & 0x3f)), out);
    }
}

static int row_end(const struct tui_cells *c, int row)
{
    int end = c->columns;
    while (end > 0 && c->cell[(size_t)row * (size_t)c->columns + (size_t)end - 1].glyph == ' ')
        end--;
    return end;
}

int tui_cells_print(const struct tui_cells *c, bool trim, FILE *out)
{
    int rows = c->rows;
    while (trim && rows > 0 && !row_end(c, rows - 1))
        rows--;
    for (int row = 0; row < rows; row++) {
        int end = row_end(c, row);
        for (int column = 0; column < end; column++) {
            uint32_t g = c->cell[(size_t)row * (size_t)c->columns + (size_t)column].glyph;
            if (g)
                put_glyph(g, out);
        }
        fputc('\n', out);
    }
    return ferror(out) ? TACHO_EIO : 0;
}

int tui_frame_export(const struct tui_model *m, struct tui_ui *ui, int columns, FILE *out)
{
    struct tui_cells c = {.glyphs = ui->glyphs};
    struct tui_view_state before = ui->state[ui->view];
    struct tui_rect head = {0, 0, 1, columns}, verdict = {1, 0, 3, columns},
                    body = {5, 0, EXPORT_ROWS, columns};
    int rc = tui_cells_resize(&c, EXPORT_ROWS + 5, columns);
    if (rc)
        return rc;
    m = m ? m : &nothing;
    draw_header(&c, head, m, ui);
    draw_verdict(&c, verdict, m);
    draw_view(&c, body, m, ui);
    ui->state[ui->view] = before;
    rc = tui_cells_print(&c, true, out);
    tui_cells_free(&c);
    return rc;
}

const char *const *tui_view_names(void)
{
    static const char *names[TUI_VIEWS_MOST + 1];
    for (int i = 0; tui_views[i] && i < TUI_VIEWS_MOST; i++)
        names[i] = tui_views[i]->name;
    return names;
}

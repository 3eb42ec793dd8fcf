/* SPDX-License-Identifier: Apache-2.0
 *
 * What keys do: to the prompt, to the state of the view, to the screen. Knows no terminal, so
 * that tests can type.
 */
#include "tui/keys.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "reports/words/compare.h"
#include "reports/words/escape.h"
#include "tui/tui.h"
#include "tui/views.h"
#include "tui/views/view_list.h"

#define ZOOM_MOST   4096
#define PAN_COLUMNS 8

const char *const tui_help_lines[] = {
    "1-9, letters  views, as on the key bar; Tab, Shift-Tab: next, previous",
    "arrows, j k   move; PgUp PgDn Home End, g G",
    "Enter         details of the row; Esc closes, then clears search, filter",
    "/  n N        search, next, previous",
    "\\             show only rows that contain the words",
    "s  < >  I     sort by the next column; left, right; reverse",
    "+ - 0         zoom in, out, all of it; then left and right pan",
    "m  [ ]        the next picture; the next step, device or rank",
    "{ }           analyse the previous, the next part of a long run",
    "o             another run: those of this machine and of this folder",
    "Space  r      pause, resume; read and analyse now",
    "e             write this view to a text file in this folder",
    "t  u          theme: dark, light, mono; glyphs: braille, block, ASCII",
    "M  q          mouse on and off; quit (also Ctrl-C)",
    NULL,
};

void tui_ui_init(struct tui_ui *ui)
{
    *ui = (struct tui_ui){.glyphs = TUI_BRAILLE, .glyphs_most = TUI_BRAILLE};
    for (size_t i = 0; i < TUI_VIEWS_MOST; i++)
        ui->state[i].zoom = 1;
}

/* ---- the prompt ------------------------------------------------------------------------------ */

/* Removes the last character of the input, which may be several bytes. */
static void cut_last(char *text)
{
    size_t length = strlen(text);
    while (length && ((unsigned char)text[length - 1] & 0xc0) ==
                         0x80) /* the bytes after the first one of a character */
        length--;
    text[length ? length - 1 : 0] = 0;
}

/* Appends a code point to the input as UTF-8, if all of it fits. */
static void append_code(char text[TUI_WORDS], int code)
{
    char bytes[4];
    size_t used = strlen(text), length = rep_encode(bytes, code);
    if (used + length >= TUI_WORDS)
        return;
    memcpy(text + used, bytes, length);
    text[used + length] = 0;
}

/* A key while a prompt is open: it edits the input, accepts it as search or filter, or closes
 * the prompt. */
static enum tui_action prompt_key(struct tui_ui *ui, struct tui_view_state *state, int key)
{
    char *words = ui->prompt == TUI_ASK_SEARCH ? state->search : state->filter;
    if (key == TUI_KEY_ESCAPE) {
        ui->prompt = TUI_NO_PROMPT;
    } else if (key == TUI_KEY_ENTER) {
        memcpy(words, ui->input, TUI_WORDS);
        state->seek = ui->prompt == TUI_ASK_SEARCH && *words ? 1 : 0;
        state->cursor = ui->prompt == TUI_ASK_FILTER ? 0 : state->cursor;
        ui->prompt = TUI_NO_PROMPT;
    } else if (key == TUI_KEY_BACKSPACE) {
        cut_last(ui->input);
    } else if (key >= 0x20 && key != 0x7f && key < TUI_KEY_UP) {
        append_code(ui->input, key);
    }
    return TUI_STAY;
}

/* Opens a prompt in a view that has rows, or for a search lines, to look through. */
static void open_prompt(struct tui_ui *ui, const struct tui_view *view, enum tui_prompt prompt)
{
    if (!view->searches && (!view->texts || prompt == TUI_ASK_FILTER)) {
        snprintf(ui->note, sizeof ui->note, "%s has no rows to %s; ops and path have rows",
                 view->name, prompt == TUI_ASK_SEARCH ? "search" : "filter");
        return;
    }
    ui->prompt = prompt;
    ui->input[0] = 0;
}

/* ---- state of a view ------------------------------------------------------------------------- */

/* Adds within 0..INT_MAX: keys cannot make the cursor overflow. */
static int add_limited(int value, int change)
{
    long long sum = (long long)value + change;
    sum = sum > INT_MAX ? INT_MAX : sum;
    return sum < 0 ? 0 : (int)sum;
}

/* Moves the visible part sideways: in a view that is zoomed its window, else the text. */
static void pan_view(struct tui_view_state *state, int way)
{
    if (state->zoom > 1) {
        state->pan +=
            way /
            (8.0 * (state->zoom - 1)); /* an eighth of the visible part; pan covers the rest */
        state->pan = rep_clamp_real(state->pan, 0, 1);
    } else {
        state->column = add_limited(state->column, way * PAN_COLUMNS);
    }
}

/* Closes or clears one thing at a time, the most recent wish first. */
static void close_one(struct tui_view_state *state)
{
    if (state->open)
        state->open = false;
    else if (*state->search)
        *state->search = 0;
    else
        *state->filter = 0;
}

static void zoom_view(struct tui_view_state *state, double factor)
{
    state->zoom = rep_clamp_real(state->zoom * factor, 1, ZOOM_MOST);
}

/* Keys that move the cursor or the visible part. Returns false for any other key. */
static bool move_key(struct tui_view_state *state, int key)
{
    int page = state->page > 1 ? state->page - 1 : 1;
    switch (key) {
    case TUI_KEY_UP:
    case 'k':
        state->cursor = add_limited(state->cursor, -1);
        return true;
    case TUI_KEY_DOWN:
    case 'j':
        state->cursor = add_limited(state->cursor, 1);
        return true;
    case TUI_KEY_LEFT:
        pan_view(state, -1);
        return true;
    case TUI_KEY_RIGHT:
    case 'l':
        pan_view(state, 1);
        return true;
    case TUI_KEY_PAGE_UP:
        state->cursor = add_limited(state->cursor, -page);
        return true;
    case TUI_KEY_PAGE_DOWN:
        state->cursor = add_limited(state->cursor, page);
        return true;
    case TUI_KEY_HOME:
    case 'g':
        state->cursor = state->column = 0;
        state->pan = 0;
        return true;
    case TUI_KEY_END:
    case 'G':
        state->cursor = INT_MAX;
        state->pan = 1;
        return true;
    default:
        return false;
    }
}

/* Keys that choose what is seen: zoom, mode, span. Returns false for any other key. */
static bool window_key(struct tui_view_state *state, int key)
{
    switch (key) {
    case '+':
    case '=':
        zoom_view(state, 2);
        return true;
    case '-':
        zoom_view(state, 0.5);
        return true;
    case '0':
        state->zoom = 1;
        state->pan = 0;
        return true;
    case 'm':
        state->mode++;
        return true;
    case '[':
    case ']':
        state->span += key == ']' ? 1 : -1;
        return true;
    default:
        return false;
    }
}

/* What a key does to the state of a view where the view has no use of its own for it (view.h). */
static void state_key(struct tui_view_state *state, int key)
{
    if (move_key(state, key) || window_key(state, key))
        return;
    switch (key) {
    case TUI_KEY_ENTER:
        state->open = !state->open;
        break;
    case TUI_KEY_ESCAPE:
        close_one(state);
        break;
    case 's':
    case '>':
        state->sort++;
        break;
    case '<':
        state->sort--;
        break;
    case 'I':
        state->reversed = !state->reversed;
        break;
    case 'n':
    case 'N':
        state->seek = key == 'n' ? 1 : -1;
        break;
    default:
        break;
    }
}

/* ---- the frame's keys ------------------------------------------------------------------------ */

static int view_count(void)
{
    int count = 0;
    while (count < TUI_VIEWS_MOST && tui_views[count])
        count++;
    return count;
}

static enum tui_action go_to_view(struct tui_ui *ui, int view)
{
    int count = view_count();
    ui->view = ((view % count) + count) % count;
    return TUI_OPTIONS;
}

/* Goes from the first screen to the card of the first finding. */
static enum tui_action open_finding(struct tui_ui *ui)
{
    for (int i = 0; i < view_count(); i++)
        if (tui_views[i] == &tui_view_findings) {
            ui->state[i].cursor = ui->state[i].span = 0;
            ui->state[i].open = true;
            return go_to_view(ui, i);
        }
    return TUI_STAY;
}

/* A key while help is shown: it scrolls, or closes the help. */
static enum tui_action help_key(struct tui_ui *ui, int key)
{
    if (key == TUI_KEY_DOWN || key == 'j' || key == TUI_KEY_PAGE_DOWN)
        ui->help_top++;
    else if (key == TUI_KEY_UP || key == 'k' || key == TUI_KEY_PAGE_UP)
        ui->help_top = add_limited(ui->help_top, -1);
    else
        ui->help = false;
    return TUI_STAY;
}

/* A key while the runs are listed: it moves, chooses one, or closes the list. */
static enum tui_action picker_key(struct tui_ui *ui, int key)
{
    if (move_key(&ui->picked, key))
        return TUI_STAY;
    ui->picking = false;
    return key == TUI_KEY_ENTER ? TUI_CHOOSE : TUI_STAY;
}

/* Keys that change options which are kept: theme, glyphs, mouse. */
static bool option_key(struct tui_ui *ui, int key)
{
    switch (key) {
    case 't':
        ui->theme = (ui->theme + 1) % TUI_THEMES;
        return true;
    case 'u':
        ui->glyphs = ui->glyphs == TUI_ASCII ? ui->glyphs_most : (enum tui_glyphs)(ui->glyphs - 1);
        return true;
    case 'M':
        ui->mouse = !ui->mouse;
        return true;
    default:
        return false;
    }
}

/* Keys that only ask the caller to do something; TUI_STAY for any other key. */
static enum tui_action action_of(int key)
{
    switch (key) {
    case 'q':
        return TUI_QUIT;
    case 'e':
    case 'w':
        return TUI_EXPORT;
    case 'r':
        return TUI_REFRESH;
    case '{':
        return TUI_EARLIER;
    case '}':
        return TUI_LATER;
    case 0x0c: /* Ctrl-L */
        return TUI_REDRAW;
    default:
        return TUI_STAY;
    }
}

/* Keys that mean the same in every view. Returns false for any other key; *action: what else is
 * to be done. */
static bool frame_key(struct tui_ui *ui, int key, enum tui_action *action)
{
    *action = option_key(ui, key) ? TUI_OPTIONS : action_of(key);
    if (*action != TUI_STAY)
        return true;
    switch (key) {
    case '?':
        ui->help = true;
        ui->help_top = 0;
        return true;
    case ' ':
        ui->paused = !ui->paused;
        ui->paused_s = 0;
        *action = TUI_PAUSE;
        return true;
    case 'o':
        ui->picking = true;
        *action = TUI_LIST;
        return true;
    case TUI_KEY_TAB:
    case TUI_KEY_BACK_TAB:
        *action = go_to_view(ui, ui->view + (key == TUI_KEY_TAB ? 1 : -1));
        return true;
    default:
        return false;
    }
}

/* A key goes to the first that has a use for it: prompt, help, screen, letters of views, the
 * view itself, its state. */
enum tui_action tui_ui_key(struct tui_ui *ui, int key)
{
    const struct tui_view *view = tui_views[ui->view];
    struct tui_view_state *state = &ui->state[ui->view];
    enum tui_action action;
    *ui->note = 0;
    if (ui->prompt)
        return prompt_key(ui, state, key);
    if (ui->help && key != 'q')
        return help_key(ui, key);
    if (ui->picking && key != 'q')
        return picker_key(ui, key);
    if (frame_key(ui, key, &action))
        return action;
    for (int i = 0; i < view_count(); i++)
        if (tui_views[i]->key == key)
            return go_to_view(ui, i);
    if (key == TUI_KEY_ENTER && !ui->view)
        return open_finding(ui);
    if (key == '/' || key == '\\')
        open_prompt(ui, view, key == '/' ? TUI_ASK_SEARCH : TUI_ASK_FILTER);
    else if (view->take && view->take(state, key))
        return TUI_STAY;
    else if (key == 'h')
        ui->help = true;
    else
        state_key(state, key);
    return TUI_STAY;
}

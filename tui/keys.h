/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: what keys do, apart from any terminal.
 */
#ifndef TUI_KEYS_H
#define TUI_KEYS_H

#include "tui/screen/view.h"

#define TUI_VIEWS_MOST 16

enum tui_prompt { TUI_NO_PROMPT, TUI_ASK_SEARCH, TUI_ASK_FILTER };

/* All that the user chose. */
struct tui_ui {
    int view; /* of tui_views */
    struct tui_view_state state[TUI_VIEWS_MOST];
    bool help, paused, picking; /* picking: the list of runs is shown */
    struct tui_view_state picked;
    uint64_t picked_run; /* hash of the run that the cursor was drawn on, and where that was */
    int picked_at;
    int help_top;
    enum tui_prompt prompt;
    char input[TUI_WORDS];
    char note[512]; /* "written to FILE": until the next key */
    int theme;
    enum tui_glyphs glyphs, glyphs_most; /* most: what the locale allows */
    bool mouse;
    double paused_s; /* how long */
};

void tui_ui_init(struct tui_ui *ui);

enum tui_action {
    TUI_STAY,
    TUI_QUIT,
    TUI_EXPORT,
    TUI_PAUSE,
    TUI_OPTIONS,
    TUI_REFRESH,
    TUI_REDRAW,
    TUI_EARLIER,
    TUI_LATER,
    TUI_LIST,  /* the runs are to be listed */
    TUI_CHOOSE /* the run under the cursor is to be shown */
};

/* Handles a key: changes `ui` and returns what else is to be done. TUI_OPTIONS: theme, glyphs,
 * mouse or view changed. TUI_EARLIER, TUI_LATER: another part of the run is to be analysed. */
enum tui_action tui_ui_key(struct tui_ui *ui, int key);

/* Text of the ? overlay; lines. Static storage. */
extern const char *const tui_help_lines[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: what a view is. A view is one file view_NAME.c that defines one `const struct
 * tui_view`, and one row in tui_views (tui/views.c). It draws a model into a rectangle of cells and
 * nothing else: it knows no terminal, no file and no clock. The same draw serves the terminal,
 * --batch, the export key and the tests.
 *
 * draw() is called with rectangles of every size from 1x1 on, with a model that has no analysis yet
 * (model->result NULL: show model->result_reason), and with parts that are absent (show the reason
 * of the part). It clears nothing: the rectangle is blank.
 *
 * Keys: those that mean the same in all views (quit, help, views, pause, export, theme) never reach
 * a view. The others go to the view's take(), if it has one. A key that take() refuses changes the
 * state as `enum tui_key` says. draw() then limits the state to what exists: it may lower `cursor`,
 * `top` and `column`, change `pan`, and sets `seek` to 0. A tree reads `open` as the wish to fold
 * or unfold the row under the cursor, and resets it. draw() changes nothing else.
 */
#ifndef TUI_VIEW_H
#define TUI_VIEW_H

#include "tui/data/model.h"
#include "tui/screen/cells.h"

/* Keys that are not characters; a character is its code point. The comments say what a key does to
 * the state of a view that has no use of its own for it. */
enum tui_key {
    TUI_KEY_UP = 0x110000, /* k: cursor - 1 */
    TUI_KEY_DOWN,          /* j: cursor + 1 */
    TUI_KEY_LEFT,          /* column - 8, or where zoom > 1: pan - 1/8 of what is visible */
    TUI_KEY_RIGHT,         /* column + 8, pan + 1/8 */
    TUI_KEY_PAGE_UP,       /* cursor - page */
    TUI_KEY_PAGE_DOWN,     /* cursor + page */
    TUI_KEY_HOME,          /* g: cursor 0, pan 0 */
    TUI_KEY_END,           /* G: cursor INT_MAX, pan 1 */
    TUI_KEY_ENTER,         /* open = !open */
    TUI_KEY_ESCAPE,        /* closes what is open, else clears search, then filter */
    TUI_KEY_TAB,           /* frame: next view */
    TUI_KEY_BACK_TAB,      /* frame: previous view */
    TUI_KEY_BACKSPACE,
    TUI_KEY_CLICK, /* mouse: state.click_row, click_column, in the view's rectangle */
    /* characters that the frame turns into state: s sort + 1 · < > sort -/+ 1 · I reversed =
     * !reversed · + - zoom * and / 2 · 0 zoom 1 · m mode + 1 · / asks for search · \ asks for
     * filter · n N seek +1 -1 · [ ] span -/+ 1 */
};

#define TUI_WORDS 64
#define TUI_FOLDS 64
/* One for each view, kept while others are shown. All 0 (zoom 1) at first. */
struct tui_view_state {
    int cursor, top; /* row under the cursor, first row that is shown */
    int page;        /* rows that were shown: draw() sets it */
    int column;      /* first column of text that is shown */
    int sort;      /* which of the view's orders; draw takes it modulo how many there are (it may be
                      negative) */
    bool reversed; /* that order, turned round */
    int mode;      /* which of the view's pictures; modulo, the same */
    double zoom;   /* 1: all of it is visible; 2: half of it. 1 .. 4096 */
    double pan;    /* 0: its beginning is visible, 1: its end */
    bool open;     /* the row under the cursor shows its details */
    int span;      /* which of the steps, devices, ranks ...: modulo, the same */
    int found;     /* the line that the search went to last, from 1; 0: none */
    int seek;      /* +1, -1: go to the next, previous row that holds `search`; 0 */
    uint64_t
        folded[TUI_FOLDS]; /* rows of a tree whose children are hidden, by a hash of their path */
    int folds;
    char filter[TUI_WORDS], search[TUI_WORDS]; /* "": none; without regard to case; UTF-8 */
    int click_row, click_column;
};

struct tui_view {
    char key;          /* '1' .. '9', then letters that are free: see the frame's keys in keys.c */
    const char *name;  /* "overview": title, --view */
    const char *brief; /* "over": on the key bar, at most 5 letters */
    const char *help;  /* one line: what it shows */
    const char *keys;  /* lines for the ? overlay: "m       sort by ...\n"; NULL: none of its own */
    bool searches;     /* has rows that filter and search apply to */
    bool texts;        /* has lines of text that search applies to */
    void (*draw)(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s);
    bool (*take)(struct tui_view_state *s, int key); /* NULL, or: true when it took the key */
};

/* ---- for views ------------------------------------------------------------------------------- */

/* Panels above each other (layout.c). Panels that do not fit are omitted whole, the least
 * important first. Rows that are left go to the panels that can use them. */
struct tui_panel {
    int least, most; /* rows it needs, rows it can use */
    int importance;  /* higher stays longer */
    void (*draw)(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                 struct tui_view_state *s); /* or NULL */
    struct tui_rect rect;                   /* out: rows 0 when omitted */
};
void tui_layout_panels(struct tui_rect area, struct tui_panel *panel, size_t count);
/* The same, and draws those that fit. */
void tui_panels_draw(struct tui_cells *cells, struct tui_rect area, struct tui_panel *panel,
                     size_t count, const struct tui_model *model, struct tui_view_state *state);

/* Does the text hold the words, without regard to case (ASCII)? "" is held by all. state.c */
bool tui_holds(const char *text, const char *words);
/* A choice among `count` (above 0) that goes round in both directions. state.c */
int tui_wrap(int wish, size_t count);
/* Where a search is asked for, moves the cursor to the next or previous one of `count` rows that
 * holds the words, round the end; `holds` is called with `owner`. state.c */
typedef bool tui_row_holds(const void *owner, int row, const char *words);
void tui_seek(struct tui_view_state *state, int count, tui_row_holds *holds, const void *owner);
/* Limits cursor and top of a table of `rows` rows, of which `shown` fit, to what exists. state.c */
void tui_state_clamp(struct tui_view_state *state, int rows, int shown);

#endif

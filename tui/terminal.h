/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the one place that knows a terminal (ncurses). One at a time. Whatever way the
 * program dies but by SIGKILL, the terminal is put back: at exit, at signals that end it (they are
 * raised again), and at crashes, by writing what was prepared when it was opened.
 */
#ifndef TUI_TERMINAL_H
#define TUI_TERMINAL_H

#include "tacho_error.h"
#include "tui/screen/cells.h"
#include "tui/screen/view.h"

/* TACHO_ENOTSUP with a hint: stdin or stdout is no terminal, an unknown one, or tacho was built
 * without ncurses. */
int tui_terminal_open(struct tacho_error *err);
/* Puts the terminal back. Raises the signal that ended the program, if one did. */
void tui_terminal_close(void);

void tui_terminal_size(int *rows, int *columns);
/* Readable when a signal asks to leave. */
int tui_terminal_signal_fd(void);
/* Colours for meanings; `color` false: attributes only. */
void tui_terminal_theme(int theme, bool color);
void tui_terminal_mouse(bool on);
/* The next key that was typed (view.h), TUI_TERMINAL_NO_KEY: none waits. */
#define TUI_TERMINAL_NO_KEY  (-1)
#define TUI_TERMINAL_RESIZED (-2)
#define TUI_TERMINAL_GONE    (-3) /* the terminal is gone, or a signal asks to leave */
int tui_terminal_key(int *click_row, int *click_column);
/* Writes the cells that differ from those shown; returns about how many bytes that took. */
int tui_terminal_show(const struct tui_cells *cells);
/* All of it again, at the next show. */
void tui_terminal_redraw(void);

#endif

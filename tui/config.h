/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: what the user chose with keys, kept in $XDG_CONFIG_HOME/tacho/top.conf: lines
 * "NAME = WORD". Words that are not understood are left alone when it is read and gone when it is
 * written.
 */
#ifndef TUI_CONFIG_H
#define TUI_CONFIG_H

#include "tui/keys.h"
#include "tui/tui.h"

/* Reads what there is; changes only what the file says. */
void tui_config_read(struct tui_ui *ui);
/* Keeps what is another than in `began` (what the file, the command line and the locale gave); the
 * rest stays as the file has it. 0 or an errno; *path (size bytes) is the file. */
int tui_config_write(const struct tui_ui *ui, const struct tui_ui *began, char *path, size_t size);

/* -1: not one. */
int tui_theme_of(const char *name);
int tui_glyphs_of(const char *name);
int tui_view_of(const char *name);

#endif

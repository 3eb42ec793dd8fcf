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

/* Reads the file, if there is one; changes only the options that it sets. */
void tui_config_read(struct tui_ui *ui);
/* Writes the options that differ from `began` (what file, command line and locale gave); the others
 * keep the values of the file. 0 or an errno; *path (size bytes) is the file. */
int tui_config_write(const struct tui_ui *ui, const struct tui_ui *began, char *path, size_t size);

/* -1: not one. */
int tui_theme_of(const char *name);
int tui_glyphs_of(const char *name);
int tui_view_of(const char *name);

#endif

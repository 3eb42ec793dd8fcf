/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: a colour and attributes for each meaning. Colours are those of Okabe and Ito
 * (2008), which people of all kinds of colour vision tell apart, as the nearest of 256, else of 8;
 * the background is always the terminal's own. Without colour the attributes remain, and every
 * state is a word or a letter too.
 */
#ifndef TUI_THEME_H
#define TUI_THEME_H

#include "tui/screen/cells.h"
#include "tui/tui.h"

enum tui_attribute {
    TUI_ATTR_BOLD = 1,
    TUI_ATTR_DIM = 2,
    TUI_ATTR_REVERSE = 4,
    TUI_ATTR_UNDERLINE = 8
};

struct tui_look {
    short of256, of8;    /* colour; -1: the terminal's own */
    unsigned attributes; /* with colour */
    unsigned mono;       /* without */
};

struct tui_look tui_theme_look(enum tui_theme theme, enum tui_style style);
const char *tui_theme_name(enum tui_theme theme);

#endif

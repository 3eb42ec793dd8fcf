/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the places of the parts of a screen. The same size always gives the same
 * rectangles. Every rectangle lies inside the screen, no two of them share a cell, and the header
 * has its row on the smallest of screens.
 */
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include "tui/screen/view.h"

/* From the top: header, verdict, rule, body (the view), rule, message, keys. A part without room
 * has 0 rows. As a screen gets higher they appear in this order: header, verdict, keys, body,
 * message, rules. */
struct tui_layout {
    struct tui_rect header, verdict, rule, body, rule2, message, keys;
};

/* `verdict_rows`: how many the verdict's text needs; from 20 rows on it gets up to 2. */
struct tui_layout tui_layout(int rows, int columns, bool message, int verdict_rows);

#endif

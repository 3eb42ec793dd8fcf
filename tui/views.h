/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the table of views.
 */
#ifndef TUI_VIEWS_H
#define TUI_VIEWS_H

#include "tui/screen/view.h"

/* Ends with NULL. The first one is shown first. */
extern const struct tui_view *const tui_views[];

#endif

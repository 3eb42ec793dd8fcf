/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the table of views.
 */
#ifndef TUI_VIEWS_H
#define TUI_VIEWS_H

#include "tui/screen/view.h"

/* Ends with NULL. The first one is shown first. */
extern const struct tui_view *const tui_views[];

/* Views that belong together; ends with name NULL, `first` is then the number of views. */
struct tui_view_group {
    const char *name;
    int first; /* of tui_views */
};
extern const struct tui_view_group tui_view_groups[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the views: one view drawn on a surface, without header, verdict and keys.
 */
#ifndef TUI_SCREENS_H
#define TUI_SCREENS_H

#include "tui/views.h"
#include "tui_fixture.h"
#include "tui_models.h"

static struct tui_cells sc; /* what was drawn last */

static const struct tui_view_state fresh = {.zoom = 1};

static inline const struct tui_view *view_of(const char *name)
{
    for (size_t i = 0; tui_views[i]; i++)
        if (!strcmp(tui_views[i]->name, name))
            return tui_views[i];
    fail_msg("no view %s", name);
    return NULL;
}

static inline void draw(const struct tui_view *v, const struct tui_model *m,
                        struct tui_view_state *s, int rows, int columns, enum tui_glyphs glyphs)
{
    sc.glyphs = glyphs;
    assert_int_equal(tui_cells_resize(&sc, rows, columns), 0);
    v->draw(&sc, (struct tui_rect){0, 0, rows, columns}, m, s);
}

/* What a screen of one view says of a model; the caller frees it. */
static inline char *seen(const char *view, const struct tui_model *model, int rows, int columns)
{
    struct tui_view_state s = fresh;
    draw(view_of(view), model, &s, rows, columns, TUI_ASCII);
    return tui_dump(&sc);
}

#endif

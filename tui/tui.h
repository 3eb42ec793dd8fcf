/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tui/: the dashboard, for the command `tacho top`. What it needs of
 * other rooms it gets as functions: how a run is found and how it is analysed is the command's
 * business.
 */
#ifndef TUI_TUI_H
#define TUI_TUI_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzers/result/result.h"
#include "tacho_error.h"
#include "tui/data/source.h"

enum tui_theme { TUI_THEME_DARK, TUI_THEME_LIGHT, TUI_THEME_MONO, TUI_THEMES };

/* What the user asked for on the command line; what was not asked for (-1, NULL) is taken from the
 * file of options, then found out from the terminal. */
struct tui_options {
    int theme;         /* enum tui_theme */
    int glyphs;        /* enum tui_glyphs */
    int mouse;         /* bool */
    int interval_ms;   /* between two frames of a live run */
    bool color;        /* false: none, whatever the theme (NO_COLOR, --color) */
    bool utf8;         /* the locale's characters */
    const char *view;  /* name; NULL: the first */
    int frames;        /* batch: number of frames; < 0: until the run ends */
    int rows, columns; /* batch */
};

/* The dashboard on the terminal, until the user leaves. TACHO_ENOTSUP: no terminal, or built
 * without ncurses. */
int tui_run(const struct tui_source *source, const struct tui_options *options,
            struct tacho_error *err);
/* Frames as text, one after the other. TACHO_EIO: `out` failed. */
int tui_batch(const struct tui_source *source, const struct tui_options *options, FILE *out,
              struct tacho_error *err);
/* The same for a program: `frame` is called with the analysis (NULL: none yet) and other facts
 * about the run. */
struct tui_facts {
    const char *run, *state, *message,
        *window; /* state: "opening", "live", "ended", "lost"; message, window: NULL or text */
    const char *reason; /* why there is no analysis; NULL */
    double now_s, age_s, recent_ms, recent_tokens_per_s;
    double left_s; /* until the planned steps are made; NAN: not known */
    int64_t steps, expected, last_index, slices; /* expected 0, last_index -1: not known */
    const struct tui_fact {
        const char *name, *unit, *device;
        int64_t rank, process; /* STORE_ABSENT: none */
        double value;          /* newest */
    } * series;
    size_t series_count;
};
int tui_each(const struct tui_source *source, const struct tui_options *options,
             int (*frame)(void *ctx, const struct tui_facts *f, const struct an_result *r),
             void *ctx, struct tacho_error *err);

/* Is there a view of that name? Lists them: names[0..], ends with NULL. Static storage. */
const char *const *tui_view_names(void);
/* Was tacho built with ncurses? */
bool tui_has_terminal(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the dashboard needs of other rooms, as functions: how a run is found and how it is analysed.
 * The command `tacho top` supplies them (cli/top_source.c). Part of the public header tui.h.
 */
#ifndef TUI_SOURCE_H
#define TUI_SOURCE_H

#include <stdbool.h>

#include "analyzers/result/result.h"
#include "store/store.h"
#include "tacho_error.h"
#include "tui/data/runs.h"

struct tui_against; /* model.h */

struct tui_found {
    char path[4096]; /* what to open with store_open */
    char run[4096];  /* for messages; "": nothing was found yet */
    bool live;
};

/* All are called by one thread, not the caller's. None may print. */
struct tui_source {
    void *ctx;
    /* Finds the run. `f` holds what was found before; the run may have ended, moved, or begun again
     * since. */
    int (*find)(void *ctx, struct tui_found *f, struct tacho_error *err);
    /* Does a recorder still write the live run? */
    bool (*recorded)(void *ctx, const struct tui_found *f);
    /* The run is over: has another one begun that the user may want to see? Fills *f then. */
    bool (*next)(void *ctx, struct tui_found *f);
    /* Analyses a part of about `slices` slices that ends at `until` (ns; 0: the end of the run);
     * slices 0: the whole run. */
    int (*analyze)(void *ctx, store_reader *r, const struct tui_found *f, int64_t slices,
                   int64_t until, struct an_result **out, struct tacho_error *err);
    /* Analyses the whole of a run that is over, of so many slices, in the background. begin: 0, or
     * why it cannot be; one under way is ended. take: 0 with the result, or with NULL while it is
     * under way; else why there is none. end: gives up one that is under way. All three NULL: large
     * runs are shown in parts. */
    int (*whole_begin)(void *ctx, const struct tui_found *f, int64_t slices,
                       struct tacho_error *err);
    int (*whole_take)(void *ctx, struct an_result **out, struct tacho_error *err);
    void (*whole_end)(void *ctx);
    void (*release)(struct an_result *r);
    /* Adds the runs that the user may turn to; NULL: there is no list. */
    int (*list)(void *ctx, struct tui_runs *runs);
    /* The user chose this run of the list: later calls of find are about it. Fills *f. */
    int (*choose)(void *ctx, const char *run, struct tui_found *f, struct tacho_error *err);
    const struct tui_against *against; /* NULL: none */
};

#endif

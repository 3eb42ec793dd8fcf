/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the runs that the user may turn to, as the picker shows them.
 */
#ifndef TUI_RUNS_H
#define TUI_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A run; texts may be NULL where a comment says so. */
struct tui_run {
    char *run, *state, *verdict; /* verdict NULL: none is saved */
    int64_t steps;
    double step_ms; /* NAN: none has ended */
};
struct tui_runs {
    struct tui_run *row;
    size_t count;
};

/* Appends a copy. 0 or TACHO_ENOMEM. */
int tui_runs_add(struct tui_runs *runs, const struct tui_run *run);
/* A copy of the list, for a model; NULL: no memory. */
struct tui_runs *tui_runs_copy(const struct tui_runs *runs);
void tui_runs_clear(struct tui_runs *runs);
void tui_runs_free(struct tui_runs *runs); /* what tui_runs_copy made; NULL is fine */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: a long piece of work that a user can watch and stop.
 */
#ifndef CLI_BASE_PROGRESS_H
#define CLI_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_progress {
    const char *what;       /* borrowed: what is worked on */
    int64_t begun, shown;   /* ms */
    bool terminal, visible; /* stderr is one; a bar is on it */
};

/* From here to cli_progress_end INT, TERM and HUP ask the work to stop (see cli_progress_step); a
 * second one ends the program at once. One at a time. */
void cli_progress_begin(struct cli_progress *progress, const char *what);
/* For store_import_options.progress; ctx is a struct cli_progress. Draws a bar on stderr if that is
 * a terminal and the work has taken longer than half a second, at most ten times a second.
 * Non-zero: a signal came, stop. */
int cli_progress_step(void *ctx, int64_t done, int64_t total);
/* Erases the bar, gives the signals back. Returns the signal that came, or 0. */
int cli_progress_end(struct cli_progress *progress);

/* A file or folder that must not outlive the program, whatever way that ends (but for KILL and
 * exec). The last added goes first. path is copied. 0, or -1 when there are too many. */
int cli_remove_at_exit(const char *path);
/* Is there one? Then the program must not exec. */
bool cli_removes_at_exit(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: many watches as one table of runs: once, again and again, or on a screen.
 */
#ifndef CLI_WATCH_FLEET_VIEW_H
#define CLI_WATCH_FLEET_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct cli_fleet_view {
    const char *from;       /* FILE|URL of targets (monitor/fleet/fleet.h) */
    const char *token_file; /* NULL: none */
    double interval_s;
    int64_t frames; /* tables; 0: until q or Ctrl-C (screen), or a signal */
    bool screen;    /* stdout is a terminal: each table in place of the one before */
};

/* 0 or an exit code, after a message. What the options name is wrong: it ends. A watch that does
 * not answer is a row. */
int cli_fleet_view(const struct cli_fleet_view *view);

#endif

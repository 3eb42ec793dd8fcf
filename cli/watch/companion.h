/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: `tacho watch` beside a run that this process records (`tacho run --watch`).
 */
#ifndef CLI_WATCH_COMPANION_H
#define CLI_WATCH_COMPANION_H

#include <stdint.h>

struct cli_companion {
    const char *config; /* file of settings; NULL: the user's */
    int32_t pid;        /* 0: none */
};

/* For col_options.live: starts a watch of the live folder in a session of its own, so that Ctrl-C
 * does not end it before the run. Its notices are on stderr, because stdout is the target's. `ctx`
 * is a struct cli_companion. Its pid; 0 after a message. */
int32_t cli_companion_start(void *ctx, const char *folder);
/* The run has ended: the watch sees that at its next look and gets some seconds for it. */
void cli_companion_end(const struct cli_companion *companion);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: which alerts a user has seen: lines "RUN<tab>ID or CODE" in
 * $XDG_STATE_HOME/tacho/watch.seen, because a watch changes nothing in the run itself.
 */
#ifndef CLI_WATCH_ACKNOWLEDGE_H
#define CLI_WATCH_ACKNOWLEDGE_H

#include <stdint.h>

#include "monitor/alert/alert.h"

/* Adds a line. 0 or an exit code, after a message. */
int cli_watch_acknowledge(const char *run, const char *id_or_code);
/* Acknowledges what the lines of this run name, if the file changed since *read_ns. */
void cli_watch_read_acknowledged(const char *run, int64_t *read_ns, struct mon_alerts *alerts);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: what the processes of a run that does not go on are doing, as far as /proc says.
 */
#ifndef CLI_WATCH_PROBE_H
#define CLI_WATCH_PROBE_H

#include <stddef.h>

#include "monitor/feed/feed.h"

struct cli_watch_probing {
    const struct mon_feed *feed;
    store_reader *reader; /* in the middle of a look */
};

/* `probing` is a struct cli_watch_probing. Appends the innermost range that is open on each thread
 * of a rank, and for each process on this machine its state and what most of its threads wait for.
 */
void cli_watch_probe(void *probing, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: where the notices of a watch go, and the commands that answer them. Nothing is
 * sent or started unless the configuration names it. A sink that fails is said once, and the watch
 * goes on.
 */
#ifndef CLI_WATCH_SINKS_H
#define CLI_WATCH_SINKS_H

#include <stdint.h>
#include <sys/types.h>

#include "monitor/alert/alert_json.h"
#include "monitor/config/config.h"

#define CLI_SINK_CHILDREN 8 /* commands at the same time; more are refused */

struct cli_sinks {
    const struct mon_config *config;
    bool json;   /* a line on stdout is JSON */
    bool replay; /* a recording: nothing is sent or run; what would be is said */
    pid_t child[CLI_SINK_CHILDREN];
    int64_t responses; /* commands of responses so far */
    char token[512];   /* "": none */
    unsigned failed;   /* bits: kinds of sinks whose failure was said */
};

/* Reads the token, if the configuration names its file. 0 or an exit code, after a message. */
int cli_sinks_open(struct cli_sinks *sinks, const struct mon_config *config);
/* Sends a notice to all sinks, then starts the response to it, if there is one. */
void cli_sinks_send(struct cli_sinks *sinks, const struct mon_notice *notice,
                    const struct mon_place *place);
/* Collects commands that have ended. */
void cli_sinks_reap(struct cli_sinks *sinks);

#endif

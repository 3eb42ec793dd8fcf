/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: what the user wants of a watch. A file has lines
 * "NAME = VALUE", as $XDG_CONFIG_HOME/tacho/top.conf has; '#' begins a comment, at the start of a
 * line or after a blank. docs/monitor.md lists the names:
 *
 *     step_time.target = 95%          an SLI of slo.h; "off" instead of a target drops it
 *     step_time.threshold = 1.25x     x: of the run's own median; else in the unit of the SLI
 *     step_time.period = 30d          s, m, h, d; run
 *     slow.sli = step_time            a second objective of an SLI; its other lines follow this one
 *     sink.log = FILE                 also .command, .mail, .mailer, .webhook, .alertmanager,
 * .token response.CODE = COMMAND         with response.limit and response.dry_run silence = CODE
 * any number of them; CODE* for all that begin so rate = 12                       notices an hour,
 * at most
 *
 * Nothing is sent or started unless a line says so.
 */
#ifndef MONITOR_CONFIG_H
#define MONITOR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/slo/slo.h"

#define MON_VALUE          1024 /* bytes of a value, with its end */
#define MON_SILENCES_MOST  16
#define MON_RESPONSES_MOST 16

/* What to run at an alert of a code. */
struct mon_response {
    char code[MON_NAME], command[MON_VALUE];
};

struct mon_config {
    struct mon_slo slo;
    char log[MON_VALUE];          /* "": none, like all that follow */
    char command[MON_VALUE];      /* run for each notice, with the notice as JSON on its stdin */
    char mail[MON_VALUE];         /* address that notices are sent to */
    char mailer[MON_VALUE];       /* program that sends them: MAILER -s SUBJECT ADDRESS */
    char webhook[MON_VALUE];      /* http://HOST:PORT/PATH */
    char alertmanager[MON_VALUE]; /* http://HOST:PORT */
    char token[MON_VALUE];        /* file of a token that both get as "Authorization: Bearer" */
    struct mon_response response[MON_RESPONSES_MOST];
    size_t response_count;
    int64_t response_limit; /* of commands in one watch */
    bool response_dry_run;  /* say what would be run */
    char silence[MON_SILENCES_MOST][MON_NAME];
    size_t silence_count;
    double rate; /* notices an hour */
};

/* Objectives by default, no sinks, no responses. */
void mon_config_init(struct mon_config *config);
/* Reads a file on top of what is there. TACHO_ENOTFOUND and the like, or TACHO_EUSAGE with the line
 * that is wrong. */
int mon_config_read(struct mon_config *config, const char *path, struct tacho_error *err);
/* One setting, as in a line of the file: NAME and VALUE without blanks around them. `where` begins
 * messages ("FILE:12"). 0 or TACHO_EUSAGE. */
int mon_config_set(struct mon_config *config, const char *name, const char *value,
                   const char *where, struct tacho_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to cli/: one run that `tacho watch` watches: found, read, played into its monitor, until
 * it ends.
 */
#ifndef CLI_WATCH_SESSION_H
#define CLI_WATCH_SESSION_H

#include "cli/watch/probe.h"
#include "cli/watch/sinks.h"
#include "monitor/feed/feed.h"
#include "profiler/collector/collector.h"

struct cli_watch_session {
    struct col_found found;
    store_reader *reader;
    struct mon_feed *feed;
    struct mon_monitor *monitor;
    const struct mon_config *config;
    struct cli_sinks *sinks;
    bool replay, over;
    bool same_clock;         /* the run is recorded on this machine, since this boot */
    int64_t now;             /* on the clock of the file */
    int64_t looked;          /* the last look, on the clock of this machine */
    int64_t realtime_offset; /* from the clock of the file to the time of day */
    int64_t late_ns;         /* so much later than values the steps that they lie in are read */
    int silent;              /* looks in which no recorder held the run */
    int64_t acknowledged_ns; /* change of the file of acknowledgements that was read */
    char host[256];
    struct cli_watch_probing probe;
};

/* Finds and opens RUN (NULL: the newest that is being recorded) and reads what is there. With
 * `replay`, a recording is read whole. 0 or an exit code, after a message. */
int cli_watch_open(struct cli_watch_session *session, const char *run, bool replay,
                   const struct mon_config *config, struct cli_sinks *sinks);
/* A live run: reads what is new and judges up to now. Sets `over` when it has ended. 0 or an exit
 * code. */
int cli_watch_look(struct cli_watch_session *session, double interval_s);
/* A recording: plays it to its end, judged every `interval_s` of its time. */
int cli_watch_replay(struct cli_watch_session *session, double interval_s);
/* Prints the objectives: good events, budget, burn rates. */
void cli_watch_summary(const struct cli_watch_session *session, FILE *out);
void cli_watch_close(struct cli_watch_session *session); /* of one that was not opened: nothing */

/* Finds RUN (NULL: the newest that is being recorded, else the latest): a live run is taken as it
 * is, so that watching one changes nothing. 0 or an exit code, after a message. */
int cli_watch_find(const char *run, bool replay, struct col_found *found);

#endif

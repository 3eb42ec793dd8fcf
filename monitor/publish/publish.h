/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/publish/: runs that are watched as samples, and the places they go to: a
 * server, a textfile, an OTLP receiver. All of them are off unless they are named.
 *
 * How many samples there can be: 13 and a histogram of 19 for a run, 7 of phases, 4 and a burn rate
 * for each pair of windows of an objective, one for each kind of alert, 4 of a rank, 4 of each rank
 * and device that is sampled; MON_METRICS_MOST in all. Samples of ranks come last, so that those of
 * further ranks are what is dropped, and counted.
 */
#ifndef MONITOR_PUBLISH_H
#define MONITOR_PUBLISH_H

#include "monitor/export/metric.h"
#include "monitor/ranks.h"

/* Where to. Texts live as long as what is opened; NULL: not wanted. */
struct mon_publish_options {
    const char *listen, *token_file; /* mon_serve_start() */
    const char *textfile;            /* mon_textfile_write() */
    const char *otlp;                /* mon_otlp_send(); the token goes there, too */
};

struct mon_publish;

/* 0 and a publisher that the caller closes, or TACHO_E*. mon_publish_close() accepts NULL; a
 * textfile is removed, because the collector of node_exporter would go on to read it. */
int mon_publish_open(const struct mon_publish_options *options, int64_t wall_ns,
                     struct mon_publish **publish, struct tacho_error *err);
void mon_publish_close(struct mon_publish *publish);
/* Where the server listens; NULL: there is none. */
const char *mon_publish_address(const struct mon_publish *publish);
/* A run more: its name is the label `run`, with the number of the run where another one has it;
 * exemplars point into `file`, "": there are none. Both are copied. Its index, from 0, or
 * TACHO_ENOMEM. */
int mon_publish_add(struct mon_publish *publish, const char *run, const char *file);

/* The samples of one moment: begin, each run, send. */
void mon_publish_begin(struct mon_publish *publish, int64_t wall_ns);
/* The run as it is `now`, on its own clock, which is the moment that began. */
void mon_publish_run(struct mon_publish *publish, size_t run, struct mon_monitor *monitor,
                     int64_t now, bool has_ended);
/* To the server each time, elsewhere every MON_PUBLISH_S seconds and at the end (`last`). 0, or the
 * first error of a destination that did not take them, which is tried again after
 * MON_PUBLISH_AGAIN_S; the others have got them. */
#define MON_PUBLISH_S       10
#define MON_PUBLISH_AGAIN_S 60
int mon_publish_send(struct mon_publish *publish, bool last, struct tacho_error *err);
/* The samples of the last moment. They live until the next one. */
const struct mon_metrics *mon_publish_metrics(const struct mon_publish *publish);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/publish/: a run that is watched as samples, and the places they go to: a
 * server, a textfile, an OTLP receiver. All of them are off unless they are named.
 *
 * How many samples there can be: 30 of a run, 5 and 4 for each objective, 2 for each kind of alert,
 * 19 of the histogram, and 5 for each rank; MON_METRICS_MOST in all. Samples of ranks come last, so
 * that those of further ranks are what is left out, and counted.
 */
#ifndef MONITOR_PUBLISH_H
#define MONITOR_PUBLISH_H

#include "monitor/export/metric.h"
#include "monitor/ranks.h"

/* Where to, and how the run is called. Texts live as long as what is opened; NULL: not wanted. */
struct mon_publish_options {
    const char *listen, *token_file; /* mon_serve_start() */
    const char *textfile;            /* mon_textfile_write() */
    const char *otlp;                /* mon_otlp_send(); the token goes there, too */
    const char *run;                 /* its name: the label `run` */
    const char *file;                /* that exemplars point into; "" or NULL: no exemplars */
};

struct mon_publish;

/* 0 and a publisher that the caller closes, or TACHO_E*. mon_publish_close() accepts NULL; a
 * textfile is removed, because the collector of node_exporter would go on to read it. */
int mon_publish_open(const struct mon_publish_options *options, int64_t wall_ns,
                     struct mon_publish **publish, struct tacho_error *err);
void mon_publish_close(struct mon_publish *publish);
/* Where the server listens; NULL: there is none. */
const char *mon_publish_address(const struct mon_publish *publish);

/* Makes samples of the run as it is `now` (on its own clock; `wall_ns` is the same moment since
 * 1970), and sends them: to the server each time, elsewhere every MON_PUBLISH_S seconds and at the
 * end. 0, or the first error of a destination that did not take them, which is tried again after
 * MON_PUBLISH_AGAIN_S; the others have got them. */
#define MON_PUBLISH_S       10
#define MON_PUBLISH_AGAIN_S 60
int mon_publish_now(struct mon_publish *publish, struct mon_monitor *monitor, int64_t now,
                    int64_t wall_ns, bool has_ended, struct tacho_error *err);
/* The samples of the last moment. They live until the next one. */
const struct mon_metrics *mon_publish_metrics(const struct mon_publish *publish);

#endif

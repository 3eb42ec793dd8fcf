/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to monitor/publish/: what is kept between two moments.
 */
#ifndef MONITOR_PUBLISH_PRIVATE_H
#define MONITOR_PUBLISH_PRIVATE_H

#include "monitor/export/export.h"
#include "monitor/publish/publish.h"
#include "monitor/serve/serve.h"

struct publish_run {
    char name[128], file[96];
    struct mon_histogram steps;
    int64_t last_index;       /* the newest step that is in it */
    struct mon_exemplar slow; /* the newest step beyond SLOW_TIMES the median */
    double bad[MON_OBJECTIVES_MOST], all[MON_OBJECTIVES_MOST]; /* never fall, as counters must */
};

struct mon_publish {
    struct mon_publish_options options;
    struct mon_metrics metrics;
    struct mon_serve *serve; /* NULL: none */
    char host[256], token[MON_TOKEN_MOST];
    bool has_textfile;
    int64_t due_ns[2];       /* textfile, OTLP */
    struct publish_run *run; /* owned */
    size_t run_count;
};

/* Samples of the watch itself. */
void publish_watch(struct mon_metrics *metrics);

#endif

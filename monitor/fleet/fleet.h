/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of monitor/fleet/: many watches seen as one table of runs, from what each of them
 * exports. Who is slow, who is silent. It asks each watch once, and keeps nothing.
 */
#ifndef MONITOR_FLEET_H
#define MONITOR_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tacho_error.h"

#define MON_FLEET_NAME  96      /* bytes of a name; longer ones are cut */
#define MON_FLEET_SLOW  1.10    /* times the median work of the ranks of its run: a slow rank */
#define MON_FLEET_RUNS  10000   /* runs, at most */
#define MON_FLEET_NODES 100000  /* watches, at most */
#define MON_FLEET_RANKS 1000000 /* ranks of all runs, at most; others are counted only */

/* One rank of one run. What its watch does not export is NAN. */
struct mon_fleet_rank {
    int64_t rank;
    size_t node;                             /* index in mon_fleet.node */
    double step_s, work_s, last_step, age_s; /* work_s: without communication */
};

/* One run, from all watches that export it. */
struct mon_fleet_run {
    char name[MON_FLEET_NAME];
    size_t nodes, alerts;
    bool is_stalled, has_ended;       /* of any of its watches; of all of them */
    char alert[MON_FLEET_NAME];       /* code of one that is active */
    double last_step, step_s, tokens; /* newest step; median of its ranks; sum of its watches */
    double bound_s;                   /* a rank without a step for longer is silent */
    struct mon_fleet_rank *rank;      /* owned; sorted by number */
    size_t rank_count, room, node;    /* node: the last one that was read */
    double watch_step_s;              /* of a watch that exports no ranks */
};

/* One watch that was asked. */
struct mon_fleet_node {
    char *target;  /* owned; http://HOST:PORT/metrics or a file */
    char why[160]; /* why nothing came of it; "": it answered */
};

struct mon_fleet {
    struct mon_fleet_run *run; /* owned; sorted by name */
    size_t run_count, run_room;
    struct mon_fleet_node *node; /* owned */
    size_t node_count, node_room;
    size_t ranks, ranks_dropped;
};

/* Reads which watches there are: `from` is a file or an http:// address whose text is a list of
 * targets of Prometheus (file_sd_configs, http_sd_config) or has one target a line, '#' begins a
 * comment. A target is HOST:PORT, an http:// address, or the path of a textfile. `token` is sent to
 * all of them; NULL: none. Then asks all of them, each for `seconds` at most. A watch that does not
 * answer is a row of the table and no error. 0 or TACHO_E*; mon_fleet_free() in any case. */
int mon_fleet_read(struct mon_fleet *fleet, const char *from, const char *token, double seconds,
                   struct tacho_error *err);
void mon_fleet_free(struct mon_fleet *fleet);
/* The table: a row for each run, then a row for each watch that does not answer. */
void mon_fleet_print(const struct mon_fleet *fleet, FILE *out);

/* Adds the samples of one watch, as text of OpenMetrics or Prometheus. Lines that are neither are
 * left out. 0 or TACHO_ENOMEM. */
int mon_fleet_add(struct mon_fleet *fleet, size_t node, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room monitor/: reads the rows of a run, one that is recorded now or one that
 * is over, and hands them to a monitor in the order of time. What was read once is not read again.
 * The clock is the caller's: a live run is read and played up to now again and again; a recording
 * is read whole and then played in steps, as if it were live.
 */
#ifndef MONITOR_FEED_H
#define MONITOR_FEED_H

#include "monitor/monitor.h"
#include "store/store.h"

struct mon_feed;

struct mon_feed *mon_feed_new(void); /* NULL: no memory */
void mon_feed_free(struct mon_feed *feed);

/* Reads what was written since the last call, at most about `rows` rows of each table. 1: there is
 * more; 0; or a TACHO_E* code. The reader is of the same file in every call, and refreshed. */
int mon_feed_poll(struct mon_feed *feed, store_reader *reader, int64_t rows);
/* Hands over what was read, up to a time (ns on the clock of the file). 0 or TACHO_ENOMEM. */
int mon_feed_play(struct mon_feed *feed, struct mon_monitor *monitor, int64_t until);

/* A range that is open now: ids of its track and payload, its number (of a collective) or
 * STORE_ABSENT. A checkpoint or an evaluation has bounds of its own; a collective is what its rank
 * waits in. Call it for those that are open before each tick of a live run, after mon_open_none().
 * 0 or TACHO_ENOMEM. */
struct mon_feed_range {
    int64_t track, detail, start, number;
};
int mon_feed_open(const struct mon_feed *feed, struct mon_monitor *monitor,
                  const struct mon_feed_range *range);
/* The rank that a track belongs to; -1: of none, or a track that is not known. */
int64_t mon_feed_rank(const struct mon_feed *feed, int64_t track);
/* Value of a key of the run, NULL: none. Valid until the next poll. */
const char *mon_feed_key(const struct mon_feed *feed, const char *key);
/* When the run began and the latest time of what was read; ns, STORE_ABSENT: not known. */
int64_t mon_feed_begun(const struct mon_feed *feed);
int64_t mon_feed_newest(const struct mon_feed *feed);
/* The time up to which all rows were read, if a poll says that there are more and the rows of each
 * table are about in the order of time, as a recorder writes them. */
int64_t mon_feed_horizon(const struct mon_feed *feed);
/* What the run says of its machine, and how many steps it plans. */
struct mon_machine mon_feed_machine(const struct mon_feed *feed);
/* Steps that were read. */
int64_t mon_feed_steps(const struct mon_feed *feed);
/* The processes that have steps: pid and rank of each, until `visit` returns non-zero. */
int mon_feed_each_process(const struct mon_feed *feed,
                          int (*visit)(void *ctx, int64_t rank, int64_t pid, const char *host),
                          void *ctx);

#endif

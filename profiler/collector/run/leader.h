/* SPDX-License-Identifier: Apache-2.0
 *
 * What the collector of a node does for the other ranks of its job (peers.h).
 */
#ifndef COL_LEADER_H
#define COL_LEADER_H

#include "profiler/collector/run/session.h"

/* Waits, COL_GATHER_NS at most, for the other ranks of this node: their processors count as the
 * target's. */
void col_leader_gather(struct col_session *session);
/* Lets this process run wherever a rank that has connected may run, while the machine is measured;
 * `before` gets the previous set. */
void col_leader_spread(const struct col_session *session, cpu_set_t *before);
/* Run keys job.*: which job, how many ranks, which of them are in this file. */
int col_leader_describe(struct col_session *session);
/* The recording has begun: lets the waiting peers start their targets. */
void col_leader_welcome(struct col_session *session);
/* Reads the messages of peers. Never waits. */
void col_leader_read(struct col_session *session);
/* Adds rows of the peers' targets that the drain does not have. After a failure of the store it may
 * have lost some. */
int col_leader_rows(struct col_session *session);
/* Is a peer's target running, or a rank still to come? */
bool col_leader_waits(struct col_session *session);
unsigned col_leader_running(struct col_session *session);
/* The recording is over: messages are no longer read, and targets that go on do so unrecorded. */
void col_leader_over(struct col_session *session);
/* Sums up the ends of all targets: session->usage (sums; the largest resident set), session->worst
 * (the first exit code that is not 0), session->ended_at (the last one), and in the result's
 * `ended` the ranks that did not end with 0. */
void col_leader_sum(struct col_session *session);

#endif

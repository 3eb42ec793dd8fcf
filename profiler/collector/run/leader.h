/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: what the collector of a node does for the other ranks of its job (peers.h).
 */
#ifndef COL_LEADER_H
#define COL_LEADER_H

#include "profiler/collector/run/session.h"

/* Waits, COL_GATHER_NS at most, for the other ranks of this node: their processors count as the
 * target's. */
void col_leader_gather(struct col_session *session);
/* Lets this process run where any rank that has come may run, as long as the machine is looked at;
 * `before` gets what was. */
void col_leader_spread(const struct col_session *session, cpu_set_t *before);
/* Run keys job.*: which job, how many ranks, which of them are in this file. */
int col_leader_describe(struct col_session *session);
/* Own target and waiting peers may go on: the recording has begun. */
void col_leader_welcome(struct col_session *session);
/* Reads what peers say. Never waits. */
void col_leader_read(struct col_session *session);
/* Rows of the peers' targets, as far as the drain does not have them (again): after a failure of
 * the store it may not. */
int col_leader_rows(struct col_session *session);
/* Is a peer's target running, or a rank still to come? */
bool col_leader_waits(struct col_session *session);
unsigned col_leader_running(struct col_session *session);
/* The recording is over: nobody is heard any more; targets that go on do so alone. What is not
 * known of their ends stays so. */
void col_leader_over(struct col_session *session);
/* What this process and its peers know of the ends of their targets: s->usage (sums; the largest
 * resident set), s->worst (the first exit code that is not 0), s->ended_at (the last one), and in
 * the result's `ended` the ranks that did not end with 0. */
void col_leader_sum(struct col_session *session);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: what could be done about messages between ranks (findings_messages.c).
 */
#ifndef ANALYZERS_FINDINGS_MESSAGES_H
#define ANALYZERS_FINDINGS_MESSAGES_H

#include "analyzers/findings/findings_private.h"

/* One change: what to do, its option, its edit, and whether the edit is only a bound of it. */
struct an_proposal {
    const char *action, *option, *what_if;
    bool bound;
};

/* The collective that moves most; NULL: none says its bytes and its rate. */
const struct an_collective *an_comm_largest(const struct an_context *context);
/* Bytes a second of messages between ranks, as measured on this machine; 0: they were not. */
double an_comm_measured_link(const struct an_context *context);
/* What DistributedDataParallel says of its buckets, and what it measures itself: means over the
 * passes that it measured and over ranks (counters ddp.* of the hook). */
struct an_ddp_timers {
    double buckets, largest_bytes, gradient_bytes;
    double communication_ms, overlapped_ms; /* of a backward pass; overlapped: beside it */
    size_t passes;
};
/* false: it was not recorded. */
bool an_comm_ddp_timers(const struct an_context *context, struct an_ddp_timers *timers);
/* Those times as evidence; NULL: they were not recorded. */
const char *an_comm_ddp_words(struct an_context *context);
/* Replaces the proposal by a change of the messages that is expected to gain more, if one is. */
void an_comm_best_proposal(struct an_context *context, struct an_proposal *proposal);

#endif

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
/* Replaces the proposal by a change of the messages that is expected to gain more, if one is. */
void an_comm_best_proposal(struct an_context *context, struct an_proposal *proposal);

#endif

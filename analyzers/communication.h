/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: collectives. communication_match.c finds the calls and which of them are one collective over the
 * ranks; communication.c says what that costs a step; communication_device.c does so for accelerators (docs/communication.md).
 */
#ifndef ANALYZERS_COMMUNICATION_H
#define ANALYZERS_COMMUNICATION_H

#include "analyzers/analyzer.h"

/* One call of a collective on the CPU: a tacho.comm range of a thread. */
struct an_comm_call {
    const char *name;                             /* of the collective, never NULL */
    int64_t communicator, sequence, ranks, bytes; /* STORE_ABSENT: not said */
    int64_t start, end;
    int64_t ordinal; /* among the calls of its rank with the same name, communicator and sequence */
    uint32_t slice, track;
    uint32_t lane;
    uint32_t step;     /* index into an_context.step of a detailed step; AN_NONE: in none */
    int64_t transfer;  /* ns: the shortest participant; -1: not matched */
    bool synchronises; /* no rank leaves it before all have come */
};

struct an_comm_calls {
    struct an_comm_call *call; /* by name, communicator, sequence, ordinal, lane */
    size_t count, room;
};

/* Finds the calls and matches them. The caller frees calls->call. 0 or TACHO_ENOMEM. */
int an_comm_find(struct an_context *c, struct an_comm_calls *calls);

/* First call of the next collective after `first`: calls of one collective stand together. */
size_t an_comm_next(const struct an_comm_calls *calls, size_t first);

/* Factor of the bus bandwidth of a collective over n ranks, as nccl-tests counts; 0: none is defined. */
double an_comm_bus_factor(const char *name, int64_t n);

/* Sums per kind of collective and communicator, from calls of detailed steps (without steps: all). Fills the list. */
int an_comm_collectives(struct an_context *c, const struct an_comm_calls *calls);

/* Accelerators: what the devices' rows tell. 0 or TACHO_ENOMEM. */
int an_comm_device(struct an_context *c);

/* Every value that is not set yet becomes absent. */
void an_comm_rest_absent(struct an_communication *r, const char *reason);

#endif

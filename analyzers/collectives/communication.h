/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: collectives. communication_match.c finds the calls and which of them are
 * one collective over the ranks; communication.c says what that costs a step;
 * communication_device.c does so for accelerators (docs/communication.md).
 */
#ifndef ANALYZERS_COMMUNICATION_H
#define ANALYZERS_COMMUNICATION_H

#include "analyzers/steps/context.h"

/* One call of a collective: a tacho.comm range of a thread, or a communication kernel of a device.
 */
struct an_comm_call {
    const char *name; /* of the collective or kernel, never NULL */
    const char *kind; /* what is matched: "all_reduce", of send and recv "send_recv" ... */
    int64_t communicator, sequence, ranks, bytes; /* STORE_ABSENT: not said */
    uint64_t group; /* hash of the members as the trace lists them, of send and recv of the two
                       ranks; 0: not said */
    int64_t window; /* index of the step, where calls without a sequence number are counted in
                       steps; else 0 */
    int64_t start, end;
    int64_t ordinal; /* among the calls of its rank with the same kind, communicator, group,
                        sequence and window */
    uint32_t lane;
    uint32_t step;          /* index into an_context.step of a detailed step; AN_NONE: in none */
    uint32_t slice, track;  /* its row in the trace, and the track it lies on */
    uint32_t op;            /* of the device; AN_NONE: a call of a thread */
    int64_t transfer;       /* ns: the shortest participant; -1: not matched */
    int64_t transfer_known; /* what the trace itself says of its transfer, ns; STORE_ABSENT */
    bool synchronises;      /* no rank leaves it before all have come */
    bool counted;           /* it has no sequence number: its order among calls like it is used */
    bool lacks; /* matched, but a rank of the communicator is not in the file: transfer is an upper
                   bound */
};

struct an_comm_calls {
    struct an_comm_call *call; /* by kind, communicator, group, sequence, window, ordinal, lane */
    size_t count, room;
};

/* What a range or kernel says of the collective that it is a call of; for clocks.c, which runs
 * before steps are known. Fills the fields from `name` to `group`, start, end, slice, synchronises.
 * False: it is no call, or has no end. */
bool an_comm_read(const struct an_trace *trace, size_t slice, struct an_comm_call *out);

/* Finds the calls and matches them. The caller frees calls->call. 0 or TACHO_ENOMEM. */
int an_comm_find(struct an_context *context, struct an_comm_calls *calls);

#define AN_COMPARE(left, right) (((left) > (right)) - ((left) < (right)))
/* Order of calls by kind, communicator, group, sequence and window; 0: they may be calls of one
 * collective. */
int an_comm_order(const struct an_comm_call *first, const struct an_comm_call *second);
/* First call of the next collective after `first`: calls of one collective are neighbours. */
size_t an_comm_next(const struct an_comm_calls *calls, size_t first);

/* Factor of the bus bandwidth of a collective over n ranks, as nccl-tests counts; 0: none is
 * defined. */
double an_comm_bus_factor(const char *name, int64_t ranks);

#endif

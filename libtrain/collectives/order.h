/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the order of a rank's communication, written down by one run and enforced in
 * another one. What is noted are the operations at the door to the library: when each was issued
 * and, of messages for which the sender does not wait, when it was seen to be complete; and what
 * the rank was told when it asked whether a message is there, which is all that depends on time. In
 * the second run these answers come from the file, so that ranks whose order is one of readiness
 * (a parameter server) do the same in the same order, and end with the same bits.
 *
 * A file is text, of one rank. Its first line is "tacho-order 1 rank R of N"; "begin" and "step S"
 * stand before the operations of a part of the run, and "step S as T" for a step whose operations
 * are those of step T; "end" says that the run ended as it should. An operation is a line
 * "KIND TO TAG BYTES FROM BYTES", with - for no rank.
 *
 * One operation at a time, from any thread.
 */
#ifndef LT_ORDER_H
#define LT_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

/* sum, gather: of all ranks, by the library. exchange: to a rank and from a rank, either of which
 * may be missing. send: begun; sent: the last but `out` of them is complete. receive: a message
 * with a tag. probe: is one there, or, without a rank, has work beside the steps ended? `in` is the
 * answer. */
#define LT_ORDER_MAP(X) \
    X(SUM, "sum") \
    X(GATHER, "gather") \
    X(EXCHANGE, "exchange") \
    X(SEND, "send") X(SENT, "sent") X(RECEIVE, "receive") X(PROBE, "probe")
#define LT_ENUM_ORDER(id, name) LT_ORDER_##id,
enum lt_order_kind { LT_ORDER_MAP(LT_ENUM_ORDER) LT_ORDER_COUNT };
#undef LT_ENUM_ORDER

struct lt_order_op {
    enum lt_order_kind kind;
    int to, tag; /* rank below 0: none */
    uint64_t out;
    int from;
    uint64_t in;
};

struct lt_order;

/* Begins a file, or reads one and enforces it. The caller frees with lt_order_destroy.
 * TACHO_EIO, TACHO_ENOMEM; of a file that is read also TACHO_EFORMAT, TACHO_EVERSION,
 * TACHO_ECORRUPT, and TACHO_EUSAGE where it is another rank's or of another number of ranks. */
int lt_order_record(struct lt_order **out, const char *path, int rank, int ranks,
                    struct tacho_error *err);
int lt_order_replay(struct lt_order **out, const char *path, int rank, int ranks,
                    struct tacho_error *err);
/* Accepts NULL. What was noted is in the file, without "end" unless lt_order_finish was called. */
void lt_order_destroy(struct lt_order *order);

/* A step begins. Accepts NULL. */
void lt_order_step(struct lt_order *order, int64_t step);

/* The operation is about to be made; of a probe op->in is what was seen, and becomes the answer. 0;
 * or TACHO_EINTERNAL with what departs from the file in text[size]. With 0 text may say that the
 * file ends here because its run did not, and nothing is enforced any more; else it is "". */
int lt_order_note(struct lt_order *order, struct lt_order_op *op, char *text, size_t size);

/* The run ended as it should. TACHO_EIO, TACHO_ENOSPACE where the file is not whole;
 * TACHO_EINTERNAL where the run that was recorded went on; with words in *err. */
int lt_order_finish(struct lt_order *order, struct tacho_error *err);

#endif

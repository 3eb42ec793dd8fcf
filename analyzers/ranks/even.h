/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to even.c and even_read.c: the steps of a pipeline as operations that are replayed.
 */
#ifndef ANALYZERS_RANKS_EVEN_H
#define ANALYZERS_RANKS_EVEN_H

#include "analyzers/ranks/ranks_compare.h"

struct op {
    uint32_t name, turn; /* turn: how many of the name the step had before */
    bool transfer;
    double ns;
};

/* How many operations of a name the step that is read has had. */
struct turn {
    uint32_t read, next; /* read: the number of the read in which it was counted */
};

/* What a rank does at one time: an operation, or transfers that were posted together. Slots that
 * meet start together; `meet` leads to the first of them, which has the count. */
struct slot {
    uint32_t lane, meet, next; /* next: of the same meeting, AN_NONE: the last */
    uint32_t first_op, ops;
    uint32_t members, arrived; /* of the first one; messages count too */
    uint32_t message;          /* the last one that it sends without waiting, AN_NONE: none */
    double start;
};

/* What a send hands to a slot that receives it; next: of the same sender, AN_NONE: the last. */
struct message {
    uint32_t to, next;
};

struct evening {
    struct an_context *context;
    size_t lanes, columns;
    uint32_t *group;  /* of every slice: the collective it is a call of, + 1 */
    double *transfer; /* of every collective, ns */
    uint32_t *met;    /* of every collective: a slot that meets in it, + 1 */
    uint32_t *send;   /* of every collective: the slice of the send that does not wait, + 1 */
    size_t group_count;
    struct op *op;
    size_t op_count, op_room;
    struct slot *slot;
    size_t slot_count, slot_room;
    struct message *message;
    size_t message_count, message_room;
    size_t *first;     /* slot: [column * lanes + lane], and the end */
    uint32_t *name_of; /* of every string: index of the name + 1 */
    struct turn *turn; /* the same */
    uint32_t reads;
    size_t names, turns;                           /* turns: the most of any name in a step */
    double *usual;                                 /* of every name, ns */
    double *stage_sum, *stage_count, *stage_usual; /* [first lane of the stage * names + name] */
    double *recorded;                              /* of every step: replayed as recorded, ns */
    double *ready;                                 /* of every lane, while a step is replayed */
    size_t *head;                                  /* the same: its next slot */
    uint32_t *stack;                               /* lanes that go on */
};

/* The slot that stands for those that a slot meets. */
uint32_t an_even_meeting(struct evening *evening, uint32_t slot);

/* Reads the steps that all lanes have, lane by lane, from the matched calls. 0 or TACHO_ENOMEM. */
int an_even_read(struct evening *evening, const struct an_comm_calls *calls);

#endif

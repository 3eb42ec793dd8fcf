/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: which way of sending gradients would be fastest, from what was measured: a
 * link of alpha seconds a message and beta seconds a byte, and the seconds that each way takes in
 * the processors, on a gradient of the run. A reduction of all units then takes
 *   alpha messages + beta bytes + processor
 * as if nothing were computed at the same time.
 */
#ifndef LT_ADAPT_H
#define LT_ADAPT_H

#include <stdint.h>

#include "libtrain/collectives/codec.h"

#define LT_ADAPT_CHOICES 8

struct lt_adapt_choice {
    struct lt_codec codec;
    /* Of a reduction of all units: what this rank sends, and seconds of its processor; seconds of
     * the slowest rank by the formula above. */
    double bytes, messages, processor, predicted;
};

struct lt_adapt {
    struct lt_adapt_choice choice[LT_ADAPT_CHOICES]; /* the first one: as it is */
    int choices;                                     /* 0: nothing is to be chosen */
    uint64_t after;                                  /* steps */
    int done, measured;                              /* it was tried; the link could be measured */
    int chosen;
    double message_seconds, byte_seconds; /* of this rank's link */
    uint64_t sent_bytes, sent_messages;   /* to measure it */
};

/* Appends a choice; -1: there are too many. */
int lt_adapt_add(struct lt_adapt *adapt, const struct lt_codec *codec);

/* From the seconds of exchanges of two sizes: link of this rank. Returns whether the larger ones
 * took measurably longer. */
int lt_adapt_link(struct lt_adapt *adapt, double small_seconds, double small_bytes,
                  double large_seconds, double large_bytes);

/* Seconds by the formula above. */
double lt_adapt_seconds(const struct lt_adapt *adapt, const struct lt_adapt_choice *choice);

/* Takes the choice with the least `predicted`, of equal ones the first. */
void lt_adapt_choose(struct lt_adapt *adapt);

#endif

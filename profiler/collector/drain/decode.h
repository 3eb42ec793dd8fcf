/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the decoder: one record taken apart, and what its three files share.
 *
 * decode.c records, push and pop, volume · names.c strings, categories, payloads · ranges.c start
 * and end
 */
#ifndef COL_DECODE_H
#define COL_DECODE_H

#include "profiler/collector/drain/drain.h"

/* One record taken apart. */
struct col_event {
    const struct wire_record *record;
    int64_t time;
    const uint32_t *category; /* {category, arena id of its name}, NULL = none */
    const uint8_t *payload;   /* NULL = none */
    uint32_t schema, bytes;
    const uint8_t *value; /* NULL = none */
    uint64_t range;       /* START and END */
};

/* What the payload of an event says. */
struct col_extra {
    int64_t detail, correlation;
    int64_t index, tokens, samples; /* of a tacho.step; index absent = it is none */
};

/* names.c. The string id of an event's category; 0 on failure with *rc set. */
int64_t col_event_category(struct col_drain *drain, struct col_pool *pool,
                           const struct col_event *event, int *rc);
/* What the payload of an event says. 0 or a store error. */
int col_event_extra(struct col_drain *drain, struct col_pool *pool, const struct col_event *event,
                    struct col_extra *extra);

/* decode.c. Counts something that is not stored. */
void col_count_cut(struct col_drain *drain, enum col_cut why, int64_t time);
/* Adds a row; id may be NULL. */
int col_add_slice(struct col_drain *drain, int64_t track, const struct col_range *range,
                  int64_t dur, int64_t *id);
/* A range has ended: its row, and its share in the totals of the step. */
int col_end_range(struct col_drain *drain, struct col_pool *pool, int64_t track,
                  const struct col_range *range, int64_t end);
/* The end of an open range was lost: its row says that it began. */
int col_lose_end(struct col_drain *drain, struct col_pool *pool, int64_t track,
                 const struct col_range *range, int64_t now);

/* ranges.c. */
int col_on_start(struct col_drain *drain, struct col_pool *pool, const struct col_event *event);
int col_on_end(struct col_drain *drain, struct col_pool *pool, const struct col_event *event);

#endif

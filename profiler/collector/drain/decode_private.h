/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to drain/: one record taken apart, and what the files that turn records into rows share.
 *
 * decode.c records, push and pop · ranges.c start and end · names.c strings, categories, payloads ·
 * rows.c slices
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
    int64_t index, tokens, samples; /* of a tacho.step, else absent */
};

/* ---- names.c: ids of strings are 0 on failure, with *rc set -------------------------------------------------------------- */

/* Makes a table of string ids by place in an arena long enough for `index`; new ones are 0. 0 or
 * TACHO_ENOMEM. */
int col_ids_room(int64_t **ids, uint64_t *cap, uint64_t index);
/* The id of a text. Does nothing where *rc is an error already. */
int64_t col_string(struct col_drain *drain, const char *text, size_t bytes, int *rc);
/* The string id of an arena entry. */
int64_t col_pool_string(struct col_drain *drain, struct col_pool *pool, uint32_t arena, int *rc);
/* The name of an NVTX domain, not terminated; NULL where it has none. */
const char *col_domain_text(struct col_pool *pool, uint8_t domain, uint32_t *bytes);
/* The string id of an event's category. */
int64_t col_event_category(struct col_drain *drain, struct col_pool *pool,
                           const struct col_event *event, int *rc);
/* What the payload of an event says. 0 or a store error. */
int col_event_extra(struct col_drain *drain, struct col_pool *pool, const struct col_event *event,
                    struct col_extra *extra);

/* ---- rows.c --------------------------------------------------------------------------------------------------------------- */

/* Counts something that is not stored. */
void col_count_cut(struct col_drain *drain, enum col_cut why, int64_t time);
/* May detail outside of steps be stored? Counts it as cut where not. */
bool col_has_room(struct col_drain *drain, int64_t time);
/* Is the row of a range kept? Ranges that are steps are few and always kept, as long as the disk
 * has room. `step` is the one it counts to, or NULL. */
bool col_keeps_range(const struct col_drain *drain, const struct col_step *step,
                     const struct col_range *range, enum col_cut *why);
/* Adds a row; id may be NULL. */
int col_add_slice(struct col_drain *drain, int64_t track, const struct col_range *range,
                  int64_t duration, int64_t *id);
/* A range has ended: adds its row, and its share in the totals of the step. */
int col_end_range(struct col_drain *drain, struct col_pool *pool, int64_t track,
                  const struct col_range *range, int64_t end);
/* The end of an open range was lost: its row says only that it began. */
int col_lose_end(struct col_drain *drain, struct col_pool *pool, int64_t track,
                 const struct col_range *range, int64_t now);

/* ---- ranges.c ------------------------------------------------------------------------------------------------------------- */

int col_on_start(struct col_drain *drain, struct col_pool *pool, const struct col_event *event);
int col_on_end(struct col_drain *drain, struct col_pool *pool, const struct col_event *event);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: sets of time (interval.h) that own memory: lists that grow while spans are
 * found, and sets that are combined in an arena.
 */
#ifndef ANALYZERS_SETS_H
#define ANALYZERS_SETS_H

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"

/* A growing list of spans in any order; the owner calls free(span). */
struct an_span_list {
    struct an_span *span;
    size_t count, room;
};

/* Appends [start, end) unless it is empty. 0 or TACHO_ENOMEM. */
int an_span_list_add(struct an_span_list *list, int64_t start, int64_t end);
/* Normalises the list in place and returns it as a set, which lives as long as the list. */
struct an_set an_span_list_set(struct an_span_list *list);
/* The same in an arena, no larger than needed. 0 or TACHO_ENOMEM. */
int an_span_list_keep(struct an_span_list *list, struct an_arena *arena, struct an_set *out);

/* an_spans_union, an_spans_intersect or an_spans_subtract. */
typedef size_t an_set_operation(const struct an_span *left, size_t left_count,
                                const struct an_span *right, size_t right_count,
                                struct an_span *out);
/* Combines two sets into one in an arena, no larger than needed. 0 or TACHO_ENOMEM. */
int an_set_combine(struct an_arena *arena, an_set_operation *operation, struct an_set left,
                   struct an_set right, struct an_set *out);

/* ns in a set; ns of it in [start, end). */
static inline int64_t an_set_measure(struct an_set set)
{
    return an_spans_measure(set.span, set.count);
}
static inline int64_t an_set_within(struct an_set set, int64_t start, int64_t end)
{
    return an_spans_within(set.span, set.count, start, end);
}

#endif

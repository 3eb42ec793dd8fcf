/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the algebra of time. A span is [start, end) in ns; a set is an array of
 * spans that is sorted, disjoint and not touching (an_spans_normalize makes one). Everything is
 * exact in integers. Empty and reversed spans hold nothing.
 *
 * Measures of whole int64 range do not fit int64: they saturate at INT64_MAX.
 */
#ifndef ANALYZERS_INTERVAL_H
#define ANALYZERS_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

struct an_span {
    int64_t start, end;
};

/* Order of two numbers as qsort wants it: -1, 0 or 1. For several keys the weights double, so that
 * the first key that differs decides: 2 * AN_COMPARE(left->start, right->start) +
 * AN_COMPARE(left->end, right->end). */
#define AN_COMPARE(left, right) (((left) > (right)) - ((left) < (right)))

/* Bisects the indexes [low, high). `is_before`, an expression of the index `middle`, is true up to
 * some index and false from there on. Afterwards `low` is the first index for which it is false,
 * `high` if it is true for all. */
#define AN_BISECT(low, high, is_before) \
    while ((low) < (high)) { \
        size_t middle = (low) + ((high) - (low)) / 2; \
        if (is_before) \
            (low) = middle + 1; \
        else \
            (high) = middle; \
    }

/* A normalised set with its length. */
struct an_set {
    struct an_span *span;
    size_t count;
};

/* Sorts, merges overlapping and touching spans, drops empty ones; in place. Returns how many are
 * left. */
size_t an_spans_normalize(struct an_span *span, size_t count);

/* ns in a set. */
int64_t an_spans_measure(const struct an_span *span, size_t count);

/* Set operations on normalised sets. `out` has room for the spans of both inputs and is a third
 * array; returns how many spans it gets. */
size_t an_spans_union(const struct an_span *left, size_t left_count, const struct an_span *right,
                      size_t right_count, struct an_span *out);
size_t an_spans_intersect(const struct an_span *left, size_t left_count,
                          const struct an_span *right, size_t right_count, struct an_span *out);
size_t an_spans_subtract(const struct an_span *left, size_t left_count, const struct an_span *right,
                         size_t right_count, struct an_span *out);

/* Index of the first of `count` rows of `size` bytes whose time is after `time`, `count` if there
 * is none. The time of a row is an int64_t `offset` bytes into it; rows are in order of their
 * times. */
size_t an_rows_seek(const void *rows, size_t size, size_t offset, size_t count, int64_t time);
/* Index of the first span of a set that ends after `time`, `count` if there is none. */
size_t an_spans_seek(const struct an_span *span, size_t count, int64_t time);

/* ns of a set that lie in [start, end); a binary search finds the first span that matters. */
int64_t an_spans_within(const struct an_span *span, size_t count, int64_t start, int64_t end);

/* Index of the first of time[first, last), a sorted column, that is not before `when`; `last` if
 * there is none. */
size_t an_times_seek(const int64_t *time, size_t first, size_t last, int64_t when);

/* Sum and difference, saturating: spans of a damaged file may lie anywhere. */
static inline int64_t an_time_add(int64_t left, int64_t right)
{
    int64_t sum;
    if (__builtin_add_overflow(left, right, &sum))
        return right > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}
static inline int64_t an_time_sub(int64_t left, int64_t right)
{
    int64_t difference;
    if (__builtin_sub_overflow(left, right, &difference))
        return right < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}
static inline int64_t an_time_min(int64_t left, int64_t right)
{
    return left < right ? left : right;
}
static inline int64_t an_time_max(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of time as sorted arrays of spans. Every operation is one pass over its inputs; searches
 * bisect.
 */
#include "analyzers/base/interval.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"

static int span_order(const void *first, const void *second, void *ctx)
{
    (void)ctx;
    const struct an_span *left = first, *right = second;
    return 2 * AN_COMPARE(left->start, right->start) + AN_COMPARE(left->end, right->end);
}

/* Appends a span to a set under construction, whose spans come in order of start. Returns the new
 * number of spans: a span that touches the last one makes it longer, an empty one is dropped. */
static size_t span_append(struct an_span *out, size_t count, struct an_span span)
{
    if (span.end <= span.start)
        return count;
    if (count && span.start <= out[count - 1].end) {
        if (span.end > out[count - 1].end)
            out[count - 1].end = span.end;
        return count;
    }
    out[count] = span;
    return count + 1;
}

size_t an_spans_normalize(struct an_span *span, size_t count)
{
    size_t kept = 0;
    an_order(span, count, sizeof *span, span_order, NULL);
    for (size_t i = 0; i < count; i++)
        kept = span_append(span, kept, span[i]);
    return kept;
}

int64_t an_spans_measure(const struct an_span *span, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = an_time_add(sum, an_time_sub(span[i].end, span[i].start));
    return sum;
}

size_t an_spans_union(const struct an_span *left, size_t left_count, const struct an_span *right,
                      size_t right_count, struct an_span *out)
{
    size_t i = 0, j = 0, count = 0;
    while (i < left_count || j < right_count) {
        if (j == right_count || (i < left_count && left[i].start <= right[j].start))
            count = span_append(out, count, left[i++]);
        else
            count = span_append(out, count, right[j++]);
    }
    return count;
}

size_t an_spans_intersect(const struct an_span *left, size_t left_count,
                          const struct an_span *right, size_t right_count, struct an_span *out)
{
    size_t i = 0, j = 0, count = 0;
    while (i < left_count && j < right_count) {
        struct an_span both = {an_time_max(left[i].start, right[j].start),
                               an_time_min(left[i].end, right[j].end)};
        count = span_append(out, count, both);
        if (left[i].end < right[j].end)
            i++;
        else
            j++;
    }
    return count;
}

size_t an_spans_subtract(const struct an_span *left, size_t left_count, const struct an_span *right,
                         size_t right_count, struct an_span *out)
{
    size_t j = 0, count = 0;
    for (size_t i = 0; i < left_count; i++) {
        int64_t from = left[i].start;
        while (j < right_count && right[j].end <= from)
            j++;
        for (size_t k = j; k < right_count && right[k].start < left[i].end; k++) {
            count = span_append(out, count, (struct an_span){from, right[k].start});
            from = right[k].end;
        }
        count = span_append(out, count, (struct an_span){from, left[i].end});
    }
    return count;
}

size_t an_rows_seek(const void *rows, size_t size, size_t offset, size_t count, int64_t time)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t row_time;
        memcpy(&row_time, (const char *)rows + middle * size + offset, sizeof row_time);
        if (row_time <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t an_spans_seek(const struct an_span *span, size_t count, int64_t time)
{
    return an_rows_seek(span, sizeof *span, offsetof(struct an_span, end), count, time);
}

int64_t an_spans_within(const struct an_span *span, size_t count, int64_t start, int64_t end)
{
    int64_t sum = 0;
    for (size_t i = an_spans_seek(span, count, start); i < count && span[i].start < end; i++) {
        int64_t from = an_time_max(span[i].start, start), until = an_time_min(span[i].end, end);
        if (until > from)
            sum = an_time_add(sum, an_time_sub(until, from));
    }
    return sum;
}

size_t an_times_seek(const int64_t *time, size_t first, size_t last, int64_t when)
{
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (time[middle] < when)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

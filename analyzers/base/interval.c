/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/interval.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int64_t an_time_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

int64_t an_time_sub(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return b < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}

static int span_order(const void *first, const void *second)
{
    const struct an_span *left = first, *right = second;
    return 2 * AN_COMPARE(left->start, right->start) + AN_COMPARE(left->end, right->end);
}

/* Appends to a set under construction whose spans come in order of start. */
static size_t span_append(struct an_span *out, size_t n, struct an_span span)
{
    if (span.end <= span.start)
        return n;
    if (n && span.start <= out[n - 1].end) {
        if (span.end > out[n - 1].end)
            out[n - 1].end = span.end;
        return n;
    }
    out[n] = span;
    return n + 1;
}

size_t an_spans_normalize(struct an_span *span, size_t n)
{
    size_t sorted = 1, kept = 0;
    while (sorted < n && span_order(&span[sorted - 1], &span[sorted]) <= 0)
        sorted++;
    if (sorted < n)
        qsort(span, n, sizeof *span, span_order);
    for (size_t i = 0; i < n; i++)
        kept = span_append(span, kept, span[i]);
    return kept;
}

int64_t an_spans_measure(const struct an_span *span, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = an_time_add(sum, an_time_sub(span[i].end, span[i].start));
    return sum;
}

size_t an_spans_union(const struct an_span *a, size_t na, const struct an_span *b, size_t nb,
                      struct an_span *out)
{
    size_t i = 0, j = 0, n = 0;
    while (i < na || j < nb) {
        if (j == nb || (i < na && a[i].start <= b[j].start))
            n = span_append(out, n, a[i++]);
        else
            n = span_append(out, n, b[j++]);
    }
    return n;
}

size_t an_spans_intersect(const struct an_span *a, size_t na, const struct an_span *b, size_t nb,
                          struct an_span *out)
{
    size_t i = 0, j = 0, n = 0;
    while (i < na && j < nb) {
        struct an_span s = {a[i].start > b[j].start ? a[i].start : b[j].start,
                            a[i].end < b[j].end ? a[i].end : b[j].end};
        n = span_append(out, n, s);
        if (a[i].end < b[j].end)
            i++;
        else
            j++;
    }
    return n;
}

size_t an_spans_subtract(const struct an_span *a, size_t na, const struct an_span *b, size_t nb,
                         struct an_span *out)
{
    size_t j = 0, n = 0;
    for (size_t i = 0; i < na; i++) {
        int64_t at = a[i].start;
        while (j < nb && b[j].end <= at)
            j++;
        for (size_t k = j; k < nb && b[k].start < a[i].end; k++) {
            n = span_append(out, n, (struct an_span){at, b[k].start});
            at = b[k].end;
        }
        n = span_append(out, n, (struct an_span){at, a[i].end});
    }
    return n;
}

size_t an_rows_seek(const void *rows, size_t size, size_t offset, size_t n, int64_t time)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t at;
        memcpy(&at, (const char *)rows + middle * size + offset, sizeof at);
        if (at <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t an_spans_seek(const struct an_span *span, size_t n, int64_t time)
{
    return an_rows_seek(span, sizeof *span, offsetof(struct an_span, end), n, time);
}

int64_t an_spans_within(const struct an_span *span, size_t n, int64_t start, int64_t end)
{
    int64_t sum = 0;
    for (size_t i = an_spans_seek(span, n, start); i < n && span[i].start < end; i++) {
        int64_t s = span[i].start > start ? span[i].start : start,
                e = span[i].end < end ? span[i].end : end;
        if (e > s)
            sum = an_time_add(sum, an_time_sub(e, s));
    }
    return sum;
}

size_t an_times_seek(const int64_t *time, size_t first, size_t last, int64_t at)
{
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (time[middle] < at)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

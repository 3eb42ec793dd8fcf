/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: the arithmetic of other tools, for people who compare (docs/compat.md).
 * Each tool is one file with one function. They read the trace as those tools read the JSON: time
 * stamps as IEEE doubles in us, as the file spells them.
 *
 * A group is what those tools call a trace: the processes of one rank. Ticks are int64 units of
 * 2^-shift us, chosen so that a double time stamp of this trace is a whole number of them: the
 * interval algebra of interval.h stays exact.
 */
#ifndef ANALYZERS_COMPAT_PRIVATE_H
#define ANALYZERS_COMPAT_PRIVATE_H

#include <string.h>

#include "analyzers/steps/context.h"

/* Categories of docs/schema.md that these tools tell apart */
enum an_compat_category {
    AN_COMPAT_OTHER,
    AN_COMPAT_KERNEL,
    AN_COMPAT_MEMCPY,
    AN_COMPAT_MEMSET,
    AN_COMPAT_SYNC,
    AN_COMPAT_ANNOTATION,
    AN_COMPAT_OP,
    AN_COMPAT_RUNTIME,
    AN_COMPAT_DRIVER,
    AN_COMPAT_INSTANT
};

struct an_compat_group {
    int64_t rank;    /* STORE_ABSENT: the trace names none */
    int64_t base_ns; /* what the importer added to the times of its file */
};

struct an_compat_view {
    struct an_context *context;
    uint8_t *category; /* enum an_compat_category of each string of the trace */
    struct an_compat_group *group;
    size_t group_count;
    uint32_t *group_of; /* of each process; AN_NONE: none */
    int shift;
    struct an_compat_row *rows;
    size_t row_count, row_room;
};

/* One event of a group. */
struct an_compat_event {
    size_t slice;
    const struct an_track *track;
    enum an_compat_category category;
    bool device; /* on a stream track */
};

/* Calls `each` for every event with an end of a group, track by track, until it returns non-zero,
 * which is then returned. */
int an_compat_each(const struct an_compat_view *view, size_t group,
                   int (*each)(void *ctx, const struct an_compat_event *event), void *ctx);

/* `ts` and `dur` of an event as a JSON reader gets them: the nearest double of the decimal number,
 * us. */
double an_compat_ts(const struct an_compat_view *view, size_t group, size_t slice);
double an_compat_dur(const struct an_compat_view *view, size_t slice);
/* As many binary places as keep the largest time of the trace inside int64. */
int an_compat_shift(const struct an_compat_view *view);
int64_t an_compat_ticks(const struct an_compat_view *view, double us);
double an_compat_us(const struct an_compat_view *view, int64_t ticks);
/* The event in ticks: [ts, ts + dur) with the sum rounded as a double. */
struct an_span an_compat_span(const struct an_compat_view *view, size_t group, size_t slice);

/* Spans that grow. */
struct an_compat_spans {
    struct an_span *span;
    size_t count, room;
};
int an_compat_spans_add(struct an_compat_spans *spans, struct an_span span);

/* Adds a row; texts are copied. NAN: the tool has no number here (it prints nan or null). 0 or
 * TACHO_ENOMEM. */
int an_compat_put(struct an_compat_view *view, int64_t rank, int64_t device, const char *section,
                  const char *key, const char *unit, double value);

static inline bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* The tools. 0 or TACHO_ENOMEM. */
int an_compat_tracelens(struct an_compat_view *view);
int an_compat_hta(struct an_compat_view *view, bool include_last);
int an_compat_tb(struct an_compat_view *view);

#endif

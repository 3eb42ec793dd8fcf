/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of slices and counter values (by track, then by time), the parents of slices, and the
 * questions that everybody asks of a loaded run.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/trace/trace.h"

/* Stable counting sort by track into `order`; `first` gets track_count + 1 offsets. Rows without a
 * track are left out. */
static size_t group_by_track(const uint32_t *track, size_t count, size_t tracks, uint32_t *order,
                             size_t *first)
{
    memset(first, 0, (tracks + 1) * sizeof *first);
    for (size_t i = 0; i < count; i++)
        if (track[i] != AN_NONE)
            first[track[i] + 1]++;
    for (size_t k = 0; k < tracks; k++)
        first[k + 1] += first[k];
    for (size_t i = 0; i < count; i++)
        if (track[i] != AN_NONE)
            order[first[track[i]]++] = (uint32_t)i;
    for (size_t k = tracks; k; k--)
        first[k] = first[k - 1];
    first[0] = 0;
    return first[tracks];
}

static void gather_wide(int64_t *column, const uint32_t *order, size_t count, int64_t *work)
{
    for (size_t i = 0; i < count; i++)
        work[i] = column[order[i]];
    if (count)
        memcpy(column, work, count * sizeof *column);
}

static void gather_narrow(uint32_t *column, const uint32_t *order, size_t count, uint32_t *work)
{
    for (size_t i = 0; i < count; i++)
        work[i] = column[order[i]];
    if (count)
        memcpy(column, work, count * sizeof *column);
}

/* Sorts by start; of equal starts the longer range comes first, an open one before all others, so
 * that an enclosing range comes before the ranges that it encloses. */
static int slice_order(const void *first, const void *second, void *ctx)
{
    const struct an_slices *slices = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    /* AN_OPEN is -1: as an unsigned number it is longer than any duration */
    return 4 * AN_COMPARE(slices->start[left], slices->start[right]) +
           2 * AN_COMPARE((uint64_t)slices->dur[right], (uint64_t)slices->dur[left]) +
           AN_COMPARE(left, right);
}

static void sort_track(struct an_slices *slices, uint32_t *order, size_t count)
{
    size_t sorted = 1;
    while (sorted < count && slice_order(&order[sorted - 1], &order[sorted], slices) < 0)
        sorted++;
    if (sorted < count)
        qsort_r(order, count, sizeof *order, slice_order, slices);
}

/* Finds the parent of each slice of a track with a stack of the ranges that are open. `stack`
 * holds their slices, `end` their ends; an open range ends with its parent. Both arrays grow
 * together and are reused for the next track. */
static int find_parents(struct an_trace *trace, const struct an_track *track, uint32_t **stack,
                        int64_t **end, size_t *room)
{
    size_t depth = 0;
    for (size_t i = track->slice_first; i < an_track_end(track); i++) {
        int64_t start = trace->slice.start[i], stop = start + trace->slice.dur[i];
        while (depth && (*end)[depth - 1] <= start)
            depth--;
        trace->slice.parent[i] = depth ? (*stack)[depth - 1] : AN_NONE;
        if (trace->slice.dur[i] == AN_OPEN)
            stop = depth ? (*end)[depth - 1] : INT64_MAX;
        if (depth == *room) {
            size_t stack_room = *room, end_room = *room;
            if (an_grow(stack, &stack_room, depth + 1, sizeof **stack) ||
                an_grow(end, &end_room, depth + 1, sizeof **end))
                return TACHO_ENOMEM;
            *room = stack_room;
        }
        (*stack)[depth] = (uint32_t)i;
        (*end)[depth++] = stop;
    }
    return 0;
}

int an_trace_order(struct an_trace *trace, uint32_t *track)
{
    struct an_slices *slices = &trace->slice;
    size_t count = slices->count, kept, room = 0;
    uint32_t *order = malloc((count ? count : 1) * sizeof *order), *stack = NULL;
    int64_t *work = malloc((count ? count : 1) * sizeof *work), *end = NULL;
    size_t *first = malloc((trace->track_count + 1) * sizeof *first);
    int rc = TACHO_ENOMEM;
    if (!order || !work || !first)
        goto out;
    kept = group_by_track(track, count, trace->track_count, order, first);
    for (size_t k = 0; k < trace->track_count; k++) {
        trace->track[k].slice_first = first[k];
        trace->track[k].slice_count = first[k + 1] - first[k];
        sort_track(slices, order + first[k], trace->track[k].slice_count);
    }
    gather_wide(slices->start, order, kept, work);
    gather_wide(slices->dur, order, kept, work);
    gather_wide(slices->correlation, order, kept, work);
    gather_narrow(slices->name, order, kept, (uint32_t *)work);
    gather_narrow(slices->category, order, kept, (uint32_t *)work);
    gather_narrow(slices->detail, order, kept, (uint32_t *)work);
    trace->orphans += count - kept;
    slices->count = kept;
    free(work);
    work = NULL;
    if (!(slices->parent = malloc((kept ? kept : 1) * sizeof *slices->parent)))
        goto out;
    rc = 0;
    for (size_t k = 0; k < trace->track_count && !rc; k++)
        rc = find_parents(trace, &trace->track[k], &stack, &end, &room);
out:
    free(order);
    free(work);
    free(first);
    free(stack);
    free(end);
    return rc;
}

static int counter_order(const void *first, const void *second, void *ctx)
{
    const int64_t *time = ctx;
    uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
    return 2 * AN_COMPARE(time[left], time[right]) + AN_COMPARE(left, right);
}

int an_trace_order_counters(struct an_trace *trace, uint32_t *track)
{
    struct an_counters *counters = &trace->counter;
    size_t count = counters->count, kept;
    uint32_t *order = malloc((count ? count : 1) * sizeof *order);
    int64_t *work = malloc((count ? count : 1) * sizeof *work);
    size_t *first = malloc((trace->track_count + 1) * sizeof *first);
    int rc = TACHO_ENOMEM;
    if (!order || !work || !first)
        goto out;
    kept = group_by_track(track, count, trace->track_count, order, first);
    for (size_t k = 0; k < trace->track_count; k++) {
        trace->track[k].counter_first = first[k];
        trace->track[k].counter_count = first[k + 1] - first[k];
        qsort_r(order + first[k], trace->track[k].counter_count, sizeof *order, counter_order,
                counters->time);
    }
    gather_wide(counters->time, order, kept, work);
    for (size_t i = 0; i < kept; i++)
        memcpy(&work[i], &counters->value[order[i]], sizeof *work); /* doubles, moved as bits */
    if (kept)
        memcpy(counters->value, work, kept * sizeof *counters->value);
    counters->count = kept;
    trace->orphans += count - kept;
    rc = 0;
out:
    free(order);
    free(work);
    free(first);
    return rc;
}

/* ---- run keys ----------------------------------------------------------------------------------------------------------- */

static int key_order(const void *left, const void *right)
{
    return strcmp(((const struct an_run_key *)left)->key, ((const struct an_run_key *)right)->key);
}

void an_trace_order_keys(struct an_trace *trace)
{
    if (trace->key_count)
        qsort(trace->key, trace->key_count, sizeof *trace->key, key_order);
}

const char *an_trace_key(const struct an_trace *trace, const char *key)
{
    const struct an_run_key wanted = {key, NULL}, *found = NULL;
    if (trace->key_count)
        found = bsearch(&wanted, trace->key, trace->key_count, sizeof wanted, key_order);
    return found ? found->value : NULL;
}

bool an_trace_key_integer(const struct an_trace *trace, const char *key, int64_t *value)
{
    const char *text = an_trace_key(trace, key);
    char *end = NULL;
    *value = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && !*end;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

const char *an_trace_name(const struct an_trace *trace, uint32_t name)
{
    return name < trace->string_count ? trace->string[name] : "";
}

const struct an_detail *an_trace_detail(const struct an_trace *trace, uint32_t detail)
{
    return detail < trace->detail_count ? &trace->detail[detail] : NULL;
}

enum an_role an_trace_role(const struct an_trace *trace, uint32_t detail)
{
    return detail < trace->detail_count ? trace->detail[detail].role : AN_ROLE_NONE;
}

int64_t an_slice_end(const struct an_trace *trace, size_t i)
{
    for (int levels = AN_DEPTH_MAX;
         levels && trace->slice.dur[i] == AN_OPEN && trace->slice.parent[i] != AN_NONE; levels--)
        i = trace->slice.parent[i];
    if (trace->slice.dur[i] == AN_OPEN)
        return trace->t1 > trace->slice.start[i] ? trace->t1 : trace->slice.start[i];
    return trace->slice.start[i] + trace->slice.dur[i];
}

size_t an_slice_seek(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    return an_times_seek(trace->slice.start, track->slice_first, an_track_end(track), time);
}

uint32_t an_slice_track(const struct an_trace *trace, size_t i)
{
    size_t low = 0, high = trace->track_count; /* the first track whose slices begin behind i */
    AN_BISECT(low, high, trace->track[middle].slice_first <= i);
    return low ? (uint32_t)(low - 1) : AN_NONE;
}

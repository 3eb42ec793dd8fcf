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

/* Rows on their way into the order of tracks. */
struct order {
    uint32_t *row; /* rows in their new order */
    size_t *first; /* of each track in `row`, and the end of the last one */
    int64_t *work; /* room for one column */
    size_t kept;   /* rows that have a track */
};

/* Groups the rows by track and counts the others as orphans; `order` is to be freed in any case. */
static int order_start(struct order *order, struct an_trace *trace, const uint32_t *track,
                       size_t count)
{
    *order = (struct order){.row = malloc((count + 1) * sizeof *order->row),
                            .first = malloc((trace->track_count + 1) * sizeof *order->first),
                            .work = malloc((count + 1) * sizeof *order->work)};
    if (!order->row || !order->first || !order->work)
        return TACHO_ENOMEM;
    order->kept = group_by_track(track, count, trace->track_count, order->row, order->first);
    trace->orphans += count - order->kept;
    return 0;
}

static void order_free(struct order *order)
{
    free(order->row);
    free(order->first);
    free(order->work);
}

/* Puts a column of 8 bytes a row (integers or doubles, moved as bits) into the new order. */
static void gather_wide(void *column, const struct order *order)
{
    const char *rows = column;
    for (size_t i = 0; i < order->kept; i++)
        memcpy(&order->work[i], rows + order->row[i] * sizeof *order->work, sizeof *order->work);
    if (order->kept)
        memcpy(column, order->work, order->kept * sizeof *order->work);
}

static void gather_narrow(uint32_t *column, const struct order *order)
{
    uint32_t *work = (uint32_t *)order->work;
    for (size_t i = 0; i < order->kept; i++)
        work[i] = column[order->row[i]];
    if (order->kept)
        memcpy(column, work, order->kept * sizeof *column);
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
    size_t room = 0;
    uint32_t *stack = NULL;
    int64_t *end = NULL;
    struct order order;
    int rc = order_start(&order, trace, track, slices->count);
    if (rc)
        goto out;
    for (size_t k = 0; k < trace->track_count; k++) {
        trace->track[k].slice_first = order.first[k];
        trace->track[k].slice_count = order.first[k + 1] - order.first[k];
        an_order(order.row + order.first[k], trace->track[k].slice_count, sizeof *order.row,
                 slice_order, slices);
    }
    slices->count = order.kept;
    gather_wide(slices->start, &order);
    gather_wide(slices->dur, &order);
    gather_wide(slices->correlation, &order);
    gather_narrow(slices->name, &order);
    gather_narrow(slices->category, &order);
    gather_narrow(slices->detail, &order);
    order_free(&order);
    order = (struct order){0};
    rc = TACHO_ENOMEM;
    if (!(slices->parent = malloc((slices->count + 1) * sizeof *slices->parent)))
        goto out;
    rc = 0;
    for (size_t k = 0; k < trace->track_count && !rc; k++)
        rc = find_parents(trace, &trace->track[k], &stack, &end, &room);
out:
    order_free(&order);
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
    struct order order;
    int rc = order_start(&order, trace, track, counters->count);
    for (size_t k = 0; k < trace->track_count && !rc; k++) {
        trace->track[k].counter_first = order.first[k];
        trace->track[k].counter_count = order.first[k + 1] - order.first[k];
        an_order(order.row + order.first[k], trace->track[k].counter_count, sizeof *order.row,
                 counter_order, counters->time);
    }
    if (!rc) {
        counters->count = order.kept;
        gather_wide(counters->time, &order);
        gather_wide(counters->value, &order);
    }
    order_free(&order);
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

bool an_trace_imported(const struct an_trace *trace)
{
    return an_trace_key(trace, "source");
}

bool an_trace_from(const struct an_trace *trace, const char *format)
{
    const char *source = an_trace_key(trace, "source");
    return source && !strcmp(source, format);
}

bool an_trace_key_integer(const struct an_trace *trace, const char *key, int64_t *value)
{
    const char *text = an_trace_key(trace, key);
    char *end = NULL;
    *value = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && !*end;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

double an_trace_last_value(const struct an_trace *trace, const char *counter)
{
    for (size_t k = 0; k < trace->track_count; k++) {
        const struct an_track *track = &trace->track[k];
        if (track->counter_count && !strcmp(track->kind, "counter") &&
            !strcmp(track->name, counter))
            return trace->counter.value[an_counter_end(track) - 1];
    }
    return 0;
}

const char *an_trace_name(const struct an_trace *trace, uint32_t name)
{
    return name < trace->string_count ? trace->string[name] : "";
}

bool an_trace_has_name(const struct an_trace *trace, const char *prefix)
{
    size_t length = strlen(prefix), i = 0;
    while (i < trace->string_count && strncmp(trace->string[i], prefix, length) != 0)
        i++;
    return i < trace->string_count;
}

const struct an_detail *an_trace_detail(const struct an_trace *trace, uint32_t detail)
{
    return detail < trace->detail_count ? &trace->detail[detail] : NULL;
}

enum an_role an_trace_role(const struct an_trace *trace, uint32_t detail)
{
    return detail < trace->detail_count ? trace->detail[detail].role : AN_ROLE_NONE;
}

int64_t an_slice_end(const struct an_trace *trace, size_t slice)
{
    for (int levels = AN_DEPTH_MAX;
         levels && trace->slice.dur[slice] == AN_OPEN && trace->slice.parent[slice] != AN_NONE;
         levels--)
        slice = trace->slice.parent[slice];
    if (trace->slice.dur[slice] == AN_OPEN)
        return trace->t1 > trace->slice.start[slice] ? trace->t1 : trace->slice.start[slice];
    return trace->slice.start[slice] + trace->slice.dur[slice];
}

size_t an_slice_seek(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    return an_times_seek(trace->slice.start, track->slice_first, an_track_end(track), time);
}

uint32_t an_slice_track(const struct an_trace *trace, size_t slice)
{
    size_t low = 0, high = trace->track_count; /* to the first track that begins after `slice` */
    AN_BISECT(low, high, trace->track[middle].slice_first <= slice);
    return low ? (uint32_t)(low - 1) : AN_NONE;
}

/* ---- ceilings that were measured later ------------------------------------------------------- */

static bool has_ceiling(const struct an_trace *trace, const struct an_measured_ceiling *row)
{
    bool found = false;
    for (size_t i = 0; i < trace->ceiling_count && !found; i++)
        found = !strcmp(trace->ceiling[i].resource, row->resource) &&
                !strcmp(trace->ceiling[i].dtype, row->dtype);
    return found;
}

int an_trace_add_ceilings(struct an_trace *trace, const struct an_calibration *calibration,
                          size_t *added)
{
    const char *cpu = an_trace_key(trace, "cpu.model");
    int64_t cores;
    size_t room = trace->ceiling_count;
    *added = 0;
    if (!calibration || !cpu || strcmp(cpu, calibration->cpu) != 0 ||
        !an_trace_key_integer(trace, "cpu.usable", &cores) || cores != calibration->cores)
        return 0;
    for (size_t i = 0; i < calibration->row_count; i++) {
        const struct an_measured_ceiling *row = &calibration->rows[i];
        if (has_ceiling(trace, row))
            continue;
        if (an_grow(&trace->ceiling, &room, trace->ceiling_count + 1, sizeof *trace->ceiling))
            return TACHO_ENOMEM;
        trace->ceiling[trace->ceiling_count++] =
            (struct an_ceiling_row){"cpu", row->resource, row->dtype, row->source, row->value};
        ++*added;
    }
    return 0;
}

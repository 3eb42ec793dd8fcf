/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread did at given times, by cause and name (noncompute.h). The innermost open range
 * decides; but ranges inside a wait for input, a compilation, a garbage collection, a phase or a
 * call of the runtime belong to that.
 */
#include "analyzers/budget/noncompute.h"

#include <stdlib.h>

/* ---- the tally ---------------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const struct an_host_tally *tally, uint32_t name, enum an_cause cause)
{
    uint64_t hash = ((uint64_t)name << 8 | (uint64_t)cause) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & (tally->slots - 1);
}

static void place_row(struct an_host_tally *tally, size_t row)
{
    size_t slot = hash_of(tally, tally->row[row].name, tally->row[row].cause);
    while (tally->slot[slot])
        slot = (slot + 1) & (tally->slots - 1);
    tally->slot[slot] = (uint32_t)row + 1;
}

static int grow_slots(struct an_host_tally *tally)
{
    size_t slots = tally->slots ? 2 * tally->slots : 256;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return TACHO_ENOMEM;
    free(tally->slot);
    tally->slot = slot;
    tally->slots = slots;
    for (size_t i = 0; i < tally->count; i++)
        place_row(tally, i);
    return 0;
}

static int tally_add(struct an_host_tally *tally, uint32_t name, enum an_cause cause, int64_t ns)
{
    if (2 * tally->count >= tally->slots && grow_slots(tally))
        return TACHO_ENOMEM;
    for (size_t slot = hash_of(tally, name, cause); tally->slot[slot];
         slot = (slot + 1) & (tally->slots - 1)) {
        struct an_host_row *row = &tally->row[tally->slot[slot] - 1];
        if (row->name == name && row->cause == cause) {
            row->ns = an_time_add(row->ns, ns);
            return 0;
        }
    }
    if (an_grow(&tally->row, &tally->room, tally->count + 1, sizeof *tally->row))
        return TACHO_ENOMEM;
    tally->row[tally->count] = (struct an_host_row){name, cause, ns};
    place_row(tally, tally->count++);
    return 0;
}

void an_host_tally_free(struct an_host_tally *tally)
{
    free(tally->row);
    free(tally->slot);
    *tally = (struct an_host_tally){.row = NULL};
}

/* ---- the sweep ------------------------------------------------------------------------------------------------------------------ */

struct open_range {
    int64_t end;
    uint32_t slice;
    uint32_t name;
    enum an_cause cause;
    bool known; /* name and cause are filled */
};

struct host_sweep {
    struct an_context *context;
    const struct an_causes *causes;
    struct an_set when;
    size_t at; /* in `when`; a sweep only goes forward */
    struct an_host_tally *tally;
    struct an_span_list *rest;
    struct open_range open[AN_DEPTH_MAX];
    size_t depth;
};

static bool is_own_cause(enum an_cause cause)
{
    return cause == AN_CAUSE_INPUT || cause == AN_CAUSE_COMPILE || cause == AN_CAUSE_COLLECTION ||
           cause == AN_CAUSE_PHASE;
}

/* Makes the cause of a launching call that waits for its copy COPY instead of LAUNCH. */
static void note_waiting_copy(const struct host_sweep *host_sweep, uint32_t slice,
                              enum an_cause *cause)
{
    const struct an_devices *devices = host_sweep->context->gpu;
    if (*cause != AN_CAUSE_LAUNCH || !devices ||
        an_slice_api(host_sweep->context->trace, slice).kind != AN_API_COPY)
        return;
    size_t i = an_launch_seek(devices, slice);
    if (i < devices->launch_count && devices->launch_slice[i] == slice &&
        an_copy_waits(devices, devices->launch_op[devices->launch_first[i]]))
        *cause = AN_CAUSE_COPY;
}

/* Fills cause and name of the open range at `i` and of those around it. Causes are looked up only
 * for ranges that are asked for, because most ranges are not. */
static void explain(struct host_sweep *host_sweep, size_t i)
{
    size_t from = i;
    while (from > 0 && !host_sweep->open[from].known)
        from--;
    for (size_t k = from; k <= i; k++) {
        struct open_range *open_range = &host_sweep->open[k];
        if (open_range->known)
            continue;
        const struct open_range *around = k ? &host_sweep->open[k - 1] : NULL;
        open_range->known = true;
        open_range->cause =
            an_slice_cause(host_sweep->context, host_sweep->causes, open_range->slice);
        note_waiting_copy(host_sweep, open_range->slice, &open_range->cause);
        open_range->name = open_range->cause == AN_CAUSE_UNTRACED
                               ? AN_NONE
                               : host_sweep->context->trace->slice.name[open_range->slice];
        if (!around || around->name == AN_NONE)
            continue;
        bool around_call =
            an_category_is_call(an_slice_category(host_sweep->context->trace, around->slice));
        if (is_own_cause(around->cause) || around_call || open_range->name == AN_NONE) {
            if (open_range->cause == AN_CAUSE_COLLECTION || open_range->cause == AN_CAUSE_PROFILER)
                continue;
            open_range->cause = around->cause;
            open_range->name = around->name;
        }
    }
}

/* Counts what of [from, to) is asked for, under the cause of the innermost open range. */
static int count_time(struct host_sweep *host_sweep, int64_t from, int64_t to)
{
    const struct an_set *set = &host_sweep->when;
    while (host_sweep->at < set->count && set->span[host_sweep->at].end <= from)
        host_sweep->at++;
    for (size_t i = host_sweep->at; i < set->count && set->span[i].start < to; i++) {
        int64_t start = set->span[i].start > from ? set->span[i].start : from;
        int64_t end = set->span[i].end < to ? set->span[i].end : to;
        if (end <= start)
            continue;
        uint32_t name = AN_NONE;
        enum an_cause cause = AN_CAUSE_UNTRACED;
        if (host_sweep->depth) {
            explain(host_sweep, host_sweep->depth - 1);
            name = host_sweep->open[host_sweep->depth - 1].name;
            cause = host_sweep->open[host_sweep->depth - 1].cause;
        }
        int rc = name == AN_NONE && host_sweep->rest
                     ? an_span_list_add(host_sweep->rest, start, end)
                     : tally_add(host_sweep->tally, name, cause, an_time_sub(end, start));
        if (rc)
            return rc;
    }
    return 0;
}

int an_host_sweep(struct an_context *context, const struct an_track *track, struct an_set when,
                  struct an_host_tally *tally, struct an_span_list *rest)
{
    struct host_sweep host_sweep = {.context = context, .when = when, .tally = tally, .rest = rest};
    struct an_causes *causes = context->graph ? context->graph->causes : context->causes;
    const struct an_trace *trace = context->trace;
    int64_t at = INT64_MIN;
    int rc = 0;
    if (!when.count)
        return 0;
    if (!causes && (rc = an_causes_make(context, &causes)))
        return rc;
    context->causes = causes;
    host_sweep.causes = causes;
    size_t stop = an_track_end(track);
    for (size_t i = track->slice_first; i <= stop && !rc; i++) {
        int64_t next = i == stop ? INT64_MAX : trace->slice.start[i];
        while (host_sweep.depth && host_sweep.open[host_sweep.depth - 1].end <= next && !rc) {
            rc = count_time(&host_sweep, at, host_sweep.open[host_sweep.depth - 1].end);
            at = host_sweep.open[host_sweep.depth - 1].end > at
                     ? host_sweep.open[host_sweep.depth - 1].end
                     : at;
            host_sweep.depth--;
        }
        rc = rc ? rc : count_time(&host_sweep, at, next);
        at = next > at ? next : at;
        if (i < stop && host_sweep.depth < AN_DEPTH_MAX && trace->slice.dur[i] != 0 &&
            host_sweep.at < when.count)
            host_sweep.open[host_sweep.depth++] =
                (struct open_range){.end = an_slice_end(trace, i), .slice = (uint32_t)i};
    }
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the ranges of a run, each with its name, thread and step.
 */
#include "cli/mcp/windows.h"

#include <stdlib.h>
#include <string.h>

#include "cli/base/message.h"

/* Makes room for one more element. NULL: no memory. */
static void *grow(void **list, size_t count, size_t *room, size_t size)
{
    if (count == *room) {
        size_t more = *room ? 2 * *room : 64;
        void *larger = realloc(*list, more * size);
        if (!larger)
            return NULL;
        *list = larger;
        *room = more;
    }
    return (char *)*list + count * size;
}

static int add_process(void *context, const struct store_process *row)
{
    struct mcp_trace *trace = context;
    struct process *process =
        grow((void **)&trace->process, trace->process_count, &trace->process_room, sizeof *process);
    if (!process)
        return TACHO_ENOMEM;
    *process = (struct process){.id = row->id, .rank = row->rank};
    trace->process_count++;
    return 0;
}

/* The rank of a process: its own, or that which its steps have. */
static int64_t rank_of(const struct mcp_trace *trace, int64_t id)
{
    for (size_t i = 0; i < trace->step_count; i++)
        if (trace->step[i].process == id)
            return trace->step[i].rank;
    const struct process *process =
        bsearch(&id, trace->process, trace->process_count, sizeof *process, store_id_order);
    return process ? process->rank : STORE_ABSENT;
}

static int add_track(void *context, const struct store_track *row)
{
    struct mcp_trace *trace = context;
    struct mcp_track *track =
        grow((void **)&trace->track, trace->track_count, &trace->track_room, sizeof *track);
    if (!track)
        return TACHO_ENOMEM;
    *track = (struct mcp_track){.id = row->id,
                                .process = row->process,
                                .rank = rank_of(trace, row->process),
                                .device = row->kind && !strcmp(row->kind, "stream"),
                                .name = strdup(row->name ? row->name : "")};
    trace->track_count++;
    return track->name ? 0 : TACHO_ENOMEM;
}

static int add_name(void *context, int64_t id, const char *text)
{
    struct mcp_trace *trace = context;
    struct mcp_name *name =
        grow((void **)&trace->name, trace->name_count, &trace->name_room, sizeof *name);
    if (!name)
        return TACHO_ENOMEM;
    *name = (struct mcp_name){.id = id, .text = strdup(text ? text : "")};
    trace->name_count++;
    return name->text ? 0 : TACHO_ENOMEM;
}

int mcp_trace_open(const struct mcp_run *run, struct mcp_trace *trace)
{
    *trace = (struct mcp_trace){.step = run->result->step_points,
                                .step_count = run->result->step_point_count};
    int code = mcp_run_open(&run->found, &trace->reader);
    if (code)
        return code;
    int rc = store_process_each(trace->reader, add_process, trace);
    if (!rc)
        rc = store_track_each(trace->reader, 0, add_track, trace);
    if (!rc)
        rc = store_string_each(trace->reader, 0, add_name, trace);
    return rc ? cli_error(rc, NULL, "%s: %s", run->found.run, tacho_error_text(rc)) : 0;
}

void mcp_trace_close(struct mcp_trace *trace)
{
    for (size_t i = 0; i < trace->track_count; i++)
        free(trace->track[i].name);
    for (size_t i = 0; i < trace->name_count; i++)
        free(trace->name[i].text);
    free(trace->track);
    free(trace->name);
    free(trace->process);
    store_reader_close(trace->reader);
}

struct mcp_filter mcp_filter_of(const json_t *arguments)
{
    struct mcp_filter filter = {.match = mcp_text(arguments, "match", NULL),
                                .rank = mcp_integer(arguments, "rank", STORE_ABSENT),
                                .step_from = 0,
                                .step_to = -1,
                                .least_us = mcp_number(arguments, "min_us", 0)};
    int64_t step = mcp_integer(arguments, "step", STORE_ABSENT),
            from = mcp_integer(arguments, "from", STORE_ABSENT),
            to = mcp_integer(arguments, "to", STORE_ABSENT);
    if (step != STORE_ABSENT)
        from = to = step;
    if (from != STORE_ABSENT || to != STORE_ABSENT) {
        filter.step_from = from == STORE_ABSENT ? 0 : from;
        filter.step_to = to == STORE_ABSENT ? INT64_MAX : to;
    }
    return filter;
}

/* The step of this process and rank in which the range begins: the last one that starts before it,
 * where that has not ended. A process without steps (a loader's) has those of its rank. */
static const struct an_step_point *step_at(const struct mcp_trace *trace,
                                           const struct mcp_track *track, int64_t start)
{
    size_t low = 0, high = trace->step_count;
    if (!track || track->rank == STORE_ABSENT)
        return NULL;
    while (low < high) { /* the first step of a higher rank, or that starts later */
        size_t middle = (low + high) / 2;
        const struct an_step_point *step = &trace->step[middle];
        int64_t begun = track->device ? step->start_ns : step->host_start_ns;
        if (step->rank < track->rank || (step->rank == track->rank && begun <= start))
            low = middle + 1;
        else
            high = middle;
    }
    const struct an_step_point *step = low ? &trace->step[low - 1] : NULL;
    if (!step || step->rank != track->rank ||
        start >= (track->device ? step->end_ns : step->host_end_ns))
        return NULL;
    return step;
}

struct visit {
    struct mcp_trace *trace;
    const struct mcp_filter *filter;
    int (*each)(void *context, const struct mcp_range *range);
    void *context;
};

static int visit(void *context, const struct store_slice *slice)
{
    struct visit *at = context;
    const struct mcp_filter *filter = at->filter;
    if (slice->dur != STORE_ABSENT && (double)slice->dur / 1e3 < filter->least_us)
        return 0;
    const struct mcp_name *name =
        bsearch(&slice->name, at->trace->name, at->trace->name_count, sizeof *name, store_id_order);
    struct mcp_range range = {
        .id = slice->id, .start = slice->start, .dur = slice->dur, .name = name ? name->text : ""};
    if (!mcp_matches(range.name, filter->match))
        return 0;
    range.track = bsearch(&slice->track, at->trace->track, at->trace->track_count,
                          sizeof *range.track, store_id_order);
    if (filter->rank != STORE_ABSENT && (!range.track || range.track->rank != filter->rank))
        return 0;
    range.step = step_at(at->trace, range.track, slice->start);
    bool any = filter->step_to < filter->step_from;
    if (!any && (!range.step || range.step->index + range.step->steps - 1 < filter->step_from ||
                 range.step->index > filter->step_to))
        return 0;
    return at->each(at->context, &range);
}

int mcp_each_range(struct mcp_trace *trace, const struct mcp_filter *filter,
                   int (*each)(void *context, const struct mcp_range *range), void *context)
{
    struct visit at = {.trace = trace, .filter = filter, .each = each, .context = context};
    int64_t from = INT64_MAX, to = INT64_MIN;
    if (filter->step_to < filter->step_from)
        return store_slice_each(trace->reader, 0, visit, &at);
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct an_step_point *step = &trace->step[i];
        if (step->index + step->steps - 1 < filter->step_from || step->index > filter->step_to)
            continue;
        int64_t start = step->start_ns < step->host_start_ns ? step->start_ns : step->host_start_ns;
        int64_t end = step->end_ns > step->host_end_ns ? step->end_ns : step->host_end_ns;
        from = start < from ? start : from;
        to = end > to ? end : to;
    }
    return from > to ? 0 : store_slice_between(trace->reader, 0, from, to, visit, &at);
}

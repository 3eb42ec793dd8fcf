/* SPDX-License-Identifier: Apache-2.0
 *
 * When each device did what: unions and differences of its ops, in integer ns
 * (docs/definitions.md).
 *
 * Graphs. A graph that was recorded as a whole is busy and opaque. A graph whose launch is in the
 * file and that left no record makes the device look idle: the first gap that ends after the launch
 * call began is then opaque from the launch on, up to the end of the next call of the thread that
 * waits for the stream or the device, which proves that the graph had ended. A gap that ends with
 * an op whose own launch is not in the file is left alone: that op may be the graph's.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/sets.h"
#include "analyzers/device/api.h"
#include "analyzers/device/device.h"

int an_device_spans(const struct an_devices *devices, const struct an_device *device, unsigned mask,
                    int64_t start, int64_t end, struct an_span **out, size_t *count)
{
    const struct an_device_ops *ops = &devices->op;
    size_t kept = 0;
    for (size_t i = device->first; i < an_device_end(device) && ops->start[i] < end; i++)
        kept += mask >> ops->class[i] & 1 && ops->end[i] > start;
    struct an_span *span = an_arena_zero(devices->scratch, kept, sizeof *span);
    *out = span;
    *count = 0;
    if (!span)
        return TACHO_ENOMEM;
    kept = 0;
    for (size_t i = device->first; i < an_device_end(device) && ops->start[i] < end; i++)
        if (mask >> ops->class[i] & 1 && ops->end[i] > start)
            span[kept++] =
                (struct an_span){an_time_max(ops->start[i], start), an_time_min(ops->end[i], end)};
    *count = an_spans_normalize(span, kept);
    return 0;
}

/* Union of the ops of a class mask, of the size it needs. */
static int set_of(struct an_devices *devices, const struct an_device *device, unsigned mask,
                  struct an_set *out)
{
    const struct an_device_ops *ops = &devices->op;
    struct an_span_list list = {0};
    int rc = 0;
    for (size_t i = device->first; i < an_device_end(device) && !rc; i++)
        if (mask >> ops->class[i] & 1)
            rc = an_span_list_add(&list, ops->start[i], ops->end[i]);
    rc = rc ? rc : an_span_list_keep(&list, devices->scratch, out);
    free(list.span);
    return rc;
}

/* ---- graphs that left no record ------------------------------------------------------------------------------------------- */

/* A launch of a graph that left no record. */
struct graph_call {
    int64_t start;
    /* End of the first wait of its thread that begins after it, INT64_MAX: none does. */
    int64_t waited;
    size_t device; /* that of the launch before it on the thread; SIZE_MAX: none */
};

struct graph_calls {
    struct graph_call *call;
    size_t count, room;
};

static size_t device_of_op(const struct an_devices *devices, size_t op)
{
    size_t low = 0, high = devices->device_count;
    AN_BISECT(low, high, an_device_end(&devices->device[middle]) <= op);
    return low;
}

/* Kinds of calls by name: 1 launches a graph, 2 waits for a stream or a device. */
static uint8_t graph_kind(const char *name)
{
    struct an_api_call call = an_api_of(name);
    if (call.kind == AN_API_SYNC)
        return strstr(name, "Event") ? 0 : 2;
    return call.kind == AN_API_GRAPH;
}

/* Lists the graph launches of a thread that left no record, walking backwards, so that the next
 * call that waits is known when a launch is reached. */
static int list_thread(const struct an_trace *trace, const struct an_devices *devices,
                       const struct an_track *track, const uint8_t *kind,
                       struct graph_calls *graph_calls)
{
    size_t launch = an_launch_seek(devices, an_track_end(track)); /* after the thread's rows */
    int64_t waited = INT64_MAX;
    for (size_t i = an_track_end(track); i-- > track->slice_first;) {
        bool linked = launch && devices->launch_slice[launch - 1] == i;
        launch -= linked;
        uint32_t name = trace->slice.name[i];
        uint8_t what = name == AN_NONE ? 0 : kind[name];
        const char *category = what ? an_slice_category(trace, i) : "";
        if (!what || (strcmp(category, "runtime") != 0 && strcmp(category, "driver") != 0))
            continue;
        if (what == 2)
            waited = an_slice_end(trace, i);
        if (what == 2 || linked)
            continue;
        if (an_grow(&graph_calls->call, &graph_calls->room, graph_calls->count + 1,
                    sizeof *graph_calls->call))
            return TACHO_ENOMEM;
        bool before = launch && devices->launch_slice[launch - 1] >= track->slice_first;
        size_t device =
            before ? device_of_op(devices, devices->launch_op[devices->launch_first[launch - 1]])
                   : SIZE_MAX;
        graph_calls->call[graph_calls->count++] =
            (struct graph_call){trace->slice.start[i], waited, device};
    }
    return 0;
}

/* Returns the part of the first gap that ends after the launch, up to the next wait of the thread:
 * there the graph may have run. An empty span if there is no such gap, or if the op that ends it
 * has no launch in the file. */
static struct an_span hidden_by(const struct an_devices *devices, const struct an_device *device,
                                const struct an_set *busy, const struct graph_call *graph_call)
{
    const struct an_span nothing = {0, 0};
    int64_t start = graph_call->start;
    size_t low = 0, high = busy->count;
    /* the first busy span that begins after the launch: the gap is before it */
    AN_BISECT(low, high, busy->span[middle].start <= start);
    if (!low || low == busy->count)
        return nothing;
    struct an_span gap = {busy->span[low - 1].end, busy->span[low].start};
    gap.start = an_time_max(gap.start, start);
    gap.end = an_time_min(gap.end, graph_call->waited);
    const struct an_device_ops *ops = &devices->op;
    size_t first = device->first, end = an_device_end(device);
    while (first < end) { /* the op that ends the gap */
        size_t middle = first + (end - first) / 2;
        if (ops->start[middle] < busy->span[low].start)
            first = middle + 1;
        else
            end = middle;
    }
    return ops->launch[first] == AN_NONE || gap.end <= gap.start ? nothing : gap;
}

/* Counts what the graph launches of a device hide as busy and opaque. `span` has room for one span
 * of each call; `first` is the first device of the process, for launches of an unknown device. */
static int hide_calls(struct an_devices *devices, size_t device, size_t first,
                      const struct graph_calls *calls, struct an_span *span)
{
    struct an_device_split *split = &devices->split[device];
    struct an_set hidden = {span, 0};
    for (size_t i = 0; i < calls->count; i++) {
        const struct graph_call *call = &calls->call[i];
        if ((call->device == SIZE_MAX ? first : call->device) != device)
            continue;
        split->unseen_graphs++;
        span[hidden.count] = hidden_by(devices, &devices->device[device], &split->busy, call);
        hidden.count += span[hidden.count].end > span[hidden.count].start;
    }
    if (!hidden.count)
        return 0;
    hidden.count = an_spans_normalize(span, hidden.count);
    split->unseen_ns = an_set_measure(hidden);
    int rc = an_set_combine(devices->scratch, an_spans_union, split->exposed_opaque, hidden,
                            &split->exposed_opaque);
    return rc ? rc
              : an_set_combine(devices->scratch, an_spans_union, split->busy, hidden, &split->busy);
}

/* Finds the spans in which the devices of a process look idle but may have run a graph, and counts
 * them as busy and opaque. */
static int find_hidden(struct an_devices *devices, uint32_t process, const uint8_t *kind)
{
    const struct an_trace *trace = devices->trace;
    struct graph_calls graph_calls = {0};
    struct an_span *span = NULL;
    int rc = 0;
    AN_EACH_TRACK(trace, process, k)
    if (!rc && strcmp(trace->track[k].kind, "stream") != 0)
        rc = list_thread(trace, devices, &trace->track[k], kind, &graph_calls);
    if (!rc && graph_calls.count)
        rc = (span = malloc(graph_calls.count * sizeof *span)) ? 0 : TACHO_ENOMEM;
    size_t first = SIZE_MAX;
    for (size_t device = 0; device < devices->device_count && !rc; device++) {
        if (devices->device[device].process != process)
            continue;
        first = first == SIZE_MAX ? device : first;
        rc = hide_calls(devices, device, first, &graph_calls, span);
    }
    free(graph_calls.call);
    free(span);
    return rc;
}

static int hide_graphs(struct an_devices *devices)
{
    const struct an_trace *trace = devices->trace;
    bool graphs = false;
    uint8_t *kind = an_arena_zero(devices->scratch, trace->string_count, 1);
    if (!kind)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < trace->string_count; i++)
        graphs |= (kind[i] = graph_kind(trace->string[i])) == 1;
    int rc = 0;
    for (size_t device = 0; device < devices->device_count && graphs && !rc; device++)
        if (!device || devices->device[device].process != devices->device[device - 1].process)
            rc = find_hidden(devices, devices->device[device].process, kind);
    return rc;
}

/* ---- the sets -------------------------------------------------------------------------------------------------------------- */

/* Computes the sets of one device. Each exposed set excludes what comes before it in the order
 * compute, communication, copies, opaque. */
static int split_device(struct an_devices *devices, const struct an_device *device,
                        struct an_device_split *split)
{
    struct an_set rest, classed;
    for (size_t i = device->first; i < an_device_end(device); i++) {
        split->start = i == device->first ? devices->op.start[i] : split->start;
        split->end =
            i == device->first || devices->op.end[i] > split->end ? devices->op.end[i] : split->end;
    }
    int rc = set_of(devices, device, AN_DEVICE_COMPUTE_MASK, &split->compute);
    rc = rc ? rc : set_of(devices, device, AN_DEVICE_COMM_MASK, &split->comm);
    rc = rc ? rc : set_of(devices, device, AN_DEVICE_COPY_MASK, &split->copy);
    rc = rc ? rc : set_of(devices, device, 1u << AN_DEVICE_OPAQUE, &split->opaque);
    rc = rc ? rc
            : an_set_combine(devices->scratch, an_spans_subtract, split->comm, split->compute,
                             &split->exposed_comm);
    rc = rc ? rc
            : an_set_combine(devices->scratch, an_spans_union, split->compute, split->comm, &rest);
    rc = rc ? rc
            : an_set_combine(devices->scratch, an_spans_subtract, split->copy, rest,
                             &split->exposed_copy);
    rc = rc ? rc : an_set_combine(devices->scratch, an_spans_union, rest, split->copy, &classed);
    rc = rc ? rc
            : an_set_combine(devices->scratch, an_spans_subtract, split->opaque, classed,
                             &split->exposed_opaque);
    return rc ? rc
              : an_set_combine(devices->scratch, an_spans_union, classed, split->opaque,
                               &split->busy);
}

int an_devices_split(struct an_devices *devices)
{
    int rc = (devices->split =
                  an_arena_zero(devices->scratch, devices->device_count, sizeof *devices->split))
                 ? 0
                 : TACHO_ENOMEM;
    for (size_t i = 0; i < devices->device_count && !rc; i++)
        rc = split_device(devices, &devices->device[i], &devices->split[i]);
    return rc ? rc : hide_graphs(devices);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk back along the critical path. The walk goes backwards from the operation that gates the
 * next step. At time t in node n it assigns to n its own work before t, which began when the last
 * dependency of n was satisfied; there the walk continues in the node that satisfied it, because
 * only that one delayed n. Every turn starts where the one before ended, so every instant of the
 * window is assigned to exactly one segment.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/critical_path.h"

/* ns: an op that is issued and released starts within this time, ten times what launches take on an
 * idle device; else something that was not recorded held it. */
#define DISPATCH_MOST 100000

/* What let a piece of own work begin. */
struct trigger {
    uint32_t from;       /* AN_NONE: nothing is known */
    int64_t release;     /* when it let go */
    int64_t continue_at; /* the walk goes on in `from` at this time */
    uint8_t link;
    bool inferred;
};

const char *an_path_link_key(unsigned link)
{
    static const char *const keys[] = {"order", "same", "nearest", "end", "none"};
    if (link < AN_EDGE_KINDS)
        return an_edge_key((enum an_edge_kind)link);
    return link < AN_PATH_LINKS ? keys[link - AN_EDGE_KINDS] : "";
}

static int add(struct an_path_walk *walk, struct an_path_segment segment)
{
    if (segment.start < walk->window.start)
        segment.start = walk->window.start;
    if (an_grow(&walk->segment, &walk->room, walk->count + 1, sizeof *walk->segment))
        return TACHO_ENOMEM;
    walk->segment[walk->count++] = segment;
    return 0;
}

/* ---- triggers ------------------------------------------------------------------------------------------------------------ */

static void take_edge(const struct an_graph *graph, uint32_t edge, int64_t until,
                      struct trigger *best)
{
    int64_t release = an_edge_release(graph, edge);
    bool inferred = graph->in_kind[edge] & AN_EDGE_INFERRED;
    if (release > until || (best->from != AN_NONE &&
                            (release < best->release || (release == best->release && inferred))))
        return;
    uint32_t from = graph->in_from[edge];
    int64_t at = release;
    if (graph->in_kind[edge] & AN_EDGE_AT_START) {
        from = an_graph_before(graph, from);
        if (from == AN_NONE)
            return;
        at = graph->end[from];
    }
    *best = (struct trigger){from, release, at, graph->in_kind[edge] & AN_EDGE_KIND_MASK, inferred};
}

/* The dependency of a node that was satisfied last, up to `time` for a node that waits. A node that
 * does not wait begins when the node before it on its track ends, unless an edge released it later.
 */
static struct trigger last_release(const struct an_graph *graph, uint32_t node, int64_t time)
{
    struct trigger best = {.from = AN_NONE};
    bool waits = an_graph_waits(graph, node);
    int64_t until = !waits && graph->start[node] < time ? graph->start[node] : time;
    uint32_t before = an_graph_before(graph, node);
    if (before != AN_NONE) {
        int64_t release = an_order_release(graph, before, node);
        if (release <= until)
            best = (struct trigger){before, release, release, AN_PATH_ORDER,
                                    graph->kind[before] == AN_NODE_UNTRACED};
    }
    for (uint32_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++)
        take_edge(graph, edge, until, &best);
    return best;
}

/* The last node of a track that began before `time` and ended at `time` or before, so that going
 * there is a step back in time. AN_NONE: none exists. */
static uint32_t ended_before(const struct an_graph *graph, uint32_t track, int64_t time)
{
    uint32_t node = an_graph_node_at(graph, track, time);
    node = node == AN_NONE ? (uint32_t)graph->track_first[track + 1] : node;
    while (node > graph->track_first[track] &&
           (graph->end[node - 1] > time || graph->start[node - 1] >= time))
        node--; /* ops of one stream may overlap */
    return node > graph->track_first[track] ? node - 1 : AN_NONE;
}

/* The node that ended last before `time` on another track of the same process, and for an op of the
 * same device. It is taken where no edge says what an op without a launch waited for, or what
 * began a thread; the result is marked as inferred. */
static struct trigger nearest_before(const struct an_context *context, const struct an_graph *graph,
                                     uint32_t node, int64_t time)
{
    const struct an_trace *trace = context->trace;
    struct trigger best = {.from = AN_NONE, .link = AN_PATH_NEAREST, .inferred = true};
    const struct an_track *own = &trace->track[graph->track[node]];
    bool device = an_graph_on_device(graph, node);
    for (uint32_t track = 0; track < trace->track_count; track++) {
        const struct an_track *other = &trace->track[track];
        if (track == graph->track[node] || other->process != own->process ||
            (device && strcmp(other->device, own->device)))
            continue;
        uint32_t candidate = ended_before(graph, track, time);
        if (candidate != AN_NONE && graph->kind[candidate] != AN_NODE_UNTRACED &&
            (best.from == AN_NONE || graph->end[candidate] > best.release)) {
            best.from = candidate;
            best.release = best.continue_at = graph->end[candidate];
        }
    }
    return best;
}

/* Did a CUDA graph whose nodes were not all recorded hold the op in [release, start)? The op is a
 * node of a graph that was launched before, or the graph left no record at all (an_device_split).
 */
static bool waited_for_graph(const struct an_context *context, const struct an_graph *graph,
                             uint32_t node, int64_t release, int64_t start)
{
    const struct an_devices *gpu = context->gpu;
    if (graph->kind[node] != AN_NODE_DEVICE)
        return false;
    for (size_t i = 0; i < gpu->device_count; i++) {
        const struct an_device *device = &gpu->device[i];
        for (size_t op = an_device_op_seek(gpu, device, graph->start[node]);
             op < device->first + device->count && gpu->op.start[op] == graph->start[node]; op++) {
            if (gpu->op.slice[op] != graph->slice[node])
                continue;
            const struct an_set *unseen = &gpu->split[i].exposed_opaque;
            uint32_t launch = gpu->op.launch[op];
            return (launch != AN_NONE &&
                    an_slice_api(context->trace, launch).kind == AN_API_GRAPH) ||
                   an_spans_within(unseen->span, unseen->count, release, start) >
                       (start - release) / 10 * 9;
        }
    }
    return false;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------------ */

struct place {
    uint32_t node;
    int64_t time;
    uint8_t link, how; /* the dependency from the next segment to the one after it */
};

/* What released a node: the last release by its edges, or the nearest work before it where those
 * are absent or too early. */
static struct trigger find_release(const struct an_context *context, const struct an_graph *graph,
                                   uint32_t node, int64_t start)
{
    struct trigger trigger = last_release(graph, node, start);
    if (trigger.from != AN_NONE && (graph->kind[node] != AN_NODE_DEVICE ||
                                    an_time_sub(start, trigger.release) <= DISPATCH_MOST))
        return trigger;
    struct trigger other = nearest_before(context, graph, node, start);
    bool later = trigger.from == AN_NONE || other.release > trigger.release;
    return other.from != AN_NONE && later ? other : trigger;
}

/* Turns a segment into time that nothing recorded explains. */
static void make_gap(struct an_path_segment *segment)
{
    segment->node = AN_NONE;
    segment->cause = AN_CAUSE_GAP;
    segment->how = AN_PATH_GAP;
    segment->link = AN_PATH_NONE;
}

/* Goes from the start of a node back to what released it. Time between the release and `start`
 * becomes a segment: dispatch, time in an unrecorded CUDA graph, or a gap. */
static int step_back(const struct an_context *context, const struct an_graph *graph,
                     struct an_path_walk *walk, struct place *place, int64_t start)
{
    struct trigger trigger = find_release(context, graph, place->node, start);
    int64_t release = trigger.from == AN_NONE ? walk->window.start : trigger.release;
    uint8_t how = trigger.inferred ? AN_PATH_INFERRED : AN_PATH_RECORDED;
    bool gap = trigger.from == AN_NONE || an_time_sub(start, release) > DISPATCH_MOST;
    uint8_t cause = AN_CAUSE_DISPATCH;
    if (gap && trigger.from != AN_NONE &&
        waited_for_graph(context, graph, place->node, release, start)) {
        gap = false;
        cause = AN_CAUSE_OPAQUE;
        how = AN_PATH_INFERRED;
    }
    uint8_t link = gap ? AN_PATH_NONE : trigger.link;
    if (release < start) {
        struct an_path_segment segment = {.start = release,
                                          .end = start,
                                          .node = place->node,
                                          .slice = AN_NONE,
                                          .cause = cause,
                                          .how = how,
                                          .link = walk->count ? AN_PATH_SAME : AN_PATH_END};
        if (gap)
            make_gap(&segment);
        if (add(walk, segment))
            return TACHO_ENOMEM;
    }
    *place = (struct place){trigger.from, trigger.from == AN_NONE ? release : trigger.continue_at,
                            link, how};
    return 0;
}

/* When the own work of a node began that is done at `time`. */
static int64_t own_start(const struct an_graph *graph, uint32_t node, int64_t time)
{
    int64_t start = graph->start[node];
    if (an_graph_waits(graph, node))
        for (uint32_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++) {
            int64_t release = an_edge_release(graph, edge);
            start = release > start && release <= time ? release : start;
        }
    return start;
}

static int walk_from(const struct an_context *context, const struct an_graph *graph,
                     struct an_path_walk *walk, struct place place)
{
    int64_t stop = walk->window.start;
    size_t turns = 0;
    int rc = 0;
    while (!rc && place.node != AN_NONE && place.time > stop && turns++ <= 2 * graph->node_count) {
        int64_t own = own_start(graph, place.node, place.time);
        own = own < place.time ? own : place.time;
        struct an_path_segment segment = {
            own,       place.time, place.node, graph->slice[place.node], graph->cause[place.node],
            place.how, place.link};
        rc = add(walk, segment);
        place.time = own;
        if (!rc && own > stop)
            rc = step_back(context, graph, walk, &place, own);
    }
    if (!rc && place.time > stop) /* nothing before is known */
        rc = add(walk, (struct an_path_segment){stop, place.time, AN_NONE, AN_NONE, AN_CAUSE_GAP,
                                                AN_PATH_GAP, AN_PATH_NONE});
    return rc;
}

/* ---- the sink ------------------------------------------------------------------------------------------------------------ */

static bool is_compute_kernel(const struct an_devices *gpu, size_t op)
{
    return (AN_DEVICE_COMPUTE_MASK & ~(1u << AN_DEVICE_MEMSET)) >> gpu->op.class[op] & 1;
}

/* The node that ends a step of a device: the first compute kernel of the next step (*starts is
 * true), or an op that ends with the last step; of several that end then any will do. AN_NONE:
 * neither is there. */
static uint32_t device_sink(const struct an_context *context, const struct an_graph *graph,
                            const struct an_lane *lane, int64_t end, bool *starts)
{
    const struct an_devices *gpu = context->gpu;
    const struct an_device *device = &gpu->device[lane->device];
    size_t i = an_device_op_seek(gpu, device, end);
    for (*starts = true; i < device->first + device->count && gpu->op.start[i] == end; i++)
        if (is_compute_kernel(gpu, i))
            return graph->op_node[i];
    *starts = false;
    for (i = device->first; i < device->first + device->count && gpu->op.start[i] < end; i++)
        if (gpu->op.end[i] == end)
            return graph->op_node[i];
    return AN_NONE;
}

static void reverse(struct an_path_walk *walk)
{
    for (size_t i = 0, j = walk->count; i + 1 < j; i++) {
        struct an_path_segment segment = walk->segment[i];
        walk->segment[i] = walk->segment[--j];
        walk->segment[j] = segment;
    }
}

int an_path_walk(const struct an_context *context, const struct an_graph *graph,
                 const struct an_window *window, struct an_path_walk *out)
{
    const struct an_lane *lane = &context->lane[window->lane];
    struct place place = {AN_NONE, window->end, AN_PATH_END, AN_PATH_RECORDED};
    int rc = 0;
    out->window = *window;
    out->count = 0;
    if (lane->device != AN_NONE) {
        bool starts;
        place.node = device_sink(context, graph, lane, window->end, &starts);
        if (place.node != AN_NONE && starts)
            rc = step_back(context, graph, out, &place, window->end);
    } else if (lane->track != AN_NONE) {
        place.node = an_graph_node_at(graph, lane->track, window->end - 1);
        if (place.node != AN_NONE && graph->start[place.node] >= window->end)
            place.node = AN_NONE;
    }
    rc = rc ? rc : walk_from(context, graph, out, place);
    reverse(out);
    return rc;
}

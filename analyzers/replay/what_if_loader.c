/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader on other threads, as an edit of the graph (what_if_loader.h): finds the batches of
 * the steps and what each costs a worker, and replays when each batch is made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/replay/replay.h"
#include "analyzers/replay/what_if_loader.h"
#include "analyzers/steps/command.h"

/* Waking a thread that slept for 20 to 100 us took 9.5 us in the median on a virtual machine with
 * two busy cores. */
#define WAKE_UP_NS 9500

/* Batches that each worker makes before they are taken: PyTorch's default. */
#define AHEAD_TURNS 2

/* Where a step's thread takes a batch: consecutive nodes of one range. */
struct take {
    uint32_t wait, lane; /* wait: the node that has to wait for it */
    uint32_t copy;       /* the device op that copies it to the device, AN_NONE: none */
    int64_t work, begun, made, freed; /* freed: when the place of an earlier batch became free */
    double slowdown;                  /* slowdown by shared cores */
};

struct an_route {
    const struct an_graph *graph;
    struct take *take; /* by node, so those of one lane are neighbours */
    size_t count, room, lanes;
    size_t *first_take; /* of each lane: its first take in the frame frame_of[lane] */
    uint64_t *frame_of, frames;
    int64_t workers, ahead, frame, pin;
    bool whoever;
    int64_t *free_at; /* lane by lane, `workers` each: when they are done; whoever only */
    double factor, write_ns, batch_ns, recorded; /* recorded: the slowdown that work holds */
};

/* ---- finding the batches ------------------------------------------------------------------------------------------------------ */

/* The outermost range around a piece that is about input: one batch. */
static uint32_t outermost_input(const struct an_context *context, const struct an_graph *graph,
                                uint32_t slice)
{
    uint32_t root = slice;
    for (int i = 0; slice != AN_NONE && i < AN_DEPTH_MAX;
         i++, slice = context->trace->slice.parent[slice])
        if (an_slice_cause(context, graph->causes, slice) == AN_CAUSE_INPUT)
            root = slice;
    return root;
}

/* ns of writing the batch once, inside one range of the thread: its collate, else what torch calls
 * collating. */
static int64_t write_ns(const struct an_context *context, uint32_t root)
{
    const struct an_trace *trace = context->trace;
    int64_t end = an_slice_end(trace, root), sum = 0, until = INT64_MIN;
    for (size_t i = (size_t)root + 1; i < trace->slice.count && trace->slice.start[i] < end &&
                                      trace->slice.start[i] >= trace->slice.start[root];
         i++) {
        const char *name = an_trace_name(trace, trace->slice.name[i]);
        bool writes = an_slice_role(trace, i) == AN_ROLE_COLLATE || !strcmp(name, "aten::stack") ||
                      !strcmp(name, "aten::cat");
        if (!writes || trace->slice.start[i] < until)
            continue;
        until = an_slice_end(trace, i);
        sum = an_time_add(sum, an_time_sub(until, trace->slice.start[i]));
    }
    return sum;
}

/* Adds the batches that a thread takes in its steps. In a loader in line the work moves from the
 * thread to the batch. */
static int add_takes(const struct an_replay *replay, uint32_t lane, bool in_line, int64_t *own,
                     struct an_route *route, double *written)
{
    const struct an_context *context = replay->context;
    const struct an_graph *graph = replay->graph;
    uint32_t track = context->lane[lane].track, last_root = AN_NONE;
    for (size_t node = graph->track_first[track]; node < graph->track_first[track + 1]; node++) {
        uint32_t root = graph->cause[node] == AN_CAUSE_INPUT && replay->inside[node]
                            ? outermost_input(context, graph, graph->slice[node])
                            : AN_NONE;
        if (root == AN_NONE)
            continue;
        if (root != last_root) {
            if (an_grow(&route->take, &route->room, route->count + 1, sizeof *route->take))
                return TACHO_ENOMEM;
            route->take[route->count++] =
                (struct take){.wait = (uint32_t)node, .lane = lane, .copy = AN_NONE};
            *written += (double)write_ns(context, root);
            last_root = root;
        }
        struct take *take = &route->take[route->count - 1];
        if (!in_line) { /* what is left after the release is receiving the batch */
            take->wait =
                graph->kind[node] == AN_NODE_WAIT && graph->kind[take->wait] != AN_NODE_WAIT
                    ? (uint32_t)node
                    : take->wait;
            continue;
        }
        take->work = an_time_add(take->work, own[node]);
        take->wait = (uint32_t)node;
        own[node] = 0;
    }
    return 0;
}

static const struct an_loader_rank *loader_of(const struct an_context *context, uint32_t lane)
{
    for (size_t i = 0; i < context->result->loader.rank_count; i++)
        if (context->result->loader.ranks[i].rank == context->lane[lane].rank)
            return &context->result->loader.ranks[i];
    return NULL;
}

/* ns of a batch in a thread of its own that copies it, where there is one. */
static int64_t pin_ns(const struct an_context *context, bool in_line)
{
    for (size_t i = 0; !in_line && i < context->result->loader.stage_count; i++)
        if (!strcmp(context->result->loader.stages[i].name, "pin") &&
            context->result->loader.stages[i].ms_per_batch.valid)
            return (int64_t)(context->result->loader.stages[i].ms_per_batch.value * 1e6);
    return 0;
}

/* ---- worker time ---------------------------------------------------------------------------------------------------------------- */

static uint32_t handoff_source(const struct an_graph *graph, uint32_t node)
{
    for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++)
        if ((graph->in_kind[edge] & AN_EDGE_KIND_MASK) == AN_EDGE_HANDOFF)
            return graph->in_from[edge];
    return AN_NONE;
}

/* Own work of the batch whose last stage is `node`: what the worker did since the batch before.
 * last[] marks the last stages. */
static int64_t work_until(const struct an_replay *replay, const bool *last, uint32_t node)
{
    const struct an_graph *graph = replay->graph;
    int64_t sum = 0;
    for (uint32_t earlier = node; earlier != AN_NONE && (earlier == node || !last[earlier]);
         earlier = an_graph_before(graph, earlier)) {
        if (graph->kind[earlier] == AN_NODE_WAIT)
            break;
        if (graph->cause[earlier] == AN_CAUSE_INPUT)
            sum = an_time_add(sum, replay->own[earlier]);
    }
    return sum;
}

/* Fills the work of each batch: its own where an edge says which batch it is, else the mean. */
static int work_of_batches(const struct an_replay *replay, struct an_route *route, size_t first,
                           int64_t mean)
{
    const struct an_graph *graph = replay->graph;
    bool *last = calloc(graph->node_count + 1, sizeof *last);
    if (!last)
        return TACHO_ENOMEM;
    for (uint32_t node = 0; node < graph->node_count; node++) {
        uint32_t from =
            graph->cause[node] == AN_CAUSE_INPUT ? handoff_source(graph, node) : AN_NONE;
        if (from != AN_NONE)
            last[from] = true;
    }
    for (size_t i = first; i < route->count; i++) {
        uint32_t from = handoff_source(graph, route->take[i].wait);
        uint32_t before = from != AN_NONE && route->pin ? an_graph_before(graph, from)
                                                        : AN_NONE; /* a pin thread's wait */
        from = before != AN_NONE ? handoff_source(graph, before) : from;
        int64_t work = from != AN_NONE ? work_until(replay, last, from) : 0;
        route->take[i].work = work > 0 ? work : mean;
    }
    free(last);
    return 0;
}

/* Adds the batches of one rank with the work of each; *why is set where the run does not say it. */
static int route_lane(const struct an_replay *replay, uint32_t lane, int64_t *own,
                      struct an_route *route, const char **why, double *written)
{
    const struct an_loader *all = &replay->context->result->loader;
    const struct an_loader_rank *rank = loader_of(replay->context, lane);
    struct an_count workers = rank ? rank->workers : all->workers;
    struct an_value batch = rank ? rank->batch_ms : all->batch_ms;
    bool in_line = workers.valid && !workers.value;
    size_t first = route->count;
    if (!route->workers && workers.valid && workers.value > 0)
        route->workers = workers.value;
    if (!workers.valid)
        *why = all->reason ? all->reason : workers.reason;
    else if (!in_line && !batch.valid)
        *why = batch.reason;
    else if (!route->workers)
        *why = "the loader has no workers, so no batch is prefetched: add loader.workers=N";
    if (*why)
        return 0;
    int rc = add_takes(replay, lane, in_line, own, route, written);
    route->pin = pin_ns(replay->context, in_line);
    return rc || in_line ? rc : work_of_batches(replay, route, first, (int64_t)(batch.value * 1e6));
}

static int take_order(const void *left, const void *right)
{
    const struct take *first = left, *second = right;
    return (first->wait > second->wait) - (first->wait < second->wait);
}

/* The largest copy that the step's thread launches between one batch and the next: it is the first
 * to read the batch. */
static void find_copies(const struct an_replay *replay, struct take *take, size_t count)
{
    const struct an_graph *graph = replay->graph;
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i], call = AN_NONE;
        if (graph->kind[node] != AN_NODE_DEVICE || graph->cause[node] != AN_CAUSE_COPY)
            continue;
        for (size_t edge = graph->in_first[node]; edge < graph->in_first[node + 1]; edge++)
            call = (graph->in_kind[edge] & AN_EDGE_KIND_MASK) == AN_EDGE_LAUNCH
                       ? graph->in_from[edge]
                       : call;
        size_t place = count;
        while (place && (call == AN_NONE || take[place - 1].wait > call))
            place--;
        struct take *before = place ? &take[place - 1] : NULL;
        if (before && graph->track[before->wait] == graph->track[call] &&
            (before->copy == AN_NONE || replay->own[node] > replay->own[before->copy]))
            before->copy = node;
    }
}

/* Adds what passing a batch between threads costs: half of it is receiving the batch, half reading
 * it from cold memory. And what the step's thread loses to the worker. */
static void charge_handoff(const struct an_replay *replay, struct an_route *route,
                           const struct an_route_plan *plan, int64_t *own)
{
    if (plan->hand_over > 0)
        find_copies(replay, route->take, route->count);
    int64_t half = (int64_t)(plan->hand_over / 2 * route->write_ns);
    for (size_t i = 0; i < route->count; i++) {
        const struct take *take = &route->take[i];
        uint32_t reads = take->copy != AN_NONE ? take->copy : take->wait;
        int64_t stopped = (int64_t)(plan->stops * plan->work_factor * (double)take->work);
        own[take->wait] = an_time_add(own[take->wait], half);
        own[take->wait] = an_time_add(own[take->wait], an_time_add(stopped, plan->wake_ns));
        own[reads] = an_time_add(own[reads], half);
    }
}

/* Sorts the batches by node, and computes the means; `written`: ns of writing all of them once. */
static void sort_takes(struct an_route *route, double written)
{
    double work = 0;
    qsort(route->take, route->count, sizeof *route->take, take_order);
    for (size_t i = 0; i < route->count; i++)
        work += (double)route->take[i].work;
    an_route_reset_slowdown(route, 1);
    route->write_ns = written / (double)route->count;
    route->batch_ns = work / (double)route->count;
}

int64_t an_route_usual_ahead(const struct an_context *context, int64_t workers)
{
    return an_command_framework(context) == AN_FRAMEWORK_LIBTRAIN ? an_command_prefetch(context)
                                                                  : AHEAD_TURNS * workers;
}

int an_route_new(const struct an_replay *replay, const struct an_route_plan *plan, int64_t *own,
                 struct an_route **out, const char **why)
{
    struct an_context *context = replay->context;
    struct an_route *route = an_arena_zero(context->scratch, 1, sizeof *route);
    struct take *take;
    double written = 0;
    *out = NULL;
    *why = NULL;
    size_t lanes = context->lane_count;
    if (!route ||
        !(route->first_take =
              an_arena_zero(context->scratch, lanes + 1, sizeof *route->first_take)) ||
        !(route->frame_of = an_arena_zero(context->scratch, lanes + 1, sizeof *route->frame_of)))
        return TACHO_ENOMEM;
    route->graph = replay->graph;
    route->lanes = lanes;
    route->workers = plan->workers;
    route->factor = plan->work_factor;
    route->whoever = plan->whoever;
    int rc = 0;
    for (uint32_t lane = 0; lane < lanes && !rc && !*why; lane++)
        if (context->lane[lane].track != AN_NONE)
            rc = route_lane(replay, lane, own, route, why, &written);
    if (!rc && !*why && !route->count)
        *why = "no step takes a batch inside the replayed steps";
    take = rc || *why ? NULL
                      : an_arena_copy(context->scratch, route->take, route->count * sizeof *take);
    free(route->take);
    route->take = take;
    if (rc || *why || !take)
        return rc || *why ? rc : TACHO_ENOMEM;
    sort_takes(route, written);
    charge_handoff(replay, route, plan, own);
    route->ahead = plan->ahead ? plan->ahead : an_route_usual_ahead(context, route->workers);
    if (route->whoever &&
        !(route->free_at = an_arena_zero(context->scratch, route->lanes * (size_t)route->workers,
                                         sizeof *route->free_at)))
        return TACHO_ENOMEM;
    *out = route;
    return 0;
}

/* ---- replaying ---------------------------------------------------------------------------------------------------------------- */

void an_route_begin(struct an_route *route, int64_t start)
{
    route->frame = start;
    route->frames++;
}

/* The first take of a lane in a frame: its workers have not been asked for anything before. */
static void begin_lane(struct an_route *route, const struct take *take)
{
    size_t workers = (size_t)route->workers;
    route->frame_of[take->lane] = route->frames;
    route->first_take[take->lane] = (size_t)(take - route->take);
    for (size_t i = 0; route->whoever && i < workers; i++)
        route->free_at[take->lane * workers + i] = INT64_MIN;
}

static struct take *take_at(const struct an_route *route, uint32_t node)
{
    if (route->graph->cause[node] != AN_CAUSE_INPUT)
        return NULL;
    struct take key = {.wait = node};
    return bsearch(&key, route->take, route->count, sizeof key, take_order);
}

bool an_route_replaces(const struct an_route *route, const struct an_graph *graph, uint32_t node,
                       enum an_edge_kind kind)
{
    (void)graph;
    return kind == AN_EDGE_HANDOFF && take_at(route, node);
}

static int64_t later_of(int64_t first, int64_t second)
{
    return first > second ? first : second;
}

/* When the worker of a lane that is done first is free. */
static int64_t *first_free(const struct an_route *route, uint32_t lane)
{
    int64_t *first = &route->free_at[lane * (size_t)route->workers];
    for (int64_t *worker = first + 1; worker < &route->free_at[(lane + 1) * (size_t)route->workers];
         worker++)
        first = *worker < *first ? worker : first;
    return first;
}

int64_t an_route_release(struct an_route *route, uint32_t node, int64_t start, int64_t body)
{
    struct take *take = take_at(route, node);
    if (!take)
        return body;
    size_t index = (size_t)(take - route->take), workers = (size_t)route->workers,
           room = (size_t)route->ahead;
    if (route->frame_of[take->lane] != route->frames)
        begin_lane(route, take);
    size_t ordinal = index - route->first_take[take->lane]; /* its ordinal in the frame */
    int64_t work = (int64_t)((double)take->work * route->factor * take->slowdown / route->recorded);
    int64_t *worker = route->whoever ? first_free(route, take->lane) : NULL;
    /* The frame begins with every worker as far into its first batch as in a pipeline that runs. */
    int64_t begun;
    if (ordinal < workers)
        begun = route->frame -
                (int64_t)((double)work * (double)(workers - 1 - ordinal) / (double)workers);
    else
        begun = worker ? *worker : take[-(ptrdiff_t)workers].made;
    if (ordinal >= room)
        begun = later_of(begun, take[-(ptrdiff_t)room].freed);
    if (worker)
        *worker = begun + work;
    take->begun = begun;
    take->made = begun + work;
    if (route->pin)
        take->made = (ordinal ? later_of(take->made, take[-1].made) : take->made) + route->pin;
    /* The reference engine gives the batch before back when it asks for this one; PyTorch orders
     * another one when it has this one. */
    take->freed = worker && !route->pin ? start : later_of(start, take->made);
    return later_of(body, take->made);
}

double an_route_write_ns(const struct an_route *route)
{
    return route->write_ns;
}

double an_route_batch_ns(const struct an_route *route)
{
    return route->batch_ns;
}

size_t an_route_count(const struct an_route *route)
{
    return route->count;
}

uint32_t an_route_use(const struct an_route *route, uint32_t i, int64_t *start, int64_t *end)
{
    const struct take *take = &route->take[i];
    *start = take->begun;
    *end = (int64_t)((double)take->begun +
                     (double)take->work * route->factor * take->slowdown / route->recorded);
    return take->wait;
}

void an_route_reset_slowdown(struct an_route *route, double slowdown)
{
    route->recorded = slowdown;
    for (size_t i = 0; i < route->count; i++)
        route->take[i].slowdown = slowdown;
}

void an_route_set_slowdown(struct an_route *route, uint32_t i, double slowdown)
{
    route->take[i].slowdown = slowdown;
}

double an_route_slowdown(const struct an_route *route, uint32_t i)
{
    return route->take[i].slowdown;
}

int64_t an_route_wakes_ns(const struct an_replay *replay, const struct an_route *route,
                          double batch_ns)
{
    double pieces = 0, compute = 0, batches = (double)an_route_count(route);
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        if (replay->graph->cause[node] != AN_CAUSE_COMPUTE ||
            replay->graph->kind[node] != AN_NODE_HOST)
            continue;
        pieces++;
        compute += (double)replay->own[node];
    }
    double during = compute > 0 ? fmin(1, batch_ns * batches / compute) : 0;
    return (int64_t)(2 * WAKE_UP_NS * during * pieces / batches);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the replay misses the run (docs/advise.md). The graph of the odd steps gets the own work
 * of the even steps, and must predict the median of the even steps. Nodes of two steps match by
 * the part that their track plays, their name, and their order in the step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/stats.h"
#include "analyzers/replay/replay_error.h"

#define ERROR_STEPS 4 /* of a lane in one frame: two odd and two even ones */

/* Nodes of steps: of step s list[first[s]] .. list[first[s + 1]], by node. */
struct step_nodes {
    uint32_t *list;
    size_t *first;
};

/* ---- which node belongs to which step --------------------------------------------------------------------------------------- */

/* The time by which a node is assigned to a step: a device op belongs to the step that launched it.
 */
static int64_t decision_time(const struct an_graph *graph, uint32_t node)
{
    node = an_graph_head(graph, node);
    for (size_t edge = graph->in_first[node];
         graph->kind[node] == AN_NODE_DEVICE && edge < graph->in_first[node + 1]; edge++)
        if ((graph->in_kind[edge] & AN_EDGE_KIND_MASK) == AN_EDGE_LAUNCH)
            return graph->start[graph->in_from[edge]];
    return graph->start[node];
}

/* Steps of each lane, as indexes into r->step: they ascend in time. */
struct lane_steps {
    uint32_t *list;
    size_t *first;
};

static int lane_steps_of(const struct an_replay *replay, struct lane_steps *lane_steps)
{
    size_t lanes = replay->context->lane_count, count = 0;
    lane_steps->list = malloc((replay->step_count + 1) * sizeof *lane_steps->list);
    lane_steps->first = calloc(lanes + 1, sizeof *lane_steps->first);
    if (!lane_steps->list || !lane_steps->first)
        return TACHO_ENOMEM;
    for (size_t lane = 0; lane < lanes; lane++) {
        lane_steps->first[lane] = count;
        for (size_t i = 0; i < replay->step_count; i++)
            if (replay->context->step[replay->step[i].step].lane == lane)
                lane_steps->list[count++] = (uint32_t)i;
    }
    lane_steps->first[lanes] = count;
    return 0;
}

/* The step of a lane that holds `time`: on the host where there is one beside a device. */
static uint32_t step_of(const struct an_replay *replay, const struct lane_steps *lane_steps,
                        uint32_t lane, int64_t time)
{
    bool host = replay->context->lane[lane].device != AN_NONE;
    size_t low = lane_steps->first[lane], high = lane_steps->first[lane + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct an_step *step =
            &replay->context->step[replay->step[lane_steps->list[middle]].step];
        if ((host ? step->host_end : step->end) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == lane_steps->first[lane + 1])
        return AN_NONE;
    const struct an_step *step = &replay->context->step[replay->step[lane_steps->list[low]].step];
    int64_t start = host ? step->host_start : step->start;
    return time >= start ? lane_steps->list[low] : AN_NONE;
}

/* Assigns the loader's work on a batch to the step that takes the batch. Each track is walked from
 * its end, so that work belongs to the next batch taken from its track. taker[] has, for each node,
 * the node that takes a batch from it, else AN_NONE. */
static void follow_batches(const struct an_replay *replay, const uint32_t *taker,
                           uint32_t *step_of_node)
{
    const struct an_graph *graph = replay->graph;
    for (uint32_t track = 0; track < replay->context->trace->track_count; track++) {
        uint32_t step = AN_NONE;
        for (size_t node = graph->track_first[track + 1]; node-- > graph->track_first[track];) {
            step = taker[node] != AN_NONE ? step_of_node[taker[node]] : step;
            if (graph->cause[node] == AN_CAUSE_INPUT && step != AN_NONE && replay->inside[node])
                step_of_node[node] = step;
        }
    }
}

/* Assigns the work of the loader to the steps that take its batches. */
static int steps_of_batches(const struct an_replay *replay, uint32_t *step_of_node)
{
    const struct an_graph *graph = replay->graph;
    uint32_t *taker = malloc((graph->node_count + 1) * sizeof *taker);
    if (!taker)
        return TACHO_ENOMEM;
    memset(taker, 0xff, (graph->node_count + 1) * sizeof *taker);
    for (size_t i = 0; i < replay->node_count; i++) {
        uint32_t node = replay->node[i];
        for (size_t edge = graph->in_first[node];
             graph->cause[node] == AN_CAUSE_INPUT && edge < graph->in_first[node + 1]; edge++)
            if ((graph->in_kind[edge] & AN_EDGE_KIND_MASK) == AN_EDGE_HANDOFF)
                taker[graph->in_from[edge]] = node;
    }
    follow_batches(replay, taker, step_of_node); /* of what the step's thread takes, */
    follow_batches(replay, taker, step_of_node); /* and of what a thread between takes */
    free(taker);
    return 0;
}

/* Assigns every node to a step by time. */
static void steps_by_time(const struct an_replay *replay, const struct lane_steps *lane_steps,
                          uint32_t *step_of_node)
{
    const struct an_graph *graph = replay->graph;
    for (uint32_t track = 0; track < replay->context->trace->track_count; track++) {
        size_t end = graph->track_first[track + 1];
        uint32_t lane =
            graph->track_first[track] < end
                ? an_lane_of_process(replay->context, replay->context->trace->track[track].process)
                : AN_NONE;
        for (size_t node = graph->track_first[track]; node < end; node++)
            step_of_node[node] =
                lane != AN_NONE && replay->inside[node]
                    ? step_of(replay, lane_steps, lane, decision_time(graph, (uint32_t)node))
                    : AN_NONE;
    }
}

/* Lists the nodes of every step: by time first, then batches are moved to the step that takes
 * them. */
static int steps_of_nodes(const struct an_replay *replay, struct step_nodes *step_nodes)
{
    size_t nodes = replay->graph->node_count;
    struct lane_steps lane_steps = {0};
    uint32_t *step_of_node = malloc((nodes + 1) * sizeof *step_of_node);
    size_t *next = calloc(replay->step_count + 2, sizeof *next);
    step_nodes->first = calloc(replay->step_count + 2, sizeof *step_nodes->first);
    int rc = step_of_node && next && step_nodes->first ? lane_steps_of(replay, &lane_steps)
                                                       : TACHO_ENOMEM;
    if (!rc) {
        steps_by_time(replay, &lane_steps, step_of_node);
        rc = steps_of_batches(replay, step_of_node);
    }
    if (!rc) {
        for (size_t node = 0; node < nodes; node++)
            if (step_of_node[node] != AN_NONE)
                step_nodes->first[step_of_node[node] + 1]++;
        for (size_t step = 0; step < replay->step_count; step++)
            step_nodes->first[step + 1] += step_nodes->first[step];
        if (!(step_nodes->list =
                  malloc((step_nodes->first[replay->step_count] + 1) * sizeof *step_nodes->list)))
            rc = TACHO_ENOMEM;
    }
    if (!rc) {
        memcpy(next, step_nodes->first, (replay->step_count + 1) * sizeof *next);
        for (uint32_t node = 0; node < nodes; node++)
            if (step_of_node[node] != AN_NONE)
                step_nodes->list[next[step_of_node[node]]++] = node;
    }
    free(next);
    free(step_of_node);
    free(lane_steps.list);
    free(lane_steps.first);
    return rc;
}

/* ---- matching --------------------------------------------------------------------------------------------------------------- */

/* Queues of nodes by part and name: a table with open addresses. */
struct queues {
    uint64_t *key; /* 0: free */
    uint32_t *head, *tail;
    size_t mask;
    uint32_t *next; /* of every node of the graph */
    uint32_t *part; /* of every track */
};

/* Threads of one rank that are named alike but for a number (loader 0, loader 1) play one part. */
static void assign_parts(const struct an_replay *replay, uint32_t *part)
{
    const struct an_trace *trace = replay->context->trace;
    for (uint32_t track = 0; track < trace->track_count; track++) {
        size_t length = strlen(trace->track[track].name);
        part[track] = track;
        while (length && strchr("0123456789 #:-", trace->track[track].name[length - 1]))
            length--;
        if (!length || !strcmp(trace->track[track].kind, "stream") ||
            replay->graph->track_first[track] == replay->graph->track_first[track + 1])
            continue;
        for (uint32_t i = 0; i < track && part[track] == track; i++)
            if (replay->graph->track_first[i] < replay->graph->track_first[i + 1] &&
                !strcmp(trace->track[i].kind, trace->track[track].kind) &&
                !strncmp(trace->track[i].name, trace->track[track].name, length) &&
                strspn(trace->track[i].name + length, "0123456789 #:-") ==
                    strlen(trace->track[i].name + length) &&
                an_lane_of_process(replay->context, trace->track[i].process) ==
                    an_lane_of_process(replay->context, trace->track[track].process))
                part[track] = part[i];
    }
}

static uint64_t key_of(const struct an_replay *replay, const struct queues *queues, uint32_t node)
{
    const struct an_graph *graph = replay->graph;
    bool named = graph->slice[node] != AN_NONE &&
                 graph->kind[node] != AN_NODE_UNTRACED; /* what marks a step may hold its number */
    uint32_t name = named ? replay->context->trace->slice.name[graph->slice[node]] : AN_NONE;
    uint64_t key =
        ((uint64_t)queues->part[graph->track[node]] << 32 | name) * 0x9e3779b97f4a7c15ull;
    key ^= (uint64_t)graph->kind[node] << 8 ^
           graph->cause[node]; /* pieces of one range with and without waiting */
    if (graph->kind[node] == AN_NODE_WAIT && graph->in_first[node] == graph->in_first[node + 1])
        key ^= 1u << 16; /* nothing recorded ends it: its own work is the whole wait, no other's */
    return key ? key : 1;
}

static size_t find_slot(const struct queues *queues, uint64_t key)
{
    /* Keys of one part differ in few bits: mixed, they do not lie in one run of the table. */
    uint64_t mixed = (key ^ key >> 32) * 0xbf58476d1ce4e5b9ull;
    size_t i = (size_t)(mixed ^ mixed >> 29) & queues->mask;
    while (queues->key[i] && queues->key[i] != key)
        i = (i + 1) & queues->mask;
    return i;
}

/* Gives the nodes of the block of steps from to_step on the own work of the matching nodes of the
 * block from from_step on. Adds up the work of nodes that match none, and of all. */
static void copy_work(const struct an_replay *replay, struct queues *queues,
                      const struct step_nodes *step_nodes, size_t from_step, size_t to_step,
                      size_t steps, int64_t *own, int64_t *unmatched_ns, int64_t *total_ns)
{
    memset(queues->key, 0, (queues->mask + 1) * sizeof *queues->key);
    for (size_t i = step_nodes->first[from_step]; i < step_nodes->first[from_step + steps]; i++) {
        uint32_t node = step_nodes->list[i];
        uint64_t key = key_of(replay, queues, node);
        size_t slot = find_slot(queues, key);
        queues->next[node] = AN_NONE;
        if (!queues->key[slot]) {
            queues->key[slot] = key;
            queues->head[slot] = node;
        } else {
            queues->next[queues->tail[slot]] = node;
        }
        queues->tail[slot] = node;
    }
    for (size_t i = step_nodes->first[to_step]; i < step_nodes->first[to_step + steps]; i++) {
        uint32_t node = step_nodes->list[i];
        size_t slot = find_slot(queues, key_of(replay, queues, node));
        *total_ns = an_time_add(*total_ns, replay->own[node]);
        if (!queues->key[slot] || queues->head[slot] == AN_NONE) {
            *unmatched_ns = an_time_add(*unmatched_ns, replay->own[node]);
            continue;
        }
        own[node] = replay->own[queues->head[slot]];
        queues->head[slot] = queues->next[queues->head[slot]];
    }
}

static int queues_new(const struct an_replay *replay, const struct step_nodes *step_nodes,
                      struct queues *queues)
{
    size_t most = 1;
    for (size_t step = 0; step < replay->step_count; step++) {
        size_t left = replay->step_count - step, /* a period may be longer than the run */
            end = step + (left < replay->period ? left : replay->period),
               nodes = step_nodes->first[end] - step_nodes->first[step];
        most = nodes > most ? nodes : most;
    }
    for (queues->mask = 1; queues->mask < 2 * most; queues->mask *= 2)
        ;
    queues->key = calloc(queues->mask, sizeof *queues->key);
    queues->head = calloc(queues->mask, sizeof *queues->head);
    queues->tail = calloc(queues->mask, sizeof *queues->tail);
    queues->next = calloc(replay->graph->node_count + 1, sizeof *queues->next);
    queues->part = calloc(replay->context->trace->track_count + 1, sizeof *queues->part);
    queues->mask--;
    if (!queues->key || !queues->head || !queues->tail || !queues->next || !queues->part)
        return TACHO_ENOMEM;
    assign_parts(replay, queues->part);
    return 0;
}

/* ---- the error -------------------------------------------------------------------------------------------------------------- */

/* Gives every block of steps the work of the block before it. The odd ones, which are compared, get
 * that of the even ones. The even ones get that of the odd ones before them, so that an odd block
 * begins as its even one did, with the same rank ahead and as many batches made. */
static void copy_all_work(const struct an_replay *replay, struct queues *queues,
                          const struct step_nodes *step_nodes, int64_t *own, int64_t *unmatched_ns,
                          int64_t *total_ns)
{
    for (size_t i = 0; i < replay->step_count; i++) {
        const struct an_replay_step *step = &replay->step[i];
        uint32_t period = step->lane_steps >= ERROR_STEPS * replay->period ? replay->period : 1;
        if (step->lane_steps < ERROR_STEPS || step->place % period || step->ordinal < period ||
            step->ordinal + period > step->lane_steps)
            continue;
        copy_work(replay, queues, step_nodes, i - period, i, period, own, unmatched_ns, total_ns);
    }
}

static double median_of(double *values, size_t count)
{
    return an_quantile_of(values, count, 0.5);
}

static int predict(const struct an_replay *replay, const int64_t *own, struct an_times *times,
                   struct an_replay_error *replay_error)
{
    double *step_ns = malloc((replay->step_count + 1) * sizeof *step_ns),
           *blocks = malloc((replay->step_count + 1) * sizeof *blocks);
    int rc = step_ns && blocks ? 0 : TACHO_ENOMEM;
    if (!rc) {
        an_replay_run(replay, &(struct an_change){.own = own, .latency = 1}, times);
        for (size_t i = 0; i < replay->step_count; i++)
            step_ns[i] = (double)an_replay_step_ns(replay, &replay->step[i], times);
        replay_error->odd = an_replay_blocks(replay, step_ns, 1, blocks);
        double predicted = replay_error->odd ? median_of(blocks, replay_error->odd) : NAN;
        replay_error->even = an_replay_blocks(replay, NULL, 0, blocks);
        double recorded = replay_error->even ? median_of(blocks, replay_error->even) : NAN;
        replay_error->pct =
            replay_error->odd > 1 && recorded > 0 ? 100 * (predicted / recorded - 1) : NAN;
    }
    free(step_ns);
    free(blocks);
    return rc;
}

int an_replay_odd_even(const struct an_replay *replay, struct an_times *times,
                       struct an_replay_error *replay_error)
{
    struct step_nodes step_nodes = {0};
    struct queues queues = {0};
    int64_t unmatched_ns = 0, total_ns = 0;
    *replay_error = (struct an_replay_error){.pct = NAN};
    int64_t *own = malloc((replay->graph->node_count + 1) * sizeof *own);
    int rc = own ? steps_of_nodes(replay, &step_nodes) : TACHO_ENOMEM;
    if (own)
        memcpy(own, replay->own, replay->graph->node_count * sizeof *own);
    if (!rc)
        rc = queues_new(replay, &step_nodes, &queues);
    if (!rc) {
        copy_all_work(replay, &queues, &step_nodes, own, &unmatched_ns, &total_ns);
        rc = predict(replay, own, times, replay_error);
        replay_error->unmatched_pct =
            total_ns > 0 ? 100 * (double)unmatched_ns / (double)total_ns : 0;
    }
    free(own);
    free(step_nodes.list);
    free(step_nodes.first);
    free(queues.key);
    free(queues.head);
    free(queues.tail);
    free(queues.next);
    free(queues.part);
    return rc;
}

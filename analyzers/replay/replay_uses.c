/* SPDX-License-Identifier: Apache-2.0
 *
 * Which work is on a shared resource at what time, and how fast it is there
 * (replay_shares_private.h). Nothing is copied: a use is its node, or the batch of the route, and
 * its times are those of the replay. The pieces of one thread follow each other, so the starts and
 * ends of a thread are sorted already, and those of all threads are merged; only device ops and
 * the batches of the route, which may overlap, are sorted.
 *
 * The sweep passes the starts and ends of all uses and keeps for each share the integral of its
 * speed over time. The mean speed of a use follows from the integral at its start and at its end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/replay/replay_shares_private.h"
#include "analyzers/replay/what_if_loader.h"

#define SPEED_LEAST 1e-3

bool an_use_of_batch(const struct an_shares *shares, uint32_t batch, struct an_use *use)
{
    *use = (struct an_use){.demand = shares->demand[AN_CAUSE_INPUT],
                           .part = shares->part[AN_CAUSE_INPUT]};
    uint32_t taker = an_route_use(shares->route, batch, &use->start, &use->end);
    use->share =
        shares->cores ? shares->host_share[shares->replay->graph->track[taker]] : AN_NO_SHARE;
    return shares->cores && use->end > use->start && use->share < shares->hosts;
}

/* ---- all of them, in order of time ------------------------------------------------------------------------------------------------ */

/* The replayed nodes of one thread, one after the other; or (`sorted`) the events of everything
 * else. */
struct strand {
    uint32_t next, stop;
    bool open; /* the use at `at` has begun */
    const struct an_pair *sorted;
    int64_t time; /* of its next event */
};

struct line {
    struct strand *strand;
    size_t count, room;
    uint32_t *heap; /* strands with events left, the earliest first */
    size_t heap_count;
    struct an_pair *event, *work; /* of what is no thread's */
    size_t events;
};

static int add_strand(struct line *line, struct strand strand)
{
    if (an_grow(&line->strand, &line->room, line->count + 1, sizeof *line->strand))
        return TACHO_ENOMEM;
    line->strand[line->count++] = strand;
    return 0;
}

/* Finds the strands of threads. Where nodes in between are not replayed a new strand begins,
 * because what is before them may end later now. */
static int find_strands(const struct an_shares *shares, struct line *line)
{
    const struct an_graph *graph = shares->replay->graph;
    for (uint32_t node = 0, first; node < graph->node_count; node = first) {
        uint32_t last = node;
        while (last < graph->node_count && graph->track[last] == graph->track[node] &&
               shares->replay->inside[last])
            last++;
        first = last == node ? node + 1 : last;
        if (last > node && !an_graph_on_device(graph, node) &&
            add_strand(line, (struct strand){.next = node, .stop = last}))
            return TACHO_ENOMEM;
    }
    return 0;
}

static void add_event(struct line *line, uint32_t id, const struct an_use *use)
{
    line->event[line->events++] =
        (struct an_pair){.key = an_pair_key(use->start), .value = id << 1};
    line->event[line->events++] =
        (struct an_pair){.key = an_pair_key(use->end), .value = id << 1 | 1};
}

/* Adds the strand of device ops and batches, whose starts and ends have to be sorted. */
static int sort_others(const struct an_shares *shares, struct line *line, size_t batches)
{
    const struct an_graph *graph = shares->replay->graph;
    size_t event_most = batches;
    struct an_use use;
    for (size_t i = 0; i < shares->replay->node_count; i++)
        event_most += an_graph_on_device(graph, shares->replay->node[i]) &&
                      shares->share_of[shares->replay->node[i]] != AN_NO_SHARE;
    if (!event_most)
        return 0;
    line->event = malloc(2 * event_most * sizeof *line->event);
    line->work = malloc(2 * event_most * sizeof *line->work);
    if (!line->event || !line->work)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < shares->replay->node_count; i++) {
        uint32_t node = shares->replay->node[i];
        if (an_graph_on_device(graph, node) && an_use_of_node(shares, node, &use) && use.demand > 0)
            add_event(line, node, &use);
    }
    for (uint32_t i = 0; i < batches; i++)
        if (an_use_of_batch(shares, i, &use) && use.demand > 0)
            add_event(line, (uint32_t)graph->node_count + i, &use);
    an_pairs_sort(line->event, line->work, line->events);
    return add_strand(line, (struct strand){.stop = (uint32_t)line->events, .sorted = line->event});
}

/* Sets the time of the strand's next event; false: none exists. */
static bool next_event(const struct an_shares *shares, struct strand *strand)
{
    struct an_use use = {0};
    if (strand->sorted) {
        if (strand->next < strand->stop)
            strand->time = (int64_t)(strand->sorted[strand->next].key ^ (uint64_t)1 << 63);
        return strand->next < strand->stop;
    }
    if (strand->open) {
        strand->time =
            an_use_of_node(shares, strand->next, &use) ? use.end : shares->times->end[strand->next];
        return true;
    }
    while (strand->next < strand->stop &&
           !(an_use_of_node(shares, strand->next, &use) && use.demand > 0))
        strand->next++;
    if (strand->next < strand->stop)
        strand->time = use.start;
    return strand->next < strand->stop;
}

/* Returns the strand's next event and passes it. */
static uint32_t take_event(struct strand *strand)
{
    if (strand->sorted)
        return strand->sorted[strand->next++].value;
    uint32_t event = strand->next << 1 | strand->open;
    strand->next += strand->open;
    strand->open = !strand->open;
    return event;
}

static bool earlier(const struct line *line, uint32_t first, uint32_t second)
{
    return line->strand[first].time < line->strand[second].time ||
           (line->strand[first].time == line->strand[second].time && first < second);
}

static void sift_down(struct line *line, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < line->heap_count; i = child) {
        child +=
            child + 1 < line->heap_count && earlier(line, line->heap[child + 1], line->heap[child]);
        if (!earlier(line, line->heap[child], line->heap[i]))
            return;
        uint32_t strand = line->heap[i];
        line->heap[i] = line->heap[child];
        line->heap[child] = strand;
    }
}

static int merge(struct an_shares *shares, struct line *line)
{
    if (!(line->heap = malloc((line->count + 1) * sizeof *line->heap)))
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < line->count; i++)
        if (next_event(shares, &line->strand[i]))
            line->heap[line->heap_count++] = i;
    for (size_t i = line->heap_count; i-- > 0;)
        sift_down(line, i);
    while (line->heap_count) {
        struct strand *strand = &line->strand[line->heap[0]];
        shares->event[shares->event_count++] = take_event(strand);
        if (!next_event(shares, strand))
            line->heap[0] = line->heap[--line->heap_count];
        sift_down(line, 0);
    }
    return 0;
}

static int reserve_events(struct an_shares *shares, size_t batches)
{
    size_t ids = shares->replay->graph->node_count + batches,
           events = 2 * (shares->replay->node_count + batches);
    if (ids > UINT32_MAX / 2) /* an event is an id and a bit */
        return TACHO_ENOMEM;
    if (shares->event && ids <= shares->ids && events <= shares->event_room)
        return 0;
    an_shares_free_scratch(shares);
    shares->event = malloc((events + 1) * sizeof *shares->event);
    shares->speed = malloc((ids + 1) * sizeof *shares->speed);
    shares->event_room = events;
    shares->ids = ids;
    return shares->event && shares->speed ? 0 : TACHO_ENOMEM;
}

void an_shares_free_scratch(struct an_shares *shares)
{
    free(shares->event);
    free(shares->speed);
    shares->event = NULL;
    shares->speed = NULL;
    shares->event_count = 0;
}

int an_shares_uses(struct an_shares *shares, const int64_t *own, struct an_route *route,
                   const struct an_times *times)
{
    struct line line = {0};
    size_t batches = route ? an_route_count(route) : 0;
    shares->own = own;
    shares->route = route;
    shares->times = times;
    shares->event_count = 0;
    int rc = reserve_events(shares, batches);
    for (size_t i = 0; i < shares->ids && !rc; i++)
        shares->speed[i] = 1;
    rc = rc ? rc : find_strands(shares, &line);
    rc = rc ? rc : sort_others(shares, &line, batches);
    rc = rc ? rc : merge(shares, &line);
    free(line.strand);
    free(line.heap);
    free(line.event);
    free(line.work);
    return rc;
}

static double speed_of(const struct an_share *share)
{
    double wanted = share->demand + share->others;
    return wanted > share->capacity ? share->capacity / wanted : 1;
}

/* The part of its time in which every thread of a team has a core, if `wanted` are wanted of
 * `cores`. Each thread lacks one for 1 - cores / wanted of the time. With one thread too many on
 * the cores only one lacks it at a time, and those times add up; with more they coincide. */
static double gang_pace(double threads, double cores, double wanted)
{
    double excess = wanted - cores;
    if (excess <= 0)
        return 1;
    double lacking = threads * excess / wanted;
    return fmax(0, 1 - lacking / fmin(threads, fmax(1, excess)));
}

/* The speed of a team's work. Its demand is a mean: for a part of its time all of its threads work,
 * and for the rest one does. More threads than cores take turns on them. */
static double pace_of(const struct an_share *share)
{
    double threads = fmax(2, ceil(share->team - AN_CORES_ROUNDED)),
           together = fmin(threads, share->capacity),
           part = fmin(1, (share->team - 1) / (threads - 1)),
           wanted = share->demand + share->others - share->team;
    double gang = together / threads * gang_pace(together, share->capacity, wanted + together),
           single = wanted + 1 > share->capacity ? share->capacity / (wanted + 1) : 1;
    return 1 / ((1 - part) / single + part / fmax(gang, SPEED_LEAST));
}

static void advance(struct an_share *share, int64_t time)
{
    double ns = time > share->time ? (double)an_time_sub(time, share->time)
                                   : 0; /* back in damaged files only */
    share->integral += ns * speed_of(share);
    share->paced += share->team > 1 ? ns * pace_of(share) : 0;
    share->received += ns * speed_of(share) * share->demand;
    share->full_ns +=
        share->demand > 0 && share->demand + share->others > share->capacity * (1 + 1e-6) ? ns : 0;
    share->time = time;
}

/* How far work like this has come until now, in ns of work alone. A team that works for longer than
 * a thread keeps a core before it meets at a barrier may lose the mean of what its threads lose
 * instead of the sum. */
static double progress_of(const struct an_shares *shares, const struct an_share *share, uint32_t id,
                          const struct an_use *use)
{
    if (use->demand <= 1)
        return share->integral;
    double evens =
        shares->loose && id < shares->replay->graph->node_count ? (double)shares->evens[id] : 0;
    return evens * share->integral + (1 - evens) * share->paced;
}

double an_use_slowdown(const struct an_shares *shares, uint32_t id, const struct an_use *use)
{
    const struct an_graph *graph = shares->replay->graph;
    double held = shares->held && id < graph->node_count
                      ? shares->holding * (double)shares->held[graph->track[id]]
                      : 0;
    return (1 - (double)use->part + (double)use->part / shares->speed[id]) / (1 - held);
}

void an_shares_sweep(struct an_shares *shares)
{
    for (size_t k = 0; k < shares->count; k++) {
        struct an_share *share = &shares->share[k];
        share->demand = share->integral = share->full_ns = share->paced = share->received = 0;
        share->team = k < shares->hosts ? (double)shares->demand[AN_CAUSE_COMPUTE] : 1;
        share->time = 0;
    }
    for (size_t i = 0; i < shares->event_count; i++) {
        uint32_t id = shares->event[i] >> 1;
        bool end = shares->event[i] & 1;
        struct an_use use;
        if (!an_use_get(shares, id, &use))
            continue;
        struct an_share *share = &shares->share[use.share];
        if (share->demand <= 0)
            share->time = end ? use.end : use.start; /* nothing works: no time passes */
        advance(share, end ? use.end : use.start);
        double sum = progress_of(shares, share, id, &use);
        if (!end) {
            shares->speed[id] = sum; /* until its end is reached */
            share->demand += (double)use.demand;
            continue;
        }
        double ns = (double)an_time_sub(use.end, use.start),
               mean = ns > 0 ? (sum - shares->speed[id]) / ns : 1;
        shares->speed[id] = mean < 1 ? fmax(mean, SPEED_LEAST) : 1;
        share->demand -= (double)use.demand;
        share->demand = share->demand > 1e-6 ? share->demand : 0;
    }
}

void an_shares_read(struct an_shares *shares, size_t index)
{
    const struct an_reading *reading = &shares->reading[index];
    memcpy(shares->demand, reading->demand, sizeof shares->demand);
    memcpy(shares->part, reading->part, sizeof shares->part);
    shares->spin = reading->spin;
    shares->loose = reading->surplus == AN_SURPLUS_LOOSE;
    shares->held = reading->held;
    shares->holding = 1;
    shares->slowdown = reading->slowdown;
    for (size_t host = 0; host < shares->hosts; host++)
        shares->share[host].others = reading->others;
}

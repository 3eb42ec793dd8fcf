/* SPDX-License-Identifier: Apache-2.0
 *
 * Who works when (replay_shares_build.h). Nothing is copied: a use is its node, or the batch of the
 * route, and its times are the replay's. Pieces of one thread follow each other, so the starts and
 * ends of a thread are in order as they are, and those of all threads are merged; only ops of
 * devices and the route's batches, which may overlap, are sorted.
 */
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/replay/replay_shares_build.h"
#include "analyzers/replay/what_if_loader.h"

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

/* Replayed nodes of one thread, one behind the other; or (`sorted`) the events of everything else.
 */
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

/* The strands of threads: where nodes between are not replayed a new one begins, because what is
 * before may now end later. */
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

/* Goes to the strand's next event; false: there is none. */
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

/* What the event that next_event went to is; behind it. */
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

static int room_for(struct an_shares *shares, size_t batches)
{
    size_t ids = shares->replay->graph->node_count + batches,
           events = 2 * (shares->replay->node_count + batches);
    if (ids > UINT32_MAX / 2) /* an event is an id and a bit */
        return TACHO_ENOMEM;
    if (shares->event && ids <= shares->ids && events <= shares->event_room)
        return 0;
    an_shares_rest(shares);
    shares->event = malloc((events + 1) * sizeof *shares->event);
    shares->speed = malloc((ids + 1) * sizeof *shares->speed);
    shares->event_room = events;
    shares->ids = ids;
    return shares->event && shares->speed ? 0 : TACHO_ENOMEM;
}

void an_shares_rest(struct an_shares *shares)
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
    int rc = room_for(shares, batches);
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

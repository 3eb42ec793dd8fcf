/* SPDX-License-Identifier: Apache-2.0
 *
 * Dependencies between a data loader and the steps of its rank, from the stages that the workers
 * mark (tacho.range, docs/loader.md). Workers claim batch numbers in order, so batch k is the k-th
 * claimed one; the step's thread takes it at its k-th input_wait.
 *
 *     last stage of batch k -> (pin k ->) input_wait k                                 handoff
 *     what comes before input_wait m -> queue_wait, or first stage, of batch m + room  credit
 *
 * An input_wait gives the slot of the batch before back when it starts. With `room` slots batch m
 * + room may then be claimed; room is what most of the recorded queue_waits agree on, and these
 * edges are inferred. The handoff edges are inferred, too, where the recording does not begin with
 * the first batch. A loader that runs in the step's thread needs no edges: its stages are pieces
 * of the wait.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/graph/graph_private.h"

/* A batch on the thread that made it. */
struct batch {
    int64_t claimed, done;      /* when its number was taken; end of its last stage */
    uint32_t wait, first, last; /* slices: queue_wait (AN_NONE: none), first and last stage */
};

/* One rank's loader. */
struct crew {
    struct batch *batch; /* by claim */
    size_t count, room;
    uint32_t *wait, *pin; /* slices of input_wait and pin, by start */
    size_t wait_count, wait_room, pin_count, pin_room;
    bool in_line;
};

static bool makes(enum an_role role)
{
    return role == AN_ROLE_READ || role == AN_ROLE_DECODE || role == AN_ROLE_COLLATE;
}

static bool is_stage(const struct an_trace *trace, size_t i)
{
    enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
    return makes(role) || role == AN_ROLE_QUEUE_WAIT || role == AN_ROLE_PIN ||
           role == AN_ROLE_INPUT_WAIT;
}

/* ---- finding -------------------------------------------------------------------------------------------------------------- */

static int add_slice(uint32_t **list, size_t *count, size_t *room, size_t i)
{
    if (an_grow(list, room, *count + 1, sizeof **list))
        return TACHO_ENOMEM;
    (*list)[(*count)++] = (uint32_t)i;
    return 0;
}

/* Adds the batches that one worker made: the stages up to a collate, or single stages where it
 * never collates. */
static int add_batches(const struct an_trace *trace, const struct an_track *track, bool collates,
                       struct crew *crew)
{
    struct batch batch = {.wait = AN_NONE, .first = AN_NONE};
    int64_t free_since = INT64_MIN;
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
        uint32_t parent = trace->slice.parent[i];
        if (trace->slice.dur[i] == AN_OPEN || (parent != AN_NONE && is_stage(trace, parent)) ||
            an_slice_in_phase(trace, i))
            continue;
        if (role == AN_ROLE_QUEUE_WAIT)
            batch.wait = (uint32_t)i;
        if (!makes(role))
            continue;
        if (batch.first == AN_NONE) {
            batch.first = (uint32_t)i;
            batch.claimed = trace->slice.start[batch.wait == AN_NONE ? batch.first : batch.wait];
            batch.claimed =
                free_since != INT64_MIN && batch.wait == AN_NONE ? free_since : batch.claimed;
        }
        if (collates && role != AN_ROLE_COLLATE)
            continue;
        batch.last = (uint32_t)i;
        batch.done = free_since = an_slice_end(trace, i);
        if (an_grow(&crew->batch, &crew->room, crew->count + 1, sizeof *crew->batch))
            return TACHO_ENOMEM;
        crew->batch[crew->count++] = batch;
        batch = (struct batch){.wait = AN_NONE, .first = AN_NONE};
    }
    return 0;
}

/* Adds what a thread says of its rank's loader: the input_waits of the thread that runs steps,
 * the batches and the pin copies of all others. */
static int add_track(struct an_context *context, struct crew *crews, uint32_t track)
{
    const struct an_trace *trace = context->trace;
    const struct an_track *thread = &trace->track[track];
    bool collates = false, stages = false;
    for (size_t i = thread->slice_first; i < thread->slice_first + thread->slice_count && !collates;
         i++) {
        collates = an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_COLLATE;
        stages = stages || is_stage(trace, i);
    }
    uint32_t lane = stages || collates ? an_lane_of_process(context, thread->process) : AN_NONE;
    if (lane == AN_NONE)
        return 0;
    struct crew *crew = &crews[lane];
    bool runs_steps = context->lane[lane].track == track;
    int rc = runs_steps ? 0 : add_batches(trace, thread, collates, crew);
    for (size_t i = thread->slice_first; i < thread->slice_first + thread->slice_count && !rc;
         i++) {
        enum an_role role = an_trace_role(trace, trace->slice.detail[i]);
        uint32_t parent = trace->slice.parent[i];
        if (an_slice_in_phase(trace, i) || trace->slice.dur[i] == AN_OPEN)
            continue;
        if (runs_steps && role == AN_ROLE_INPUT_WAIT &&
            (parent == AN_NONE ||
             an_trace_role(trace, trace->slice.detail[parent]) != AN_ROLE_INPUT_WAIT))
            rc = add_slice(&crew->wait, &crew->wait_count, &crew->wait_room, i);
        else if (!runs_steps && role == AN_ROLE_PIN)
            rc = add_slice(&crew->pin, &crew->pin_count, &crew->pin_room, i);
        crew->in_line = crew->in_line || (runs_steps && makes(role));
    }
    return rc;
}

static int claim_order(const void *left, const void *right)
{
    const struct batch *first = left, *second = right;
    if (first->claimed != second->claimed)
        return first->claimed < second->claimed ? -1 : 1;
    return (first->done > second->done) - (first->done < second->done);
}

static void free_crews(struct crew *crew, size_t count)
{
    for (size_t i = 0; crew && i < count; i++) {
        free(crew[i].batch);
        free(crew[i].wait);
        free(crew[i].pin);
    }
}

/* ---- matching ------------------------------------------------------------------------------------------------------------- */

#define SHIFT_MOST 64
#define NEAR       200000 /* ns: a wait that ends so soon after a batch waited for that one */
#define LONG       500000 /* ns: of a wait that surely waited */
#define UNKNOWN    INT64_MAX

/* The first batch that was done after `time`. Batches are nearly in order of their end. */
static int64_t first_done_after(const struct batch *batch, size_t batch_count, int64_t time)
{
    return (int64_t)an_rows_seek(batch, sizeof *batch, offsetof(struct batch, done), batch_count,
                                 time);
}

/* The last wait that had begun at `time`; -1: none had. */
static int64_t last_wait_at(const struct an_trace *trace, const uint32_t *wait, size_t wait_count,
                            int64_t time)
{
    size_t low = 0, high = wait_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace->slice.start[wait[middle]] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low - 1;
}

/* For a recording that does not hold the first batch: how many batches there are before the one
 * that the first wait takes. Waits and batches vote: a long wait that ends just after a batch took
 * that one; a worker that stops waiting for room just when a wait begins got the slot that this
 * wait gave back (room 0: the number of slots is not known). UNKNOWN: there is no vote. */
static int64_t find_shift(const struct an_trace *trace, const struct batch *batch,
                          size_t batch_count, const uint32_t *wait, size_t wait_count, int64_t room)
{
    size_t votes[2 * SHIFT_MOST + 1] = {0}, best = 0;
    for (size_t k = 0; k < wait_count; k++) {
        int64_t end = an_slice_end(trace, wait[k]),
                j = first_done_after(batch, batch_count, end) - 1, shift = j - (int64_t)k;
        if (trace->slice.dur[wait[k]] >= LONG && j >= 0 && an_time_sub(end, batch[j].done) < NEAR &&
            shift >= -SHIFT_MOST && shift <= SHIFT_MOST)
            votes[shift + SHIFT_MOST]++;
    }
    for (size_t j = 0; j < batch_count && room; j++) {
        int64_t end = batch[j].wait == AN_NONE ? INT64_MIN : an_slice_end(trace, batch[j].wait);
        int64_t wait_index =
                    batch[j].wait == AN_NONE ? -1 : last_wait_at(trace, wait, wait_count, end),
                shift = (int64_t)j - wait_index - room;
        if (wait_index >= 0 && an_time_sub(end, trace->slice.start[wait[wait_index]]) < NEAR &&
            shift >= -SHIFT_MOST && shift <= SHIFT_MOST)
            votes[shift + SHIFT_MOST]++;
    }
    for (size_t i = 0; i <= 2 * SHIFT_MOST; i++)
        best = votes[i] > votes[best] ? i : best;
    return votes[best] ? (int64_t)best - SHIFT_MOST : UNKNOWN;
}

/* The capacity of the queue, in batches, that most queue_waits agree on; 0: it is not known. A
 * worker's queue_wait ends when a step takes a batch: the batches from that one to the worker's own
 * fill the queue. */
static int64_t find_room(const struct an_trace *trace, const struct crew *crew,
                         const uint32_t *taker, size_t takers, int64_t shift)
{
    enum { MOST = 512 };
    size_t count[MOST] = {0}, best = 0;
    for (size_t j = 0; j < crew->count; j++) {
        if (crew->batch[j].wait == AN_NONE)
            continue;
        int64_t end = an_slice_end(trace, crew->batch[j].wait);
        int64_t wait_index = last_wait_at(trace, taker, takers, end),
                room = (int64_t)j - shift - wait_index;
        if (wait_index >= 0 && room > 0 && room < MOST)
            count[room]++;
    }
    for (size_t i = 1; i < MOST; i++)
        best = count[i] > count[best] ? i : best;
    return (int64_t)best;
}

/* ---- edges ---------------------------------------------------------------------------------------------------------------- */

/* The node in which a thread waits for a batch: its input_wait, or the pause of a pin thread before
 * the copy. */
static uint32_t wait_node(const struct an_graph_build *build, uint32_t slice)
{
    const struct an_graph *graph = build->graph;
    uint32_t first = build->first_node[slice],
             before = first == AN_NONE ? AN_NONE : an_graph_before(graph, first);
    if (first == AN_NONE || graph->kind[first] == AN_NODE_WAIT)
        return build->last_node[slice];
    return before != AN_NONE && graph->kind[before] == AN_NODE_WAIT ? before : first;
}

/* Edges from the last stage of batch i + shift to what takes it as the i-th: input_wait or pin. */
static int handoff_edges(struct an_graph_build *build, const struct crew *crew,
                         const uint32_t *taker, size_t takers, int64_t shift, unsigned flags)
{
    int rc = 0;
    for (size_t i = 0; i < takers && !rc; i++) {
        int64_t batch_index = (int64_t)i + shift;
        if (batch_index >= 0 && batch_index < (int64_t)crew->count)
            rc = an_graph_edge(build, build->last_node[crew->batch[batch_index].last],
                               wait_node(build, taker[i]), AN_EDGE_HANDOFF | flags);
    }
    return rc;
}

/* Edges from the copies of a pin thread to the input_waits that take them. */
static int pin_edges(const struct an_trace *trace, struct an_graph_build *build,
                     const struct crew *crew, bool from_start, unsigned flags)
{
    struct batch *pin = calloc(crew->pin_count + 1, sizeof *pin);
    int rc = pin ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < crew->pin_count && !rc; i++)
        pin[i].done = an_slice_end(trace, crew->pin[i]);
    int64_t shift = rc || from_start
                        ? 0
                        : find_shift(trace, pin, crew->pin_count, crew->wait, crew->wait_count, 0);
    for (size_t i = 0; i < crew->wait_count && !rc && shift != UNKNOWN; i++) {
        int64_t pin_index = (int64_t)i + shift;
        if (pin_index >= 0 && pin_index < (int64_t)crew->pin_count)
            rc = an_graph_edge(build, build->last_node[crew->pin[pin_index]],
                               build->last_node[crew->wait[i]], AN_EDGE_HANDOFF | flags);
    }
    free(pin);
    return rc;
}

/* Edges from what gave the slot of batch i + shift back to the batch that may then be claimed. The
 * step's thread gives a slot back when it asks for the next batch, a pin thread when it has copied.
 */
static int credit_edges(struct an_graph_build *build, const struct crew *crew,
                        const uint32_t *taker, size_t takers, int64_t shift, int64_t room)
{
    const struct an_graph *graph = build->graph;
    int rc = 0;
    for (size_t i = 0; i < takers && !rc && room; i++) {
        int64_t batch_index = (int64_t)i + shift + room;
        uint32_t taken = crew->pin_count ? build->last_node[taker[i]] : build->first_node[taker[i]];
        if (batch_index < 0 || batch_index >= (int64_t)crew->count || taken == AN_NONE)
            continue;
        const struct batch *batch = &crew->batch[batch_index];
        uint32_t to_node = batch->wait == AN_NONE ? build->first_node[batch->first]
                                                  : build->last_node[batch->wait];
        rc = an_graph_edge(build, crew->pin_count ? taken : an_graph_before(graph, taken), to_node,
                           AN_EDGE_CREDIT | AN_EDGE_INFERRED);
    }
    return rc;
}

/* Does the recording hold everything from the first batch on? */
static bool is_whole(const struct an_trace *trace)
{
    return !an_trace_key(trace, "steps.window") && !an_trace_key(trace, "steps.every") &&
           !an_trace_imported(trace);
}

/* Slices of a list that start in [t0, t1): *first of them and how many. */
static size_t slices_in(const struct an_trace *trace, const uint32_t *list, size_t count,
                        int64_t start, int64_t end, size_t *first)
{
    size_t low = (size_t)(last_wait_at(trace, list, count, start - 1) + 1),
           high = (size_t)(last_wait_at(trace, list, count, end - 1) + 1);
    *first = low;
    return high - low;
}

/* The part of a loader's work that began in [t0, t1). */
static struct crew crew_between(const struct an_trace *trace, const struct crew *whole,
                                int64_t start, int64_t end)
{
    struct crew part = *whole;
    size_t first, first_batch = 0, last;
    part.wait_count = slices_in(trace, whole->wait, whole->wait_count, start, end, &first);
    part.wait += first;
    part.pin_count = slices_in(trace, whole->pin, whole->pin_count, start, end, &first);
    part.pin += part.pin_count ? first : 0;
    while (first_batch < whole->count && whole->batch[first_batch].claimed < start)
        first_batch++;
    for (last = first_batch; last < whole->count && whole->batch[last].claimed < end;)
        last++;
    part.batch += first_batch;
    part.count = last - first_batch;
    return part;
}

/* Is every batch done before the wait that takes it ends, if both are counted from the first one?
 * If not, the counts do not belong together. */
static bool is_in_order(const struct an_trace *trace, const struct crew *crew,
                        const uint32_t *taker, size_t takers)
{
    for (size_t i = 0; i < takers && i < crew->count; i++)
        if (crew->batch[i].done > an_slice_end(trace, taker[i]))
            return false;
    return true;
}

/* Adds the edges of a recording without holes; `from_start`: it holds the first batch. *room is
 * found in the first part that shows it. */
static int part_edges(const struct an_trace *trace, struct an_graph_build *build,
                      const struct crew *crew, bool from_start, int64_t *room)
{
    const uint32_t *taker = crew->pin_count ? crew->pin : crew->wait;
    size_t takers = crew->pin_count ? crew->pin_count : crew->wait_count;
    if (!crew->count || !crew->wait_count)
        return 0;
    from_start = from_start && is_in_order(trace, crew, taker, takers);
    unsigned flags = from_start ? 0 : AN_EDGE_INFERRED;
    int64_t shift = 0;
    if (!from_start)
        shift =
            find_shift(trace, crew->batch, crew->count, taker, takers, crew->pin_count ? 0 : *room);
    if (shift == UNKNOWN)
        return 0;
    if (!*room)
        *room = find_room(trace, crew, taker, takers, shift);
    int rc = handoff_edges(build, crew, taker, takers, shift, flags);
    rc = rc || !crew->pin_count ? rc : pin_edges(trace, build, crew, from_start, flags);
    return rc ? rc : credit_edges(build, crew, taker, takers, shift, *room);
}

/* Adds the edges of a rank's loader. Where recording was paused for a step, batches are missing:
 * what comes after that step is matched as a part of its own. */
static int crew_edges(struct an_graph_build *build, const struct an_lane *lane, struct crew *crew)
{
    struct an_context *context = build->context;
    const struct an_trace *trace = context->trace;
    int64_t since = INT64_MIN + 1, room = 0;
    bool from_start = is_whole(trace);
    int rc = 0;
    if (!crew->count || !crew->wait_count || crew->in_line)
        return 0;
    qsort(crew->batch, crew->count, sizeof *crew->batch, claim_order);
    for (size_t i = lane->first; i <= lane->first + lane->count && !rc; i++) {
        bool last = i == lane->first + lane->count;
        if (!last && !context->step[i].paused)
            continue;
        struct crew part =
            crew_between(trace, crew, since, last ? INT64_MAX : context->step[i].host_start);
        rc = part_edges(trace, build, &part, from_start, &room);
        from_start = false;
        since =
            last || context->step[i].host_end == STORE_ABSENT ? since : context->step[i].host_end;
    }
    return rc;
}

/* Cuts the time between the copies of pin threads as waits. */
static int loader_cuts(struct an_graph_build *build)
{
    const struct an_trace *trace = build->context->trace;
    int rc = 0;
    for (uint32_t index = 0; index < trace->track_count && !rc; index++) {
        const struct an_track *track = &trace->track[index];
        bool pins = false, others = strcmp(track->kind, "thread");
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count && !others;
             i++) {
            pins = pins || an_trace_role(trace, trace->slice.detail[i]) == AN_ROLE_PIN;
            others = an_trace_role(trace, trace->slice.detail[i]) != AN_ROLE_PIN &&
                     trace->slice.parent[i] == AN_NONE;
        }
        if (pins && !others)
            rc = an_graph_cut_pauses(build, index, AN_CAUSE_INPUT);
    }
    return rc;
}

static int loader_edges(struct an_graph_build *build)
{
    struct an_context *context = build->context;
    struct crew *crews = an_arena_zero(context->scratch, context->lane_count + 1, sizeof *crews);
    int rc = crews ? 0 : TACHO_ENOMEM;
    for (uint32_t i = 0; i < context->trace->track_count && !rc && context->lane_count; i++)
        if (!strcmp(context->trace->track[i].kind, "thread"))
            rc = add_track(context, crews, i);
    for (size_t i = 0; i < context->lane_count && !rc; i++)
        rc = crew_edges(build, &context->lane[i], &crews[i]);
    free_crews(crews, context->lane_count);
    return rc;
}

const struct an_graph_builder an_graph_loader = {loader_cuts, loader_edges};

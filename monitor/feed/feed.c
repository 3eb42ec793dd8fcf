/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps with their phases, ranges of phases and counters as one queue in the order of time. The
 * callbacks on_*() are called by the store's reader, one row at a time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/interval.h"
#include "monitor/feed/feed_private.h"

struct mon_feed *mon_feed_new(void)
{
    struct mon_feed *feed = calloc(1, sizeof *feed);
    if (feed) {
        feed->begun = feed->newest = STORE_ABSENT;
        feed->next_step = feed->next_aggregate = feed->next_counter = feed->next_slice = 1;
    }
    return feed;
}

void mon_feed_free(struct mon_feed *feed)
{
    if (!feed)
        return;
    for (size_t i = 0; i < feed->count; i++)
        free(feed->queue[i].step);
    feed_free_names(feed);
    free(feed->queue);
    free(feed->aggregate);
    free(feed);
}

int64_t mon_feed_begun(const struct mon_feed *feed)
{
    return feed->begun;
}
int64_t mon_feed_newest(const struct mon_feed *feed)
{
    return feed->newest;
}
int64_t mon_feed_horizon(const struct mon_feed *feed)
{
    return feed->horizon < feed->newest ? feed->horizon : feed->newest;
}
int64_t mon_feed_steps(const struct mon_feed *feed)
{
    return feed->steps;
}

/* Appends a row to the queue; NULL: no memory, which feed->rc says. */
static struct feed_seen *append(struct mon_feed *feed, enum feed_kind kind, int64_t time)
{
    if (feed_room(feed, &feed->queue, &feed->room, feed->count, sizeof *feed->queue))
        return NULL;
    struct feed_seen *seen = &feed->queue[feed->count++];
    *seen = (struct feed_seen){.kind = kind, .time = time, .order = feed->order++};
    feed->newest = time > feed->newest ? time : feed->newest;
    feed->table_newest = time;
    if (feed->begun == STORE_ABSENT)
        feed->begun = time;
    return seen;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A step: queued with its end as its time. One without an end is skipped. */
static int on_step(void *ctx, const struct store_step *row)
{
    struct mon_feed *feed = ctx;
    struct feed_process *process = feed_process_of(feed, row->process);
    feed->next_step = row->id + 1;
    if (process)
        process->last_index = row->index;
    if (!process || row->end == STORE_ABSENT || row->end < row->start)
        return 0;
    struct mon_step *step = calloc(1, sizeof *step);
    struct feed_seen *seen = step ? append(feed, FEED_STEP, row->end) : NULL;
    if (!seen) {
        free(step);
        return feed->rc = TACHO_ENOMEM;
    }
    process->steps++;
    feed->steps++;
    *step = (struct mon_step){.rank = feed_rank_of(feed, process),
                              .index = row->index,
                              .start = row->start,
                              .end = row->end,
                              .tokens = row->tokens == STORE_ABSENT ? NAN : (double)row->tokens,
                              .flops = NAN};
    seen->step = step;
    seen->process = row->process;
    return --feed->left <= 0;
}

/* Totals of a step are kept until all rows of the poll are there: which thread runs the steps may
 * be known only after others of its rows. They follow the rows of their steps, so the reading stops
 * at the first one whose step was not read yet. */
static int on_aggregate(void *ctx, const struct store_step_aggregate *row)
{
    struct mon_feed *feed = ctx;
    struct feed_process *process = feed_process_of(feed, row->process);
    int phase = feed_phase_of(feed, row->name, row->detail);
    if (process && row->step > process->last_index)
        return 1;
    feed->next_aggregate = row->id + 1;
    if (phase == FEED_STEP_MARK) {
        if (process)
            process->step_track = row->track;
    } else if (phase != FEED_NOTHING && row->step >= 0 && row->steps <= 1) {
        if (feed_room(feed, &feed->aggregate, &feed->aggregate_room, feed->aggregate_count,
                      sizeof *feed->aggregate))
            return feed->rc;
        feed->aggregate[feed->aggregate_count++] = *row;
    }
    return 0;
}

static int on_counter(void *ctx, const struct store_counter *row)
{
    struct mon_feed *feed = ctx;
    struct feed_track *track = feed_track_of(feed, row->track);
    feed->next_counter = row->id + 1;
    if (track && track->planned && row->value >= 1 && row->value < 1e15)
        feed->planned = (int64_t)row->value;
    else if (track && track->is_counter && (!track->played || track->counter)) {
        struct feed_seen *seen = append(feed, FEED_VALUE, row->time);
        if (!seen)
            return feed->rc;
        seen->track = (size_t)(track - feed->track);
        seen->value = row->value;
    }
    return --feed->left <= 0;
}

static const char *const range_words[] = {
    [MON_PHASE_CHECKPOINT] = "checkpoint", [MON_PHASE_EVALUATION] = "evaluation"};

/* A phase: queued where it begins and where it ends. */
static int on_phase(struct mon_feed *feed, const struct store_slice *row, int64_t rank)
{
    int64_t end = an_time_add(row->start, row->dur);
    for (int i = 0; i < 2; i++) {
        struct feed_seen *seen =
            i ? append(feed, FEED_END, end) : append(feed, FEED_OPEN, row->start);
        if (!seen)
            return feed->rc;
        seen->phase = range_words[feed->detail[row->detail].phase];
        seen->start = row->start;
        seen->end = end;
        seen->rank = rank;
    }
    return 0;
}

/* The collective that a new one on a track takes the place of; NULL: it gets a place of its own. */
static struct feed_seen *superseded(struct mon_feed *feed, struct feed_track *track,
                                    int64_t communicator, int64_t start)
{
    struct feed_newest *newest = NULL;
    for (size_t i = 0; i < track->newest_count; i++)
        if (track->newest[i].communicator == communicator)
            newest = &track->newest[i];
    if (newest && start >= newest->since && start - newest->since < FEED_COALESCE_NS)
        return &feed->queue[newest->at];
    if (!newest && track->newest_count < FEED_COMMUNICATORS)
        newest = &track->newest[track->newest_count++];
    if (newest)
        *newest = (struct feed_newest){communicator, start, feed->count};
    return NULL;
}

/* A collective: queued when it starts. */
static int on_collective(struct mon_feed *feed, const struct store_slice *row,
                         struct feed_track *track, int64_t rank)
{
    const struct feed_detail *detail = &feed->detail[row->detail];
    struct feed_seen *seen = superseded(feed, track, detail->communicator, row->start);
    if (!seen && !(seen = append(feed, FEED_COLLECTIVE, row->start)))
        return feed->rc;
    feed->newest = row->start > feed->newest ? row->start : feed->newest;
    feed->table_newest = row->start;
    seen->time = seen->start = row->start;
    seen->end = row->dur == STORE_ABSENT ? INT64_MIN : an_time_add(row->start, row->dur);
    seen->phase = detail->collective;
    seen->rank = rank;
    seen->communicator = detail->communicator;
    seen->number = row->correlation;
    return 0;
}

static int on_slice(void *ctx, const struct store_slice *row)
{
    struct mon_feed *feed = ctx;
    const struct feed_detail *detail = row->detail >= 0 && (size_t)row->detail < feed->detail_count
                                           ? &feed->detail[row->detail]
                                           : NULL;
    bool phase = detail && detail->range && row->dur != STORE_ABSENT;
    bool collective =
        detail && detail->communicator != STORE_ABSENT && row->correlation != STORE_ABSENT;
    struct feed_track *track = phase || collective ? feed_track_of(feed, row->track) : NULL;
    const struct feed_process *process = track ? feed_process_of(feed, track->process) : NULL;
    int rc = 0;
    feed->next_slice = row->id + 1;
    if (process && phase)
        rc = on_phase(feed, row, feed_rank_of(feed, process));
    else if (process && collective)
        rc = on_collective(feed, row, track, feed_rank_of(feed, process));
    return rc ? rc : --feed->left <= 0;
}

/* ---- steps and what their time went to ------------------------------------------------------- */

/* The queued steps of this poll by process and index, for the totals. */
static int step_order(const void *left, const void *right)
{
    const struct feed_seen *first = *(struct feed_seen *const *)left,
                           *second = *(struct feed_seen *const *)right;
    return 2 * AN_COMPARE(first->process, second->process) +
           AN_COMPARE(first->step->index, second->step->index);
}

static void add_total(struct mon_feed *feed, struct mon_step *step,
                      const struct store_step_aggregate *row)
{
    int phase = feed_phase_of(feed, row->name, row->detail);
    double flops = row->detail >= 0 ? feed->detail[row->detail].flops * (double)row->count : 0;
    int64_t time = phase == MON_PHASE_COMPUTE ? row->self : row->total;
    step->phase_ms[phase] += (double)time / 1e6;
    step->has_phases = true;
    step->flops = isnan(step->flops) ? flops : step->flops + flops;
}

/* What no phase explains is other work of the host. */
static void close_step(struct mon_step *step)
{
    double rest = (double)(step->end - step->start) / 1e6;
    for (int i = 0; i < MON_PHASE_COUNT; i++)
        rest -= i == MON_PHASE_OTHER ? 0 : step->phase_ms[i];
    step->phase_ms[MON_PHASE_OTHER] = fmax(rest, 0);
    step->special =
        step->phase_ms[MON_PHASE_CHECKPOINT] > 0 || step->phase_ms[MON_PHASE_EVALUATION] > 0;
}

/* Gives each new step its totals, of the thread that runs it. */
static int join_totals(struct mon_feed *feed, size_t first)
{
    size_t count = 0;
    struct feed_seen **steps = malloc((feed->count - first + 1) * sizeof *steps);
    if (!steps)
        return TACHO_ENOMEM;
    for (size_t i = first; i < feed->count; i++)
        if (feed->queue[i].kind == FEED_STEP)
            steps[count++] = &feed->queue[i];
    qsort(steps, count, sizeof *steps, step_order);
    for (size_t i = 0; i < feed->aggregate_count && count; i++) {
        const struct store_step_aggregate *row = &feed->aggregate[i];
        const struct feed_process *process = feed_process_of(feed, row->process);
        struct mon_step wanted = {.index = row->step};
        struct feed_seen key = {.process = row->process, .step = &wanted}, *key_at = &key;
        struct feed_seen **found = bsearch(&key_at, steps, count, sizeof *steps, step_order);
        if (found && process && process->step_track == row->track)
            add_total(feed, (*found)->step, row);
    }
    for (size_t i = 0; i < count; i++)
        if (steps[i]->step->has_phases)
            close_step(steps[i]->step);
    feed->aggregate_count = 0;
    free(steps);
    return 0;
}

static int time_order(const void *left, const void *right)
{
    const struct feed_seen *first = left, *second = right;
    return 2 * AN_COMPARE(first->time, second->time) + AN_COMPARE(first->order, second->order);
}

static int64_t rank_of_seen(const struct feed_seen *seen)
{
    return seen->step ? seen->step->rank : seen->rank;
}

/* By rank, then as they are in the queue. */
static int rank_order(const void *left, const void *right)
{
    const struct feed_seen *first = *(struct feed_seen *const *)left,
                           *second = *(struct feed_seen *const *)right;
    return 2 * AN_COMPARE(rank_of_seen(first), rank_of_seen(second)) + AN_COMPARE(first, second);
}

/* Steps in which a phase lies are special, also where their totals were not recorded. The queue is
 * in the order of time: a step comes behind the phases that began before its end. */
static int mark_special(struct mon_feed *feed)
{
    size_t count = 0, phases = 0;
    struct feed_seen **seen = malloc((feed->count - feed->played + 1) * sizeof *seen);
    if (!seen)
        return TACHO_ENOMEM;
    for (size_t i = feed->played; i < feed->count; i++) {
        phases += feed->queue[i].kind == FEED_OPEN;
        if (feed->queue[i].kind == FEED_OPEN || feed->queue[i].step)
            seen[count++] = &feed->queue[i];
    }
    if (phases)
        qsort(seen, count, sizeof *seen, rank_order);
    int64_t end = INT64_MIN; /* of the phases of the rank so far: the last one */
    for (size_t i = 0; i < count && phases; i++) {
        if (!i || rank_of_seen(seen[i]) != rank_of_seen(seen[i - 1]))
            end = INT64_MIN;
        if (!seen[i]->step)
            end = seen[i]->end > end ? seen[i]->end : end;
        else if (seen[i]->step->start < end)
            seen[i]->step->special = true;
    }
    free(seen);
    return 0;
}

/* Queues the begin of processes that were read first in this poll. */
static int queue_processes(struct mon_feed *feed)
{
    for (size_t i = 0; i < feed->process_count; i++) {
        struct feed_process *process = &feed->process[i];
        if (process->queued || process->start == STORE_ABSENT)
            continue;
        process->queued = true;
        struct feed_seen *seen = append(feed, FEED_BEGAN, process->start);
        if (!seen)
            return feed->rc;
        seen->process = process->id;
    }
    return 0;
}

/* After the reading of a table: 1, there is more than the limit of this poll; then what follows in
 * it may be as old as its last row. */
static int limited(struct mon_feed *feed, int rc, int64_t rows)
{
    bool more = feed->left <= 0;
    if (more && feed->table_newest < feed->horizon)
        feed->horizon = feed->table_newest;
    feed->table_newest = INT64_MAX;
    feed->left = rows;
    return rc < 0 ? rc : more;
}

int mon_feed_poll(struct mon_feed *feed, store_reader *reader, int64_t rows)
{
    size_t first = feed->count;
    feed->rc = 0;
    feed->left = rows;
    feed->horizon = feed->table_newest = INT64_MAX;
    int rc = feed_read_names(feed, reader), more = 0;
    const char *start = mon_feed_key(feed, "start.monotonic_ns");
    if (start && feed->begun == STORE_ABSENT)
        feed->begun = strtoll(start, NULL, 10);
    rc = rc ? rc : queue_processes(feed);
    rc = rc ? rc : limited(feed, store_step_from(reader, feed->next_step, on_step, feed), rows);
    more = rc > 0;
    rc = rc < 0 ? rc : store_step_aggregate_from(reader, feed->next_aggregate, on_aggregate, feed);
    rc = rc < 0 ? rc
                : limited(feed, store_counter_each(reader, feed->next_counter, on_counter, feed),
                          rows);
    more = more || rc > 0;
    rc = rc < 0 ? rc
                : limited(feed, store_slice_each(reader, feed->next_slice, on_slice, feed), rows);
    more = more || rc > 0;
    rc = rc < 0 ? rc : join_totals(feed, first);
    if (rc < 0)
        return rc;
    qsort(feed->queue + feed->played, feed->count - feed->played, sizeof *feed->queue, time_order);
    for (size_t i = 0; i < feed->track_count; i++)
        feed->track[i].newest_count = 0; /* places in the queue are others now */
    rc = mark_special(feed);
    feed_resolve_devices(feed);
    return rc ? rc : more;
}

/* ---- playing --------------------------------------------------------------------------------- */

static int play_value(struct mon_feed *feed, struct mon_monitor *monitor,
                      const struct feed_seen *seen)
{
    struct feed_track *track = &feed->track[seen->track];
    const struct feed_process *process = feed_process_of(feed, track->process);
    if (!track->played)
        track->counter = mon_counter(monitor, track->name, track->device,
                                     process ? feed_rank_of(feed, process) : -1);
    track->played = true;
    if (track->counter && track->rank >= 0)
        mon_counter_belongs(track->counter, track->rank);
    return track->counter ? mon_value(monitor, track->counter, seen->time, seen->value) : 0;
}

/* A process that takes the place of one that ran steps and has ended. Workers of a loader have the
 * rank of their program, which lives on. */
static void play_begin(struct mon_feed *feed, struct mon_monitor *monitor,
                       const struct feed_seen *seen)
{
    const struct feed_process *process = feed_process_of(feed, seen->process);
    int64_t rank = process ? feed_rank_of(feed, process) : -1;
    bool takes_place = false;
    size_t at = process ? (size_t)(process - feed->process) : 0;
    for (size_t i = at > FEED_PLACES ? at - FEED_PLACES : 0;
         process && i < feed->process_count && i < at + FEED_PLACES; i++) {
        const struct feed_process *other = &feed->process[i];
        if (other == process || !other->steps || feed_rank_of(feed, other) != rank)
            continue;
        if (other->start < process->start && !feed_has_ended(other, process->start))
            return;
        takes_place = takes_place || feed_has_ended(other, process->start);
    }
    if (takes_place)
        mon_process_began(monitor, rank, seen->time);
}

static int play_one(struct mon_feed *feed, struct mon_monitor *monitor,
                    const struct feed_seen *seen)
{
    switch (seen->kind) {
    case FEED_STEP:
        return mon_step(monitor, seen->step);
    case FEED_OPEN:
        return mon_phase_range(monitor, seen->phase, seen->rank, seen->start, INT64_MIN);
    case FEED_END:
        return mon_phase_range(monitor, seen->phase, seen->rank, seen->start, seen->end);
    case FEED_VALUE:
        return play_value(feed, monitor, seen);
    case FEED_BEGAN:
        play_begin(feed, monitor, seen);
        return 0;
    case FEED_COLLECTIVE:
        return mon_collective(monitor, &(struct mon_collective){.rank = seen->rank,
                                                                .communicator = seen->communicator,
                                                                .number = seen->number,
                                                                .start = seen->start,
                                                                .end = seen->end,
                                                                .name = seen->phase});
    }
    return 0;
}

int mon_feed_play(struct mon_feed *feed, struct mon_monitor *monitor, int64_t until)
{
    size_t played = feed->played;
    int rc = 0;
    while (played < feed->count && feed->queue[played].time <= until && !rc) {
        rc = play_one(feed, monitor, &feed->queue[played]);
        free(feed->queue[played].step);
        feed->queue[played++].step = NULL;
    }
    feed->played = played;
    if (played * 2 > feed->count) { /* what was played makes room */
        memmove(feed->queue, feed->queue + played, (feed->count - played) * sizeof *feed->queue);
        feed->count -= played;
        feed->played = 0;
    }
    return rc;
}

/* ---- what is open ---------------------------------------------------------------------------- */

int64_t mon_feed_rank(const struct mon_feed *feed, int64_t id)
{
    const struct feed_track *track = feed_track_of(feed, id);
    const struct feed_process *process = track ? feed_process_of(feed, track->process) : NULL;
    return process ? feed_rank_of(feed, process) : -1;
}

int mon_feed_open(const struct mon_feed *feed, struct mon_monitor *monitor,
                  const struct mon_feed_range *range)
{
    if (range->detail < 0 || (size_t)range->detail >= feed->detail_count)
        return 0;
    const struct feed_detail *detail = &feed->detail[range->detail];
    int64_t rank = mon_feed_rank(feed, range->track);
    if (detail->range)
        return mon_phase_range(monitor, range_words[detail->phase], rank, range->start, INT64_MIN);
    if (detail->communicator == STORE_ABSENT || range->number == STORE_ABSENT || rank < 0)
        return 0;
    return mon_collective(monitor, &(struct mon_collective){.rank = rank,
                                                            .communicator = detail->communicator,
                                                            .number = range->number,
                                                            .start = range->start,
                                                            .end = INT64_MIN,
                                                            .name = detail->collective});
}

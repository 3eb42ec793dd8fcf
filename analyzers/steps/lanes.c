/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes, the threads that run steps: which rank a process works for, and which step of a lane
 * contains a time.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/radix.h"
#include "analyzers/steps/context.h"

#define PARENTS_MOST 16 /* levels of processes that started each other */

/* Where a process is found by its number on its host. */
struct pid_entry {
    int64_t pid;
    const char *host;
    uint32_t process;
};

static int pid_order(const void *left, const void *right)
{
    const struct pid_entry *first = left, *second = right;
    int host = first->pid == second->pid ? strcmp(first->host, second->host) : 0;
    return 4 * AN_COMPARE(first->pid, second->pid) + 2 * AN_COMPARE(host, 0) +
           AN_COMPARE(first->process, second->process);
}

/* The first process with the number and the host of a parent, AN_NONE: it is not in the run. */
static uint32_t parent_of(const struct pid_entry *entry, size_t count,
                          const struct an_process *process)
{
    const struct pid_entry key = {.pid = process->parent, .host = process->host};
    size_t low = 0, high = count;
    AN_BISECT(low, high, pid_order(&entry[middle], &key) < 0);
    bool is_found = key.pid != STORE_ABSENT && low < count && entry[low].pid == key.pid &&
                    !strcmp(entry[low].host, key.host);
    return is_found ? entry[low].process : AN_NONE;
}

/* The parent of every process, in the scratch arena; NULL: no memory. */
static uint32_t *find_parents(const struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct pid_entry *entry =
        an_arena_zero(context->scratch, trace->process_count + 1, sizeof *entry);
    uint32_t *parent = an_arena_zero(context->scratch, trace->process_count + 1, sizeof *parent);
    if (!entry || !parent)
        return NULL;
    for (uint32_t i = 0; i < trace->process_count; i++)
        entry[i] = (struct pid_entry){trace->process[i].pid, trace->process[i].host, i};
    qsort(entry, trace->process_count, sizeof *entry, pid_order);
    for (uint32_t i = 0; i < trace->process_count; i++)
        parent[i] = parent_of(entry, trace->process_count, &trace->process[i]);
    return parent;
}

/* The lanes whose process has a rank, by that rank; *count of them. NULL: no memory. */
static struct an_pair *sort_ranks(const struct an_context *context, size_t *count)
{
    const struct an_trace *trace = context->trace;
    struct an_pair *pair = an_arena_zero(context->scratch, context->lane_count, sizeof *pair);
    struct an_pair *work = an_arena_zero(context->scratch, context->lane_count, sizeof *work);
    *count = 0;
    if (!pair || !work)
        return NULL;
    for (uint32_t i = 0; i < context->lane_count; i++) {
        uint32_t process = context->lane[i].process;
        if (process != AN_NONE && trace->process[process].rank != STORE_ABSENT)
            pair[(*count)++] =
                (struct an_pair){.key = an_pair_key(trace->process[process].rank), .value = i};
    }
    an_pairs_sort(pair, work, *count);
    return pair;
}

/* Gives every process the lane of its own, of an ancestor, or of its rank. */
static int index_processes(struct an_context *context, struct an_lane_index *index)
{
    const struct an_trace *trace = context->trace;
    size_t ranks;
    const uint32_t *parent = find_parents(context);
    const struct an_pair *by_rank = sort_ranks(context, &ranks);
    if (!parent || !by_rank)
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < trace->process_count; i++) {
        uint32_t lane = AN_NONE, ancestor = i;
        for (int level = 0; ancestor != AN_NONE && lane == AN_NONE && level < PARENTS_MOST;
             level++) {
            lane = index->own[ancestor];
            ancestor = parent[ancestor];
        }
        uint64_t key = an_pair_key(trace->process[i].rank);
        size_t at = an_pairs_seek(by_rank, ranks, key);
        bool has_rank = at < ranks && by_rank[at].key == key;
        index->of_process[i] = lane == AN_NONE && has_rank ? by_rank[at].value : lane;
    }
    return 0;
}

/* The place of a process in the index; the last one is of none. */
static size_t place_of(const struct an_context *context, uint32_t process)
{
    return process == AN_NONE ? context->trace->process_count : process;
}

static uint32_t *all_none(struct an_arena *arena, size_t count)
{
    uint32_t *list = an_arena_zero(arena, count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = AN_NONE;
    return list;
}

/* Has a lane at least as many steps as another one? A thread that the program has left in its first
 * step, to train on another one, keeps a lane with that step. */
static bool has_most(const struct an_context *context, uint32_t lane, uint32_t other)
{
    return other == AN_NONE || context->lane[lane].count >= context->lane[other].count;
}

int an_lanes_index(struct an_context *context)
{
    const struct an_trace *trace = context->trace;
    struct an_arena *arena = context->scratch;
    struct an_lane_index *index = an_arena_zero(arena, 1, sizeof *index);
    if (!index || !(index->own = all_none(arena, trace->process_count + 1)) ||
        !(index->main = all_none(arena, trace->process_count + 1)) ||
        !(index->of_process = all_none(arena, trace->process_count + 1)) ||
        !(index->of_track = all_none(arena, trace->track_count + 1)) ||
        !(index->next = all_none(arena, context->lane_count)))
        return TACHO_ENOMEM;
    for (uint32_t i = (uint32_t)context->lane_count; i-- > 0;) {
        const struct an_lane *lane = &context->lane[i];
        size_t process = place_of(context, lane->process);
        if (has_most(context, i, index->own[process]))
            index->own[process] = i;
        if (lane->track == AN_NONE)
            continue;
        index->next[i] = index->of_track[lane->track];
        index->of_track[lane->track] = i;
        uint32_t main = index->main[process];
        if (has_most(context, i, main == AN_NONE ? AN_NONE : index->of_track[main]))
            index->main[process] = lane->track;
    }
    context->lanes = index;
    return context->lane_count > 1 ? index_processes(context, index) : 0;
}

uint32_t an_lane_of_process(const struct an_context *context, uint32_t process)
{
    if (context->lane_count < 2)
        return context->lane_count ? 0 : AN_NONE;
    return process == AN_NONE ? AN_NONE : context->lanes->of_process[process];
}

uint32_t an_own_lane(const struct an_context *context, uint32_t process)
{
    return context->lane_count ? context->lanes->own[place_of(context, process)] : AN_NONE;
}

uint32_t an_lane_of_track(const struct an_context *context, uint32_t track)
{
    return context->lane_count ? context->lanes->of_track[track] : AN_NONE;
}

uint32_t an_next_of_track(const struct an_context *context, uint32_t lane)
{
    return context->lanes->next[lane];
}

uint32_t an_main_track(const struct an_context *context, uint32_t process)
{
    return context->lane_count ? context->lanes->main[place_of(context, process)] : AN_NONE;
}

/* Returns the last step of a lane that starts no later than `time`, by the device or by the host;
 * NULL if there is none. */
static struct an_step *last_begun(const struct an_context *context, const struct an_lane *lane,
                                  int64_t time, bool host)
{
    size_t low = lane->first, high = an_lane_end(lane);
    AN_BISECT(low, high,
              (host ? context->step[middle].host_start : context->step[middle].start) <= time);
    return low > lane->first ? &context->step[low - 1] : NULL;
}

struct an_step *an_step_at(const struct an_context *context, const struct an_lane *lane,
                           int64_t time)
{
    struct an_step *step = last_begun(context, lane, time, false);
    return step && step->end != STORE_ABSENT && time < step->end ? step : NULL;
}

struct an_step *an_step_at_host(const struct an_context *context, const struct an_lane *lane,
                                int64_t time)
{
    struct an_step *step = last_begun(context, lane, time, true);
    return step && step->host_end != STORE_ABSENT && time < step->host_end ? step : NULL;
}

static int text_order(const void *first, const void *second)
{
    const char *const *left = first, *const *right = second;
    return strcmp(*left, *right);
}

int64_t an_lane_hosts(const struct an_context *context, size_t *most)
{
    const char **host = an_arena_zero(context->arena, context->lane_count + 1, sizeof *host);
    size_t count = 0, equal = 0, most_equal = 0;
    int64_t hosts = 0;
    for (size_t i = 0; host && i < context->lane_count; i++)
        if (context->lane[i].process == AN_NONE)
            hosts++;
        else
            host[count++] = context->trace->process[context->lane[i].process].host;
    if (count)
        qsort(host, count, sizeof *host, text_order);
    for (size_t i = 0; i < count; i++) {
        bool is_other = !i || strcmp(host[i - 1], host[i]) != 0;
        hosts += is_other;
        equal = is_other ? 1 : equal + 1;
        most_equal = equal > most_equal ? equal : most_equal;
    }
    if (most)
        *most = most_equal;
    return hosts ? hosts : 1;
}

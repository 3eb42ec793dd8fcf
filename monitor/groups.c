/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest collective of each rank in each communicator: who waits for whom in a run that does
 * not go on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/base/words.h"
#include "monitor/private.h"

static bool is_before(const struct mon_group *group, int64_t communicator, int64_t rank)
{
    return group->communicator < communicator ||
           (group->communicator == communicator && group->rank < rank);
}

/* The place of a rank in a communicator, a new one where it was not seen; NULL: no memory. */
static struct mon_group *group_of(struct mon_monitor *monitor, int64_t communicator, int64_t rank)
{
    size_t low = 0, high = monitor->group_count;
    AN_BISECT(low, high, is_before(&monitor->group[middle], communicator, rank))
    if (low < monitor->group_count && monitor->group[low].communicator == communicator &&
        monitor->group[low].rank == rank)
        return &monitor->group[low];
    if (an_grow(&monitor->group, &monitor->group_room, monitor->group_count + 1,
                sizeof *monitor->group))
        return NULL;
    struct mon_group *group = &monitor->group[low];
    memmove(group + 1, group, (monitor->group_count++ - low) * sizeof *group);
    *group = (struct mon_group){
        .communicator = communicator, .rank = rank, .start = INT64_MIN, .number = -1, .before = -1};
    return group;
}

static bool is_over(const struct mon_monitor *monitor, const struct mon_group *group)
{
    return group->end != INT64_MIN && group->end <= monitor->now_ns;
}

int mon_collective(struct mon_monitor *monitor, const struct mon_collective *collective)
{
    struct mon_group *group = group_of(monitor, collective->communicator, collective->rank);
    if (!group)
        return TACHO_ENOMEM;
    if (collective->start < group->start) /* read late */
        return 0;
    if (collective->number < group->number) /* the job was started again */
        group->before = -1;
    else if (collective->number > group->number && group->end != INT64_MIN)
        group->before = group->number;
    group->start = collective->start;
    group->number = collective->number;
    group->end = collective->end;
    snprintf(group->name, sizeof group->name, "%s", collective->name);
    return 0;
}

void mon_open_none(struct mon_monitor *monitor)
{
    mon_progress_close_all(&monitor->progress);
    for (size_t i = 0; i < monitor->group_count; i++)
        if (monitor->group[i].end == INT64_MIN)
            monitor->group[i].end = monitor->now_ns;
}

/* The ranks of the communicator that begins at `first`: one past its last one. */
static size_t end_of(const struct mon_monitor *monitor, size_t first)
{
    size_t end = first;
    while (end < monitor->group_count &&
           monitor->group[end].communicator == monitor->group[first].communicator)
        end++;
    return end;
}

/* The rank that has started most in a communicator. */
static const struct mon_group *furthest_of(const struct mon_monitor *monitor, size_t first,
                                           size_t end)
{
    const struct mon_group *furthest = &monitor->group[first];
    for (size_t i = first; i < end; i++)
        if (monitor->group[i].number > furthest->number)
            furthest = &monitor->group[i];
    return furthest;
}

/* "; rank 3: all_reduce 16 completed", "; rank 3: all_reduce 16 started, 15 completed". */
static void behind_words(const struct mon_monitor *monitor, const struct mon_group *group,
                         char *text, size_t size)
{
    an_words_add(text, size, "; rank %" PRId64 ": %s %" PRId64, group->rank, group->name,
                 group->number);
    if (is_over(monitor, group))
        an_words_add(text, size, " completed");
    else if (group->before >= 0)
        an_words_add(text, size, " started, %" PRId64 " completed", group->before);
    else
        an_words_add(text, size, " started");
}

void mon_groups_words(const struct mon_monitor *monitor, char *text, size_t size)
{
    for (size_t first = 0, end; first < monitor->group_count; first = end) {
        end = end_of(monitor, first);
        const struct mon_group *furthest = furthest_of(monitor, first, end);
        size_t started = 0, over = 0;
        for (size_t i = first; i < end; i++) {
            bool there = monitor->group[i].number == furthest->number;
            started += there;
            over += there && is_over(monitor, &monitor->group[i]);
        }
        an_words_add(text, size,
                     "%scommunicator %" PRId64 ": %s %" PRId64
                     " started by %zu of %zu ranks, completed by %zu",
                     *text ? "; " : "", furthest->communicator, furthest->name, furthest->number,
                     started, end - first, over);
        for (size_t i = first; i < end; i++)
            if (monitor->group[i].number < furthest->number)
                behind_words(monitor, &monitor->group[i], text, size);
    }
}

void mon_groups_behind(const struct mon_monitor *monitor, struct mon_symptom *symptom)
{
    for (size_t first = 0, end; first < monitor->group_count; first = end) {
        end = end_of(monitor, first);
        const struct mon_group *furthest = furthest_of(monitor, first, end);
        if (is_over(monitor, furthest)) /* nobody waits in it */
            continue;
        for (size_t i = first; i < end && symptom->rank_count < MON_RANKS_NAMED; i++) {
            const struct mon_group *group = &monitor->group[i];
            bool named = false;
            for (size_t j = 0; j < symptom->rank_count; j++)
                named = named || symptom->rank[j] == group->rank;
            if (group->number < furthest->number && !named)
                symptom->rank[symptom->rank_count++] = group->rank;
        }
    }
}

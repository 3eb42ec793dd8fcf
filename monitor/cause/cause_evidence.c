/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters that are evidence, and their levels before and after a time.
 */
#include "monitor/cause/cause_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/base/stats.h"
#include "tacho_error.h"

/* Order decides where several changed: the first ones are the more direct. */
static const struct mon_evidence table[] = {
    {"gpu_throttle_reasons", "throttle reasons", "", false, 1, 1, 0, MON_CAUSE_CLOCKS},
    {"gpu_clock_sm", "SM clock", " MHz", false, 1, -20, -0.02, MON_CAUSE_CLOCKS},
    {"gpu_temperature", "temperature", " C", false, 1, 5, 0.05, MON_CAUSE_UNKNOWN},
    {"swap_in", "swapped in", " MB/s", true, 1e-6, 0.1, 0.5, MON_CAUSE_MEMORY},
    {"major_faults", "major page faults", "/s", true, 1, 10, 1, MON_CAUSE_MEMORY},
    {"memory_stall_some", "stall for memory", " % of the time", true, 1e-7, 2, 0.5,
     MON_CAUSE_MEMORY},
    {"cpu_wait", "run-queue wait", " % of a core", true, 1e-7, 2, 0.3, MON_CAUSE_NEIGHBOUR},
    {"cpu_busy", "busy cores of the machine", " %", false, 1, 5, 0.05, MON_CAUSE_UNKNOWN},
    {"queue_depth", "batches in the queue", "", false, 1, -0.5, -0.3, MON_CAUSE_LOADER},
    {"disk_read", "read from disk", " MB/s", true, 1e-6, 1, 0.5, MON_CAUSE_UNKNOWN},
    {"minor_faults", "minor page faults", "/s", true, 1, 500, 0.5, MON_CAUSE_UNKNOWN},
};

/* ---- keeping --------------------------------------------------------------------------------- */

/* Appends a zeroed element to a list of pointers; NULL: no memory. */
static void *append(void ***list, size_t *count, size_t *room, size_t size)
{
    void *element = an_grow(list, room, *count + 1, sizeof **list) ? NULL : calloc(1, size);
    if (element)
        (*list)[(*count)++] = element;
    return element;
}

void mon_history_free(struct mon_history *history)
{
    for (size_t i = 0; i < history->rank_count; i++)
        free(history->rank[i]);
    for (size_t i = 0; i < history->series_count; i++)
        free(history->series[i]);
    free(history->rank);
    free(history->series);
    *history = (struct mon_history){0};
}

/* Where a rank is in the sorted list, or would be. */
static size_t place_of(const struct mon_history *history, int64_t rank)
{
    size_t low = 0, high = history->rank_count;
    AN_BISECT(low, high, history->rank[middle]->rank < rank)
    return low;
}

const struct mon_kept_rank *mon_history_rank(const struct mon_history *history, int64_t rank)
{
    size_t place = place_of(history, rank);
    bool there = place < history->rank_count && history->rank[place]->rank == rank;
    return there ? history->rank[place] : NULL;
}

/* The rank's place in the sorted list; a new one is moved to it. */
static struct mon_kept_rank *rank_of(struct mon_history *history, int64_t rank)
{
    size_t low = place_of(history, rank);
    if (low < history->rank_count && history->rank[low]->rank == rank)
        return history->rank[low];
    struct mon_kept_rank *kept =
        append((void ***)&history->rank, &history->rank_count, &history->rank_room, sizeof *kept);
    if (!kept)
        return NULL;
    kept->rank = rank;
    memmove(&history->rank[low + 1], &history->rank[low],
            (history->rank_count - 1 - low) * sizeof(void *));
    return history->rank[low] = kept;
}

int mon_history_step(struct mon_history *history, int64_t rank, const struct mon_kept_step *step)
{
    struct mon_kept_rank *kept = rank_of(history, rank);
    if (!kept)
        return TACHO_ENOMEM;
    kept->step[kept->next] = *step;
    kept->next = (kept->next + 1) % MON_KEPT_STEPS;
    kept->count += kept->count < MON_KEPT_STEPS;
    return 0;
}

struct mon_kept_series *mon_history_series(struct mon_history *history, const char *name,
                                           const char *device, int64_t rank)
{
    const struct mon_evidence *evidence = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(name, table[i].name))
            evidence = &table[i];
    struct mon_kept_series *series =
        evidence ? append((void ***)&history->series, &history->series_count, &history->series_room,
                          sizeof *series)
                 : NULL;
    if (!series)
        return NULL;
    series->evidence = evidence;
    series->rank = rank;
    snprintf(series->device, sizeof series->device, "%s", device ? device : "");
    return series;
}

void mon_kept_add(struct mon_kept_series *series, int64_t time, double value)
{
    if (!isfinite(value))
        return;
    series->time[series->next] = time;
    series->value[series->next] = value;
    series->next = (series->next + 1) % MON_KEPT_SAMPLES;
    series->count += series->count < MON_KEPT_SAMPLES;
}

/* ---- levels ---------------------------------------------------------------------------------- */

static size_t kept_at(const struct mon_kept_series *series, size_t i)
{
    return (series->next + MON_KEPT_SAMPLES - series->count + i) % MON_KEPT_SAMPLES;
}

/* The level of a kept counter in [from, to); NAN: no samples. */
static double level_of(const struct mon_kept_series *series, int64_t from, int64_t to)
{
    const struct mon_evidence *evidence = series->evidence;
    double level[MON_KEPT_SAMPLES];
    size_t count = 0, first = 0, last = 0;
    for (size_t i = 0; i < series->count; i++) {
        size_t at = kept_at(series, i);
        if (series->time[at] < from || series->time[at] >= to)
            continue;
        if (!count)
            first = at;
        last = at;
        level[count++] = series->value[at];
    }
    if (!count)
        return NAN;
    if (!evidence->total)
        return an_quantile_of(level, count, 0.5) * evidence->scale;
    double seconds = (double)(series->time[last] - series->time[first]) / 1e9;
    return seconds > 0 ? (series->value[last] - series->value[first]) / seconds * evidence->scale
                       : NAN;
}

/* Does a level change by as much as its kind asks for? */
static bool has_moved(const struct mon_evidence *evidence, double before, double after)
{
    double sign = evidence->absolute < 0 ? -1 : 1, change = sign * (after - before);
    return change >= sign * evidence->absolute &&
           change >= sign * evidence->relative * fabs(before);
}

void mon_evidence_find(const struct mon_history *history, int64_t from, int64_t begin, int64_t to,
                       struct mon_finding *finding)
{
    const size_t most = sizeof finding->moved / sizeof *finding->moved;
    for (size_t row = 0; row < sizeof table / sizeof *table; row++)
        for (size_t i = 0; i < history->series_count; i++) {
            const struct mon_kept_series *series = history->series[i];
            if (series->evidence != &table[row] || finding->moved_count == most)
                continue;
            double before = level_of(series, from, begin);
            double after = level_of(series, begin, to);
            if (isnan(before) || isnan(after) || !has_moved(series->evidence, before, after))
                continue;
            finding->moved[finding->moved_count++] =
                (struct mon_moved){.evidence = series->evidence,
                                   .rank = series->rank,
                                   .before = before,
                                   .after = after};
            break; /* one series of a kind says it */
        }
}

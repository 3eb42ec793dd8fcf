/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters that are evidence, and their levels before and after a time.
 */
#include "monitor/cause/cause_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"
#include "analyzers/base/interval.h"
#include "analyzers/base/stats.h"
#include "analyzers/base/throttle.h"
#include "analyzers/base/words.h"
#include "tacho_error.h"

#define SLACK_NS    2000000000 /* faults are sampled every second, and steps are dated a bit late */
#define SLACK_SHARE 8          /* of the time that is kept before the change: an eighth */

/* Order decides where several changed: the first ones are the more direct. */
static const struct mon_evidence table[] = {
    {"gpu_xid", "Xid", "", MON_EVIDENCE_EVENT, 1, 1, 0, MON_CAUSE_DEVICE_ERROR},
    {"gpu_ecc_uncorrected", "uncorrected ECC errors", "", MON_EVIDENCE_HELD, 1, 1, 0,
     MON_CAUSE_DEVICE_ERROR},
    {"gpu_remapped_rows", "remapped rows of memory", "", MON_EVIDENCE_HELD, 1, 1, 0,
     MON_CAUSE_DEVICE_ERROR},
    {"nccl_network", "network of NCCL (2: RDMA, 1: sockets)", "", MON_EVIDENCE_HELD, 1, -1, 0,
     MON_CAUSE_NET_FALLBACK},
    {"pcie_width", "PCIe width", " lanes", MON_EVIDENCE_HELD, 1, -1, 0, MON_CAUSE_LINK_DEGRADED},
    {"gpu_nvlink_active", "NVLinks", "", MON_EVIDENCE_HELD, 1, -1, 0, MON_CAUSE_LINK_DEGRADED},
    {"link_rate", "rate of the link", " Gb/s", MON_EVIDENCE_HELD, 1, -1e-3, -0.1,
     MON_CAUSE_LINK_DEGRADED},
    {"pcie_speed", "PCIe speed", " GT/s a lane", MON_EVIDENCE_HELD, 1, -1, -0.1,
     MON_CAUSE_LINK_DEGRADED},
    {"gpu_throttle_reasons", "throttle reasons", "", MON_EVIDENCE_BITS, 1, 1, 0, MON_CAUSE_CLOCKS},
    {"gpu_clock_sm", "SM clock", " MHz", MON_EVIDENCE_LEVEL, 1, -20, -0.02, MON_CAUSE_CLOCKS},
    {"gpu_temperature", "temperature", " C", MON_EVIDENCE_LEVEL, 1, 5, 0.05, MON_CAUSE_UNKNOWN},
    {"swap_in", "swapped in", " MB/s", MON_EVIDENCE_TOTAL, 1e-6, 0.1, 0.5, MON_CAUSE_MEMORY},
    {"major_faults", "major page faults", "/s", MON_EVIDENCE_TOTAL, 1, 10, 1, MON_CAUSE_MEMORY},
    {"memory_stall_some", "stall for memory", " % of the time", MON_EVIDENCE_TOTAL, 1e-7, 2, 0.5,
     MON_CAUSE_MEMORY},
    {"cpu_wait", "run-queue wait", " % of a core", MON_EVIDENCE_TOTAL, 1e-7, 2, 0.3,
     MON_CAUSE_NEIGHBOUR},
    {"numa_node", "NUMA node that it runs on", "", MON_EVIDENCE_PLACE, 1, 1, 0, MON_CAUSE_NUMA},
    {"numa_other_node", "pages for another NUMA node", "/s", MON_EVIDENCE_TOTAL, 1, 1000, 1,
     MON_CAUSE_NUMA},
    {"cpu_busy", "busy cores of the machine", " %", MON_EVIDENCE_LEVEL, 1, 5, 0.05,
     MON_CAUSE_UNKNOWN},
    {"queue_depth", "batches in the queue", "", MON_EVIDENCE_LEVEL, 1, -0.5, -0.3,
     MON_CAUSE_LOADER},
    {"disk_read", "read from disk", " MB/s", MON_EVIDENCE_TOTAL, 1e-6, 1, 0.5, MON_CAUSE_UNKNOWN},
    {"minor_faults", "minor page faults", "/s", MON_EVIDENCE_TOTAL, 1, 500, 0.5, MON_CAUSE_UNKNOWN},
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
struct mon_kept_rank *mon_history_rank_of(struct mon_history *history, int64_t rank)
{
    size_t low = place_of(history, rank);
    if (low < history->rank_count && history->rank[low]->rank == rank)
        return history->rank[low];
    struct mon_kept_rank *kept =
        append((void ***)&history->rank, &history->rank_count, &history->rank_room, sizeof *kept);
    if (!kept)
        return NULL;
    *kept = (struct mon_kept_rank){.rank = rank, .index = -1, .highest = -1};
    memmove(&history->rank[low + 1], &history->rank[low],
            (history->rank_count - 1 - low) * sizeof(void *));
    return history->rank[low] = kept;
}

void mon_kept_step_add(struct mon_kept_rank *kept, const struct mon_kept_step *step)
{
    kept->step[kept->next] = *step;
    kept->next = (kept->next + 1) % MON_KEPT_STEPS;
    kept->count += kept->count < MON_KEPT_STEPS;
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

/* The bits that at least half of the values have. */
static double common_bits(const double *value, size_t count)
{
    double bits = 0;
    for (int bit = 0; bit < 53; bit++) {
        size_t have = 0;
        for (size_t i = 0; i < count; i++)
            have += value[i] >= 0 && ((uint64_t)value[i] >> bit & 1);
        bits += 2 * have >= count ? ldexp(1, bit) : 0;
    }
    return bits;
}

/* The newest value before a time; NAN: none. */
static double value_before(const struct mon_kept_series *series, int64_t time)
{
    double value = NAN;
    for (size_t i = 0; i < series->count; i++)
        if (series->time[kept_at(series, i)] < time)
            value = series->value[kept_at(series, i)];
    return value;
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
    if (evidence->kind == MON_EVIDENCE_BITS)
        return common_bits(level, count);
    if (evidence->kind != MON_EVIDENCE_TOTAL)
        return an_quantile_of(level, count, 0.5) * evidence->scale;
    double seconds = (double)(series->time[last] - series->time[first]) / 1e9;
    return seconds > 0 ? (series->value[last] - series->value[first]) / seconds * evidence->scale
                       : NAN;
}

/* Does a level change by as much as its kind asks for? */
static bool has_moved(const struct mon_evidence *evidence, double before, double after)
{
    double sign = evidence->absolute < 0 ? -1 : 1, change = sign * (after - before);
    if (evidence->kind == MON_EVIDENCE_BITS)
        return an_throttle_new((uint64_t)before, (uint64_t)after) != 0;
    if (evidence->kind == MON_EVIDENCE_PLACE)
        return fabs(after - before) >= evidence->absolute;
    return change >= sign * evidence->absolute &&
           change >= sign * evidence->relative * fabs(before);
}

/* Levels on both sides of a change at `begin`. What is written only when it changes counts if that
 * was about then: between `near`, a little earlier, and `to`. */
static bool moved_at(const struct mon_kept_series *series, int64_t from, int64_t begin, int64_t to,
                     struct mon_moved *moved)
{
    const struct mon_evidence *evidence = series->evidence;
    int64_t near = begin - SLACK_NS - (begin - from) / SLACK_SHARE;
    *moved = (struct mon_moved){
        .evidence = evidence, .rank = series->rank, .device = series->device, .before = 0};
    switch (evidence->kind) {
    case MON_EVIDENCE_EVENT:
        moved->after = value_before(series, to);
        return !isnan(level_of(series, near, to));
    case MON_EVIDENCE_HELD:
        moved->before = value_before(series, near) * evidence->scale;
        moved->after = value_before(series, to) * evidence->scale;
        break;
    default:
        moved->before = level_of(series, from, begin);
        moved->after = level_of(series, begin, to);
    }
    return !isnan(moved->before) && !isnan(moved->after) &&
           has_moved(evidence, moved->before, moved->after);
}

void mon_evidence_find(const struct mon_history *history, int64_t from, int64_t begin, int64_t to,
                       struct mon_finding *finding)
{
    const size_t most = sizeof finding->moved / sizeof *finding->moved;
    for (size_t row = 0; row < sizeof table / sizeof *table; row++)
        for (size_t i = 0; i < history->series_count; i++) {
            struct mon_moved moved;
            if (history->series[i]->evidence != &table[row] || finding->moved_count == most ||
                !moved_at(history->series[i], from, begin, to, &moved))
                continue;
            finding->moved[finding->moved_count++] = moved;
            break; /* one series of a kind says it */
        }
}

/* ---- words ----------------------------------------------------------------------------------- */

void mon_moved_words(const struct mon_finding *finding, char *text, size_t size)
{
    char before[AN_WORDS], after[AN_WORDS];
    for (size_t i = 0; i < finding->moved_count; i++) {
        const struct mon_moved *moved = &finding->moved[i];
        const struct mon_evidence *evidence = moved->evidence;
        an_words_add(text, size, "%s%s", i ? ", " : "", evidence->words);
        if (*moved->device)
            an_words_add(text, size, " of %s", moved->device);
        if (moved->rank >= 0)
            an_words_add(text, size, " (rank %" PRId64 ")", moved->rank);
        if (evidence->kind == MON_EVIDENCE_BITS)
            an_words_add(text, size, ": %s",
                         an_throttle_words((uint64_t)moved->before, (uint64_t)moved->after));
        else if (evidence->kind == MON_EVIDENCE_EVENT)
            an_words_add(text, size, " %.0f", moved->after);
        else
            an_words_add(text, size, " %s -> %s%s", an_number_print(before, moved->before, 3),
                         an_number_print(after, moved->after, 3), evidence->unit);
    }
}

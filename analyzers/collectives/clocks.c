/* SPDX-License-Identifier: Apache-2.0
 *
 * Aligns the clocks of the ranks of a trace (clocks.h). All processes of a rank have one clock. A
 * file merged by `tacho merge` is aligned already (keys node.N.clock...); folders of traces of
 * other tools, and files whose ranks disagree all the same, are aligned here. The fit is that of
 * the store (store/clock_fit.h). docs/merge.md and docs/ranks.md explain it to users.
 */
#include "analyzers/collectives/clocks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/collectives/communication.h"
#include "store/clock_fit.h"

#define SAME_CLOCK_NS 10000.0 /* a contradiction below it is that of a device's time stamps */
#define PPM           1e6

struct clock {
    int64_t rank;
    uint32_t process; /* the first one of the rank */
    const char *host;
    struct store_clock_fit fit;
    bool fitted, corrected;
};

/* One call, and which collective it is. */
struct part {
    struct an_comm_call call;
    uint32_t clock;
};

struct clocks {
    struct an_trace *trace;
    struct clock *clock;
    size_t count;
    uint32_t *process_clock; /* clock of a process, AN_NONE: none */
    struct part *part;
    size_t part_count, room;
};

/* ---- clocks and collectives ----------------------------------------------------------------------------------------------------- */

static int rank_order(const void *left, const void *right)
{
    const struct clock *first = left, *second = right;
    if (first->rank != second->rank)
        return first->rank < second->rank ? -1 : 1;
    return (first->process > second->process) - (first->process < second->process);
}

/* One clock a rank; processes without a rank work for that of the lowest one. */
static int find_clocks(struct clocks *clocks)
{
    const struct an_trace *trace = clocks->trace;
    size_t count = 0;
    clocks->clock = calloc(trace->process_count + 1, sizeof *clocks->clock);
    clocks->process_clock = malloc((trace->process_count + 1) * sizeof *clocks->process_clock);
    if (!clocks->clock || !clocks->process_clock)
        return TACHO_ENOMEM;
    for (uint32_t process = 0; process < trace->process_count; process++)
        if (trace->process[process].rank != STORE_ABSENT)
            clocks->clock[count++] = (struct clock){.rank = trace->process[process].rank,
                                                    .process = process,
                                                    .host = trace->process[process].host};
    if (count)
        qsort(clocks->clock, count, sizeof *clocks->clock, rank_order);
    for (size_t i = 0; i < count; i++)
        if (!i || clocks->clock[i].rank != clocks->clock[clocks->count - 1].rank)
            clocks->clock[clocks->count++] = clocks->clock[i];
    for (uint32_t process = 0; process < trace->process_count; process++) {
        struct clock key = {.rank = trace->process[process].rank};
        size_t low = 0, high = clocks->count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (clocks->clock[middle].rank < key.rank)
                low = middle + 1;
            else
                high = middle;
        }
        clocks->process_clock[process] =
            low < clocks->count && clocks->clock[low].rank == key.rank ? (uint32_t)low : AN_NONE;
    }
    return 0;
}

/* Threads hold ranges of collectives, streams their kernels. */
static bool may_hold_calls(const struct an_track *track)
{
    return !strcmp(track->kind, "thread") || !strcmp(track->kind, "comm") ||
           !strcmp(track->kind, "stream");
}

/* Is it a collective? In imported traces annotations of a device and calls of the host name one,
 * too, but only kernels and our own ranges are the collective itself. */
static bool is_call(const struct an_trace *trace, const struct an_track *track, size_t i)
{
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[i]);
    if (!detail || !*detail->collective)
        return false;
    return strcmp(track->kind, "stream") ? detail->role == AN_ROLE_COMM
                                         : !strcmp(an_slice_category(trace, i), "kernel");
}

/* Collects the calls that can be matched over ranks. */
static int find_parts(struct clocks *clocks)
{
    const struct an_trace *trace = clocks->trace;
    for (uint32_t index = 0; index < trace->track_count; index++) {
        const struct an_track *track = &trace->track[index];
        uint32_t clock =
            track->process < trace->process_count ? clocks->process_clock[track->process] : AN_NONE;
        if (clock == AN_NONE || !may_hold_calls(track))
            continue;
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            struct part part = {.clock = clock};
            if (!is_call(trace, track, i) || !an_comm_read(trace, i, &part.call) ||
                !part.call.synchronises || part.call.communicator == STORE_ABSENT)
                continue;
            bool waits_only = strcmp(track->kind, "stream") != 0 && part.call.bytes == STORE_ABSENT;
            if (waits_only) /* for what other threads do: a rank may come to it when its part is
                               done already */
                continue;
            if (an_grow(&clocks->part, &clocks->room, clocks->part_count + 1, sizeof *clocks->part))
                return TACHO_ENOMEM;
            part.call.lane = clock;
            clocks->part[clocks->part_count++] = part;
        }
    }
    return 0;
}

static int own_order(const void *left, const void *right)
{
    const struct part *first = left, *second = right;
    int order = an_comm_order(&first->call, &second->call);
    order = order ? order : AN_COMPARE(first->clock, second->clock);
    return order ? order : AN_COMPARE(first->call.start, second->call.start);
}

static int part_order(const void *left, const void *right)
{
    const struct part *first = left, *second = right;
    int order = an_comm_order(&first->call, &second->call);
    order = order ? order : AN_COMPARE(first->call.ordinal, second->call.ordinal);
    return order ? order : AN_COMPARE(first->clock, second->clock);
}

/* Calls without a sequence number are counted: the n-th call of one rank is the n-th of another
 * only where all ranks have the same number of calls. Drops the others. */
static void drop_uneven(struct clocks *clocks)
{
    size_t kept = 0;
    for (size_t i = 0, next; i < clocks->part_count; i = next) {
        bool even = true;
        size_t first = 0, run = 0;
        for (next = i; next < clocks->part_count &&
                       !an_comm_order(&clocks->part[i].call, &clocks->part[next].call);
             next++) {
            bool same = next > i && clocks->part[next].clock == clocks->part[next - 1].clock;
            if (!same && run)
                even = even && (!first || first == run);
            first = !same && run && !first ? run : first;
            run = same ? run + 1 : 1;
        }
        even = even && (!first || first == run);
        for (size_t j = i; j < next && (even || clocks->part[i].call.sequence != STORE_ABSENT); j++)
            clocks->part[kept++] = clocks->part[j];
    }
    clocks->part_count = kept;
}

/* Numbers the calls of each rank that look alike, and sorts them so that those of one collective
 * are neighbours. */
static void order_parts(struct clocks *clocks)
{
    if (!clocks->part_count)
        return;
    qsort(clocks->part, clocks->part_count, sizeof *clocks->part, own_order);
    for (size_t i = 1; i < clocks->part_count; i++)
        if (!an_comm_order(&clocks->part[i - 1].call, &clocks->part[i].call) &&
            clocks->part[i - 1].clock == clocks->part[i].clock)
            clocks->part[i].call.ordinal = clocks->part[i - 1].call.ordinal + 1;
    drop_uneven(clocks);
    qsort(clocks->part, clocks->part_count, sizeof *clocks->part, part_order);
}

/* ---- fitting ------------------------------------------------------------------------------------------------------------------------ */

struct points {
    struct store_clock_point *point;
    size_t count, room;
};

/* Adds the points of one collective, parts [first, next), to the fits. The lowest rank, whose clock
 * is the reference, must have taken part, and all ranks of the collective, or all of the file:
 * other ranks may have a communicator of the same number. */
static int add_points(struct clocks *clocks, size_t first, size_t next, struct points *rank_points)
{
    const struct an_comm_call *reference = &clocks->part[first].call;
    int64_t least = INT64_MAX;
    if (clocks->part[first].clock != 0 || next - first < 2 ||
        (reference->ranks != (int64_t)(next - first) && next - first != clocks->count))
        return 0;
    for (size_t i = first; i < next; i++) {
        int64_t ns = an_time_sub(clocks->part[i].call.end, clocks->part[i].call.start);
        least = ns < least ? ns : least;
        if (i > first && (clocks->part[i].clock == clocks->part[i - 1].clock ||
                          clocks->part[i].call.ranks != reference->ranks ||
                          (reference->sequence == STORE_ABSENT &&
                           clocks->part[i].call.bytes != reference->bytes)))
            return 0; /* twice on one rank, or not the same: which is which? */
    }
    for (size_t i = first + 1; i < next; i++) {
        const struct an_comm_call *call = &clocks->part[i].call;
        struct points *points = &rank_points[clocks->part[i].clock];
        if (an_grow(&points->point, &points->room, points->count + 1, sizeof *points->point))
            return TACHO_ENOMEM;
        points->point[points->count++] =
            (struct store_clock_point){.at = call->end,
                                       .offset = an_time_sub(reference->end, call->end),
                                       .low = an_time_sub(reference->start, call->end),
                                       .high = an_time_sub(reference->end, call->start),
                                       .least = least};
    }
    return 0;
}

/* Is a clock to be corrected? Ranks of one host share a clock unless a collective would end before
 * it began; other clocks differ where the fit exceeds its own error. */
static bool is_off(const struct clock *reference, const struct clock *clock)
{
    double error = clock->fit.error;
    bool one = *clock->host && !strcmp(clock->host, reference->host);
    if (one)
        return clock->fit.violation > SAME_CLOCK_NS;
    return fabs((double)clock->fit.offset) > error || clock->fit.drift != 0 ||
           clock->fit.violation > SAME_CLOCK_NS;
}

/* Fits the clock of every rank to that of the lowest one, from the collectives of both. */
static int fit_all(struct clocks *clocks)
{
    struct points *rank_points = calloc(clocks->count + 1, sizeof *rank_points);
    int rc = rank_points ? 0 : TACHO_ENOMEM;
    for (size_t i = 0, next; i < clocks->part_count && !rc; i = next) {
        for (next = i + 1; next < clocks->part_count &&
                           !an_comm_order(&clocks->part[i].call, &clocks->part[next].call) &&
                           clocks->part[next].call.ordinal == clocks->part[i].call.ordinal;)
            next++;
        rc = add_points(clocks, i, next, rank_points);
    }
    for (size_t k = 1; k < clocks->count && !rc; k++) {
        if (!rank_points[k].count)
            continue;
        rc = store_clock_fit(rank_points[k].point, rank_points[k].count, &clocks->clock[k].fit);
        clocks->clock[k].fitted = !rc;
        clocks->clock[k].corrected = !rc && is_off(&clocks->clock[0], &clocks->clock[k]);
    }
    for (size_t k = 0; rank_points && k < clocks->count; k++)
        free(rank_points[k].point);
    free(rank_points);
    return rc;
}

/* ---- correction ---------------------------------------------------------------------------------------------------------------------- */

/* Times that stand for "no time" in imported files stay what they are (device.c). */
static int find_bases(const struct an_trace *trace, int64_t **out, size_t *count)
{
    int64_t *base = malloc((trace->key_count + 1) * sizeof *base);
    *out = base;
    *count = 1;
    if (!base)
        return TACHO_ENOMEM;
    base[0] = 0;
    for (size_t i = 0; i < trace->key_count; i++)
        if (!strncmp(trace->key[i].key, "source.base_ns", 14))
            base[(*count)++] = strtoll(trace->key[i].value, NULL, 10);
    return 0;
}

/* A time of the rank in terms of the reference clock. */
static int64_t corrected_time(const struct clock *clock, int64_t time)
{
    return time == STORE_ABSENT
               ? time
               : store_clock_time(clock->fit.offset, clock->fit.drift, clock->fit.pivot, time);
}

/* Corrects the slices and counters of one track. Slices at a base time stand for "no time" and
 * stay. */
static void shift_track(struct an_trace *trace, const struct an_track *track,
                        const struct clock *clock, const int64_t *base, size_t bases)
{
    for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
        int64_t start = trace->slice.start[i], dur = trace->slice.dur[i];
        bool none = false;
        for (size_t j = 0; j < bases; j++)
            none = none || start == base[j];
        if (none)
            continue;
        trace->slice.start[i] = corrected_time(clock, start);
        if (dur != AN_OPEN)
            trace->slice.dur[i] =
                an_time_sub(corrected_time(clock, an_time_add(start, dur)), trace->slice.start[i]);
    }
    for (size_t i = track->counter_first; i < track->counter_first + track->counter_count; i++)
        trace->counter.time[i] = corrected_time(clock, trace->counter.time[i]);
}

/* The clock of a process if it has to be corrected, else NULL. */
static const struct clock *off_clock(const struct clocks *clocks, uint32_t process)
{
    uint32_t clock =
        process < clocks->trace->process_count ? clocks->process_clock[process] : AN_NONE;
    return clock != AN_NONE && clocks->clock[clock].corrected ? &clocks->clock[clock] : NULL;
}

/* Finds the first and last time of the run again, after the correction has moved both. */
static void update_bounds(struct an_trace *trace)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t index = 0; index < trace->track_count; index++) {
        const struct an_track *track = &trace->track[index];
        for (size_t i = track->slice_first; i < track->slice_first + track->slice_count; i++) {
            int64_t end = trace->slice.dur[i] == AN_OPEN
                              ? trace->slice.start[i]
                              : an_time_add(trace->slice.start[i], trace->slice.dur[i]);
            first = trace->slice.start[i] < first ? trace->slice.start[i] : first;
            last = end > last ? end : last;
        }
        if (track->counter_count) {
            int64_t begin = trace->counter.time[track->counter_first],
                    end = trace->counter.time[track->counter_first + track->counter_count - 1];
            first = begin < first ? begin : first;
            last = end > last ? end : last;
        }
    }
    for (size_t i = 0; i < trace->step_count; i++) {
        first = trace->step[i].start < first ? trace->step[i].start : first;
        last = trace->step[i].end != STORE_ABSENT && trace->step[i].end > last ? trace->step[i].end
                                                                               : last;
    }
    if (first <= last) {
        trace->t0 = first;
        trace->t1 = last;
    }
}

/* Corrects all times of the ranks whose clock is off: slices, counters, steps and processes. */
static int shift_all(struct clocks *clocks)
{
    struct an_trace *trace = clocks->trace;
    size_t off = 0, bases;
    int64_t *base;
    for (size_t clock = 0; clock < clocks->count; clock++)
        off += clocks->clock[clock].corrected;
    if (!off)
        return 0;
    if (find_bases(trace, &base, &bases))
        return TACHO_ENOMEM;
    for (uint32_t i = 0; i < trace->track_count; i++) {
        const struct clock *clock = off_clock(clocks, trace->track[i].process);
        if (clock)
            shift_track(trace, &trace->track[i], clock, base, bases);
    }
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct clock *clock = off_clock(clocks, trace->step[i].process);
        if (clock) {
            trace->step[i].start = corrected_time(clock, trace->step[i].start);
            trace->step[i].end = corrected_time(clock, trace->step[i].end);
        }
    }
    for (uint32_t process = 0; process < trace->process_count; process++) {
        const struct clock *clock = off_clock(clocks, process);
        if (clock) {
            trace->process[process].start = corrected_time(clock, trace->process[process].start);
            trace->process[process].end = corrected_time(clock, trace->process[process].end);
        }
    }
    free(base);
    update_bounds(trace);
    return 0;
}

/* ---- the result -------------------------------------------------------------------------------------------------------------------------- */

/* N of the node of a merged file whose host it is; -1: it was not merged, or is the reference's. */
static long node_of(const struct an_trace *trace, const char *host)
{
    for (size_t i = 0; i < trace->key_count; i++) {
        long node;
        char rest[8];
        if (sscanf(trace->key[i].key, "node.%ld.%7s", &node, rest) == 2 && !strcmp(rest, "host") &&
            !strcmp(trace->key[i].value, host))
            return node;
    }
    return -1;
}

static double node_number(const struct an_trace *trace, long node, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "node.%ld.clock.%s", node, key);
    const char *value = an_trace_key(trace, name);
    return value ? strtod(value, NULL) : NAN;
}

static struct an_value known(double value, const char *why)
{
    return isnan(value) ? an_num_none(why) : an_num(value);
}

/* Fills a row from what `tacho merge` wrote of the node. */
static void merged_row(const struct an_trace *trace, struct an_arena *arena, long node,
                       struct an_clock_row *row)
{
    char name[64];
    const char *none = "unknown to tacho merge";
    double error = node_number(trace, node, "error_ns"),
           offset = node_number(trace, node, "offset_ns"),
           drift = node_number(trace, node, "drift_ppb");
    snprintf(name, sizeof name, "node.%ld.clock", node);
    const char *how = an_trace_key(trace, name);
    row->how = how ? an_arena_format(arena, "tacho merge: %.60s", how) : "tacho merge";
    row->offset_ns = known(offset, none);
    row->drift_ppm = known(isnan(offset) || !isnan(drift) ? drift / 1e3 : 0, none);
    row->error_ns = known(error, none);
    row->drift_error_ppm = an_num_none("part of the error that tacho merge gives");
    row->offset_low_ns = known(offset - error, none);
    row->offset_high_ns = known(offset + error, none);
    double matched = node_number(trace, node, "matched");
    row->matched = isnan(matched) ? 0 : (int64_t)matched;
}

/* `offset` and `ppm`: what the times of the file have had already. */
static void fitted_row(const struct clock *clock, struct an_clock_row *row, double offset,
                       double ppm)
{
    offset += (double)clock->fit.offset;
    row->how = "matched collectives";
    row->corrected = clock->corrected;
    row->matched = clock->fit.matched;
    row->offset_ns = an_num(offset);
    row->drift_ppm = an_num(clock->fit.drift * PPM + ppm);
    row->drift_error_ppm = an_num(clock->fit.drift_error * PPM);
    row->error_ns = an_num(clock->fit.error);
    row->offset_low_ns = an_num(offset - clock->fit.error);
    row->offset_high_ns = an_num(offset + clock->fit.error);
}

/* Gives offset, drift and their errors one value. */
static void set_all(struct an_clock_row *row, struct an_value value)
{
    row->offset_ns = row->drift_ppm = row->drift_error_ppm = row->error_ns = row->offset_low_ns =
        row->offset_high_ns = value;
}

/* Fills the row of one clock: how it was aligned, with offset, drift and error. */
static void one_row(const struct clocks *clocks, struct an_arena *arena, size_t i,
                    struct an_clock_row *row)
{
    const struct clock *clock = &clocks->clock[i], *reference = &clocks->clock[0];
    bool one = *clock->host && !strcmp(clock->host, reference->host);
    long node = one || !i ? -1 : node_of(clocks->trace, clock->host);
    *row = (struct an_clock_row){.rank = clock->rank, .host = an_arena_text(arena, clock->host)};
    if (clock->corrected && node >= 0) { /* on top of what tacho merge did */
        struct an_clock_row before = {.rank = clock->rank};
        merged_row(clocks->trace, arena, node, &before);
        fitted_row(clock, row, an_value_or_0(before.offset_ns), an_value_or_0(before.drift_ppm));
    } else if (clock->corrected) {
        fitted_row(clock, row, 0, 0);
    } else if (!i || one) {
        row->how = i ? "the same clock" : "reference";
        set_all(row, an_num(0));
    } else if (node >= 0) {
        merged_row(clocks->trace, arena, node, row);
    } else if (clock->fitted) {
        fitted_row(clock, row, 0, 0);
    } else {
        row->how = "not compared";
        set_all(row, an_num_none("no collective in common with the lowest rank"));
    }
}

/* Fills the rows of the clocks and the error up to which all of them agree. */
static int fill_rows(const struct clocks *clocks, struct an_arena *arena, struct an_clocks *out)
{
    struct an_clock_row *row = an_arena_zero(arena, clocks->count + 1, sizeof *row);
    double error = 0;
    if (!row)
        return TACHO_ENOMEM;
    if (clocks->count < 2) {
        out->reason = "one rank: nothing to compare";
        out->error_ns = an_num_none(out->reason);
        return 0;
    }
    for (size_t i = 0; i < clocks->count; i++) {
        one_row(clocks, arena, i, &row[i]);
        error = row[i].error_ns.valid && !isnan(error) ? fmax(error, row[i].error_ns.value) : NAN;
    }
    out->row = row;
    out->row_count = clocks->count;
    out->error_ns = isnan(error)
                        ? an_num_none("the clock of a rank on another host could not be compared")
                        : an_num(error);
    return 0;
}

int an_clocks_align(struct an_trace *trace, struct an_arena *arena, struct an_clocks *out)
{
    struct clocks clocks = {.trace = trace};
    int rc = find_clocks(&clocks);
    if (!rc && clocks.count > 1) {
        rc = find_parts(&clocks);
        if (!rc)
            order_parts(&clocks);
        rc = rc ? rc : fit_all(&clocks);
        rc = rc ? rc : shift_all(&clocks);
    }
    rc = rc ? rc : fill_rows(&clocks, arena, out);
    free(clocks.clock);
    free(clocks.process_clock);
    free(clocks.part);
    return rc;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters that are sampled now and then, read at a time or over a span. A sample is taken to hold
 * since the sample before it.
 */
#include "analyzers/counters/sampled.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/interval.h"

const struct an_track *an_sampled_find(const struct an_trace *trace, uint32_t process,
                                       const char *device, const char *name)
{
    AN_EACH_TRACK(trace, process, k)
    {
        const struct an_track *track = &trace->track[k];
        if (track->counter_count && !strcmp(track->kind, "counter") && !strcmp(track->name, name) &&
            !strcmp(track->device, device))
            return track;
    }
    return NULL;
}

/* First sample at or after `time`: an index into the counter columns, the end of the track
 * without one. */
static size_t seek(const struct an_trace *trace, const struct an_track *track, int64_t time)
{
    return an_times_seek(trace->counter.time, track->counter_first, an_counter_end(track), time);
}

bool an_sampled_at(const struct an_trace *trace, const struct an_track *track, int64_t time,
                   double *value)
{
    size_t first = track->counter_first, end = first + track->counter_count,
           after = seek(trace, track, time), before = after;
    while (after < end && !isfinite(trace->counter.value[after]))
        after++;
    if (after < end && trace->counter.time[after] == time) {
        *value = trace->counter.value[after];
        return true;
    }
    while (before > first && !isfinite(trace->counter.value[before - 1]))
        before--;
    if (after == end || before == first)
        return false;
    before--;
    double whole = (double)an_time_sub(trace->counter.time[after], trace->counter.time[before]);
    double part = (double)an_time_sub(time, trace->counter.time[before]) / whole;
    *value = trace->counter.value[before] +
             part * (trace->counter.value[after] - trace->counter.value[before]);
    return true;
}

/* Calls `add` for each sample with the ns of [start, end) that it holds for. How long the first
 * sample of a track had been true is not known, so it is excluded. */
static void each_sample(const struct an_trace *trace, const struct an_track *track, int64_t start,
                        int64_t end, void (*add)(void *sum, double value, double ns), void *sum)
{
    size_t last = an_counter_end(track);
    for (size_t i = seek(trace, track, start); i < last; i++) {
        if (i == track->counter_first) /* how long it had been true is not known */
            continue;
        int64_t from = trace->counter.time[i - 1] > start ? trace->counter.time[i - 1] : start;
        int64_t to = trace->counter.time[i] < end ? trace->counter.time[i] : end;
        if (to > from && isfinite(trace->counter.value[i]))
            add(sum, trace->counter.value[i], (double)an_time_sub(to, from));
        if (trace->counter.time[i] >= end)
            break;
    }
}

struct mean {
    double area, ns, max;
    size_t samples;
};

static void add_mean(void *sum, double value, double ns)
{
    struct mean *mean = sum;
    mean->max = !mean->samples || value > mean->max ? value : mean->max;
    mean->area += value * ns;
    mean->ns += ns;
    mean->samples++;
}

struct an_sampled an_sampled_over(const struct an_trace *trace, const struct an_track *track,
                                  int64_t start, int64_t end)
{
    struct mean mean = {0};
    if (end > start)
        each_sample(trace, track, start, end, add_mean, &mean);
    if (!mean.samples)
        return (struct an_sampled){.mean = NAN, .max = NAN};
    return (struct an_sampled){.mean = mean.area / mean.ns,
                               .max = mean.max,
                               .covered = mean.ns / (double)an_time_sub(end, start),
                               .samples = mean.samples};
}

struct bits {
    uint64_t mask;
    struct an_sampled_bits ns;
};

static void add_bits(void *sum, double value, double ns)
{
    struct bits *bits = sum;
    uint64_t word = value >= 0 && value < 1.8e19 ? (uint64_t)value : 0;
    bits->ns.set += word & bits->mask ? ns : 0;
    bits->ns.all += ns;
}

struct an_sampled_bits an_sampled_bits(const struct an_trace *trace, const struct an_track *track,
                                       int64_t start, int64_t end, uint64_t mask)
{
    struct bits bits = {.mask = mask};
    each_sample(trace, track, start, end, add_bits, &bits);
    return bits.ns;
}

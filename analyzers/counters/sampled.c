/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/counters/sampled.h"

#include <math.h>
#include <string.h>

#include "analyzers/base/interval.h"

const struct an_track *an_sampled_find(const struct an_trace *t, uint32_t process,
                                       const char *device, const char *name)
{
    for (size_t k = 0; k < t->track_count; k++) {
        const struct an_track *track = &t->track[k];
        if (track->process == process && track->counter_count && !strcmp(track->kind, "counter") &&
            !strcmp(track->name, name) && !strcmp(track->device, device))
            return track;
    }
    return NULL;
}

/* First sample at or after `time`: an index into the counter columns, the end of the track when
 * there is none. */
static size_t seek(const struct an_trace *t, const struct an_track *k, int64_t time)
{
    return an_times_seek(t->counter.time, k->counter_first, k->counter_first + k->counter_count,
                         time);
}

bool an_sampled_at(const struct an_trace *t, const struct an_track *k, int64_t time, double *value)
{
    size_t first = k->counter_first, end = first + k->counter_count, after = seek(t, k, time),
           before = after;
    while (after < end && !isfinite(t->counter.value[after]))
        after++;
    if (after < end && t->counter.time[after] == time) {
        *value = t->counter.value[after];
        return true;
    }
    while (before > first && !isfinite(t->counter.value[before - 1]))
        before--;
    if (after == end || before == first)
        return false;
    before--;
    double whole = (double)an_time_sub(t->counter.time[after], t->counter.time[before]);
    double part = (double)an_time_sub(time, t->counter.time[before]) / whole;
    *value = t->counter.value[before] + part * (t->counter.value[after] - t->counter.value[before]);
    return true;
}

/* Calls `add` for each sample with the ns of [start, end) that it speaks for. */
static void each(const struct an_trace *t, const struct an_track *k, int64_t start, int64_t end,
                 void (*add)(void *sum, double value, double ns), void *sum)
{
    size_t last = k->counter_first + k->counter_count;
    for (size_t i = seek(t, k, start); i < last; i++) {
        if (i == k->counter_first) /* nobody knows for how long the first one was true */
            continue;
        int64_t from = t->counter.time[i - 1] > start ? t->counter.time[i - 1] : start;
        int64_t to = t->counter.time[i] < end ? t->counter.time[i] : end;
        if (to > from && isfinite(t->counter.value[i]))
            add(sum, t->counter.value[i], (double)an_time_sub(to, from));
        if (t->counter.time[i] >= end)
            break;
    }
}

struct mean {
    double area, ns, max;
    size_t samples;
};

static void add_mean(void *sum, double value, double ns)
{
    struct mean *m = sum;
    m->max = !m->samples || value > m->max ? value : m->max;
    m->area += value * ns;
    m->ns += ns;
    m->samples++;
}

struct an_sampled an_sampled_over(const struct an_trace *t, const struct an_track *k, int64_t start,
                                  int64_t end)
{
    struct mean m = {0};
    if (end > start)
        each(t, k, start, end, add_mean, &m);
    if (!m.samples)
        return (struct an_sampled){.mean = NAN, .max = NAN};
    return (struct an_sampled){.mean = m.area / m.ns,
                               .max = m.max,
                               .covered = m.ns / (double)an_time_sub(end, start),
                               .samples = m.samples};
}

struct bits {
    uint64_t mask;
    struct an_sampled_bits ns;
};

static void add_bits(void *sum, double value, double ns)
{
    struct bits *b = sum;
    uint64_t word = value >= 0 && value < 1.8e19 ? (uint64_t)value : 0;
    b->ns.set += word & b->mask ? ns : 0;
    b->ns.all += ns;
}

struct an_sampled_bits an_sampled_bits(const struct an_trace *t, const struct an_track *k,
                                       int64_t start, int64_t end, uint64_t mask)
{
    struct bits b = {.mask = mask};
    each(t, k, start, end, add_bits, &b);
    return b.ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/os/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

__extension__ typedef unsigned __int128 col_u128;

static int64_t read_clock(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t col_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t col_clock_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

static uint64_t read_tsc(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __rdtsc();
#else
    return 0;
#endif
}

bool col_clock_invariant(void)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return false;
#endif
}

struct col_anchor col_clock_anchor(void)
{
    struct col_anchor best = {0};
    uint64_t best_span = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t t0 = read_tsc();
        int64_t monotonic = read_clock(CLOCK_MONOTONIC);
        uint64_t t1 = read_tsc();
        int64_t realtime = read_clock(CLOCK_REALTIME);
        /* the shortest bracket is the one that was not interrupted */
        if (t1 - t0 < best_span) {
            best_span = t1 - t0;
            best = (struct col_anchor){
                .tsc = t0 + (t1 - t0) / 2, .monotonic = monotonic, .realtime = realtime};
        }
    }
    return best;
}

void col_clock_init(struct col_clock *clock)
{
    memset(clock, 0, sizeof *clock);
}

static const struct col_anchor *anchor_at(const struct col_clock *clock, unsigned i)
{
    return &clock->ring[(clock->first + i) % COL_CLOCK_RING];
}

static uint64_t slope_between(const struct col_anchor *a, const struct col_anchor *b)
{
    if (b->tsc <= a->tsc || b->monotonic < a->monotonic)
        return 0;
    return (uint64_t)(((col_u128)(uint64_t)(b->monotonic - a->monotonic) << 32) /
                      (b->tsc - a->tsc));
}

bool col_clock_add(struct col_clock *clock, const struct col_anchor *anchor)
{
    if (clock->count) {
        const struct col_anchor *last = anchor_at(clock, clock->count - 1);
        if (anchor->monotonic - last->monotonic < 1000000 ||
            (anchor->tsc && anchor->tsc <= last->tsc))
            return false;
        clock->tsc0 = last->tsc;
        clock->ns0 = last->monotonic;
        clock->slope = slope_between(last, anchor);
    }
    if (clock->count == COL_CLOCK_RING) {
        /* half of the old ones go: every second of the older half, so that far back the pieces get
         * longer, not missing */
        unsigned kept = 0;
        struct col_anchor tmp[COL_CLOCK_RING];
        for (unsigned i = 0; i < clock->count; i++)
            if (i >= COL_CLOCK_RING / 2 || i % 2 == 0)
                tmp[kept++] = *anchor_at(clock, i);
        memcpy(clock->ring, tmp, kept * sizeof *tmp);
        clock->first = 0;
        clock->count = kept;
    }
    clock->ring[(clock->first + clock->count++) % COL_CLOCK_RING] = *anchor;
    return true;
}

static int64_t convert(uint64_t tsc, uint64_t tsc0, int64_t ns0, uint64_t slope)
{
    if (tsc >= tsc0)
        return ns0 + (int64_t)(((col_u128)(tsc - tsc0) * slope) >> 32);
    return ns0 - (int64_t)(((col_u128)(tsc0 - tsc) * slope) >> 32);
}

int64_t col_clock_ns(const struct col_clock *clock, uint64_t tsc)
{
    if (tsc >= clock->tsc0 || clock->count <= 2)
        return convert(tsc, clock->tsc0, clock->ns0, clock->slope);
    /* the last anchor at or before tsc, but never the newest: a piece has two ends */
    unsigned low = 0, high = clock->count - 2;
    while (low < high) {
        unsigned mid = (low + high + 1) / 2;
        if (anchor_at(clock, mid)->tsc <= tsc)
            low = mid;
        else
            high = mid - 1;
    }
    const struct col_anchor *anchor = anchor_at(clock, low);
    return convert(tsc, anchor->tsc, anchor->monotonic,
                   slope_between(anchor, anchor_at(clock, low + 1)));
}

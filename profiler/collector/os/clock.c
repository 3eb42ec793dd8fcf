/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the ticks of the pools (profiler/ticks.h) to CLOCK_MONOTONIC, piecewise linear between
 * anchors. The slope of a piece is a 32.32 fixed-point number and multiplications are done in 128
 * bits, so that a conversion loses less than a nanosecond whatever the uptime.
 */
#include "profiler/collector/os/clock.h"

#include <string.h>
#include <time.h>

#include "profiler/ticks.h"

__extension__ typedef unsigned __int128 col_u128;

static int64_t read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return col_time_ns(time);
}

int64_t col_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t col_clock_realtime(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t col_clock_thread(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* The clock that counts more is read first: the difference is never too large, and where it is
 * below 0 the machine was not suspended. */
int64_t col_clock_suspended(void)
{
    int64_t all = read_clock(CLOCK_BOOTTIME);
    int64_t suspended = all - read_clock(CLOCK_MONOTONIC);
    return suspended > 0 ? suspended : 0;
}

bool col_clock_invariant(void)
{
    return ticks_steady();
}

const char *col_clock_key(void)
{
    return ticks_steady() ? TICKS_KEY : "monotonic: no invariant time stamp counter";
}

const char *col_clock_counter(void)
{
    return TICKS_NAME;
}

/* Reads the three clocks a few times and keeps the shortest bracket: it was not interrupted. */
struct col_anchor col_clock_anchor(void)
{
    struct col_anchor best = {0};
    uint64_t best_span = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = ticks_read();
        int64_t monotonic = read_clock(CLOCK_MONOTONIC);
        uint64_t after = ticks_read();
        int64_t realtime = read_clock(CLOCK_REALTIME);
        if (after - before < best_span) {
            best_span = after - before;
            best = (struct col_anchor){
                .tsc = before + (after - before) / 2, .monotonic = monotonic, .realtime = realtime};
        }
    }
    return best;
}

void col_clock_init(struct col_clock *clock)
{
    memset(clock, 0, sizeof *clock);
}

/* The anchors in order of time: 0 is the oldest that is kept. */
static const struct col_anchor *anchor_at(const struct col_clock *clock, unsigned i)
{
    return &clock->ring[(clock->first + i) % COL_CLOCK_RING];
}

/* Nanoseconds a tick between two anchors, as 32.32 fixed point; 0 where the counter stood still. */
static uint64_t slope_between(const struct col_anchor *earlier, const struct col_anchor *later)
{
    if (later->tsc <= earlier->tsc || later->monotonic < earlier->monotonic)
        return 0;
    return (uint64_t)(((col_u128)(uint64_t)(later->monotonic - earlier->monotonic) << 32) /
                      (later->tsc - earlier->tsc));
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
        /* Every second anchor of the older half is dropped: long ago the pieces become longer, but
         * none is missing. */
        unsigned kept = 0;
        struct col_anchor thinned[COL_CLOCK_RING];
        for (unsigned i = 0; i < clock->count; i++)
            if (i >= COL_CLOCK_RING / 2 || i % 2 == 0)
                thinned[kept++] = *anchor_at(clock, i);
        memcpy(clock->ring, thinned, kept * sizeof *thinned);
        clock->first = 0;
        clock->count = kept;
    }
    clock->ring[(clock->first + clock->count++) % COL_CLOCK_RING] = *anchor;
    return true;
}

/* A counter that was overwritten may be any number: then the sum wraps around. */
static int64_t convert(uint64_t tsc, uint64_t tsc0, int64_t ns0, uint64_t slope)
{
    if (tsc >= tsc0)
        return (int64_t)((uint64_t)ns0 + (uint64_t)(((col_u128)(tsc - tsc0) * slope) >> 32));
    return (int64_t)((uint64_t)ns0 - (uint64_t)(((col_u128)(tsc0 - tsc) * slope) >> 32));
}

int64_t col_clock_ns(const struct col_clock *clock, uint64_t tsc)
{
    if (tsc >= clock->tsc0 || clock->count <= 2)
        return convert(tsc, clock->tsc0, clock->ns0, clock->slope);
    /* Finds the last anchor at or before tsc, but never the newest: a piece has two ends. */
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

void col_sleep_ms(int64_t ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

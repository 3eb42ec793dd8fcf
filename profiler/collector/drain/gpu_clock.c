/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts CUPTI's clock to CLOCK_MONOTONIC, piecewise linear between anchors. Within an era the
 * rate of CUPTI's clock is constant; an anchor whose slope departs from that of its era begins a
 * new one. Where CUPTI's clock has become the time stamp counter, an earlier reading of that
 * counter gives its rate at once.
 */
#include <string.h>

#include "profiler/collector/drain/gpu_private.h"

__extension__ typedef __int128 wide;

/* A record may be this much older or newer than the anchors of its era. */
#define SLACK_NS 5000000000ll
#define APART_NS 1000000 /* anchors closer than this give no slope */
/* Most ticks of the time stamp counter between the two readings of an anchor. */
#define SAME_TICKS (1 << 20)
#define READING_NS 10000000000ll /* how long a reading of it is kept */
#define NO_ERA     UINT32_MAX
/* A time beyond this one was not read from a clock: the process has overwritten it. */
#define MOST_TIME (INT64_MAX / 4)

/* Ticks of CUPTI's clock a nanosecond after an anchor; 0 where no time passed. */
static double rate(const struct col_gpu_clock *clock, uint32_t i)
{
    int64_t elapsed = clock->monotonic[i + 1] - clock->monotonic[i];
    return elapsed > 0 ? (double)(clock->cupti[i + 1] - clock->cupti[i]) / (double)elapsed : 0;
}

/* Does the newest anchor begin a new era? Its slope must be plausible (0.1 to 10 ticks a ns) and
 * within 1 % of the slope before it. */
static bool breaks(const struct col_gpu_clock *clock)
{
    uint32_t count = clock->count, first = clock->era[clock->eras - 1];
    if (count < 2 || count - 1 == first)
        return false;
    double newest = rate(clock, count - 2);
    if (newest < 0.1 || newest > 10)
        return true;
    if (count - 2 == first)
        return false;
    double before = rate(clock, count - 3);
    return newest < before * 0.99 || newest > before * 1.01;
}

/* Drops the older half of the anchors, and the eras that lie in it. */
static void forget_oldest(struct col_gpu_clock *clock)
{
    uint32_t drop = clock->count / 2, kept = 0;
    memmove(clock->cupti, clock->cupti + drop, (clock->count - drop) * sizeof *clock->cupti);
    memmove(clock->monotonic, clock->monotonic + drop,
            (clock->count - drop) * sizeof *clock->monotonic);
    clock->count -= drop;
    for (uint32_t i = 0; i < clock->eras; i++) {
        uint32_t next = i + 1 < clock->eras ? clock->era[i + 1] : UINT32_MAX;
        if (next > drop)
            clock->era[kept++] = clock->era[i] > drop ? clock->era[i] - drop : 0;
    }
    clock->eras = kept;
    clock->in_ns = false;
}

/* The newest anchor begins an era. */
static void begin_era(struct col_gpu_clock *clock)
{
    if (!clock->eras)
        clock->in_ns = !clock->ticks;
    if (clock->eras == COL_GPU_ERAS) {
        memmove(clock->era, clock->era + 1, (COL_GPU_ERAS - 1) * sizeof *clock->era);
        clock->eras--;
        clock->in_ns = false;
    }
    clock->era[clock->eras++] = clock->count - 1;
}

/* The newest anchor, which begins an era, counts as the time stamp counter does: an earlier reading
 * of that is an anchor of the era, too. */
static void add_reading(struct col_gpu_clock *clock)
{
    uint32_t last = clock->count - 1;
    if (!clock->tsc || clock->monotonic[last] - clock->tsc_at < APART_NS)
        return;
    clock->cupti[clock->count] = clock->cupti[last];
    clock->monotonic[clock->count++] = clock->monotonic[last];
    clock->cupti[last] = clock->tsc;
    clock->monotonic[last] = clock->tsc_at;
}

void col_gpu_clock_add(struct col_gpu_clock *clock, int64_t cupti, int64_t monotonic, int64_t tsc)
{
    if (clock->count && monotonic - clock->monotonic[clock->count - 1] < APART_NS &&
        cupti >= clock->cupti[clock->count - 1])
        return;
    if (clock->count + 1 >= WIRE_GPU_ANCHORS)
        forget_oldest(clock);
    clock->cupti[clock->count] = cupti;
    clock->monotonic[clock->count++] = monotonic;
    clock->ticks = tsc && cupti > tsc - SAME_TICKS && cupti < tsc + SAME_TICKS;
    bool begins = !clock->eras || breaks(clock);
    if (begins)
        begin_era(clock);
    if (begins && clock->ticks)
        add_reading(clock);
    if (!clock->tsc || monotonic - clock->tsc_at > READING_NS) {
        clock->tsc = tsc;
        clock->tsc_at = monotonic;
    }
}

void col_gpu_clock_read(struct col_gpu_clock *clock, const struct wire_gpu *gpu)
{
    uint32_t taken = atomic_load_explicit(&gpu->anchors, memory_order_acquire);
    if (taken - clock->seen > WIRE_GPU_ANCHORS - 8)
        clock->seen = taken - (WIRE_GPU_ANCHORS - 8);
    for (; clock->seen != taken; clock->seen++) {
        const struct wire_gpu_anchor *anchor = &gpu->anchor[clock->seen % WIRE_GPU_ANCHORS];
        bool is_time = anchor->cupti <= MOST_TIME && anchor->monotonic >= 0 &&
                       anchor->monotonic <= MOST_TIME && anchor->tsc <= MOST_TIME;
        if (is_time)
            col_gpu_clock_add(clock, (int64_t)anchor->cupti, anchor->monotonic,
                              (int64_t)anchor->tsc);
    }
}

static uint32_t era_end(const struct col_gpu_clock *clock, uint32_t era)
{
    return era + 1 < clock->eras ? clock->era[era + 1] : clock->count;
}

/* The era that a time lies in, if its rate is known. Two anchors give it; in the first era one is
 * enough if the clock is CUPTI's own, which counts ns. NO_ERA: none. */
static uint32_t era_of(const struct col_gpu_clock *clock, uint64_t time)
{
    int64_t at = time > INT64_MAX ? INT64_MAX : (int64_t)time;
    for (uint32_t era = clock->eras; era-- > 0;) {
        uint32_t first = clock->era[era], end = era_end(clock, era);
        bool known = end - first > 1 || (era == 0 && clock->in_ns);
        if (known && at >= clock->cupti[first] - SLACK_NS && at <= clock->cupti[end - 1] + SLACK_NS)
            return era;
    }
    return NO_ERA;
}

bool col_gpu_clock_knows(const struct col_gpu_clock *clock, uint64_t time)
{
    return !time || era_of(clock, time) != NO_ERA;
}

int64_t col_gpu_clock_ns(const struct col_gpu_clock *clock, uint64_t time)
{
    uint32_t era = era_of(clock, time);
    if (era == NO_ERA)
        return STORE_ABSENT;
    int64_t ticks_at = (int64_t)time;
    uint32_t low = clock->era[era], high = era_end(clock, era) - 1;
    if (high == low)
        return clock->monotonic[low] + (ticks_at - clock->cupti[low]);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (clock->cupti[middle] <= ticks_at)
            low = middle;
        else
            high = middle;
    }
    int64_t ticks = clock->cupti[high] - clock->cupti[low],
            elapsed = clock->monotonic[high] - clock->monotonic[low];
    if (ticks <= 0)
        return clock->monotonic[low] + (ticks_at - clock->cupti[low]);
    /* The product needs more than 64 bits, and more digits than a double has. */
    wide at = clock->monotonic[low] + (wide)(ticks_at - clock->cupti[low]) * elapsed / ticks;
    if (at < 0 || at > MOST_TIME)
        return STORE_ABSENT; /* of anchors that were overwritten */
    return (int64_t)at;
}

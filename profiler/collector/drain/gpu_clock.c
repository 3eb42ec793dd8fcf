/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "profiler/collector/drain/gpu.h"

__extension__ typedef __int128 wide;

#define SLACK_NS \
    5000000000ll /* a record may be this much older or newer than the anchors of its era */

static double rate(const struct col_gpu_clock *clock, uint32_t i)
{
    int64_t ns = clock->monotonic[i + 1] - clock->monotonic[i];
    return ns > 0 ? (double)(clock->cupti[i + 1] - clock->cupti[i]) / (double)ns : 0;
}

/* Does the newest anchor break with its era? */
static bool breaks(const struct col_gpu_clock *clock)
{
    uint32_t n = clock->count, first = clock->era[clock->eras - 1];
    if (n < 2 || n - 1 == first)
        return false;
    double r = rate(clock, n - 2);
    if (r < 0.1 || r > 10)
        return true;
    if (n - 2 == first)
        return false;
    double before = rate(clock, n - 3);
    return r < before * 0.99 || r > before * 1.01;
}

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
}

void col_gpu_clock_add(struct col_gpu_clock *clock, int64_t cupti, int64_t monotonic)
{
    if (clock->count && monotonic - clock->monotonic[clock->count - 1] < 1000000 &&
        cupti >= clock->cupti[clock->count - 1])
        return; /* too near for a slope */
    if (clock->count == WIRE_GPU_ANCHORS)
        forget_oldest(clock);
    clock->cupti[clock->count] = cupti;
    clock->monotonic[clock->count++] = monotonic;
    if (!clock->eras)
        clock->eras = 1, clock->era[0] = 0;
    if (!breaks(clock))
        return;
    if (clock->eras == COL_GPU_ERAS) {
        memmove(clock->era, clock->era + 1, (COL_GPU_ERAS - 1) * sizeof *clock->era);
        clock->eras--;
    }
    clock->era[clock->eras++] = clock->count - 1;
}

void col_gpu_clock_read(struct col_gpu_clock *clock, const struct wire_gpu *gpu)
{
    uint32_t taken = atomic_load_explicit(&gpu->anchors, memory_order_acquire);
    if (taken - clock->seen > WIRE_GPU_ANCHORS - 8)
        clock->seen = taken - (WIRE_GPU_ANCHORS - 8);
    for (; clock->seen != taken; clock->seen++) {
        const struct wire_gpu_anchor *gpu_anchor = &gpu->anchor[clock->seen % WIRE_GPU_ANCHORS];
        if (gpu_anchor->cupti <= INT64_MAX)
            col_gpu_clock_add(clock, (int64_t)gpu_anchor->cupti, gpu_anchor->monotonic);
    }
}

static uint32_t era_end(const struct col_gpu_clock *clock, uint32_t e)
{
    return e + 1 < clock->eras ? clock->era[e + 1] : clock->count;
}

static uint32_t era_of(const struct col_gpu_clock *clock, int64_t t)
{
    for (uint32_t e = clock->eras; e-- > 0;) {
        uint32_t first = clock->era[e], end = era_end(clock, e);
        if (t >= clock->cupti[first] - SLACK_NS && t <= clock->cupti[end - 1] + SLACK_NS)
            return e;
    }
    return clock->eras - 1;
}

int64_t col_gpu_clock_ns(const struct col_gpu_clock *clock, uint64_t time)
{
    if (!clock->count || time > INT64_MAX)
        return STORE_ABSENT;
    int64_t t = (int64_t)time;
    uint32_t e = era_of(clock, t), low = clock->era[e], high = era_end(clock, e) - 1;
    if (high == low)
        return clock->monotonic[low] + (t - clock->cupti[low]);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (clock->cupti[middle] <= t)
            low = middle;
        else
            high = middle;
    }
    int64_t dx = clock->cupti[high] - clock->cupti[low],
            dy = clock->monotonic[high] - clock->monotonic[low];
    if (dx <= 0)
        return clock->monotonic[low] + (t - clock->cupti[low]);
    /* the product needs more than 64 bits, and more than a double has */
    return clock->monotonic[low] + (int64_t)((wide)(t - clock->cupti[low]) * dy / dx);
}

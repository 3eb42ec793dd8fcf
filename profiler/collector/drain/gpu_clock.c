/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "profiler/collector/drain/gpu.h"

__extension__ typedef __int128 wide;

#define SLACK_NS \
    5000000000ll /* a record may be this much older or newer than the anchors of its era */

static double rate(const struct col_gpu_clock *c, uint32_t i)
{
    int64_t ns = c->monotonic[i + 1] - c->monotonic[i];
    return ns > 0 ? (double)(c->cupti[i + 1] - c->cupti[i]) / (double)ns : 0;
}

/* Does the newest anchor break with its era? */
static bool breaks(const struct col_gpu_clock *c)
{
    uint32_t n = c->count, first = c->era[c->eras - 1];
    if (n < 2 || n - 1 == first)
        return false;
    double r = rate(c, n - 2);
    if (r < 0.1 || r > 10)
        return true;
    if (n - 2 == first)
        return false;
    double before = rate(c, n - 3);
    return r < before * 0.99 || r > before * 1.01;
}

static void forget_oldest(struct col_gpu_clock *c)
{
    uint32_t drop = c->count / 2, kept = 0;
    memmove(c->cupti, c->cupti + drop, (c->count - drop) * sizeof *c->cupti);
    memmove(c->monotonic, c->monotonic + drop, (c->count - drop) * sizeof *c->monotonic);
    c->count -= drop;
    for (uint32_t i = 0; i < c->eras; i++) {
        uint32_t next = i + 1 < c->eras ? c->era[i + 1] : UINT32_MAX;
        if (next > drop)
            c->era[kept++] = c->era[i] > drop ? c->era[i] - drop : 0;
    }
    c->eras = kept;
}

void col_gpu_clock_add(struct col_gpu_clock *c, int64_t cupti, int64_t monotonic)
{
    if (c->count && monotonic - c->monotonic[c->count - 1] < 1000000 &&
        cupti >= c->cupti[c->count - 1])
        return; /* too near for a slope */
    if (c->count == WIRE_GPU_ANCHORS)
        forget_oldest(c);
    c->cupti[c->count] = cupti;
    c->monotonic[c->count++] = monotonic;
    if (!c->eras)
        c->eras = 1, c->era[0] = 0;
    if (!breaks(c))
        return;
    if (c->eras == COL_GPU_ERAS) {
        memmove(c->era, c->era + 1, (COL_GPU_ERAS - 1) * sizeof *c->era);
        c->eras--;
    }
    c->era[c->eras++] = c->count - 1;
}

void col_gpu_clock_read(struct col_gpu_clock *c, const struct wire_gpu *g)
{
    uint32_t taken = atomic_load_explicit(&g->anchors, memory_order_acquire);
    if (taken - c->seen > WIRE_GPU_ANCHORS - 8)
        c->seen = taken - (WIRE_GPU_ANCHORS - 8);
    for (; c->seen != taken; c->seen++) {
        const struct wire_gpu_anchor *a = &g->anchor[c->seen % WIRE_GPU_ANCHORS];
        if (a->cupti <= INT64_MAX)
            col_gpu_clock_add(c, (int64_t)a->cupti, a->monotonic);
    }
}

static uint32_t era_end(const struct col_gpu_clock *c, uint32_t e)
{
    return e + 1 < c->eras ? c->era[e + 1] : c->count;
}

static uint32_t era_of(const struct col_gpu_clock *c, int64_t t)
{
    for (uint32_t e = c->eras; e-- > 0;) {
        uint32_t first = c->era[e], end = era_end(c, e);
        if (t >= c->cupti[first] - SLACK_NS && t <= c->cupti[end - 1] + SLACK_NS)
            return e;
    }
    return c->eras - 1;
}

int64_t col_gpu_clock_ns(const struct col_gpu_clock *c, uint64_t time)
{
    if (!c->count || time > INT64_MAX)
        return STORE_ABSENT;
    int64_t t = (int64_t)time;
    uint32_t e = era_of(c, t), low = c->era[e], high = era_end(c, e) - 1;
    if (high == low)
        return c->monotonic[low] + (t - c->cupti[low]);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->cupti[middle] <= t)
            low = middle;
        else
            high = middle;
    }
    int64_t dx = c->cupti[high] - c->cupti[low], dy = c->monotonic[high] - c->monotonic[low];
    if (dx <= 0)
        return c->monotonic[low] + (t - c->cupti[low]);
    /* the product needs more than 64 bits, and more than a double has */
    return c->monotonic[low] + (int64_t)((wide)(t - c->cupti[low]) * dy / dx);
}

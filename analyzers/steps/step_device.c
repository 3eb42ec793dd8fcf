/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on accelerators (DESIGN 5): the host runs ahead, so step k of a device lasts from the first
 * compute kernel launched in host step k to that of k + 1; the last one to the end of the last op
 * launched in it. Each device of a process with steps is a lane of its own; the host steps are
 * those of the thread that launched most on the device, else of the process's first thread with
 * steps.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/step_source.h"

/* Ops of device d that a thread launched. */
static size_t launched_by(const struct an_context *c, const struct an_device *d,
                          const struct an_track *thread)
{
    size_t n = 0;
    for (size_t i = d->first; i < d->first + d->count; i++) {
        uint32_t launch = c->gpu->op.launch[i];
        n += launch != AN_NONE && launch >= thread->slice_first &&
             launch - thread->slice_first < thread->slice_count;
    }
    return n;
}

/* Lane of the host whose steps are those of device d; lane_count: the process marked none. */
static size_t host_lane(const struct an_context *c, const struct an_device *d)
{
    size_t best = c->lane_count, most = 0;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_lane *l = &c->lane[k];
        if (l->process != d->process)
            continue;
        size_t n = l->track == AN_NONE ? 0 : launched_by(c, d, &c->t->track[l->track]);
        if (best == c->lane_count || n > most) {
            best = k;
            most = n;
        }
    }
    return best;
}

static bool is_compute_kernel(const struct an_context *c, uint32_t op)
{
    return (AN_DEVICE_COMPUTE_MASK & ~(1u << AN_DEVICE_MEMSET)) >> c->gpu->op.class[op] & 1;
}

/* Start on device d of the first compute kernel launched in [start, end), STORE_ABSENT: none was.
 */
static int64_t first_kernel(const struct an_context *c, size_t d, int64_t start, int64_t end)
{
    const struct an_devices *g = c->gpu;
    size_t last = g->device[d].first + g->by_launch_known[d];
    for (size_t i = an_device_launch_seek(c, d, start); i < last; i++) {
        uint32_t op = g->by_launch[i];
        if (an_device_launch_time(c, op) >= end)
            break;
        if (is_compute_kernel(c, op))
            return g->op.start[op];
    }
    return STORE_ABSENT;
}

static int64_t last_end(const struct an_context *c, size_t d, int64_t start, int64_t end)
{
    const struct an_devices *g = c->gpu;
    int64_t latest = STORE_ABSENT;
    for (size_t i = an_device_launch_seek(c, d, start), last = an_device_launch_seek(c, d, end);
         i < last; i++) {
        int64_t e = g->op.end[g->by_launch[i]];
        latest = latest == STORE_ABSENT || e > latest ? e : latest;
    }
    return latest;
}

/* Times of the steps of a lane on its device. */
static void place(struct an_context *c, const struct an_lane *l)
{
    struct an_step *next = NULL;
    for (size_t i = l->first + l->count; i-- > l->first;) {
        struct an_step *s = &c->step[i];
        bool ended = s->host_end != STORE_ABSENT && s->host_end > s->host_start;
        int64_t start =
            ended ? first_kernel(c, l->device, s->host_start, s->host_end) : STORE_ABSENT;
        s->end = STORE_ABSENT;
        if (start == STORE_ABSENT) {
            s->excluded = ended ? "no kernel" : NULL; /* without an end it is excluded as that */
            s->start = s->host_start;
            continue;
        }
        s->start = start;
        int64_t end = next ? next->start : last_end(c, l->device, s->host_start, s->host_end);
        s->end = end > start ? end : STORE_ABSENT;
        next = s;
    }
}

static bool has_device(const struct an_context *c, uint32_t process)
{
    for (size_t d = 0; d < c->gpu->device_count; d++)
        if (c->gpu->device[d].process == process && c->gpu->device[d].count)
            return true;
    return false;
}

int an_steps_project(struct an_context *c)
{
    const struct an_devices *g = c->gpu;
    size_t lanes = 0, steps = 0, host_lanes = c->lane_count;
    struct an_lane *host = c->lane;
    const struct an_step *host_step = c->step;
    size_t *source = an_arena_zero(c->work, host_lanes + g->device_count, sizeof *source);
    uint32_t *device = an_arena_zero(c->work, host_lanes + g->device_count, sizeof *device);
    if (!source || !device)
        return TACHO_ENOMEM;
    for (size_t k = 0; k < host_lanes; k++) /* processes without an accelerator keep theirs */
        if (!has_device(c, host[k].process)) {
            device[lanes] = AN_NONE;
            source[lanes++] = k;
        }
    for (size_t d = 0; d < g->device_count; d++) {
        size_t k = g->device[d].count ? host_lane(c, &g->device[d]) : host_lanes;
        if (k == host_lanes)
            continue;
        device[lanes] = (uint32_t)d;
        source[lanes++] = k;
    }
    for (size_t k = 0; k < lanes; k++)
        steps += host[source[k]].count;
    c->lane = an_arena_zero(c->work, lanes, sizeof *c->lane);
    c->step = an_arena_zero(c->work, steps, sizeof *c->step);
    c->lane_count = 0;
    c->step_count = steps;
    if (!c->lane || !c->step)
        return TACHO_ENOMEM;
    steps = 0;
    for (size_t k = 0; k < lanes; k++) {
        struct an_lane *l = &c->lane[c->lane_count++];
        const struct an_lane *from = &host[source[k]];
        *l = *from;
        l->first = steps;
        l->device = device[k];
        l->rank = device[k] == AN_NONE ? from->rank : g->device[device[k]].rank;
        for (size_t i = 0; i < from->count; i++) {
            c->step[steps] = host_step[from->first + i];
            c->step[steps++].lane = (uint32_t)k;
        }
        if (l->device != AN_NONE)
            place(c, l);
    }
    return 0;
}

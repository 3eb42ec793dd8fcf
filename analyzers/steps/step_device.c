/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on accelerators (docs/definitions.md): the host runs ahead, so step k of a device lasts
 * from the first compute kernel launched in host step k to that of k + 1; the last one to the end
 * of the last op launched in it, or as long as on the host if that is next to nothing of it. Each
 * device of a process with steps is a lane of its own; the host steps are those of the thread that
 * launched most on the device, else of the process's first thread with steps.
 */
#include <stdlib.h>

#include "analyzers/steps/step_private.h"

#define LITTLE_PART 10 /* less than this part of the host's step is next to nothing */

/* Ops of device d that a thread launched. */
static size_t launched_by(const struct an_context *context, const struct an_device *device,
                          const struct an_track *thread)
{
    size_t count = 0;
    for (size_t i = device->first; i < an_device_end(device); i++) {
        uint32_t launch = context->gpu->op.launch[i];
        count += launch != AN_NONE && launch >= thread->slice_first &&
                 launch - thread->slice_first < thread->slice_count;
    }
    return count;
}

/* Lane of the host whose steps are those of device d; lane_count: the process marked none. */
static size_t host_lane(const struct an_context *context, const struct an_device *device)
{
    size_t best = context->lane_count, most = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[k];
        if (lane->process != device->process)
            continue;
        size_t launched = lane->track == AN_NONE
                              ? 0
                              : launched_by(context, device, &context->trace->track[lane->track]);
        if (best == context->lane_count || launched > most) {
            best = k;
            most = launched;
        }
    }
    return best;
}

static bool is_compute_kernel(const struct an_context *context, uint32_t op)
{
    return (AN_DEVICE_COMPUTE_MASK & ~(1u << AN_DEVICE_MEMSET)) >> context->gpu->op.class[op] & 1;
}

/* Start on device d of the first compute kernel launched in [start, end), STORE_ABSENT: none
 * was. */
static int64_t first_kernel(const struct an_context *context, size_t device, int64_t start,
                            int64_t end)
{
    const struct an_devices *devices = context->gpu;
    size_t last = devices->device[device].first + devices->by_launch_known[device];
    for (size_t i = an_device_launch_seek(context->gpu, device, start); i < last; i++) {
        uint32_t op = devices->by_launch[i];
        if (an_device_launch_time(context->gpu, op) >= end)
            break;
        if (is_compute_kernel(context, op))
            return devices->op.start[op];
    }
    return STORE_ABSENT;
}

static int64_t last_end(const struct an_context *context, size_t device, int64_t start, int64_t end)
{
    const struct an_devices *devices = context->gpu;
    int64_t latest = STORE_ABSENT;
    for (size_t i = an_device_launch_seek(context->gpu, device, start),
                last = an_device_launch_seek(context->gpu, device, end);
         i < last; i++) {
        int64_t op_end = devices->op.end[devices->by_launch[i]];
        latest = latest == STORE_ABSENT || op_end > latest ? op_end : latest;
    }
    return latest;
}

/* Where the last step ends on the device that starts there at `start`: with its last op. If that
 * leaves next to nothing of the host's step, the device idles for the rest of it, or its ops are
 * not in the file: the step lasts as long as on the host.
 */
static int64_t end_of_last(const struct an_context *context, size_t device,
                           const struct an_step *step, int64_t start)
{
    int64_t host_ns = an_time_sub(step->host_end, step->host_start), t1 = context->trace->t1,
            end = last_end(context, device, step->host_start, step->host_end),
            until = an_time_add(start, host_ns) < t1 ? an_time_add(start, host_ns) : t1;
    return end == STORE_ABSENT || an_time_sub(end, start) >= host_ns / LITTLE_PART || until < end
               ? end
               : until;
}

/* Sets the times of the steps of a lane on its device. It walks backwards, because a step ends
 * where the next one starts. */
static void place_steps(struct an_context *context, const struct an_lane *lane)
{
    struct an_step *next = NULL;
    bool last = true;
    for (size_t i = an_lane_end(lane); i-- > lane->first;) {
        struct an_step *step = &context->step[i];
        bool ended = step->host_end != STORE_ABSENT && step->host_end > step->host_start;
        int64_t start = ended
                            ? first_kernel(context, lane->device, step->host_start, step->host_end)
                            : STORE_ABSENT;
        step->end = STORE_ABSENT;
        if (start == STORE_ABSENT) {
            step->excluded = ended ? "no kernel" : NULL; /* without an end it is excluded as that */
            step->start = step->host_start;
            next = NULL;
            continue;
        }
        step->start = start;
        int64_t end = next   ? next->start
                      : last ? end_of_last(context, lane->device, step, start)
                             : last_end(context, lane->device, step->host_start, step->host_end);
        last = false;
        step->end = end > start ? end : STORE_ABSENT;
        next = step;
    }
}

/* Says that steps are not exact where kernels were assigned to them without their launches. */
static void note_launches(struct an_context *context, const struct an_lane *lane)
{
    if (lane->track == AN_NONE ||
        an_device_is_launched(context->gpu, &context->gpu->device[lane->device]))
        return;
    context->result->steps.confidence = AN_LOW;
    context->result->steps.note =
        "the launches of nearly all kernels are not in the file: a step begins with the first "
        "kernel that starts in it, though the host may have launched that one in an earlier step";
}

static bool has_device(const struct an_context *context, uint32_t process)
{
    for (size_t i = 0; i < context->gpu->device_count; i++)
        if (context->gpu->device[i].process == process && context->gpu->device[i].count)
            return true;
    return false;
}

/* A lane to be made: the host's lane whose steps it has, and its device. */
struct new_lane {
    size_t host;
    uint32_t device; /* AN_NONE: it stays on the thread */
};

/* Lists the lanes to be made: those of processes without an accelerator as they are, then one for
 * each device of a process that marked steps. `out` has room for all; returns how many there are.
 */
static size_t list_lanes(const struct an_context *context, struct new_lane *out)
{
    size_t count = 0;
    for (size_t k = 0; k < context->lane_count; k++)
        if (!has_device(context, context->lane[k].process))
            out[count++] = (struct new_lane){k, AN_NONE};
    for (size_t i = 0; i < context->gpu->device_count; i++) {
        const struct an_device *device = &context->gpu->device[i];
        size_t host = device->count ? host_lane(context, device) : context->lane_count;
        if (host < context->lane_count)
            out[count++] = (struct new_lane){host, (uint32_t)i};
    }
    return count;
}

int an_steps_project(struct an_context *context)
{
    const struct an_devices *devices = context->gpu;
    const struct an_lane *host = context->lane;
    const struct an_step *host_step = context->step;
    struct new_lane *made =
        an_arena_zero(context->scratch, context->lane_count + devices->device_count, sizeof *made);
    if (!made)
        return TACHO_ENOMEM;
    size_t lanes = list_lanes(context, made), steps = 0;
    for (size_t k = 0; k < lanes; k++)
        steps += host[made[k].host].count;
    context->lane = an_arena_zero(context->scratch, lanes, sizeof *context->lane);
    context->step = an_arena_zero(context->scratch, steps, sizeof *context->step);
    context->lane_count = 0;
    context->step_count = steps;
    if (!context->lane || !context->step)
        return TACHO_ENOMEM;
    steps = 0;
    for (size_t k = 0; k < lanes; k++) {
        struct an_lane *lane = &context->lane[context->lane_count++];
        *lane = host[made[k].host];
        const struct an_step *from = &host_step[lane->first];
        lane->first = steps;
        lane->device = made[k].device;
        for (size_t i = 0; i < lane->count; i++) {
            context->step[steps] = from[i];
            context->step[steps++].lane = (uint32_t)k;
        }
        if (lane->device == AN_NONE)
            continue;
        lane->rank = devices->device[lane->device].rank;
        place_steps(context, lane);
        note_launches(context, lane);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of found steps, and how it becomes the lanes and steps of the context. The sources of
 * steps (step_source.c, step_kernels.c) fill it.
 */
#include <stdlib.h>

#include "analyzers/steps/step_private.h"

int an_found_add(struct finder *finder, struct found_step found_step)
{
    int rc = an_grow(&finder->found, &finder->room, finder->count + 1, sizeof *finder->found);
    if (!rc)
        finder->found[finder->count++] = found_step;
    return rc;
}

static int found_order(const void *first, const void *second, void *ctx)
{
    (void)ctx;
    const struct found_step *left = first, *right = second;
    return 8 * AN_COMPARE(left->process, right->process) +
           4 * AN_COMPARE(left->track, right->track) +
           2 * AN_COMPARE(left->step.start, right->step.start) +
           AN_COMPARE(left->step.index, right->step.index);
}

/* Is a found step the first of its thread? */
static bool opens_lane(const struct finder *finder, size_t i)
{
    return !i || finder->found[i].process != finder->found[i - 1].process ||
           finder->found[i].track != finder->found[i - 1].track;
}

/* Appends the lane of the thread whose first step is found[first]. */
static void add_lane(struct finder *finder, size_t first)
{
    struct an_context *context = finder->context;
    const struct found_step *step = &finder->found[first];
    int64_t rank =
        step->process != AN_NONE ? context->trace->process[step->process].rank : STORE_ABSENT;
    context->lane[context->lane_count] =
        (struct an_lane){.process = step->process,
                         .track = step->track,
                         .device = AN_NONE,
                         .first = first,
                         .rank = rank == STORE_ABSENT ? (int64_t)context->lane_count : rank};
    context->lane_count++;
}

/* Sorts the found steps by process, thread and start, and makes a lane of every thread. A process
 * without a rank gets the number of its lane. */
int an_found_lanes(struct finder *finder)
{
    struct an_context *context = finder->context;
    size_t lanes = 0;
    if (!finder->count)
        return 0;
    an_order(finder->found, finder->count, sizeof *finder->found, found_order, NULL);
    for (size_t i = 0; i < finder->count; i++)
        lanes += opens_lane(finder, i);
    context->step = an_arena_zero(context->scratch, finder->count, sizeof *context->step);
    context->lane = an_arena_zero(context->scratch, lanes, sizeof *context->lane);
    if (!context->step || !context->lane)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < finder->count; i++) {
        const struct found_step *found_step = &finder->found[i];
        if (opens_lane(finder, i))
            add_lane(finder, i);
        context->step[i] = found_step->step;
        context->step[i].host_start = found_step->step.start;
        context->step[i].host_end = found_step->step.end;
        context->step[i].lane = (uint32_t)(context->lane_count - 1);
        context->lane[context->lane_count - 1].count++;
    }
    context->step_count = finder->count;
    return 0;
}

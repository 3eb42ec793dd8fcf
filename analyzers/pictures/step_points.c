/* SPDX-License-Identifier: Apache-2.0
 *
 * Every step as a point of a trend (pictures.h). A long run has more steps than a picture has
 * columns: then neighbours of a lane are one point, the same number of them all over the run.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzers/base/radix.h"
#include "analyzers/steps/context.h"

static bool is_ended(const struct an_step *step)
{
    return step->end != STORE_ABSENT && step->end >= step->start;
}

/* Number of points when `each` steps become one. */
static size_t points_of(const struct an_context *context, size_t each)
{
    size_t points = 0;
    for (size_t k = 0; k < context->lane_count; k++) {
        size_t ended = 0;
        for (size_t i = context->lane[k].first; i < context->lane[k].first + context->lane[k].count;
             i++)
            ended += is_ended(&context->step[i]);
        points += (ended + each - 1) / each;
    }
    return points;
}

/* Sums of the steps that become one point: of those that the statistics count, else of all. */
struct group {
    const struct an_step *first, *last;
    int64_t steps, counted, with_tokens, detailed;
    double ns, worst_ns, tokens, tokens_ns, class_ns[AN_CLASS_COUNT];
    const char *excluded;
};

/* Adds a step. The first one that counts removes the sums of excluded steps before it. */
static void group_add(struct group *group, const struct an_step *step)
{
    double ns = (double)an_step_ns(step);
    if (!group->steps++)
        group->first = step;
    group->last = step;
    if (!step->excluded && !group->counted)
        *group = (struct group){.first = group->first, .last = step, .steps = group->steps};
    group->counted += !step->excluded;
    if (step->excluded && group->counted)
        return;
    group->excluded = step->excluded;
    group->ns += ns;
    group->worst_ns = fmax(group->worst_ns, ns);
    if (step->tokens != STORE_ABSENT && ns > 0) {
        group->with_tokens++;
        group->tokens += (double)step->tokens;
        group->tokens_ns += ns;
    }
    if (step->detailed) {
        group->detailed++;
        for (int k = 0; k < AN_CLASS_COUNT; k++)
            group->class_ns[k] += (double)step->class_ns[k];
    }
}

/* The point of a group: means over its counted steps, or over all of them where none is counted. */
static struct an_step_point point_of(const struct an_context *context, const struct an_lane *lane,
                                     const struct group *group)
{
    int64_t steps = group->counted ? group->counted : group->steps;
    struct an_step_point point = {
        .rank = lane->rank,
        .process =
            lane->process == AN_NONE ? STORE_ABSENT : context->trace->process[lane->process].id,
        .index = group->first->index,
        .start_ns = group->first->start,
        .end_ns = group->last->end,
        .host_start_ns = group->first->host_start,
        .host_end_ns = group->last->host_end,
        .steps = group->steps,
        .start_s = (double)an_time_sub(group->first->start, context->trace->t0) / 1e9,
        .ms = group->ns / (double)steps / 1e6,
        .worst_ms = group->worst_ns / 1e6,
        .tokens_per_s = group->with_tokens ? group->tokens / group->tokens_ns * 1e9 : NAN,
        .excluded = group->excluded,
        .detailed = group->detailed > 0};
    for (int k = 0; k < AN_CLASS_COUNT && group->detailed; k++)
        point.class_ms[k] = group->class_ns[k] / (double)group->detailed / 1e6;
    return point;
}

static int rank_order(const void *left, const void *right)
{
    const struct an_pair *first = left, *second = right;
    if (first->key != second->key)
        return first->key < second->key ? -1 : 1;
    return (first->value > second->value) - (first->value < second->value);
}

/* Joins as many neighbouring steps of a lane into a point as keeps the number of points bounded. */
static int step_points_run(struct an_context *context)
{
    size_t each = 1, count = 0, kept;
    while ((kept = points_of(context, each)) > AN_STEP_POINTS_MOST && each < context->step_count)
        each *= 2;
    struct an_step_point *point = an_arena_zero(context->arena, kept, sizeof *point);
    struct an_pair *lanes = an_arena_zero(context->scratch, context->lane_count, sizeof *lanes);
    if (!point || !lanes)
        return TACHO_ENOMEM;
    for (uint32_t k = 0; k < context->lane_count; k++)
        lanes[k] = (struct an_pair){.key = an_pair_key(context->lane[k].rank), .value = k};
    qsort(lanes, context->lane_count, sizeof *lanes, rank_order);
    for (size_t k = 0; k < context->lane_count; k++) {
        const struct an_lane *lane = &context->lane[lanes[k].value];
        struct group group = {0};
        for (size_t i = lane->first; i < lane->first + lane->count; i++) {
            if (!is_ended(&context->step[i]))
                continue;
            group_add(&group, &context->step[i]);
            if ((size_t)group.steps == each) {
                point[count++] = point_of(context, lane, &group);
                group = (struct group){0};
            }
        }
        if (group.steps)
            point[count++] = point_of(context, lane, &group);
    }
    context->result->step_points = point;
    context->result->step_point_count = count;
    return 0;
}

static void step_points_absent(struct an_context *context, const char *reason)
{
    (void)context; /* the verdict says why there are no steps */
    (void)reason;
}

const struct an_analyzer an_step_points = {
    .name = "step_points",
    .help = "every step as a point of a trend",
    .after = "steps, budget",
    .needs = AN_INPUT_STEPS,
    .run = step_points_run,
    .absent = step_points_absent,
};

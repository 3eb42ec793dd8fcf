/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a step (docs/definitions.md). On a thread a stage is the outermost range that says
 * what it is; time between two ranges of one stage belongs to it where they are close together,
 * other time between ranges to the host; communication inside of another stage, such as the wait of
 * DistributedDataParallel for its gradients at the end of backward, belongs to communication. On a
 * device a compute op belongs to the optimizer if a range of the optimizer launched it, to backward
 * if a thread other than that of the step launched it (autograd runs backward there), else to
 * forward. Time of a stage that comes again (micro-steps) adds up.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzers/ranks/ranks_compare.h"

const char *an_stage_key(enum an_step_stage stage)
{
    static const char *const keys[] = {
#define STAGE_KEY(name, key) key,
        AN_STAGE_MAP(STAGE_KEY)
#undef STAGE_KEY
    };
    return stage < AN_STAGE_COUNT ? keys[stage] : "";
}

bool an_stage_named(const char *key, enum an_step_stage *out)
{
    for (*out = 0; *out < AN_STAGE_COUNT; (*out)++)
        if (!strcmp(key, an_stage_key(*out)))
            return true;
    return false;
}

/* ---- which stage ---------------------------------------------------------------------------------------------------------- */

/* The stage that the first word of a name says; AN_STAGE_COUNT: none. */
static enum an_step_stage stage_of_name(const char *name)
{
    static const struct {
        const char *word;
        enum an_step_stage stage;
    } words[] = {{"forward", AN_STAGE_FORWARD},          {"fwd", AN_STAGE_FORWARD},
                 {"backward", AN_STAGE_BACKWARD},        {"bwd", AN_STAGE_BACKWARD},
                 {"optimizer", AN_STAGE_OPTIMIZER},      {"optim", AN_STAGE_OPTIMIZER},
                 {"optimizer_step", AN_STAGE_OPTIMIZER}, {"forward_step", AN_STAGE_FORWARD},
                 {"backward_step", AN_STAGE_BACKWARD}};
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && !strncasecmp(name, words[i].word, length))
            return words[i].stage;
    return AN_STAGE_COUNT;
}

static enum an_step_stage stage_of_pass(const char *pass)
{
    if (!strcmp(pass, "forward"))
        return AN_STAGE_FORWARD;
    if (!strcmp(pass, "backward") || !strcmp(pass, "recompute"))
        return AN_STAGE_BACKWARD;
    return strcmp(pass, "optimizer") ? AN_STAGE_COUNT : AN_STAGE_OPTIMIZER;
}

/* The stage that the name of a range says; every name was looked at once. */
static enum an_step_stage stage_by_name(const struct an_stage_map *map, size_t slice)
{
    uint32_t name = map->context->trace->slice.name[slice];
    return name < map->context->trace->string_count ? (enum an_step_stage)map->name[name]
                                                    : AN_STAGE_COUNT;
}

/* The stage that a range says by its role, its pass or its name; AN_STAGE_COUNT: none. */
static enum an_step_stage stage_of(const struct an_stage_map *map, size_t slice)
{
    const struct an_trace *trace = map->context->trace;
    const struct an_detail *detail = an_trace_detail(trace, trace->slice.detail[slice]);
    if (an_role_is_input(an_slice_role(trace, slice)))
        return AN_STAGE_INPUT;
    switch (an_slice_role(trace, slice)) {
    case AN_ROLE_COMM:
    case AN_ROLE_COMM_WAIT:
        return AN_STAGE_COMM;
    case AN_ROLE_WORK:
        return detail ? stage_of_pass(detail->pass) : AN_STAGE_COUNT;
    default:
        return stage_by_name(map, slice);
    }
}

/* ---- a step on a thread ------------------------------------------------------------------------------------------------------ */

/* Length of [start, end) without the phases (evaluation, checkpoints) in it. */
static int64_t without_phases(const struct an_lane *lane, int64_t start, int64_t end)
{
    return an_time_sub(an_time_sub(end, start),
                       an_spans_within(lane->cut, lane->cut_count, start, end));
}

static int add_span(struct an_stage_span **spans, size_t *count, size_t *room, int64_t start,
                    int64_t end, enum an_step_stage stage)
{
    if (an_grow(spans, room, *count + 1, sizeof **spans))
        return TACHO_ENOMEM;
    (*spans)[(*count)++] = (struct an_stage_span){start, end, stage};
    return 0;
}

/* Does a stage go on from its last range to the next one, so that the time between is its own, too?
 * Not over a gap longer than both, nor from one range of the optimizer over others to the next:
 * between Optimizer.zero_grad and Optimizer.step lie forward and backward. */
static bool goes_on(const struct an_stage_span *last, int64_t start, int64_t end, bool others)
{
    int64_t own = an_time_add(an_time_sub(last->end, last->start), an_time_sub(end, start));
    return an_time_sub(start, last->end) <= own && !(others && last->stage == AN_STAGE_OPTIMIZER);
}

int an_stage_spans(const struct an_stage_map *map, const struct an_step *step,
                   struct an_stage_span **out, size_t *count, size_t *room)
{
    const struct an_trace *trace = map->context->trace;
    const struct an_lane *lane = &map->context->lane[step->lane];
    const struct an_track *track = &trace->track[lane->track];
    int64_t covered = step->start;
    enum an_step_stage before = AN_STAGE_COUNT;
    bool others = false; /* behind `covered` lie ranges that say no stage */
    for (size_t i = an_slice_seek(trace, track, step->start);
         i < track->slice_first + track->slice_count && trace->slice.start[i] < step->end; i++) {
        if (i == step->slice || trace->slice.start[i] < covered || trace->slice.dur[i] == AN_OPEN)
            continue;
        enum an_step_stage stage = stage_of(map, i);
        others |= stage == AN_STAGE_COUNT;
        if (stage == AN_STAGE_COUNT)
            continue;
        int64_t end = an_slice_end(trace, i) < step->end ? an_slice_end(trace, i) : step->end;
        int64_t start = trace->slice.start[i];
        if (stage == before && goes_on(&(*out)[*count - 1], start, end, others))
            start = covered;
        if ((start > covered && add_span(out, count, room, covered, start, AN_STAGE_HOST)) ||
            add_span(out, count, room, start, end, stage))
            return TACHO_ENOMEM;
        covered = end;
        before = stage;
        others = false;
    }
    return add_span(out, count, room, covered, step->end, AN_STAGE_OTHER);
}

/* Time of communication in ranges that begin in this part of a step on the lane's thread. */
static int64_t communication_in(const struct an_stage_map *map, const struct an_lane *lane,
                                const struct an_stage_span *span)
{
    const struct an_trace *trace = map->context->trace;
    const struct an_track *track = &trace->track[lane->track];
    int64_t covered = span->start, ns = 0;
    for (size_t i = an_slice_seek(trace, track, span->start);
         i < track->slice_first + track->slice_count && trace->slice.start[i] < span->end; i++) {
        enum an_role role = an_slice_role(trace, i);
        if (trace->slice.start[i] < covered || trace->slice.dur[i] == AN_OPEN ||
            (role != AN_ROLE_COMM && role != AN_ROLE_COMM_WAIT))
            continue;
        covered = an_slice_end(trace, i) < span->end ? an_slice_end(trace, i) : span->end;
        ns += without_phases(lane, trace->slice.start[i], covered);
    }
    return ns;
}

/* Adds the stages of a step on a thread. */
static void add_thread_stages(const struct an_stage_map *map, const struct an_lane *lane,
                              const struct an_stage_span *span, size_t span_count,
                              int64_t ns[AN_STAGE_COUNT])
{
    for (size_t i = 0; i < span_count; i++) {
        enum an_step_stage stage = span[i].stage;
        bool computes =
            stage == AN_STAGE_FORWARD || stage == AN_STAGE_BACKWARD || stage == AN_STAGE_OPTIMIZER;
        int64_t inside = computes ? communication_in(map, lane, &span[i]) : 0;
        ns[stage] += without_phases(lane, span[i].start, span[i].end) - inside;
        ns[AN_STAGE_COMM] += inside;
    }
}

/* ---- a step on a device ------------------------------------------------------------------------------------------------------ */

/* Is a range on this thread? */
static bool on_track(const struct an_trace *trace, uint32_t track, size_t slice)
{
    const struct an_track *thread = &trace->track[track];
    return slice >= thread->slice_first && slice - thread->slice_first < thread->slice_count;
}

enum an_step_stage an_stage_of_op(const struct an_stage_map *map, const struct an_lane *lane,
                                  size_t op)
{
    const struct an_trace *trace = map->context->trace;
    uint32_t launch = map->context->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (launch == AN_NONE)
        return AN_STAGE_COMPUTE;
    for (uint32_t range = launch; range != AN_NONE && levels--; range = trace->slice.parent[range])
        if (stage_by_name(map, range) != AN_STAGE_COUNT && an_slice_open_at(trace, range, launch))
            return stage_by_name(map, range);
    if (lane->track == AN_NONE)
        return AN_STAGE_COMPUTE;
    return on_track(trace, lane->track, launch) ? AN_STAGE_FORWARD : AN_STAGE_BACKWARD;
}

/* Adds the stages of a step on a device: compute by what launched it, input and communication
 * from the budget, the rest as other. */
static void add_device_stages(const struct an_stage_map *map, const struct an_step *step,
                              int64_t ns[AN_STAGE_COUNT])
{
    const struct an_devices *devices = map->context->gpu;
    const struct an_lane *lane = &map->context->lane[step->lane];
    const struct an_device *device = &devices->device[lane->device];
    int64_t covered = step->start, rest = an_step_ns(step);
    for (size_t i = an_device_op_seek(devices, device, step->start);
         i < device->first + device->count && devices->op.start[i] < step->end; i++) {
        int64_t from = devices->op.start[i] > covered ? devices->op.start[i] : covered;
        int64_t end = devices->op.end[i] < step->end ? devices->op.end[i] : step->end;
        if (!(1u << devices->op.class[i] & AN_DEVICE_COMPUTE_MASK) || end <= from)
            continue;
        ns[an_stage_of_op(map, lane, i)] += without_phases(lane, from, end);
        covered = end;
    }
    ns[AN_STAGE_INPUT] += step->class_ns[AN_CLASS_INPUT];
    ns[AN_STAGE_COMM] += step->class_ns[AN_CLASS_COMM];
    if (!ns[AN_STAGE_BACKWARD]) { /* one thread launches everything */
        ns[AN_STAGE_COMPUTE] += ns[AN_STAGE_FORWARD];
        ns[AN_STAGE_FORWARD] = 0;
    }
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        rest -= ns[stage];
    ns[AN_STAGE_OTHER] = rest;
}

int an_stage_map_of(struct an_context *context, struct an_stage_map *out)
{
    *out = (struct an_stage_map){
        .context = context,
        .name = an_arena_zero(context->scratch, context->trace->string_count + 1, 1)};
    for (size_t i = 0; out->name && i < context->trace->string_count; i++)
        out->name[i] = (uint8_t)stage_of_name(context->trace->string[i]);
    return out->name ? 0 : TACHO_ENOMEM;
}

int an_stage_times(const struct an_stage_map *map, const struct an_step *step,
                   struct an_stage_work *work, int64_t ns[AN_STAGE_COUNT])
{
    const struct an_lane *lane = &map->context->lane[step->lane];
    size_t count = 0;
    memset(ns, 0, AN_STAGE_COUNT * sizeof *ns);
    if (lane->device != AN_NONE) {
        add_device_stages(map, step, ns);
        return 0;
    }
    if (an_stage_spans(map, step, &work->span, &count, &work->room))
        return TACHO_ENOMEM;
    add_thread_stages(map, lane, work->span, count, ns);
    return 0;
}

/* ---- the mean step --------------------------------------------------------------------------- */

/* Can the stages be told apart at all? A step without a range that says what it is has none. */
static const char *why_none(const int64_t ns[AN_STAGE_COUNT])
{
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        if (ns[stage] && stage != AN_STAGE_HOST && stage != AN_STAGE_OTHER)
            return NULL;
    return "no range in a step says which stage it is";
}

static void stages_absent(struct an_context *context, const char *reason)
{
    struct an_stages *stages = &context->result->stages;
    stages->reason = reason;
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        stages->ms[stage] = an_num_none(reason);
}

static int stages_run(struct an_context *context)
{
    struct an_stages *stages = &context->result->stages;
    struct an_stage_map map;
    struct an_stage_work work = {0};
    int64_t sum[AN_STAGE_COUNT] = {0}, steps = 0;
    int rc = an_stage_map_of(context, &map);
    for (size_t i = 0; i < context->step_count && !rc; i++) {
        int64_t ns[AN_STAGE_COUNT];
        const struct an_lane *lane = &context->lane[context->step[i].lane];
        bool placed = lane->device != AN_NONE || lane->track != AN_NONE;
        if (!an_step_detailed(&context->step[i]) || !placed)
            continue;
        rc = an_stage_times(&map, &context->step[i], &work, ns);
        for (int stage = 0; stage < AN_STAGE_COUNT && !rc; stage++)
            sum[stage] = an_time_add(sum[stage], ns[stage]);
        steps++;
    }
    free(work.span);
    const char *none = steps ? why_none(sum) : "no counted step has all its ranges in the file";
    if (rc || none) {
        stages_absent(context, none);
        return rc;
    }
    for (int stage = 0; stage < AN_STAGE_COUNT; stage++)
        stages->ms[stage] = an_num((double)sum[stage] / (double)steps / 1e6);
    return 0;
}

const struct an_analyzer an_stage_means = {
    .name = "stages",
    .help = "forward, backward, optimizer, data wait and communication of the mean step",
    .after = "steps, budget",
    .needs = AN_INPUT_STEPS,
    .run = stages_run,
    .absent = stages_absent,
};

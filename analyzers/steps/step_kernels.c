/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps by what the optimizer did: in traces without markers, and where several marked ranges make
 * one update.
 *
 * A group of optimizer kernels ends where a matrix or attention kernel follows: the next forward
 * pass. A step is the time from the launch of the last kernel of a group to that of the next group;
 * a capture with one group only is one step.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/step_private.h"

static bool holds_one(const char *name, const char *const *words, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++)
        found = strstr(name, words[i]) != NULL;
    return found;
}

/* Foreach kernels of PyTorch and Apex run on any list of tensors: copies of FSDP, norms for
 * clipping, casts of inference. Those that an update of parameters consists of: p += alpha g, and
 * p += value a / b. */
static bool is_foreach_update(const char *name)
{
    static const char *const foreach[] = {"multi_tensor_apply", "MultiTensorApply"};
    static const char *const updates[] = {"BinaryOpListAlphaFunctor", "PointwiseOp", "Optimizer"};
    return holds_one(name, foreach, 2) && holds_one(name, updates, 3);
}

/* Kernels of optimizers: of PyTorch (foreach and fused), Apex, DeepSpeed, Transformer Engine. */
static bool is_optimizer(const char *name)
{
    static const char *const words[] = {"multi_tensor_adam",
                                        "multi_tensor_sgd",
                                        "multi_tensor_lamb",
                                        "FusedOptimizer",
                                        "FusedAdam",
                                        "FusedSgd",
                                        "FusedAdagrad",
                                        "fused_adam",
                                        "adam_kernel",
                                        "adamw",
                                        "AdamW",
                                        "adam_cuda",
                                        "lamb_cuda",
                                        "LambFunctor",
                                        "AdamFunctor",
                                        "sgd_kernel",
                                        "SGDFunctor",
                                        "lion_kernel",
                                        "adagrad_kernel"};
    if (strstr(name, "split_embedding")) /* updates its table inside the backward pass */
        return false;
    return holds_one(name, words, sizeof words / sizeof *words) || is_foreach_update(name);
}

enum { KERNEL_OTHER, KERNEL_OPTIMIZER = 1, KERNEL_KNOWN = 2 };

static bool op_is_optimizer(const struct an_context *context, uint8_t *known, size_t op)
{
    uint32_t name = context->trace->slice.name[context->gpu->op.slice[op]];
    if (name == AN_NONE || context->gpu->op.class[op] != AN_DEVICE_OTHER)
        return false;
    if (!known[name])
        known[name] = (uint8_t)(KERNEL_KNOWN | is_optimizer(an_trace_name(context->trace, name)));
    return known[name] & KERNEL_OPTIMIZER;
}

/* ---- steps without markers -------------------------------------------------------------------------------------------------- */

struct group_list {
    uint32_t *last; /* last op of each group */
    size_t count, room;
};

/* Groups of the device in order of launch. */
static int find_groups(const struct an_context *context, size_t device, uint8_t *known,
                       struct group_list *group_list)
{
    const struct an_devices *devices = context->gpu;
    size_t first = devices->device[device].first;
    bool open = false;
    for (size_t i = first; i < first + devices->by_launch_known[device]; i++) {
        uint32_t op = devices->by_launch[i];
        if (op_is_optimizer(context, known, op)) {
            if (!open && an_grow(&group_list->last, &group_list->room, group_list->count + 1,
                                 sizeof *group_list->last))
                return TACHO_ENOMEM;
            group_list->count += !open;
            group_list->last[group_list->count - 1] = op;
            open = true;
        } else if (devices->op.class[op] == AN_DEVICE_MATRIX ||
                   devices->op.class[op] == AN_DEVICE_ATTENTION)
            open = false;
    }
    return 0;
}

/* Host time and thread of a boundary: the end of the launch of a group's last kernel. */
static int64_t group_end(const struct an_context *context, uint32_t op, uint32_t *track)
{
    const struct an_trace *trace = context->trace;
    uint32_t launch = context->gpu->op.launch[op];
    *track = AN_NONE;
    if (launch == AN_NONE)
        return context->gpu->op.end[op];
    for (uint32_t k = 0; k < trace->track_count; k++)
        if (launch >= trace->track[k].slice_first &&
            launch - trace->track[k].slice_first < trace->track[k].slice_count)
            *track = k;
    return an_slice_end(trace, launch);
}

static int add_step(struct finder *finder, size_t device, uint32_t track, int64_t index,
                    int64_t start, int64_t end)
{
    uint32_t process = finder->context->gpu->device[device].process;
    return an_found_add(finder, found_step_of(process, track, index, start, end));
}

/* The whole capture is one step: from the first launch to just after the last. */
static int one_step(struct finder *finder, size_t device, uint32_t op)
{
    const struct an_devices *devices = finder->context->gpu;
    size_t first = devices->device[device].first,
           last = first + devices->by_launch_known[device] - 1;
    uint32_t track;
    group_end(finder->context, op, &track);
    return add_step(finder, device, track, 0,
                    an_device_launch_time(devices, devices->by_launch[first]),
                    an_time_add(an_device_launch_time(devices, devices->by_launch[last]), 1));
}

int an_steps_of_kernels(struct finder *finder, const char **source)
{
    struct an_context *context = finder->context;
    const struct an_devices *devices = context->gpu;
    bool single = false;
    int rc = 0;
    uint8_t *known = an_arena_zero(context->scratch, context->trace->string_count, 1);
    if (!known)
        return TACHO_ENOMEM;
    for (size_t device = 0; device < devices->device_count && !rc; device++) {
        struct group_list group_list = {0};
        uint32_t track = AN_NONE;
        /* The host's steps are the process's. */
        if (device && devices->device[device].process == devices->device[device - 1].process)
            continue;
        rc = find_groups(context, device, known, &group_list);
        if (!rc && group_list.count == 1) {
            single = true;
            rc = one_step(finder, device, group_list.last[0]);
        }
        for (size_t i = 1; i < group_list.count && !rc; i++) {
            int64_t start = group_end(context, group_list.last[i - 1], &track);
            uint32_t start_track = track;
            int64_t end = group_end(context, group_list.last[i], &track);
            rc = add_step(finder, device, start_track, (int64_t)i - 1, start, end);
        }
        free(group_list.last);
    }
    if (!rc && finder->count)
        *source = single ? "the whole capture: it holds one group of optimizer kernels"
                         : "optimizer kernels";
    return rc;
}

/* ---- micro-steps ------------------------------------------------------------------------------------------------------------ */

/* Does an Optimizer.step of the thread end inside the step? */
static bool holds_update(const struct finder *finder, const struct found_step *found_step)
{
    const struct an_trace *trace = finder->context->trace;
    const struct an_track *track = &trace->track[found_step->track];
    for (size_t i = an_slice_seek(trace, track, found_step->step.start);
         i < an_track_end(track) && trace->slice.start[i] < found_step->step.end; i++) {
        uint32_t name = trace->slice.name[i];
        if (name < trace->string_count && finder->kind[name] == NAME_OPTIMIZER)
            return true;
    }
    return false;
}

/* Steps [first, last) belong to one thread. Returns how many of them make one update, 1 if each is
 * an update of its own; *phase gets the first that holds one. The updates must come at a constant
 * distance. */
static size_t micro_steps(const struct finder *finder, size_t first, size_t last, size_t *phase)
{
    size_t before = SIZE_MAX, period = 0;
    for (size_t i = first; i < last; i++) {
        if (!holds_update(finder, &finder->found[i]))
            continue;
        if (before == SIZE_MAX)
            *phase = i;
        else if (period && i - before != period)
            return 1;
        else
            period = i - before;
        before = i;
    }
    return period > 1 && *phase - first < period && last - 1 - before < period ? period : 1;
}

void an_steps_accumulate(struct finder *finder)
{
    size_t kept = 0;
    for (size_t first = 0, last; first < finder->count; first = last) {
        size_t phase = 0, period;
        for (last = first + 1;
             last < finder->count && finder->found[last].track == finder->found[first].track;)
            last++;
        period = micro_steps(finder, first, last, &phase);
        if (period == 1) {
            while (first < last)
                finder->found[kept++] = finder->found[first++];
            continue;
        }
        int64_t index = 0;
        for (size_t end = phase; end < last; end += period) {
            if (end + 1 < first + period) /* its first micro-steps are before the capture */
                continue;
            struct found_step found_step = finder->found[end + 1 - period];
            found_step.step.end = finder->found[end].step.end;
            found_step.step.index = index++;
            found_step.step.micro_steps = (int64_t)period;
            finder->found[kept++] = found_step;
        }
    }
    finder->count = kept;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps by what the optimizer did: in traces without markers, and where several marked ranges make
 * one update.
 *
 * A group of optimizer kernels ends where a matrix or attention kernel follows: the next forward
 * pass. Kernels whose names other work has too (foreach updates) need backward work before them. A
 * step is the time from the launch of the last kernel of a group to that of the next group;
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
    return holds_one(name, words, sizeof words / sizeof *words);
}

/* Kernels and ranges of a backward pass, as frameworks and libraries name them. */
static bool is_backward(const char *name)
{
    static const char *const words[] = {"ackward", "_bwd", "bwd_", "dgrad", "wgrad"};
    return holds_one(name, words, sizeof words / sizeof *words);
}

/* What the name of a kernel or range says, bits. */
enum { NAME_IS_OPTIMIZER = 1, NAME_IS_UPDATE = 2, NAME_IS_BACKWARD = 4, NAME_IS_READ = 8 };

/* A look for groups of kernels. */
struct look {
    const struct an_context *context;
    uint8_t *read;       /* bits of each string, once it was read */
    const uint8_t *kind; /* not NULL: kernels of the kind NAME_MARKED make the groups */
};

static unsigned name_bits(const struct look *look, uint32_t name)
{
    if (name >= look->context->trace->string_count)
        return 0;
    if (!look->read[name]) {
        const char *text = an_trace_name(look->context->trace, name);
        look->read[name] = (uint8_t)(NAME_IS_READ | (is_optimizer(text) ? NAME_IS_OPTIMIZER : 0) |
                                     (is_foreach_update(text) ? NAME_IS_UPDATE : 0) |
                                     (is_backward(text) ? NAME_IS_BACKWARD : 0));
    }
    return look->read[name];
}

/* What makes op part of a group: bits, 0: nothing. */
static unsigned group_bits(const struct look *look, size_t op)
{
    const struct an_devices *devices = look->context->gpu;
    uint32_t name = look->context->trace->slice.name[devices->op.slice[op]];
    if (name >= look->context->trace->string_count)
        return 0;
    if (look->kind)
        return look->kind[name] == NAME_MARKED ? NAME_IS_OPTIMIZER : 0;
    return devices->op.class[op] == AN_DEVICE_OTHER
               ? name_bits(look, name) & (NAME_IS_OPTIMIZER | NAME_IS_UPDATE)
               : 0;
}

/* Does its name, or that of a range around its launch, show that the op is backward work? */
static bool op_is_backward(const struct look *look, size_t op)
{
    const struct an_trace *trace = look->context->trace;
    uint32_t around = look->context->gpu->op.launch[op];
    int levels = AN_DEPTH_MAX;
    if (name_bits(look, trace->slice.name[look->context->gpu->op.slice[op]]) & NAME_IS_BACKWARD)
        return true;
    for (; around != AN_NONE && levels--; around = trace->slice.parent[around])
        if (name_bits(look, trace->slice.name[around]) & NAME_IS_BACKWARD)
            return true;
    return false;
}

/* ---- steps without markers -------------------------------------------------------------------------------------------------- */

struct group {
    uint32_t last; /* its last op */
    bool named;    /* holds a kernel that only optimizers have */
    bool backward; /* backward work precedes it, after the group before */
};

struct group_list {
    struct group *group;
    size_t count, room;
};

static int group_open(struct group_list *list, bool backward)
{
    if (an_grow(&list->group, &list->room, list->count + 1, sizeof *list->group))
        return TACHO_ENOMEM;
    list->group[list->count++] = (struct group){.backward = backward};
    return 0;
}

/* Groups of the device in order of launch. */
static int find_groups(const struct look *look, size_t device, struct group_list *list)
{
    const struct an_devices *devices = look->context->gpu;
    size_t first = devices->device[device].first;
    bool open = false, backward = false;
    for (size_t i = first; i < first + devices->by_launch_known[device]; i++) {
        uint32_t op = devices->by_launch[i];
        unsigned bits = group_bits(look, op);
        if (bits) {
            if (!open && group_open(list, backward))
                return TACHO_ENOMEM;
            struct group *group = &list->group[list->count - 1];
            group->last = op;
            group->named |= (bits & NAME_IS_OPTIMIZER) != 0;
            open = true;
            backward = false;
        } else {
            open &= devices->op.class[op] != AN_DEVICE_MATRIX &&
                    devices->op.class[op] != AN_DEVICE_ATTENTION;
            backward = backward || (!look->kind && op_is_backward(look, op));
        }
    }
    return 0;
}

/* Keeps the groups that are optimizers. Where backward work is seen, a group needs it before, but
 * for the first one, whose step may have begun before the capture. Where none is seen, only names
 * that nothing but optimizers have count. Returns whether backward work is seen. */
static bool keep_optimizers(struct group_list *list)
{
    size_t kept = 0;
    bool seen = false;
    for (size_t i = 0; i < list->count; i++)
        seen |= list->group[i].backward;
    for (size_t i = 0; i < list->count; i++) {
        const struct group *group = &list->group[i];
        if (seen ? group->backward || (!i && group->named) : group->named)
            list->group[kept++] = *group;
    }
    list->count = kept;
    return seen;
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

/* Adds the steps that the groups of a device make. */
static int add_groups(struct finder *finder, size_t device, const struct group_list *list)
{
    uint32_t track = AN_NONE;
    int rc = list->count == 1 ? one_step(finder, device, list->group[0].last) : 0;
    for (size_t i = 1; i < list->count && !rc; i++) {
        int64_t start = group_end(finder->context, list->group[i - 1].last, &track);
        uint32_t start_track = track;
        int64_t end = group_end(finder->context, list->group[i].last, &track);
        rc = add_step(finder, device, start_track, (int64_t)i - 1, start, end);
    }
    return rc;
}

/* Adds the steps of the first device of each process: the host's steps are the process's.
 * *confidence becomes the lowest of them; *single: some device has one group only. */
static int add_devices(struct finder *finder, const struct look *look,
                       enum an_confidence *confidence, bool *single)
{
    const struct an_devices *devices = finder->context->gpu;
    int rc = 0;
    for (size_t device = 0; device < devices->device_count && !rc; device++) {
        struct group_list list = {0};
        if (device && devices->device[device].process == devices->device[device - 1].process)
            continue;
        rc = find_groups(look, device, &list);
        bool seen = look->kind || keep_optimizers(&list);
        if (list.count && !seen)
            *confidence = AN_LOW;
        *single |= list.count == 1;
        if (!rc)
            rc = add_groups(finder, device, &list);
        free(list.group);
    }
    return rc;
}

static uint8_t *bits_of_names(const struct an_context *context)
{
    return an_arena_zero(context->scratch, context->trace->string_count + 1, 1);
}

int an_steps_of_kernels(struct finder *finder, const char **source)
{
    struct an_context *context = finder->context;
    struct look look = {.context = context, .read = bits_of_names(context)};
    enum an_confidence confidence = AN_MEDIUM;
    bool single = false;
    if (!look.read)
        return TACHO_ENOMEM;
    int rc = add_devices(finder, &look, &confidence, &single);
    if (rc || !finder->count)
        return rc;
    *source =
        single ? "the whole capture: it holds one group of optimizer kernels" : "optimizer kernels";
    context->result->steps.confidence = confidence;
    return 0;
}

int an_steps_of_marked_kernels(struct finder *finder)
{
    struct look look = {
        .context = finder->context, .read = bits_of_names(finder->context), .kind = finder->kind};
    enum an_confidence confidence = AN_HIGH;
    bool single = false;
    return look.read ? add_devices(finder, &look, &confidence, &single) : TACHO_ENOMEM;
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

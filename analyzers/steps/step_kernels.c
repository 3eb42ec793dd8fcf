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

#include "analyzers/steps/step_source.h"

/* Kernels of optimizers: of PyTorch (foreach and fused), Apex, DeepSpeed, Transformer Engine. */
static bool is_optimizer(const char *name)
{
    static const char *const words[] = {"multi_tensor_apply",
                                        "multi_tensor_adam",
                                        "multi_tensor_sgd",
                                        "multi_tensor_lamb",
                                        "MultiTensorApply",
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
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

enum { KERNEL_OTHER, KERNEL_OPTIMIZER = 1, KERNEL_KNOWN = 2 };

static bool op_is_optimizer(const struct an_context *c, uint8_t *known, size_t op)
{
    uint32_t name = c->t->slice.name[c->gpu->op.slice[op]];
    if (name == AN_NONE || c->gpu->op.class[op] != AN_DEVICE_OTHER)
        return false;
    if (!known[name])
        known[name] = (uint8_t)(KERNEL_KNOWN | is_optimizer(an_trace_name(c->t, name)));
    return known[name] & KERNEL_OPTIMIZER;
}

/* ---- steps without markers -------------------------------------------------------------------------------------------------- */

struct group_list {
    uint32_t *last; /* last op of each group */
    size_t count, room;
};

/* Groups of the device in order of launch. */
static int find_groups(const struct an_context *c, size_t d, uint8_t *known, struct group_list *l)
{
    const struct an_devices *g = c->gpu;
    size_t first = g->device[d].first;
    bool open = false;
    for (size_t i = first; i < first + g->by_launch_known[d]; i++) {
        uint32_t op = g->by_launch[i];
        if (op_is_optimizer(c, known, op)) {
            if (!open && an_grow(&l->last, &l->room, l->count + 1, sizeof *l->last))
                return TACHO_ENOMEM;
            l->count += !open;
            l->last[l->count - 1] = op;
            open = true;
        } else if (g->op.class[op] == AN_DEVICE_MATRIX || g->op.class[op] == AN_DEVICE_ATTENTION)
            open = false;
    }
    return 0;
}

/* Host time and thread of a boundary: the end of the launch of a group's last kernel. */
static int64_t boundary(const struct an_context *c, uint32_t op, uint32_t *track)
{
    const struct an_trace *t = c->t;
    uint32_t launch = c->gpu->op.launch[op];
    *track = AN_NONE;
    if (launch == AN_NONE)
        return c->gpu->op.end[op];
    for (uint32_t k = 0; k < t->track_count; k++)
        if (launch >= t->track[k].slice_first &&
            launch - t->track[k].slice_first < t->track[k].slice_count)
            *track = k;
    return an_slice_end(t, launch);
}

static int add_step(struct finder *f, size_t d, uint32_t track, int64_t index, int64_t start,
                    int64_t end)
{
    struct found_step x = {.process = f->c->gpu->device[d].process, .track = track};
    x.s = (struct an_step){.slice = AN_NONE,
                           .index = index,
                           .start = start,
                           .end = end,
                           .tokens = STORE_ABSENT,
                           .samples = STORE_ABSENT};
    return an_found_add(f, x);
}

/* The whole capture is one step: from the first launch to behind the last. */
static int one_step(struct finder *f, size_t d, uint32_t op)
{
    const struct an_devices *g = f->c->gpu;
    size_t first = g->device[d].first, last = first + g->by_launch_known[d] - 1;
    uint32_t track;
    boundary(f->c, op, &track);
    return add_step(f, d, track, 0, an_device_launch_time(f->c, g->by_launch[first]),
                    an_time_add(an_device_launch_time(f->c, g->by_launch[last]), 1));
}

int an_steps_of_kernels(struct finder *f, const char **source)
{
    struct an_context *c = f->c;
    const struct an_devices *g = c->gpu;
    bool single = false;
    int rc = 0;
    uint8_t *known = an_arena_zero(c->work, c->t->string_count, 1);
    if (!known)
        return TACHO_ENOMEM;
    for (size_t d = 0; d < g->device_count && !rc; d++) {
        struct group_list l = {0};
        uint32_t track = AN_NONE;
        if (d && g->device[d].process == g->device[d - 1].process)
            continue; /* the host's steps are the process's */
        rc = find_groups(c, d, known, &l);
        if (!rc && l.count == 1) {
            single = true;
            rc = one_step(f, d, l.last[0]);
        }
        for (size_t i = 1; i < l.count && !rc; i++) {
            int64_t start = boundary(c, l.last[i - 1], &track);
            uint32_t at = track;
            int64_t end = boundary(c, l.last[i], &track);
            rc = add_step(f, d, at, (int64_t)i - 1, start, end);
        }
        free(l.last);
    }
    if (!rc && f->count)
        *source = single ? "the whole capture: it holds one group of optimizer kernels"
                         : "optimizer kernels";
    return rc;
}

/* ---- micro-steps ------------------------------------------------------------------------------------------------------------ */

/* Does an Optimizer.step of the thread end inside the step? */
static bool holds_update(const struct finder *f, const struct found_step *x)
{
    const struct an_trace *t = f->c->t;
    const struct an_track *k = &t->track[x->track];
    for (size_t i = an_slice_seek(t, k, x->s.start);
         i < k->slice_first + k->slice_count && t->slice.start[i] < x->s.end; i++) {
        uint32_t name = t->slice.name[i];
        if (name < t->string_count && f->kind[name] == NAME_OPTIMIZER)
            return true;
    }
    return false;
}

/* Steps [first, last) are of one thread. The number of micro-steps in a step, 1 where they are
 * none. */
static size_t micro_steps(const struct finder *f, size_t first, size_t last, size_t *phase)
{
    size_t before = SIZE_MAX, period = 0;
    for (size_t i = first; i < last; i++) {
        if (!holds_update(f, &f->found[i]))
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

void an_steps_accumulate(struct finder *f)
{
    size_t kept = 0;
    for (size_t first = 0, last; first < f->count; first = last) {
        size_t phase = 0, m;
        for (last = first + 1; last < f->count && f->found[last].track == f->found[first].track;)
            last++;
        m = micro_steps(f, first, last, &phase);
        if (m == 1) {
            while (first < last)
                f->found[kept++] = f->found[first++];
            continue;
        }
        int64_t index = 0;
        for (size_t end = phase; end < last; end += m) {
            if (end + 1 < first + m) /* its first micro-steps are before the capture */
                continue;
            struct found_step x = f->found[end + 1 - m];
            x.s.end = f->found[end].s.end;
            x.s.index = index++;
            x.s.micro_steps = (int64_t)m;
            f->found[kept++] = x;
        }
    }
    f->count = kept;
}

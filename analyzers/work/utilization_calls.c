/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs of accelerator traces: of the operators that launched device work in counted steps.
 */
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/work/utilization.h"

#define PRODUCTS   (1u << AN_DEVICE_MATRIX | 1u << AN_DEVICE_ATTENTION)
#define NEARLY_ALL 0.95

static void gather_call(struct an_flops_gather *g, const struct an_call *call)
{
    const struct an_op_cost *cost = &g->c->calls->cost[call->cost];
    bool product = cost->kind != AN_OP_OTHER;
    if (call->step == AN_NONE || (!product && !(cost->model_flops > 0)))
        return;
    struct an_flops *sum = &g->step[call->step];
    g->works++;
    g->hardware += product;
    if (cost->flops == STORE_ABSENT)
        return;
    struct an_flops *by =
        &g->lane[g->c->step[call->step].lane].by_dtype[an_flops_dtype(g, call->dtype)];
    struct an_flops x = {call->recompute ? 0 : cost->model_flops, product ? cost->flops : 0,
                         call->recompute ? 0 : cost->palm_flops,
                         call->recompute && product ? cost->flops : 0};
    g->told++;
    g->model_missing += x.model == STORE_ABSENT;
    g->palm_missing += x.palm == STORE_ABSENT;
    g->unclear += product && call->unclear;
    g->mixed = g->mixed || (product && !*call->dtype && !strcmp(cost->dtype, "fp32"));
    struct an_flops *to[] = {sum, by};
    for (int k = 0; k < 2; k++) {
        an_flops_add(&to[k]->model, x.model);
        an_flops_add(&to[k]->palm, x.palm);
        an_flops_add(&to[k]->hardware, x.hardware);
        an_flops_add(&to[k]->again, x.again);
    }
}

/* Is a kernel part of a counted step? By its launch, where the file has it. */
static bool kernel_counts(const struct an_flops_gather *g, const struct an_device *d, size_t op)
{
    const struct an_context *c = g->c;
    uint32_t call = c->calls->of_op[op];
    if (call != AN_NONE)
        return c->calls->call[call].step != AN_NONE;
    for (size_t k = 0; k < c->lane_count; k++) {
        const struct an_step *s = c->lane[k].process == d->process
                                      ? an_step_at(c, &c->lane[k], c->gpu->op.start[op])
                                      : NULL;
        if (s)
            return an_step_detailed(s);
    }
    return false;
}

void an_flops_of_calls(struct an_flops_gather *g)
{
    const struct an_context *c = g->c;
    for (size_t i = 0; i < c->calls->count; i++)
        gather_call(g, &c->calls->call[i]);
    for (size_t d = 0; d < c->gpu->device_count; d++) {
        const struct an_device *x = &c->gpu->device[d];
        for (size_t i = x->first; i < x->first + x->count; i++) {
            if (!(PRODUCTS >> c->gpu->op.class[i] & 1) || !kernel_counts(g, x, i))
                continue;
            const struct an_op_cost *cost =
                c->calls->of_op[i] == AN_NONE
                    ? NULL
                    : &c->calls->cost[c->calls->call[c->calls->of_op[i]].cost];
            double ns = (double)(c->gpu->op.end[i] - c->gpu->op.start[i]);
            g->hardware_ns += ns;
            g->covered_ns +=
                cost && cost->kind != AN_OP_OTHER && cost->flops != STORE_ABSENT ? ns : 0;
        }
    }
}

const char *an_flops_kernel_dtype(const struct an_context *c)
{
    const char *dtype[AN_FLOPS_DTYPES];
    double ns[AN_FLOPS_DTYPES] = {0}, all = 0;
    size_t n = 0;
    for (size_t i = 0; c->gpu && i < c->gpu->op.count; i++) {
        uint32_t name = c->t->slice.name[c->gpu->op.slice[i]];
        if (!(PRODUCTS >> c->gpu->op.class[i] & 1))
            continue;
        double dur = (double)(c->gpu->op.end[i] - c->gpu->op.start[i]);
        const char *d = name < c->t->string_count ? c->gpu->name_class[name].dtype : NULL;
        size_t k = 0;
        all += dur;
        while (d && k < n && strcmp(dtype[k], d))
            k++;
        if (d && k == n && n < AN_FLOPS_DTYPES)
            dtype[n++] = d;
        if (d && k < n)
            ns[k] += dur;
    }
    for (size_t k = 0; k < n; k++)
        if (ns[k] >= NEARLY_ALL * all)
            return dtype[k];
    return NULL;
}

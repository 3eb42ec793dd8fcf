/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps, device ops and types of the calls.
 */
#include <string.h>

#include "analyzers/device/classes.h"
#include "analyzers/work/attribution.h"
#include "analyzers/work/peaks.h"

/* Device of an op: an index; device_count: none. */
static size_t device_of(const struct an_context *c, uint32_t op)
{
    size_t d = 0;
    while (d < c->gpu->device_count && op - c->gpu->device[d].first >= c->gpu->device[d].count)
        d++;
    return d;
}

/* The counted step with all its parts whose host part holds `time`: of a thread of the process, of
 * the lane of the device where there is one. AN_NONE: none. */
static uint32_t step_at(const struct an_context *c, uint32_t process, size_t device, int64_t time)
{
    uint32_t found = AN_NONE;
    for (size_t l = 0; l < c->lane_count; l++) {
        if (c->lane[l].process != process || (found != AN_NONE && c->lane[l].device != device))
            continue;
        const struct an_step *s = an_step_at_host(c, &c->lane[l], time);
        bool inside = s && an_step_detailed(s);
        if (inside || c->lane[l].device == device)
            found = inside ? (uint32_t)(s - c->step) : AN_NONE;
        if (c->lane[l].device == device)
            break;
    }
    return found;
}

static int call_ops(struct an_context *c)
{
    struct an_calls *calls = c->calls;
    size_t n = c->gpu->op.count;
    uint32_t *first = an_arena_zero(c->work, calls->count + 2, sizeof *first),
             *op = an_arena_zero(c->work, n, sizeof *op);
    if (!first || !op)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (calls->of_op[i] != AN_NONE)
            first[calls->of_op[i] + 2]++;
    for (size_t i = 0; i < calls->count; i++)
        first[i + 2] += first[i + 1];
    for (size_t i = 0; i < n; i++)
        if (calls->of_op[i] != AN_NONE)
            op[first[calls->of_op[i] + 1]++] = (uint32_t)i;
    calls->first = first;
    calls->op = op;
    return 0;
}

/* Can fp32 operands have run as tf32? For each device, and behind them for a device that is not
 * known. */
static bool *find_tf32(const struct an_context *c)
{
    size_t n = c->gpu->device_count;
    bool *out = an_arena_zero(c->work, n + 1, sizeof *out);
    for (size_t d = 0; out && d <= n; d++) {
        const char *name = d < n ? c->gpu->device[d].name : "";
        struct an_peak peak;
        out[d] = an_peak_find(c->work, name, "tf32", &peak) ||
                 !an_peak_find(c->work, name, "bandwidth", &peak);
    }
    return out;
}

static const char *dtype_of(const struct an_context *c, size_t call, bool tf32)
{
    const struct an_calls *calls = c->calls;
    const struct an_op_cost *cost = &calls->cost[calls->call[call].cost];
    const char *told = NULL;
    int64_t longest = -1;
    bool plain = false; /* a kernel says that it does not run on matrix units */
    if (cost->kind == AN_OP_OTHER)
        return cost->dtype;
    for (uint32_t k = calls->first[call]; k < calls->first[call + 1]; k++) {
        uint32_t op = calls->op[k], name = c->t->slice.name[c->gpu->op.slice[op]];
        int64_t ns = an_time_sub(c->gpu->op.end[op], c->gpu->op.start[op]);
        if ((c->gpu->op.class[op] != AN_DEVICE_MATRIX &&
             c->gpu->op.class[op] != AN_DEVICE_ATTENTION) ||
            name >= c->t->string_count)
            continue;
        const struct an_name_class *x = &c->gpu->name_class[name];
        plain = plain || x->matrix_unit == 0;
        if (x->dtype && ns > longest) {
            told = x->dtype;
            longest = ns;
        }
    }
    if (told)
        return told;
    return !strcmp(cost->dtype, "fp32") && !plain && tf32 ? "" : cost->dtype;
}

int an_attribution_calls(struct an_context *c)
{
    bool *tf32 = find_tf32(c);
    if (!tf32 || call_ops(c))
        return TACHO_ENOMEM;
    for (size_t i = 0; i < c->calls->count; i++) {
        struct an_call *call = &c->calls->call[i];
        uint32_t first = c->calls->first[i];
        size_t device = first < c->calls->first[i + 1] ? device_of(c, c->calls->op[first])
                                                       : c->gpu->device_count;
        call->step = step_at(c, call->process, device, c->t->slice.start[call->slice]);
        call->dtype = dtype_of(c, i, tf32[device]);
    }
    return 0;
}

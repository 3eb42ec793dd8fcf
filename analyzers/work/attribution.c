/* SPDX-License-Identifier: Apache-2.0
 *
 * Device time by what asked for it: operator, module, line of user code, annotation
 * (attribution_sweep.c says how). Rows and `unattributed_ns` of each table sum to the whole device
 * time exactly.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/attribution.h"

static const char *const names[AN_BY_COUNT] = {"op", "module", "line", "annotation"};

static void attribution_absent(struct an_context *c, const char *reason)
{
    for (int by = 0; by < AN_BY_COUNT; by++)
        c->r->attribution[by] = (struct an_attribution){.by = names[by], .reason = reason};
}

static const char *why_empty(enum an_by by)
{
    static const char *const reasons[AN_BY_COUNT] = {
        [AN_BY_OP] =
            "no framework operators recorded; record with torch.profiler, activities CPU and CUDA",
        [AN_BY_MODULE] = "no modules recorded; record with with_stack=True",
        [AN_BY_LINE] = "no Python frames recorded; record with with_stack=True",
        [AN_BY_ANNOTATION] = "no annotations recorded; mark the code with "
                             "torch.profiler.record_function or NVTX ranges"};
    return reasons[by];
}

/* FLOPs and bytes of the calls. An operator's row has all its FLOPs; the other tables add up
 * products only (matrix, attention, convolution), because small operators without a known cost are
 * in every module. */
static void add_costs(const struct an_context *c, struct an_by_table *by)
{
    const struct an_calls *calls = c->calls;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call *call = &calls->call[i];
        const struct an_op_cost *cost = &calls->cost[call->cost];
        for (int b = 0; b < AN_BY_COUNT; b++) {
            struct an_by_row *r = call->row[b] == AN_NONE ? NULL : &by[b].row[call->row[b]];
            if (!r)
                continue;
            bool counts = b == AN_BY_OP || cost->kind != AN_OP_OTHER;
            r->any = r->any || counts;
            r->no_flops += counts && cost->flops == STORE_ABSENT;
            r->flops =
                an_time_add(r->flops, counts && cost->flops != STORE_ABSENT ? cost->flops : 0);
            r->no_bytes += cost->bytes == STORE_ABSENT;
            r->bytes = an_time_add(r->bytes, cost->bytes != STORE_ABSENT ? cost->bytes : 0);
        }
    }
    /* matrix work outside of what has a cost makes the sum of products wrong */
    for (size_t i = 0; i < c->gpu->op.count; i++) {
        uint32_t call = calls->of_op[i];
        bool product =
            c->gpu->op.class[i] == AN_DEVICE_MATRIX || c->gpu->op.class[i] == AN_DEVICE_ATTENTION;
        if (!product || call == AN_NONE || calls->cost[calls->call[call].cost].kind != AN_OP_OTHER)
            continue;
        for (int b = AN_BY_MODULE; b < AN_BY_COUNT; b++)
            if (calls->call[call].row[b] != AN_NONE)
                by[b].row[calls->call[call].row[b]].no_flops++;
    }
}

static int row_order(const void *x, const void *y)
{
    const struct an_attribution_row *a = x, *b = y;
    if (a->device_ns != b->device_ns)
        return a->device_ns > b->device_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static struct an_attribution_row make_row(struct an_context *c, enum an_by by,
                                          const struct an_by_row *r, int64_t all)
{
    const char *silent = c->calls->shapes ? "the cost of some of its operators is not known"
                                          : "no shapes recorded; record with record_shapes=True";
    struct an_attribution_row out = {.name = an_arena_text(c->a, r->name),
                                     .count = r->count,
                                     .kernels = r->kernels,
                                     .device_ns = r->device_ns,
                                     .host_ns = r->host_ns > 0 ? r->host_ns : 0};
    out.share_pct =
        all > 0 ? an_num(100 * (double)r->device_ns / (double)all) : an_num_none("no device time");
    if (r->no_flops)
        out.flops = an_int_none(silent);
    else if (!r->any && by != AN_BY_OP)
        out.flops = an_int_none("no matrix product, convolution or attention in it");
    else
        out.flops = an_int(r->flops);
    out.bytes = r->no_bytes ? an_int_none(silent) : an_int(r->bytes);
    out.flops_per_s = !out.flops.valid   ? an_num_none(out.flops.reason)
                      : r->device_ns > 0 ? an_num((double)r->flops / (double)r->device_ns * 1e9)
                                         : an_num_none("no device time");
    return out;
}

static int make_table(struct an_context *c, enum an_by by, const struct an_by_table *t,
                      bool present, int64_t all)
{
    struct an_attribution *out = &c->r->attribution[by];
    struct an_attribution_row *rows = an_arena_zero(c->a, t->count, sizeof *rows);
    int64_t rest = all;
    size_t n = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < t->count; i++) {
        if (!t->row[i].kernels)
            continue;
        rows[n++] = make_row(c, by, &t->row[i], all);
        rest = an_time_sub(rest, t->row[i].device_ns);
    }
    if (n)
        qsort(rows, n, sizeof *rows, row_order);
    *out = (struct an_attribution){
        .by = names[by], .unattributed_ns = rest, .rows = rows, .row_count = n};
    if (!c->gpu->launch_count)
        out->reason = "the trace does not say which host call launched which device work";
    else if (!present)
        out->reason = why_empty(by);
    return 0;
}

static int attribution_run(struct an_context *c)
{
    struct an_by_table by[AN_BY_COUNT] = {0};
    bool present[AN_BY_COUNT] = {false};
    int64_t all = 0;
    attribution_absent(c, "out of memory");
    for (size_t i = 0; i < c->gpu->op.count; i++)
        all = an_time_add(all, an_time_sub(c->gpu->op.end[i], c->gpu->op.start[i]));
    int rc = an_attribution_sweep(c, by, present);
    rc = rc ? rc : an_attribution_costs(c);
    rc = rc ? rc : an_attribution_calls(c);
    if (!rc)
        add_costs(c, by);
    for (int b = 0; b < AN_BY_COUNT && !rc; b++)
        rc = make_table(c, (enum an_by)b, &by[b], present[b], all);
    for (int b = 0; b < AN_BY_COUNT; b++) {
        free(by[b].row);
        free(by[b].bucket);
    }
    return rc;
}

const struct an_analyzer an_attribution = {
    "attribution", "device time by operator, module, line of code and annotation", AN_INPUT_DEVICES,
    attribution_run, attribution_absent};

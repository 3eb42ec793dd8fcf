/* SPDX-License-Identifier: Apache-2.0
 *
 * Device time by operator, module, line of user code and annotation (attribution_sweep.c finds
 * them). The rows and `unattributed_ns` of each table sum to the whole device time exactly.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/steps/command.h"
#include "analyzers/steps/recorder.h"
#include "analyzers/work/attribution_private.h"

static const char *const names[AN_BY_COUNT] = {"op", "module", "line", "annotation"};

static void attribution_absent(struct an_context *context, const char *reason)
{
    for (int by = 0; by < AN_BY_COUNT; by++)
        context->result->attribution[by] =
            (struct an_attribution){.by = names[by], .reason = reason};
}

/* Why a table has no rows, and how to record them. */
static const char *why_empty(const struct an_context *context, enum an_by by)
{
    static const struct {
        const char *missing, *torch; /* torch: how to record it with PyTorch */
        enum an_say say;
    } reasons[AN_BY_COUNT] = {
        [AN_BY_OP] = {"no framework operators recorded",
                      "record with torch.profiler, activities CPU and CUDA", AN_SAY_OPERATORS},
        [AN_BY_MODULE] = {"no modules recorded", "record with with_stack=True", AN_SAY_STACKS},
        [AN_BY_LINE] = {"no Python frames recorded", "record with with_stack=True", AN_SAY_STACKS},
        [AN_BY_ANNOTATION] = {"no annotations recorded",
                              "mark the code with torch.profiler.record_function or NVTX ranges",
                              AN_SAY_RANGES}};
    return an_arena_format(context->arena, "%s; %s", reasons[by].missing,
                           an_say(context, reasons[by].say, reasons[by].torch));
}

/* FLOPs and bytes of the calls. An operator's row has all its FLOPs; the other tables add up
 * products only (matrix, attention, convolution), because small operators without a known cost are
 * in every module. */
static void add_costs(const struct an_context *context, struct an_by_table *by)
{
    const struct an_calls *calls = context->calls;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call *call = &calls->call[i];
        const struct an_op_cost *cost = &calls->cost[call->cost];
        for (int by_index = 0; by_index < AN_BY_COUNT; by_index++) {
            struct an_by_row *by_row =
                call->row[by_index] == AN_NONE ? NULL : &by[by_index].row[call->row[by_index]];
            if (!by_row)
                continue;
            bool counts = by_index == AN_BY_OP || cost->kind != AN_OP_OTHER;
            by_row->any = by_row->any || counts;
            by_row->no_flops += counts && cost->flops == STORE_ABSENT;
            if (counts && cost->flops != STORE_ABSENT)
                by_row->flops = an_time_add(by_row->flops, cost->flops);
            by_row->no_bytes += cost->bytes == STORE_ABSENT;
            if (cost->bytes != STORE_ABSENT)
                by_row->bytes = an_time_add(by_row->bytes, cost->bytes);
        }
    }
    /* Matrix work of operators without a cost makes the sum of GEMMs wrong. */
    for (size_t i = 0; i < context->gpu->op.count; i++) {
        uint32_t call = calls->of_op[i];
        bool product = context->gpu->op.class[i] == AN_DEVICE_MATRIX ||
                       context->gpu->op.class[i] == AN_DEVICE_ATTENTION;
        if (!product || call == AN_NONE || calls->cost[calls->call[call].cost].kind != AN_OP_OTHER)
            continue;
        for (int by_index = AN_BY_MODULE; by_index < AN_BY_COUNT; by_index++)
            if (calls->call[call].row[by_index] != AN_NONE)
                by[by_index].row[calls->call[call].row[by_index]].no_flops++;
    }
}

static int row_order(const void *left, const void *right)
{
    const struct an_attribution_row *first = left, *second = right;
    if (first->device_ns != second->device_ns)
        return first->device_ns > second->device_ns ? -1 : 1;
    return strcmp(first->name, second->name);
}

/* A row of the result. FLOPs and bytes are absent where one of the calls does not say them, for the
 * reason `silent`. */
static struct an_attribution_row make_row(struct an_context *context, enum an_by by,
                                          const struct an_by_row *by_row, int64_t all,
                                          const char *silent)
{
    struct an_attribution_row out = {.name = an_arena_text(context->arena, by_row->name),
                                     .count = by_row->count,
                                     .kernels = by_row->kernels,
                                     .device_ns = by_row->device_ns,
                                     .host_ns = by_row->host_ns > 0 ? by_row->host_ns : 0};
    out.share_pct =
        an_num_if(all > 0, 100 * (double)by_row->device_ns / (double)all, "no device time");
    if (by_row->no_flops)
        out.flops = an_int_none(silent);
    else if (!by_row->any && by != AN_BY_OP)
        out.flops = an_int_none("it contains no GEMM, convolution or attention");
    else
        out.flops = an_int(by_row->flops);
    out.bytes = by_row->no_bytes ? an_int_none(silent) : an_int(by_row->bytes);
    out.flops_per_s = an_num_if(out.flops.valid && by_row->device_ns > 0,
                                (double)by_row->flops / (double)by_row->device_ns * 1e9,
                                out.flops.valid ? "no device time" : out.flops.reason);
    return out;
}

/* The table of the result: rows with device work, and the device time that has no row. */
static int make_table(struct an_context *context, enum an_by by, const struct an_by_table *by_table,
                      bool present, int64_t all)
{
    struct an_attribution *out = &context->result->attribution[by];
    struct an_attribution_row *rows = an_arena_zero(context->arena, by_table->count, sizeof *rows);
    const char *silent = context->calls->shapes ? "the cost of some of its operators is not known"
                                                : an_command_no_shapes(context);
    int64_t rest = all;
    size_t count = 0;
    if (!rows)
        return TACHO_ENOMEM;
    for (size_t i = 0; i < by_table->count; i++) {
        if (!by_table->row[i].kernels)
            continue;
        rows[count++] = make_row(context, by, &by_table->row[i], all, silent);
        rest = an_time_sub(rest, by_table->row[i].device_ns);
    }
    if (count)
        qsort(rows, count, sizeof *rows, row_order);
    *out = (struct an_attribution){
        .by = names[by], .unattributed_ns = rest, .rows = rows, .row_count = count};
    if (!context->gpu->launch_count)
        out->reason = "the trace does not link host calls to the device work they launch";
    else if (!present)
        out->reason = why_empty(context, by);
    return 0;
}

/* Sweeps the host, finds costs and device ops of the calls, and makes the four tables. */
static int attribution_run(struct an_context *context)
{
    struct an_by_table by[AN_BY_COUNT] = {0};
    bool present[AN_BY_COUNT] = {false};
    int64_t all = 0;
    attribution_absent(context, "out of memory");
    for (size_t i = 0; i < context->gpu->op.count; i++)
        all = an_time_add(all, an_time_sub(context->gpu->op.end[i], context->gpu->op.start[i]));
    int rc = an_attribution_sweep(context, by, present);
    rc = rc ? rc : an_attribution_costs(context);
    rc = rc ? rc : an_attribution_calls(context);
    if (!rc)
        add_costs(context, by);
    for (int by_index = 0; by_index < AN_BY_COUNT && !rc; by_index++)
        rc = make_table(context, (enum an_by)by_index, &by[by_index], present[by_index], all);
    for (int by_index = 0; by_index < AN_BY_COUNT; by_index++) {
        free(by[by_index].row);
        free(by[by_index].bucket);
    }
    return rc;
}

const struct an_analyzer an_attribution = {
    .name = "attribution",
    .help = "device time by operator, module, line of code and annotation",
    .after = "steps",
    .needs = AN_INPUT_DEVICES,
    .run = attribution_run,
    .absent = attribution_absent,
};

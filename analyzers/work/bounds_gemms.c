/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMMs that reach neither roof, by operator and shape: how far they are from the least
 * time that their FLOPs and bytes allow, whether their dimensions fit the matrix units, and how
 * well their blocks fill the SMs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/work/bounds_private.h"

#define GEMMS_MOST  5
#define SHAPES_MOST 3 /* operands that are listed */

/* Sums of the calls of one cost: of one operator and shape. */
struct gemm {
    int64_t count, ns;
    double roof_ns;
    uint32_t call, op; /* the first call; its longest kernel */
};

/* Elements of a type in 16 bytes: matrix units load rows in such pieces. 0: not known. */
static int64_t multiple_of(const char *dtype)
{
    static const struct {
        const char *dtype;
        int64_t multiple;
    } types[] = {{"bf16", 8}, {"fp16", 8}, {"tf32", 4}, {"fp8", 16}, {"int8", 16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].dtype, dtype))
            return types[i].multiple;
    return 0;
}

/* "[4096,1024] [1024,50257]", and the first dimension that is no multiple. */
static int describe_shapes(struct an_context *context, uint32_t slice, struct an_gemm_row *row)
{
    const struct an_op_args *args = an_bounds_args(context, slice);
    int listed = 0;
    row->shapes = "";
    if (!args)
        return TACHO_ENOMEM;
    for (int i = 0; i < (int)args->count && listed < SHAPES_MOST; i++) {
        const struct an_op_tensor *tensor = an_op_tensor_at(args, i);
        if (!tensor || tensor->rank < 2)
            continue;
        row->shapes = an_arena_format(context->arena, "%s%s[", row->shapes, listed++ ? " " : "");
        for (int k = 0; k < tensor->rank; k++) {
            int64_t dim = tensor->dim[k];
            row->shapes =
                an_arena_format(context->arena, "%s%s%" PRId64, row->shapes, k ? "," : "", dim);
            if (k >= tensor->rank - 2 && row->multiple && !row->misaligned && dim % row->multiple)
                row->misaligned = dim;
        }
        row->shapes = an_arena_format(context->arena, "%s]", row->shapes);
    }
    return 0;
}

/* How many waves the blocks of the longest kernel make, and how full they are. */
static void describe_waves(const struct an_context *context, uint32_t op, struct an_gemm_row *row)
{
    const struct an_devices *gpu = context->gpu;
    size_t device = 0;
    while (device + 1 < gpu->device_count && op >= an_device_end(&gpu->device[device]))
        device++;
    int64_t blocks = an_kernel_blocks(context, op), sms = gpu->device[device].sms;
    const char *reason = "the grid or the number of SMs is not in the trace";
    row->waves = row->wave_pct = an_num_none(reason);
    if (!blocks || sms <= 0)
        return;
    double waves = (double)blocks / (double)sms;
    row->waves = an_num(waves);
    row->wave_pct = an_num(100 * waves / ceil(waves));
}

/* The counted kernel of a call with most time that is below both roofs; AN_NONE: it has none. */
static uint32_t longest_below(const struct an_bounds *bounds, size_t call)
{
    const struct an_calls *calls = bounds->context->calls;
    const struct an_device_ops *ops = &bounds->context->gpu->op;
    uint32_t longest = AN_NONE;
    for (uint32_t i = calls->first[call]; i < calls->first[call + 1]; i++) {
        uint32_t op = calls->op[i];
        bool below = bounds->op[op] >= AN_BOUND_LATENCY && bounds->op[op] < AN_BOUND_UNKNOWN;
        if (below && (longest == AN_NONE ||
                      ops->end[op] - ops->start[op] > ops->end[longest] - ops->start[longest]))
            longest = op;
    }
    return longest;
}

/* Adds up the calls by cost. */
static void sum_gemms(const struct an_bounds *bounds, struct gemm *gemms)
{
    const struct an_calls *calls = bounds->context->calls;
    struct an_kernel_bounds *out = &bounds->context->result->bounds;
    double roof_ns = 0;
    for (size_t i = 0; i < calls->count; i++) {
        const struct an_call_roofs *roofs = &bounds->call[i];
        uint32_t op = calls->cost[calls->call[i].cost].kind == AN_OP_MATRIX && !roofs->unknown
                          ? longest_below(bounds, i)
                          : AN_NONE;
        if (op == AN_NONE)
            continue;
        struct gemm *gemm = &gemms[calls->call[i].cost];
        double share = fmax((double)roofs->memory, (double)roofs->compute);
        if (!gemm->count++) {
            gemm->call = (uint32_t)i;
            gemm->op = op;
        }
        gemm->ns = an_time_add(gemm->ns, roofs->ns);
        gemm->roof_ns += share * (double)roofs->ns;
        out->gemm_ns = an_time_add(out->gemm_ns, roofs->ns);
        roof_ns += share * (double)roofs->ns;
    }
    out->gemm_roof_ns = (int64_t)roof_ns;
}

/* For qsort: most time above the roof first. */
static int gemm_order(const void *left, const void *right)
{
    const struct an_gemm_row *first = left, *second = right;
    int64_t above = first->total_ns - first->roof_ns, other = second->total_ns - second->roof_ns;
    if (above != other)
        return above > other ? -1 : 1;
    return strcmp(first->name, second->name);
}

int an_bounds_gemms(struct an_bounds *bounds)
{
    struct an_context *context = bounds->context;
    const struct an_calls *calls = context->calls;
    struct an_kernel_bounds *out = &context->result->bounds;
    struct gemm *gemms = an_arena_zero(context->scratch, calls->costs + 1, sizeof *gemms);
    struct an_gemm_row *rows = an_arena_zero(context->arena, calls->costs + 1, sizeof *rows);
    if (!gemms || !rows)
        return TACHO_ENOMEM;
    sum_gemms(bounds, gemms);
    for (size_t i = 0; i < calls->costs; i++)
        if (gemms[i].count)
            rows[out->gemm_count++] = (struct an_gemm_row){.count = (int64_t)i,
                                                           .total_ns = gemms[i].ns,
                                                           .roof_ns = (int64_t)gemms[i].roof_ns,
                                                           .name = ""};
    if (out->gemm_count)
        qsort(rows, out->gemm_count, sizeof *rows, gemm_order);
    out->gemm_count = out->gemm_count < GEMMS_MOST ? out->gemm_count : GEMMS_MOST;
    out->gemms = rows;
    for (size_t i = 0; i < out->gemm_count; i++) {
        const struct gemm *gemm = &gemms[rows[i].count];
        struct an_roof_call call = an_roof_call_of(context, &calls->call[gemm->call]);
        rows[i].name = an_arena_text(context->arena, call.name);
        rows[i].dtype = an_arena_text(context->arena, call.dtype);
        rows[i].count = gemm->count;
        rows[i].multiple = multiple_of(call.dtype);
        describe_waves(context, gemm->op, &rows[i]);
        if (describe_shapes(context, calls->call[gemm->call].slice, &rows[i]))
            return TACHO_ENOMEM;
    }
    return 0;
}

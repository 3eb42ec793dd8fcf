/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes of the tensors that a step makes: from the operator that writes it first to the last
 * one that uses it. What all have together at one moment is the least that any allocator needs; one
 * pool that is laid out ahead of time comes close. And operators that could write over what they
 * read: an element-wise one is the last that uses an operand as large as its result.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/allocator/pool.h"
#include "analyzers/dataflow/flow.h"

#define POOL_WORK INT64_C(60000000)

/* What the piece keeps of a tensor. */
struct life {
    int64_t start, end; /* operators */
    uint32_t into;      /* the tensor that takes its memory over; AN_NONE */
    bool taken;         /* it has the memory of another one */
};

/* ---- in place ---------------------------------------------------------------------------------- */

static bool is_made_here(const struct flow_tensor *tensor)
{
    return tensor->writer != AN_NONE && tensor->bytes > 0;
}

/* The tensor that operator `index` could write over; AN_NONE. */
static uint32_t operand_of(const struct flow *flow, uint32_t index, uint32_t result,
                           const struct life *life)
{
    const struct flow_op *op = &flow->op[index];
    for (size_t i = 0; i < op->uses; i++) {
        const struct flow_use *use = &flow->use[op->first_use + i];
        const struct flow_tensor *tensor = &flow->tensor[use->tensor];
        if (!use->writes && use->tensor != result && is_made_here(tensor) &&
            tensor->last == index && tensor->writer != index &&
            tensor->bytes == flow->tensor[result].bytes && life[use->tensor].into == AN_NONE)
            return use->tensor;
    }
    return AN_NONE;
}

/* Finds the pairs and adds them up by name. */
static size_t find_in_place(const struct flow *flow, struct life *life, struct an_flow_row *row)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < flow->count; i++) {
        const struct flow_op *op = &flow->op[i];
        for (size_t k = 0; k < op->uses && op->kind == FLOW_POINTWISE; k++) {
            const struct flow_use *use = &flow->use[op->first_use + k];
            if (!use->writes || flow->tensor[use->tensor].writer != i)
                continue;
            uint32_t operand = operand_of(flow, i, use->tensor, life);
            if (operand == AN_NONE)
                continue;
            life[operand].into = use->tensor;
            life[use->tensor].taken = true;
            flow_row_add(row, &rows, op, flow->tensor[use->tensor].bytes);
        }
    }
    return rows;
}

static int row_order(const void *left, const void *right)
{
    const struct an_flow_row *first = left, *second = right;
    return 2 * AN_COMPARE(second->bytes, first->bytes) + AN_COMPARE(second->count, first->count);
}

/* ---- the pool ---------------------------------------------------------------------------------- */

/* A buffer for each tensor that the step makes; with `merged`, one for each chain of tensors that
 * take over each other's memory. */
static size_t fill(const struct flow *flow, const struct life *life, bool merged,
                   struct pool_buffer *buffer)
{
    size_t count = 0;
    for (size_t i = 0; i < flow->tensor_count; i++) {
        if (!is_made_here(&flow->tensor[i]) || (merged && life[i].taken))
            continue;
        int64_t end = life[i].end;
        for (uint32_t next = life[i].into; merged && next != AN_NONE; next = life[next].into)
            end = life[next].end;
        buffer[count++] = (struct pool_buffer){
            .start = life[i].start, .end = end, .bytes = flow->tensor[i].bytes};
    }
    return count;
}

static int pack(const struct flow *flow, const struct life *life, struct an_dataflow *out)
{
    struct pool_buffer *buffer = malloc((flow->tensor_count + 1) * sizeof *buffer);
    struct pool_plan plan, merged;
    if (!buffer)
        return TACHO_ENOMEM;
    size_t count = fill(flow, life, false, buffer);
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = an_time_add(sum, buffer[i].bytes);
    out->tensor_count = an_int((int64_t)count);
    out->tensor_bytes = an_int(sum);
    int rc = pool_pack(buffer, count, POOL_WORK, &plan);
    if (!rc) {
        out->live_bound_bytes = an_int(plan.bound);
        out->pool_bytes = an_int(plan.bytes);
        count = fill(flow, life, true, buffer);
        rc = pool_pack(buffer, count, 0, &merged);
        out->in_place_saved_bytes = an_int(plan.bound - merged.bound);
    } else if (rc == TACHO_EUSAGE) {
        out->live_bound_bytes = out->pool_bytes = out->in_place_saved_bytes =
            an_int_none("the step makes more than 16384 tensors");
        rc = 0;
    }
    free(buffer);
    return rc;
}

int flow_lifetimes(const struct flow *flow, struct an_dataflow *out)
{
    const char *reason = "the trace does not name tensors";
    out->tensor_count = out->tensor_bytes = out->live_bound_bytes = out->pool_bytes =
        out->in_place_saved_bytes = an_int_none(reason);
    if (!flow->tensor_count)
        return 0;
    struct life *life = malloc(flow->tensor_count * sizeof *life);
    struct an_flow_row *row = calloc(flow->count + 1, sizeof *row);
    int rc = life && row ? 0 : TACHO_ENOMEM;
    for (size_t i = 0; i < flow->tensor_count && !rc; i++)
        life[i] = (struct life){flow->tensor[i].writer, (int64_t)flow->tensor[i].last + 1, AN_NONE,
                                false};
    if (!rc) {
        size_t rows = find_in_place(flow, life, row);
        qsort(row, rows, sizeof *row, row_order);
        out->in_place_count = rows;
        out->in_place = flow_keep_rows(flow, row, &out->in_place_count);
        rc = out->in_place ? pack(flow, life, out) : TACHO_ENOMEM;
    }
    free(life);
    free(row);
    return rc;
}

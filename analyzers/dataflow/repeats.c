/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that need not be done: operators of one name that read the same tensors, unchanged in
 * between, and give the same (common subexpressions); and operators whose results nothing in the
 * recording uses (dead work). Random numbers, communication, copies out and operators in place are
 * neither, nor is what a step computes once more on purpose (pass "recompute"). A result of the
 * step's end, such as a metric that is printed, looks like dead work.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzers/dataflow/flow.h"

struct rows {
    struct an_flow_row *row;
    size_t count;
};

static void add(struct rows *rows, const struct flow_op *op)
{
    flow_row_add(rows->row, &rows->count, op, op->written);
}

static int by_time(const void *left, const void *right)
{
    const struct an_flow_row *first = left, *second = right;
    return 2 * AN_COMPARE(second->ns, first->ns) + AN_COMPARE(second->count, first->count);
}

static const struct an_flow_row *keep(const struct flow *flow, struct rows *rows, size_t *count)
{
    qsort(rows->row, rows->count, sizeof *rows->row, by_time);
    *count = rows->count;
    return flow_keep_rows(flow, rows->row, count);
}

/* ---- repeated ---------------------------------------------------------------------------------- */

/* What an operator computes: its name and what it reads, as a hash. */
struct work {
    uint64_t hash;
    uint32_t op;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

/* Does an operator give nothing but its result, so that another one's would do? */
static bool is_pure(const struct flow *flow, const struct flow_op *op)
{
    bool reads = false, writes = false;
    if (!strcmp(op->pass, "recompute"))
        return false;
    for (size_t i = 0; i < op->uses; i++) {
        const struct flow_use *use = &flow->use[op->first_use + i];
        reads |= !use->writes;
        writes |= use->writes;
        for (size_t j = 0; use->writes && j < op->uses; j++) {
            const struct flow_use *other = &flow->use[op->first_use + j];
            if (!other->writes && other->tensor == use->tensor)
                return false;
        }
    }
    return reads && writes && op->kind != FLOW_VIEW && !flow_has_effects(op->name) &&
           !flow_is_in_place(op->name);
}

/* `version`: how often each tensor has been written so far. */
static uint64_t hash_of(const struct flow *flow, const struct flow_op *op, const uint32_t *version)
{
    uint64_t hash = mix(1469598103934665603u, (uint64_t)(uintptr_t)op->name);
    for (size_t i = 0; i < op->uses; i++) {
        const struct flow_use *use = &flow->use[op->first_use + i];
        hash = mix(hash, (uint64_t)use->bytes + (use->writes ? 1 : 0));
        if (use->writes)
            continue;
        hash = mix(hash, use->tensor);
        hash = mix(hash, version[use->tensor]);
        hash = mix(hash, (uint64_t)use->offset);
    }
    return hash;
}

static int work_order(const void *left, const void *right)
{
    const struct work *first = left, *second = right;
    return 2 * AN_COMPARE(first->hash, second->hash) + AN_COMPARE(first->op, second->op);
}

static void find_repeated(const struct flow *flow, struct work *work, uint32_t *version,
                          struct rows *rows)
{
    size_t count = 0;
    for (uint32_t i = 0; i < flow->count; i++) {
        const struct flow_op *op = &flow->op[i];
        if (is_pure(flow, op))
            work[count++] = (struct work){hash_of(flow, op, version), i};
        for (size_t k = 0; k < op->uses; k++)
            if (flow->use[op->first_use + k].writes)
                version[flow->use[op->first_use + k].tensor]++;
    }
    qsort(work, count, sizeof *work, work_order);
    for (size_t i = 1; i < count; i++)
        if (work[i].hash == work[i - 1].hash)
            add(rows, &flow->op[work[i].op]);
}

/* ---- dead -------------------------------------------------------------------------------------- */

/* From the last operator to the first: one is used if it is not pure, or if something that is used
 * reads a tensor that it writes. */
static void find_dead(const struct flow *flow, bool *needed, struct rows *rows)
{
    for (size_t i = flow->count; i-- > 0;) {
        const struct flow_op *op = &flow->op[i];
        bool used = !is_pure(flow, op) && op->kind != FLOW_VIEW;
        for (size_t k = 0; k < op->uses; k++) {
            const struct flow_use *use = &flow->use[op->first_use + k];
            used |= use->writes && needed[use->tensor];
        }
        if (!used && op->kind != FLOW_VIEW)
            add(rows, op);
        for (size_t k = 0; k < op->uses && used; k++)
            if (!flow->use[op->first_use + k].writes)
                needed[flow->use[op->first_use + k].tensor] = true;
    }
}

int flow_repeats(const struct flow *flow, struct an_dataflow *out)
{
    if (!flow->tensor_count)
        return 0;
    struct rows repeated = {calloc(flow->count + 1, sizeof *repeated.row), 0},
                dead = {calloc(flow->count + 1, sizeof *dead.row), 0};
    struct work *work = malloc((flow->count + 1) * sizeof *work);
    uint32_t *version = calloc(flow->tensor_count + 1, sizeof *version);
    bool *needed = calloc(flow->tensor_count + 1, sizeof *needed);
    int rc = repeated.row && dead.row && work && version && needed ? 0 : TACHO_ENOMEM;
    if (!rc) {
        find_repeated(flow, work, version, &repeated);
        find_dead(flow, needed, &dead);
        out->repeated = keep(flow, &repeated, &out->repeated_count);
        out->dead = keep(flow, &dead, &out->dead_count);
        rc = out->repeated && out->dead ? 0 : TACHO_ENOMEM;
    }
    free(repeated.row);
    free(dead.row);
    free(work);
    free(version);
    free(needed);
    return rc;
}

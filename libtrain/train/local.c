/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are brought together every few steps.
 */
#include "libtrain/train/local.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/parallel/shard.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

/* Is the mean a gradient of an outer step? */
static int steps_outside(const struct lt_local_config *config)
{
    return config->rate < 1 || config->rate > 1 || config->momentum > 0;
}

void lt_local_memory(const struct lt_local_config *config, int ranks, size_t count,
                     struct lt_memory_plan *out)
{
    if (!config->every || ranks < 2)
        return;
    out->tag[LT_MEMORY_WORKSPACE] +=
        lt_group_scratch(LT_ALL_REDUCE_RING, ranks, LT_DTYPE_FP32, count);
    if (steps_outside(config))
        out->tag[LT_MEMORY_OPTIMIZER] += 2 * count * sizeof(float);
}

int lt_local_open(struct lt_local *local, const struct lt_local_config *config,
                  struct lt_group *group, const struct lt_parameters *parameters,
                  struct lt_trace *trace)
{
    *local = (struct lt_local){
        .config = *config, .group = group, .parameters = parameters, .trace = trace};
    if (!config->every || group->ranks < 2)
        return 0;
    local->scratch_bytes =
        lt_group_scratch(LT_ALL_REDUCE_RING, group->ranks, LT_DTYPE_FP32, parameters->count);
    local->scratch = malloc(local->scratch_bytes + 1);
    if (!local->scratch)
        return TACHO_ENOMEM;
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)local->scratch_bytes);
    if (!steps_outside(config))
        return 0;
    struct lt_tensor arrays[] = {
        {.name = "anchor", .count = parameters->count, .slot = &local->anchor},
        {.name = "velocity", .count = parameters->count, .slot = &local->velocity}};
    int rc = lt_arena_create(&local->arena, LT_MEMORY_OPTIMIZER, arrays, 2);
    if (rc == 0)
        lt_local_restart(local);
    return rc;
}

void lt_local_restart(struct lt_local *local)
{
    if (!local->anchor)
        return;
    memcpy(local->anchor, local->parameters->value, local->parameters->count * sizeof(float));
    memset(local->velocity, 0, local->parameters->count * sizeof(float));
}

void lt_local_close(struct lt_local *local)
{
    if (!local->scratch)
        return;
    lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)local->scratch_bytes);
    free(local->scratch);
    lt_arena_destroy(&local->arena);
    *local = (struct lt_local){0};
}

/* The weights of all ranks become their sum. */
static void sum(struct lt_local *local)
{
    const struct lt_parameters *parameters = local->parameters;
    struct lt_group *group = local->group;
    struct lt_group_sent one = lt_group_formula(LT_ALL_REDUCE_RING, group->rank, group->ranks, 0,
                                                LT_DTYPE_FP32, parameters->count);
    struct tacho_comm comm = {.bytes = parameters->count * sizeof(float),
                              .communicator = LT_COMMUNICATOR_PARAMETERS,
                              .sequence = local->sequence++,
                              .op = TACHO_COMM_ALL_REDUCE,
                              .ranks = (uint32_t)group->ranks};
    lt_trace_begin(local->trace, LT_RANGE_COMM_WAIT, 0, 0);
    lt_trace_comm_begin(local->trace, LT_RANGE_ALL_REDUCE, &comm);
    lt_group_all_reduce(group, LT_ALL_REDUCE_RING, LT_DTYPE_FP32, parameters->value,
                        parameters->count, local->scratch);
    lt_trace_end(local->trace);
    lt_trace_end(local->trace);
    local->formula.bytes += one.bytes;
    local->formula.messages += one.messages;
}

void lt_local_step(struct lt_local *local, int64_t step)
{
    float *value = local->parameters ? local->parameters->value : NULL, *anchor = local->anchor,
          share = 1 / (float)(local->scratch ? local->group->ranks : 1);
    float rate = (float)local->config.rate, momentum = (float)local->config.momentum;
    if (!local->scratch || (step + 1) % local->config.every)
        return;
    sum(local);
    for (size_t i = 0; i < local->parameters->count; i++) {
        float mean = value[i] * share;
        if (anchor) {
            float distance = anchor[i] - mean;
            local->velocity[i] = momentum * local->velocity[i] + distance;
            mean = anchor[i] - rate * (distance + momentum * local->velocity[i]);
            anchor[i] = mean;
        }
        value[i] = mean;
    }
    lt_parameters_refresh(local->parameters);
}

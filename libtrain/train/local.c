/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are brought together every few steps: the mean of all, outer steps towards it, and
 * gossip between pairs (Boyd et al. 2006; Lian et al. 2017), where in a round each rank takes the
 * mean of its weights and those of one other rank, so that the mean over all ranks stays. Pairs are
 * those of a round-robin tournament: in N - 1 rounds (N of an odd number of ranks, one of which
 * rests) every rank meets every other one.
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

int lt_local_find(const char *name)
{
    static const char *const names[] = {
#define ROW(id, text) text,
        LT_LOCAL_MAP(ROW)
#undef ROW
    };
    for (int i = 0; i < LT_LOCAL_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* Bytes beside outer steps: of the ring; of another rank's weights; what the server says. */
static size_t scratch_bytes(const struct lt_local_config *config, int rank, int ranks, size_t count)
{
    if (config->kind == LT_LOCAL_GOSSIP)
        return count * sizeof(float);
    if (config->kind == LT_LOCAL_SERVER)
        return lt_server_floats(config, rank, count) * sizeof(float);
    return lt_group_scratch(LT_ALL_REDUCE_RING, ranks, LT_DTYPE_FP32, count);
}

void lt_local_memory(const struct lt_local_config *config, int rank, int ranks, size_t count,
                     struct lt_memory_plan *out)
{
    if (!config->every || ranks < 2)
        return;
    out->tag[LT_MEMORY_WORKSPACE] += scratch_bytes(config, rank, ranks, count);
    if (steps_outside(config))
        out->tag[LT_MEMORY_OPTIMIZER] += 2 * count * sizeof(float);
}

int lt_local_open(struct lt_local *local, const struct lt_local_config *config,
                  struct lt_group *group, const struct lt_parameters *parameters,
                  struct lt_trace *trace)
{
    *local = (struct lt_local){
        .config = *config, .group = group, .parameters = parameters, .trace = trace, .together = 1};
    if (!config->every || group->ranks < 2)
        return 0;
    local->scratch_bytes = scratch_bytes(config, group->rank, group->ranks, parameters->count);
    local->scratch = malloc(local->scratch_bytes + 1);
    if (!local->scratch)
        return TACHO_ENOMEM;
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)local->scratch_bytes);
    if (config->kind == LT_LOCAL_SERVER)
        return lt_server_open(local);
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
    if (local->server)
        lt_server_restart(local);
    if (!local->anchor)
        return;
    memcpy(local->anchor, local->parameters->value, local->parameters->count * sizeof(float));
    memset(local->velocity, 0, local->parameters->count * sizeof(float));
}

void lt_local_close(struct lt_local *local)
{
    if (!local->scratch)
        return;
    lt_server_close(local);
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
    lt_local_begin(local, LT_RANGE_ALL_REDUCE, &comm);
    lt_group_all_reduce(group, LT_ALL_REDUCE_RING, LT_DTYPE_FP32, parameters->value,
                        parameters->count, local->scratch);
    lt_local_end(local);
    local->formula.bytes += one.bytes;
    local->formula.messages += one.messages;
}

/* All take the mean, by an outer step where there is one. */
static void take_mean(struct lt_local *local)
{
    float *value = local->parameters->value, *anchor = local->anchor,
          share = 1 / (float)local->group->ranks;
    float rate = (float)local->config.rate, momentum = (float)local->config.momentum;
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
}

void lt_local_step(struct lt_local *local, int64_t step, int together)
{
    int mean = local->config.kind == LT_LOCAL_MEAN;
    if (!local->scratch)
        return;
    int due = (step + 1) % local->config.every == 0;
    local->together = mean ? due : together;
    if (!due && (mean || !together))
        return;
    if (local->config.kind == LT_LOCAL_SERVER)
        lt_server_round(local, together);
    else if (mean || together)
        take_mean(local);
    else
        lt_gossip_round(local, (step + 1) / local->config.every - 1);
    lt_parameters_refresh(local->parameters);
}

int64_t lt_local_delay(const struct lt_local *local)
{
    return local->server ? lt_server_delay(local) : 0;
}

/* ---- gossip --------------------------------------------------------------------------------------- */

#define PAIRS (1u << 21) /* communicators, by the lower rank of a pair and the higher one */

/* Whom a rank meets, or itself. Ranks but the last of an even number sit at a round table: those
 * whose numbers add up to the round's meet, and the one that would meet itself meets the last. */
static int partner(int rank, int ranks, int64_t round)
{
    int seats = ranks - (ranks + 1) % 2, turn = (int)(round % seats);
    if (rank == seats) { /* twice its number is the round's */
        int half = turn % 2 ? turn + seats : turn;
        return half / 2;
    }
    int other = (turn - rank + seats) % seats;
    if (other == rank && seats < ranks)
        return seats;
    return other;
}

void lt_gossip_round(struct lt_local *local, int64_t round)
{
    struct lt_group *group = local->group;
    const struct lt_parameters *parameters = local->parameters;
    float *value = parameters->value, *theirs = local->scratch;
    size_t bytes = parameters->count * sizeof *value;
    int own = group->rank, other = partner(own, group->ranks, round);
    if (other == own)
        return;
    uint64_t low = (uint64_t)(own < other ? own : other), high = (uint64_t)(own + other) - low;
    struct tacho_comm comm = {.bytes = bytes,
                              .communicator = PAIRS + low * (uint64_t)group->ranks + high,
                              .sequence = (uint64_t)round,
                              .op = TACHO_COMM_ALL_REDUCE,
                              .ranks = 2};
    lt_local_begin(local, LT_RANGE_ALL_REDUCE, &comm);
    lt_group_exchange(group, other, value, bytes, other, theirs, bytes);
    lt_local_end(local);
    local->formula.bytes += bytes;
    local->formula.messages++;
    for (size_t i = 0; i < parameters->count; i++)
        value[i] = (value[i] + theirs[i]) / 2; /* the same bits on both */
}

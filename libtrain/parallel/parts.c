/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and gathers of ranks that divide layers.
 */
#include "libtrain/parallel/parts.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

static void begin(struct lt_parts *parts, enum lt_range range, uint32_t op, size_t bytes)
{
    struct tacho_comm comm = {.bytes = bytes,
                              .communicator = parts->communicator,
                              .sequence = parts->sequence++,
                              .op = op,
                              .ranks = (uint32_t)parts->group->ranks};
    lt_trace_begin(parts->trace, LT_RANGE_COMM_WAIT, 0, 0);
    lt_trace_comm_begin(parts->trace, range, &comm);
}

static void end(struct lt_parts *parts)
{
    lt_trace_end(parts->trace);
    lt_trace_end(parts->trace);
}

static void sum(void *arg, enum lt_dtype dtype, void *data, size_t count)
{
    struct lt_parts *parts = arg;
    struct lt_group *group = parts->group;
    struct lt_group_sent one =
        lt_group_formula(LT_ALL_REDUCE_RING, group->rank, group->ranks, 0, dtype, count);
    begin(parts, LT_RANGE_ALL_REDUCE, TACHO_COMM_ALL_REDUCE, count * lt_dtype_bytes(dtype));
    lt_group_all_reduce(group, LT_ALL_REDUCE_RING, dtype, data, count, parts->scratch);
    end(parts);
    parts->formula.bytes += one.bytes;
    parts->formula.messages += one.messages;
}

static void gather(void *arg, const float *mine, float *all, size_t count)
{
    struct lt_parts *parts = arg;
    struct lt_group *group = parts->group;
    size_t ranks = (size_t)group->ranks;
    begin(parts, LT_RANGE_ALL_GATHER, TACHO_COMM_ALL_GATHER, ranks * count * sizeof *all);
    memcpy(all + (size_t)group->rank * count, mine, count * sizeof *all);
    lt_group_all_gather(group, LT_DTYPE_FP32, all, ranks * count);
    end(parts);
    parts->formula.bytes += (ranks - 1) * count * sizeof *all;
    parts->formula.messages += ranks - 1;
}

/* Half of what a sum sends: all chunks but the own, or but that of the next rank. */
static void count_half(struct lt_parts *parts, enum lt_dtype dtype, size_t count, int but)
{
    int ranks = parts->group->ranks;
    size_t kept = lt_group_chunk(count, ranks, but + 1) - lt_group_chunk(count, ranks, but);
    parts->formula.bytes += (count - kept) * lt_dtype_bytes(dtype);
    parts->formula.messages += (uint64_t)ranks - 1;
}

static void scatter(void *arg, enum lt_dtype dtype, void *data, size_t count)
{
    struct lt_parts *parts = arg;
    begin(parts, LT_RANGE_REDUCE_SCATTER, TACHO_COMM_REDUCE_SCATTER, count * lt_dtype_bytes(dtype));
    lt_group_reduce_scatter(parts->group, dtype, data, count, parts->scratch);
    end(parts);
    count_half(parts, dtype, count, parts->group->rank);
}

static void join(void *arg, enum lt_dtype dtype, void *data, size_t count)
{
    struct lt_parts *parts = arg;
    begin(parts, LT_RANGE_ALL_GATHER, TACHO_COMM_ALL_GATHER, count * lt_dtype_bytes(dtype));
    lt_group_all_gather(parts->group, dtype, data, count);
    end(parts);
    count_half(parts, dtype, count, (parts->group->rank + 1) % parts->group->ranks);
}

/* Copies the part that one rank has of an array in one of its two forms, into a message or from it.
 */
static void copy_part(const struct lt_turn *shape, const struct lt_group *group, int peer,
                      int heads, size_t element, char *array, char *message, int packs)
{
    size_t bytes = (size_t)shape->width * element;
    int64_t ranks = group->ranks;
    for (int64_t b = 0; b < shape->b; b++)
        for (int64_t t = 0; t < shape->t; t++)
            for (int64_t g = 0; g < shape->groups; g++) {
                int64_t place = heads ? ((b * ranks + peer) * shape->t + t) * shape->groups + g
                                      : ((b * shape->t + t) * shape->groups + g) * ranks + peer;
                char *there = array + (size_t)place * bytes;
                memcpy(packs ? message : there, packs ? there : message, bytes);
                message += bytes;
            }
}

static void turn(void *arg, enum lt_dtype dtype, const struct lt_turn *shape, int to_heads,
                 const void *from, void *to)
{
    struct lt_parts *parts = arg;
    struct lt_group *group = parts->group;
    size_t element = lt_dtype_bytes(dtype), ranks = (size_t)group->ranks,
           bytes = (size_t)(shape->b * shape->t * shape->groups * shape->width) * element;
    char *out = parts->scratch, *in = out + bytes, *source = (char *)(uintptr_t)from;
    begin(parts, LT_RANGE_ALL_TO_ALL, TACHO_COMM_ALL_TO_ALL, bytes * ranks);
    for (int k = 0; k < group->ranks; k++) {
        int next = (group->rank + k) % group->ranks,
            before = (group->rank + group->ranks - k) % group->ranks;
        copy_part(shape, group, next, !to_heads, element, source, k ? out : in, 1);
        if (k)
            lt_group_exchange(group, next, out, bytes, before, in, bytes);
        copy_part(shape, group, before, to_heads, element, to, in, 0);
    }
    end(parts);
    parts->formula.bytes += (ranks - 1) * bytes;
    parts->formula.messages += ranks - 1;
}

/* One part of queries, keys and values that goes, and one that comes. */
size_t lt_parts_turn_bytes(int ranks, size_t boundary)
{
    return 2 * 3 * boundary / (size_t)ranks;
}

/* A chunk of a sum. */
size_t lt_parts_bytes(int ranks, size_t boundary)
{
    return lt_group_scratch(LT_ALL_REDUCE_RING, ranks, LT_DTYPE_BF16, boundary / sizeof(uint16_t));
}

int lt_parts_open(struct lt_parts *parts, struct lt_group *group, size_t scratch_bytes,
                  uint64_t communicator, struct lt_trace *trace)
{
    *parts = (struct lt_parts){.hooks = {.rank = group->rank,
                                         .ranks = group->ranks,
                                         .sum = sum,
                                         .gather = gather,
                                         .scatter = scatter,
                                         .join = join,
                                         .turn = turn,
                                         .arg = parts},
                               .group = group,
                               .trace = trace,
                               .communicator = communicator,
                               .scratch_bytes = scratch_bytes + sizeof(float)};
    parts->scratch = malloc(parts->scratch_bytes + 1);
    if (!parts->scratch)
        return TACHO_ENOMEM;
    lt_memory_add(LT_MEMORY_WORKSPACE, (int64_t)parts->scratch_bytes);
    return 0;
}

void lt_parts_close(struct lt_parts *parts)
{
    if (!parts->scratch)
        return;
    lt_memory_add(LT_MEMORY_WORKSPACE, -(int64_t)parts->scratch_bytes);
    free(parts->scratch);
    parts->scratch = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and gathers of ranks that divide layers.
 */
#include "libtrain/parallel/parts.h"

#include <stdlib.h>
#include <string.h>

#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

static struct tacho_comm call(struct lt_parts *parts, uint32_t op, size_t bytes)
{
    return (struct tacho_comm){.bytes = bytes,
                               .communicator = parts->communicator,
                               .sequence = parts->sequence++,
                               .op = op,
                               .ranks = (uint32_t)parts->group->ranks};
}

static void begin(struct lt_parts *parts, enum lt_range range, uint32_t op, size_t bytes)
{
    struct tacho_comm comm = call(parts, op, bytes);
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

static void pass(void *arg, const void *out, void *in, size_t bytes)
{
    struct lt_parts *parts = arg;
    struct lt_group *group = parts->group;
    begin(parts, LT_RANGE_ALL_TO_ALL, TACHO_COMM_ALL_TO_ALL, bytes);
    lt_group_exchange(group, (group->rank + 1) % group->ranks, out, bytes,
                      (group->rank + group->ranks - 1) % group->ranks, in, bytes);
    end(parts);
    parts->formula.bytes += bytes;
    parts->formula.messages++;
}

/* ---- rows of experts --------------------------------------------------------------------------- */

/* Experts of each rank. */
static int64_t own_experts(const struct lt_parts *parts, const struct lt_spread *spread)
{
    return spread->experts / parts->group->ranks;
}

/* The rows that go between this rank and another one, or itself, for expert `index` of the one that
 * has it: held by it, or in slots of the other. */
static int64_t rows_of(const struct lt_parts *parts, const struct lt_spread *spread, int peer,
                       int64_t index, int held)
{
    int64_t rows = (int64_t)(held ? spread->taken[index * parts->group->ranks + peer]
                                  : spread->load[peer * own_experts(parts, spread) + index]);
    return rows < spread->capacity ? rows : spread->capacity;
}

/* All rows that go between this rank and another one. */
static int64_t rows_with(const struct lt_parts *parts, const struct lt_spread *spread, int peer,
                         int held)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < own_experts(parts, spread); i++)
        rows += rows_of(parts, spread, peer, i, held);
    return rows;
}

/* Copies these rows from an array in one of its two forms into a message, or back. What is held for
 * a rank beyond its rows becomes zeros. Returns bytes of the message. */
static size_t copy_rows(const struct lt_parts *parts, const struct lt_spread *spread, int peer,
                        int held, size_t row, char *array, char *message, int packs)
{
    char *at = message;
    for (int64_t i = 0; i < own_experts(parts, spread); i++) {
        int64_t place =
            held ? i * parts->group->ranks + peer : peer * own_experts(parts, spread) + i;
        size_t bytes = (size_t)rows_of(parts, spread, peer, i, held) * row,
               room = (size_t)spread->capacity * row;
        char *there = array + (size_t)place * room;
        if (packs)
            memcpy(at, there, bytes);
        else
            memcpy(there, at, bytes);
        if (held && !packs)
            memset(there + bytes, 0, room - bytes);
        at += bytes;
    }
    return (size_t)(at - message);
}

/* How many rows of this rank go to `next` for each of its experts, and of `before` come here. The
 * messages are used for it before the rows need them. */
static void exchange_counts(struct lt_parts *parts, const struct lt_spread *spread, int next,
                            int before, char *out, char *in)
{
    int64_t own = own_experts(parts, spread);
    size_t bytes = (size_t)own * sizeof(int32_t);
    for (int64_t i = 0; i < own; i++) {
        int32_t rows = (int32_t)rows_of(parts, spread, next, i, 0);
        memcpy(out + (size_t)i * sizeof rows, &rows, sizeof rows);
    }
    if (next == before && next == parts->group->rank)
        memcpy(in, out, bytes);
    else
        lt_group_exchange(parts->group, next, out, bytes, before, in, bytes);
    for (int64_t i = 0; i < own; i++) {
        int32_t rows = 0;
        memcpy(&rows, in + (size_t)i * sizeof rows, sizeof rows);
        spread->taken[i * parts->group->ranks + before] = (float)(rows > 0 ? rows : 0);
    }
}

/* What the routers' choices make a rank send in one call. */
static void count_rows(struct lt_parts *parts, const struct lt_spread *spread, int gathers,
                       size_t row, int counts)
{
    for (int peer = 0; peer < parts->group->ranks; peer++) {
        if (peer == parts->group->rank)
            continue;
        parts->formula.bytes += (size_t)rows_with(parts, spread, peer, !gathers) * row;
        parts->formula.messages++;
        if (counts) {
            parts->formula.bytes += (size_t)own_experts(parts, spread) * sizeof(int32_t);
            parts->formula.messages++;
        }
    }
}

static void spread_rows(void *arg, enum lt_dtype dtype, const struct lt_spread *spread,
                        int backward)
{
    struct lt_parts *parts = arg;
    struct lt_group *group = parts->group;
    int gathers = spread->to_owners != backward, counts = gathers && !backward;
    size_t row = (size_t)spread->c * lt_dtype_bytes(dtype),
           room = (size_t)(own_experts(parts, spread) * spread->capacity) * row, bytes = 0;
    char *out = parts->scratch, *in = out + room, *from = (char *)(uintptr_t)spread->in,
         *to = spread->out;
    if (backward) {
        from = (char *)(uintptr_t)spread->dout;
        to = spread->din;
    }
    for (int peer = 0; peer < group->ranks; peer++)
        bytes += (size_t)rows_with(parts, spread, peer, !gathers) * row;
    struct tacho_comm comm = call(parts, TACHO_COMM_ALL_TO_ALL, bytes);
    lt_trace_begin(parts->trace, LT_RANGE_COMM_WAIT, 0, 0);
    lt_trace_comm_begin_uneven(parts->trace, LT_RANGE_ALL_TO_ALL, &comm);
    for (int k = 0; k < group->ranks; k++) {
        int next = (group->rank + k) % group->ranks,
            before = (group->rank + group->ranks - k) % group->ranks;
        if (counts)
            exchange_counts(parts, spread, next, before, out, in);
        size_t sent = copy_rows(parts, spread, next, !gathers, row, from, k ? out : in, 1),
               comes = (size_t)rows_with(parts, spread, before, gathers) * row;
        if (k)
            lt_group_exchange(group, next, out, sent, before, in, comes);
        copy_rows(parts, spread, before, gathers, row, to, in, 0);
    }
    end(parts);
    count_rows(parts, spread, gathers, row, counts);
}

/* Rows that go, and rows that come. */
size_t lt_parts_spread_bytes(int ranks, size_t boundary)
{
    return 2 * boundary / (size_t)ranks;
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
                                         .pass = pass,
                                         .spread = spread_rows,
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

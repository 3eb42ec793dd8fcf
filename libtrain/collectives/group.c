/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives, each as its messages. Everything is written with one primitive, an exchange with
 * one rank or with two, which also counts.
 */
#include "libtrain/collectives/group.h"

#include <string.h>

/* An array that a collective works on. */
struct array {
    char *data;
    size_t count, element; /* elements, bytes of each */
    enum lt_dtype dtype;
};

static struct array array_of(enum lt_dtype dtype, void *data, size_t count)
{
    return (struct array){
        .data = data, .count = count, .element = lt_dtype_bytes(dtype), .dtype = dtype};
}

/* Bytes [first, end) of elements. */
static char *at(const struct array *array, size_t element)
{
    return array->data + element * array->element;
}

void lt_group_exchange(struct lt_group *group, int to, const void *out, size_t out_bytes, int from,
                       void *in, size_t in_bytes)
{
    if (to >= 0) {
        group->bytes += out_bytes;
        group->messages++;
    }
    group->exchange(group->arg, to, out, out_bytes, from, in, in_bytes);
}

/* sum[i] += term[i]. Written so that the sum of two arrays does not depend on which is which. */
static void add(const struct array *array, char *sum, const void *term, size_t count)
{
    if (array->dtype == LT_DTYPE_FP32) {
        float *sums = (float *)(void *)sum;
        const float *terms = term;
        for (size_t i = 0; i < count; i++)
            sums[i] += terms[i];
        return;
    }
    uint16_t *sums = (uint16_t *)(void *)sum;
    const uint16_t *terms = term;
    for (size_t i = 0; i < count; i++)
        sums[i] = lt_bf16_round(lt_bf16_float(sums[i]) + lt_bf16_float(terms[i]));
}

static int modulo(int index, int ranks)
{
    return (index % ranks + ranks) % ranks;
}

/* ---- ring ------------------------------------------------------------------------------------ */

/* Elements and bytes of chunk `index`. */
struct chunk {
    char *data;
    size_t count, bytes;
};

static struct chunk chunk_of(const struct array *array, int ranks, int index)
{
    size_t first = lt_group_chunk(array->count, ranks, index),
           count = lt_group_chunk(array->count, ranks, index + 1) - first;
    return (struct chunk){at(array, first), count, count * array->element};
}

/* In round k, rank r sends chunk r - 1 - k to the next rank and adds chunk r - 2 - k from the one
 * before; after N - 1 rounds its own chunk is complete. */
static void scatter(struct lt_group *group, const struct array *array, void *scratch)
{
    int ranks = group->ranks, rank = group->rank;
    for (int k = 0; k + 1 < ranks; k++) {
        struct chunk out = chunk_of(array, ranks, modulo(rank - 1 - k, ranks)),
                     in = chunk_of(array, ranks, modulo(rank - 2 - k, ranks));
        lt_group_exchange(group, modulo(rank + 1, ranks), out.data, out.bytes,
                          modulo(rank - 1, ranks), scratch, in.bytes);
        add(array, in.data, scratch, in.count);
    }
}

/* In round k, rank r sends chunk r - k to the next rank and gets chunk r - 1 - k. */
static void gather(struct lt_group *group, const struct array *array)
{
    int ranks = group->ranks, rank = group->rank;
    for (int k = 0; k + 1 < ranks; k++) {
        struct chunk out = chunk_of(array, ranks, modulo(rank - k, ranks)),
                     in = chunk_of(array, ranks, modulo(rank - 1 - k, ranks));
        lt_group_exchange(group, modulo(rank + 1, ranks), out.data, out.bytes,
                          modulo(rank - 1, ranks), in.data, in.bytes);
    }
}

static void ring(struct lt_group *group, const struct array *array, void *scratch)
{
    scatter(group, array, scratch);
    gather(group, array);
}

/* ---- hierarchical ---------------------------------------------------------------------------- */

/* Every stride-th rank of a group, as a group. */
struct slice {
    struct lt_group *group;
    int first, stride;
};

static void slice_exchange(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                           size_t in_bytes)
{
    const struct slice *slice = arg;
    lt_group_exchange(slice->group, to < 0 ? to : slice->first + to * slice->stride, out, out_bytes,
                      from < 0 ? from : slice->first + from * slice->stride, in, in_bytes);
}

static int machines(int ranks, int near)
{
    return near > 0 && ranks % near == 0 ? ranks / near : 1;
}

static void hierarchical(struct lt_group *group, const struct array *array, void *scratch)
{
    int count = machines(group->ranks, group->near), near = group->ranks / count;
    struct slice inside = {group, group->rank / near * near, 1},
                 between = {group, group->rank % near, near};
    struct lt_group machine = {.rank = group->rank % near,
                               .ranks = near,
                               .exchange = slice_exchange,
                               .arg = &inside},
                    others = {.rank = group->rank / near,
                              .ranks = count,
                              .exchange = slice_exchange,
                              .arg = &between};
    struct chunk own = chunk_of(array, near, machine.rank);
    struct array part = {own.data, own.count, array->element, array->dtype};
    scatter(&machine, array, scratch);
    ring(&others, &part, scratch);
    gather(&machine, array);
}

/* ---- tree ------------------------------------------------------------------------------------ */

/* The lowest bit of a rank, which is where it meets its parent; of the root, a power of two that is
 * not below the number of ranks. */
static int meeting(int rank, int ranks)
{
    int bit = 1;
    while (bit < ranks && !(rank & bit))
        bit *= 2;
    return bit;
}

/* Ranks count from the root. Each takes the arrays of its children, nearest first, then hands the
 * sum to its parent. */
static void tree_up(struct lt_group *group, const struct array *array, void *scratch)
{
    int rank = group->rank, ranks = group->ranks, top = meeting(rank, ranks);
    size_t bytes = array->count * array->element;
    for (int bit = 1; bit < top && rank + bit < ranks; bit *= 2) {
        lt_group_exchange(group, -1, NULL, 0, rank + bit, scratch, bytes);
        add(array, array->data, scratch, array->count);
    }
    if (rank)
        lt_group_exchange(group, rank - top, array->data, bytes, -1, NULL, 0);
}

void lt_group_broadcast(struct lt_group *group, int root, void *data, size_t bytes)
{
    int ranks = group->ranks, rank = modulo(group->rank - root, ranks), top = meeting(rank, ranks);
    if (rank)
        lt_group_exchange(group, -1, NULL, 0, modulo(rank - top + root, ranks), data, bytes);
    for (int bit = top / 2; bit >= 1; bit /= 2)
        if (rank + bit < ranks)
            lt_group_exchange(group, modulo(rank + bit + root, ranks), data, bytes, -1, NULL, 0);
}

static void tree(struct lt_group *group, const struct array *array, void *scratch)
{
    tree_up(group, array, scratch);
    lt_group_broadcast(group, 0, array->data, array->count * array->element);
}

/* ---- recursive doubling ---------------------------------------------------------------------- */

/* The largest power of two that is not above `ranks`. */
static int power_below(int ranks)
{
    int power = 1;
    while (2 * power <= ranks)
        power *= 2;
    return power;
}

/* Ranks from `power` on hand their array to rank - power, and get the sum at the end; the others
 * exchange whole arrays with the rank that differs in one bit, lowest bit first. */
static void doubling(struct lt_group *group, const struct array *array, void *scratch)
{
    int rank = group->rank, power = power_below(group->ranks), extra = group->ranks - power;
    size_t bytes = array->count * array->element;
    if (rank >= power) {
        lt_group_exchange(group, rank - power, array->data, bytes, -1, NULL, 0);
        lt_group_exchange(group, -1, NULL, 0, rank - power, array->data, bytes);
        return;
    }
    if (rank < extra) {
        lt_group_exchange(group, -1, NULL, 0, rank + power, scratch, bytes);
        add(array, array->data, scratch, array->count);
    }
    for (int bit = 1; bit < power; bit *= 2) {
        lt_group_exchange(group, rank ^ bit, array->data, bytes, rank ^ bit, scratch, bytes);
        add(array, array->data, scratch, array->count);
    }
    if (rank < extra)
        lt_group_exchange(group, rank + power, array->data, bytes, -1, NULL, 0);
}

/* ---- ordered --------------------------------------------------------------------------------- */

/* The sum's first term, or one more. */
static void add_term(const struct array *array, void *sum, const void *term, size_t count,
                     int first)
{
    if (!first)
        add(array, sum, term, count);
    else if (count && sum != term)
        memcpy(sum, term, count * array->element);
}

/* In round k, rank r sends chunk r + k to its owner and gets its own chunk from rank r - k. The
 * chunks are added up when all are there, in the order of ranks. */
static void collect(struct lt_group *group, const struct array *array, void *sum, int first,
                    void *scratch)
{
    int rank = group->rank, ranks = group->ranks;
    struct chunk own = chunk_of(array, ranks, rank);
    char *others = scratch;
    for (int k = 1; k < ranks; k++) {
        int to = modulo(rank + k, ranks), from = modulo(rank - k, ranks);
        struct chunk out = chunk_of(array, ranks, to);
        lt_group_exchange(group, to, out.data, out.bytes, from, others + (size_t)from * own.bytes,
                          own.bytes);
    }
    if (own.bytes)
        memcpy(others + (size_t)rank * own.bytes, own.data, own.bytes);
    for (int i = 0; i < ranks; i++)
        add_term(array, sum, others + (size_t)i * own.bytes, own.count, first && i == 0);
}

static void ordered(struct lt_group *group, const struct array *array, void *scratch)
{
    collect(group, array, chunk_of(array, group->ranks, group->rank).data, 1, scratch);
    gather(group, array);
}

/* ---- the door -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(struct lt_group *group, const struct array *array, void *scratch);
} kinds[LT_ALL_REDUCE_COUNT] = {
#define ROW(id, function, text) [LT_ALL_REDUCE_##id] = {(text), (function)},
    LT_ALL_REDUCE_MAP(ROW)
#undef ROW
};

size_t lt_group_scratch(enum lt_all_reduce kind, int ranks, enum lt_dtype dtype, size_t count)
{
    size_t chunk = (count + (size_t)ranks - 1) / (size_t)ranks, bytes = lt_dtype_bytes(dtype);
    switch (kind) {
    case LT_ALL_REDUCE_RING:
        return chunk * bytes;
    case LT_ALL_REDUCE_ORDERED:
        return chunk * bytes * (size_t)ranks;
    case LT_ALL_REDUCE_TREE:
    case LT_ALL_REDUCE_DOUBLING:
    case LT_ALL_REDUCE_HIERARCHICAL: /* a chunk of a machine's ranks, which may be few */
    case LT_ALL_REDUCE_COUNT:
        break;
    }
    return count * bytes;
}

void lt_group_all_reduce(struct lt_group *group, enum lt_all_reduce kind, enum lt_dtype dtype,
                         void *data, size_t count, void *scratch)
{
    struct array array = array_of(dtype, data, count);
    if (group->ranks > 1 && count > 0)
        kinds[kind].run(group, &array, scratch);
}

void lt_group_reduce_scatter(struct lt_group *group, enum lt_dtype dtype, void *data, size_t count,
                             void *scratch)
{
    struct array array = array_of(dtype, data, count);
    scatter(group, &array, scratch);
}

size_t lt_group_reduce_scratch(enum lt_all_reduce kind, int ranks, enum lt_dtype dtype,
                               size_t count)
{
    return lt_group_scratch(kind == LT_ALL_REDUCE_ORDERED ? kind : LT_ALL_REDUCE_RING, ranks, dtype,
                            count);
}

void lt_group_reduce_to(struct lt_group *group, enum lt_all_reduce kind, enum lt_dtype dtype,
                        void *data, size_t count, void *sum, int first, void *scratch)
{
    struct array array = array_of(dtype, data, count);
    struct chunk own = chunk_of(&array, group->ranks, group->rank);
    if (kind == LT_ALL_REDUCE_ORDERED) {
        collect(group, &array, sum, first, scratch);
        return;
    }
    scatter(group, &array, scratch);
    add_term(&array, sum, own.data, own.count, first);
}

/* The scratch of a coded reduction: all messages for this rank, one to another, and floats; where
 * messages are packed, one on each way. */
struct coded {
    char *in, *out, *packed, *received;
    float *decoded;
    void *encoding;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

size_t lt_group_coded_scratch(const struct lt_codec *codec, int ranks, size_t count)
{
    size_t chunk = (count + (size_t)ranks - 1) / (size_t)ranks;
    size_t messages = (size_t)ranks + (codec->level ? 3 : 1);
    return aligned(lt_codec_bytes(codec, chunk)) * messages + aligned(chunk * sizeof(float)) +
           lt_codec_scratch(codec, chunk);
}

/* Encodes a chunk, and leaves what its message lacks in `residual`, unless that is NULL. */
static void encode_chunk(const struct lt_codec *codec, const float *x, size_t count,
                         float *residual, char *message, const struct coded *coded)
{
    lt_codec_encode(codec, x, count, message, coded->encoding);
    if (!residual)
        return;
    lt_codec_decode(codec, message, count, coded->decoded);
    for (size_t i = 0; i < count; i++)
        residual[i] = x[i] - coded->decoded[i];
}

/* A message of `bytes` goes out, and one of `in_bytes` comes into `in`. */
static void exchange_coded(struct lt_group *group, struct lt_packer *packer,
                           const struct coded *coded, int to, size_t bytes, int from, char *in,
                           size_t in_bytes)
{
    uint64_t size, other = 0;
    if (!coded->packed) {
        lt_group_exchange(group, to, coded->out, bytes, from, in, in_bytes);
        return;
    }
    size = lt_packer_pack(packer, coded->out, bytes, coded->packed);
    lt_group_exchange(group, to, &size, sizeof size, from, &other, sizeof other);
    lt_group_exchange(group, to, coded->packed, size, from, coded->received, other);
    lt_packer_unpack(packer, coded->received, other, in, in_bytes);
}

void lt_group_reduce_coded(struct lt_group *group, const struct lt_codec *codec,
                           struct lt_packer *packer, float *data, size_t count, float *residual,
                           float *sum, int first, void *scratch)
{
    int rank = group->rank, ranks = group->ranks;
    struct array array = array_of(LT_DTYPE_FP32, data, count);
    size_t chunk = (count + (size_t)ranks - 1) / (size_t)ranks;
    size_t own = chunk_of(&array, ranks, rank).count, bytes = lt_codec_bytes(codec, own),
           slot = aligned(lt_codec_bytes(codec, chunk));
    struct coded coded = {.in = scratch, .out = (char *)scratch + slot * (size_t)ranks};
    coded.decoded = (float *)(void *)(coded.out + slot);
    coded.encoding = (char *)coded.decoded + aligned(chunk * sizeof(float));
    if (codec->level) {
        coded.packed = (char *)coded.encoding + lt_codec_scratch(codec, chunk);
        coded.received = coded.packed + slot;
    }
    for (size_t i = 0; residual && i < count; i++)
        data[i] += residual[i];
    for (int k = 0; k < ranks; k++) {
        int to = modulo(rank + k, ranks), from = modulo(rank - k, ranks);
        size_t at_element = lt_group_chunk(count, ranks, to);
        char *message = k ? coded.out : coded.in + slot * (size_t)rank;
        struct chunk part = chunk_of(&array, ranks, to);
        encode_chunk(codec, data + at_element, part.count, residual ? residual + at_element : NULL,
                     message, &coded);
        if (k)
            exchange_coded(group, packer, &coded, to, lt_codec_bytes(codec, part.count), from,
                           coded.in + slot * (size_t)from, bytes);
    }
    for (int i = 0; i < ranks; i++) {
        lt_codec_decode(codec, coded.in + slot * (size_t)i, own, coded.decoded);
        add_term(&array, sum, coded.decoded, own, first && i == 0);
    }
}

struct lt_group_sent lt_group_coded_formula(const struct lt_codec *codec, int rank, int ranks,
                                            size_t count)
{
    struct lt_group_sent sent = {0};
    for (int i = 0; i < ranks; i++)
        if (i != rank) {
            sent.bytes += lt_codec_bytes(codec, lt_group_chunk(count, ranks, i + 1) -
                                                    lt_group_chunk(count, ranks, i));
            sent.bytes += codec->level ? sizeof(uint64_t) : 0;
            sent.messages += codec->level ? 2 : 1;
        }
    return sent;
}

void lt_group_all_gather(struct lt_group *group, enum lt_dtype dtype, void *data, size_t count)
{
    struct array array = array_of(dtype, data, count);
    gather(group, &array);
}

int lt_all_reduce_find(const char *name)
{
    for (int i = 0; i < LT_ALL_REDUCE_COUNT; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return i;
    return -1;
}

/* ---- formulas -------------------------------------------------------------------------------- */

/* Ring: all chunks but its own go on in the first half, all but the next rank's in the second. */
static struct lt_group_sent ring_formula(int rank, int ranks, size_t count)
{
    int next = modulo(rank + 1, ranks);
    size_t own = lt_group_chunk(count, ranks, rank + 1) - lt_group_chunk(count, ranks, rank),
           other = lt_group_chunk(count, ranks, next + 1) - lt_group_chunk(count, ranks, next);
    return (struct lt_group_sent){2 * count - own - other, 2 * (uint64_t)(ranks - 1)};
}

/* Tree: a rank sends the array once to its parent, and once to each of its children. */
static struct lt_group_sent tree_formula(int rank, int ranks, size_t count)
{
    uint64_t messages = rank > 0;
    for (int bit = 1; bit < meeting(rank, ranks) && rank + bit < ranks; bit *= 2)
        messages++;
    return (struct lt_group_sent){messages * count, messages};
}

static struct lt_group_sent doubling_formula(int rank, int ranks, size_t count)
{
    int power = power_below(ranks);
    uint64_t messages = 1;
    if (rank < power) {
        messages = rank < ranks - power;
        for (int bit = 1; bit < power; bit *= 2)
            messages++;
    }
    return (struct lt_group_sent){messages * count, messages};
}

/* Hierarchical: a ring of the machine's ranks, and one of the machines for this rank's chunk. */
static struct lt_group_sent hierarchical_formula(int rank, int ranks, int near, size_t count)
{
    int outer = machines(ranks, near), inner = ranks / outer, place = rank % inner;
    size_t own = lt_group_chunk(count, inner, place + 1) - lt_group_chunk(count, inner, place);
    struct lt_group_sent inside = ring_formula(place, inner, count),
                         between = ring_formula(rank / inner, outer, own);
    return (struct lt_group_sent){inside.bytes + between.bytes, inside.messages + between.messages};
}

struct lt_group_sent lt_group_formula(enum lt_all_reduce kind, int rank, int ranks, int near,
                                      enum lt_dtype dtype, size_t count)
{
    struct lt_group_sent sent = {0};
    if (ranks < 2 || count == 0)
        return sent;
    if (kind == LT_ALL_REDUCE_TREE)
        sent = tree_formula(rank, ranks, count);
    else if (kind == LT_ALL_REDUCE_DOUBLING)
        sent = doubling_formula(rank, ranks, count);
    else if (kind == LT_ALL_REDUCE_HIERARCHICAL)
        sent = hierarchical_formula(rank, ranks, near, count);
    else
        sent = ring_formula(rank, ranks, count);
    sent.bytes *= lt_dtype_bytes(dtype);
    return sent;
}

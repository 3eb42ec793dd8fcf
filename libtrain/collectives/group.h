/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: collectives of the engine's own, made of messages between two ranks. Each
 * algorithm sends a number of bytes that a formula gives exactly (lt_group_bytes), so that a
 * profiler can be held to it; the library's collectives do not say what they send.
 *
 * All ranks of a group call the same collectives in the same order, from one thread at a time.
 * Arrays have `count` elements of a type; sums of bf16 are made in fp32 and rounded to nearest even
 * at each addition. Every rank ends with the same bits. With N ranks, chunk i of an array is its
 * elements [i count / N, (i + 1) count / N), rounded down, so chunks differ by one element at most.
 */
#ifndef LT_GROUP_H
#define LT_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/base/dtype.h"
#include "libtrain/base/share.h"
#include "libtrain/collectives/codec.h"
#include "libtrain/collectives/packer.h"

/* How an all-reduce travels. S: bytes of the array, N: ranks.
 * ring: reduce-scatter and all-gather around a ring, 2 S (N - 1) / N a rank in 2 (N - 1) messages
 *   (Patarasuk and Yuan 2009).
 * tree: to rank 0 and back along a binomial tree, 2 S (N - 1) over all ranks in 2 ceil(log2 N)
 *   rounds.
 * doubling: log2 N exchanges of the whole array, S log2 N a rank; ranks beyond a power of two hand
 *   their array to a partner and get the sum back (Thakur et al. 2005).
 * ordered: each rank gets its chunk of all others, adds them in the order of ranks, and sends the
 *   sum around the ring: bytes as ring, and the bits of one process that adds the ranks' arrays one
 *   after the other.
 * hierarchical: of the `near` ranks of a machine each sums a chunk, which then goes around the ring
 *   of the machines, and comes back to the others: a rank sends 2 S (near - 1) / near within its
 *   machine and 2 (S / near) (n - 1) / n between n machines. As ring where near does not divide the
 *   ranks. */
#define LT_ALL_REDUCE_MAP(X) \
    X(RING, ring, "ring") \
    X(TREE, tree, "tree") \
    X(DOUBLING, doubling, "doubling") \
    X(ORDERED, ordered, "ordered") X(HIERARCHICAL, hierarchical, "hierarchical")
#define LT_ENUM_ALL_REDUCE(id, function, name) LT_ALL_REDUCE_##id,
enum lt_all_reduce { LT_ALL_REDUCE_MAP(LT_ENUM_ALL_REDUCE) LT_ALL_REDUCE_COUNT };
#undef LT_ENUM_ALL_REDUCE

struct lt_group {
    int rank, ranks;
    int near; /* so many ranks with neighbouring numbers are on one machine; 0: not known */
    /* Sends `out` to rank `to` while `in` is received from rank `from`; of a rank below 0, that
     * half is left out. Messages between two ranks arrive in the order in which they were sent.
     * Sending and receiving go on together, so that a ring of exchanges cannot block. */
    void (*exchange)(void *arg, int to, const void *out, size_t out_bytes, int from, void *in,
                     size_t in_bytes);
    /* Messages for which the sender does not wait, told apart by a tag from 1 on. post begins to
     * send; `out` stays as it is until settle has returned. take waits for a message. NULL: there
     * are none. */
    void *(*post)(void *arg, int to, int tag, const void *out, size_t bytes);
    void (*settle)(void *arg, void *posted);
    void (*take)(void *arg, int from, int tag, void *in, size_t bytes);
    /* Is a message there that take would get? */
    int (*arrived)(void *arg, int from, int tag);
    void *arg;
    /* What this rank has sent so far. */
    uint64_t bytes, messages;
};

/* Scratch that an all-reduce needs: bytes for `count` elements. */
size_t lt_group_scratch(enum lt_all_reduce kind, int ranks, enum lt_dtype dtype, size_t count);

/* data[count] becomes the sum over the ranks. scratch: lt_group_scratch bytes, aligned as floats.
 */
void lt_group_all_reduce(struct lt_group *group, enum lt_all_reduce kind, enum lt_dtype dtype,
                         void *data, size_t count, void *scratch);

/* The two halves of ring: afterwards chunk `rank` of data holds the sum over the ranks, the rest of
 * data is undefined; and: every rank's chunk `rank` comes to all. */
void lt_group_reduce_scatter(struct lt_group *group, enum lt_dtype dtype, void *data, size_t count,
                             void *scratch);
void lt_group_all_gather(struct lt_group *group, enum lt_dtype dtype, void *data, size_t count);

/* Bytes of scratch that lt_group_reduce_to needs. */
size_t lt_group_reduce_scratch(enum lt_all_reduce kind, int ranks, enum lt_dtype dtype,
                               size_t count);

/* A reduce-scatter that goes on from one array to the next: the sum of chunk `rank` over the ranks
 * is added to sum[] (`first`: replaces it), which may be that chunk of data itself if `first`. kind
 * ORDERED adds the ranks' chunks one after the other; every other kind travels around the ring.
 * data is undefined afterwards. A rank sends all chunks but its own, in ranks - 1 messages. */
void lt_group_reduce_to(struct lt_group *group, enum lt_all_reduce kind, enum lt_dtype dtype,
                        void *data, size_t count, void *sum, int first, void *scratch);

/* The same in fewer bytes, fp32, in the order of ranks: each chunk, the own one too, is a message
 * of the codec. residual[count], unless NULL: what earlier messages lacked is added to data first,
 * and what these lack is left there, so that the sums so far and all ranks' residuals are together
 * the sum of all data. sum may not be a part of data.
 *
 * packer, of codecs with a level (else it is not looked at): messages are packed, and the size of
 * each, 8 bytes, goes ahead of it. */
size_t lt_group_coded_scratch(const struct lt_codec *codec, int ranks, size_t count);
void lt_group_reduce_coded(struct lt_group *group, const struct lt_codec *codec,
                           struct lt_packer *packer, float *data, size_t count, float *residual,
                           float *sum, int first, void *scratch);
/* What a rank sends in it: ranks - 1 messages, or with their sizes twice as many. Packed messages
 * have as many bytes at most; what they lack is what the packer has counted. */
struct lt_group_sent lt_group_coded_formula(const struct lt_codec *codec, int rank, int ranks,
                                            size_t count);

/* One message to a rank and one from a rank, below 0 none, counted. */
void lt_group_exchange(struct lt_group *group, int to, const void *out, size_t out_bytes, int from,
                       void *in, size_t in_bytes);

/* data of rank `root` comes to all ranks along a binomial tree. */
void lt_group_broadcast(struct lt_group *group, int root, void *data, size_t bytes);

/* Where chunk `index` begins; chunk `ranks` begins at `count`. */
static inline size_t lt_group_chunk(size_t count, int ranks, int index)
{
    return lt_share(count, ranks, index);
}

/* What a rank sends in one all-reduce, by the formulas above, uneven chunks counted. */
struct lt_group_sent {
    uint64_t bytes, messages;
};
struct lt_group_sent lt_group_formula(enum lt_all_reduce kind, int rank, int ranks, int near,
                                      enum lt_dtype dtype, size_t count);

/* Kind called `name`, or -1. */
int lt_all_reduce_find(const char *name);

#endif

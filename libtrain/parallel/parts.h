/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the ranks that have parts of the same layers (Shoeybi et al. 2019), and what
 * they send: sums around a ring, and statistics of the loss.
 *
 * With N ranks and A bytes of activations (batch x seq x channels elements), a sum sends 2 A (N -
 * 1) / N a rank. GPT-2 makes for each micro-batch two sums a block forward (after the second matrix
 * of attention and of the MLP) and two backward (before the layernorms), one after the embedding
 * and one before the last layernorm; and a gather of 12 bytes a token for the loss. Where
 * the rows of the residual stream are divided too (Korthikanti et al. 2022), a sum is two calls of
 * half the bytes, in other places, and layernorms' gradients are summed.
 *
 * Or the ranks that have parts of the same sequences (Jacobs et al. 2023, Ulysses): each has all
 * parameters and T / N tokens of each sequence, and attention is made with all tokens and H / N of
 * the heads. Queries, keys and values turn from tokens to heads, the result turns back; backward
 * the same. With A bytes of activations of a rank's tokens, that is 4 A (N - 1) / N a block and
 * direction, in 2 (N - 1) messages.
 *
 * Or (Liu et al. 2023, ring attention) keys and values go around the ring of these ranks while
 * queries stay: with B bytes of the keys and values of a rank's tokens (batch x seq / N x 2
 * channels elements), a rank sends (N - 1) B a block forward, in N - 1 messages; backward the same
 * again, and N times their gradients as floats, which come home with the last message: 2 N - 1
 * messages.
 *
 * Or the ranks that have parts of the same experts (Lepikhin et al. 2020): each routes its own
 * rows, and sends those whose expert another rank has to that one (dispatch), which sends them back
 * when they have passed it (combine); backward the same. A rank that has R rows of its own for
 * others' experts and H rows of others for its own, as the routers have chosen, of c channels,
 * sends (R + H) c elements a layer and direction; and 4 bytes for each expert of another rank, to
 * say how many rows come: 5 (N - 1) messages forward and backward together.
 */
#ifndef LT_PARTS_H
#define LT_PARTS_H

#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"

struct lt_trace;

struct lt_parts {
    struct lt_tensor_group hooks; /* for lt_context */
    struct lt_group *group;
    struct lt_trace *trace;
    void *scratch;
    size_t scratch_bytes;
    uint64_t communicator, sequence;
    struct lt_group_sent formula; /* of the sums and gathers so far */
};

/* Bytes of its scratch, for activations of so many bytes at a boundary: for sums, or for turns. */
size_t lt_parts_bytes(int ranks, size_t boundary);
size_t lt_parts_turn_bytes(int ranks, size_t boundary);
/* For rows of experts; boundary: bytes of a rank's own ones for all experts. */
size_t lt_parts_spread_bytes(int ranks, size_t boundary);

/* With so many bytes of scratch. group and trace are borrowed. TACHO_ENOMEM.
 * `parts` must stay where it is. */
int lt_parts_open(struct lt_parts *parts, struct lt_group *group, size_t scratch_bytes,
                  uint64_t communicator, struct lt_trace *trace);
/* What lt_context.tensor, .experts or .sequences is to be; NULL of one that was never opened, all
 * zero. */
static inline const struct lt_tensor_group *lt_parts_hooks(const struct lt_parts *parts)
{
    return parts->group ? &parts->hooks : NULL;
}
/* Accepts one that was never opened. */
void lt_parts_close(struct lt_parts *parts);

#endif

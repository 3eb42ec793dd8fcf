/* SPDX-License-Identifier: Apache-2.0
 *
 * Gossip between pairs (Boyd et al. 2006; Lian et al. 2017): in a round each rank takes the mean of
 * its weights and those of one other rank, so that the mean over all ranks stays. Pairs are those
 * of a round-robin tournament: in N - 1 rounds (N of an odd number of ranks, one of which rests)
 * every rank meets every other one.
 */
#include "libtrain/speak/trace.h"
#include "libtrain/train/local.h"
#include "tacho_nvtx.h"

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

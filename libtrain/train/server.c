/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter server with bounded delay (Li et al. 2014). In its round t a rank sends what its
 * weights have moved by to rank 0, and goes on; rank 0 adds up the ranks' moves of each round, and
 * sends the sum to all when the last one has come. A rank goes on to round t + 1 when it has the
 * sums of all rounds up to t - delay: it takes those that are there, and waits for the others. The
 * mean then takes the place of its own move of that round.
 *
 * Weights are an anchor, which is the same on all ranks after the same rounds, and the moves of
 * rounds whose sums have not come. Rank 0 trains too: it looks for moves at the end of its own
 * rounds. delay 0 is the mean of local.h.
 *
 * Slots. A rank is at most delay + 1 rounds ahead of the last sum it has, so as many moves are
 * kept; a sum may be on its way to a rank that is as far behind, so rank 0 keeps twice as many
 * sums.
 */
#include <stdlib.h>
#include <string.h>

#include "libtrain/collectives/board.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/local.h"
#include "tacho_nvtx.h"

enum { MOVE = 1, SUM }; /* tags */

struct lt_server {
    struct lt_local *local;
    size_t count;
    int64_t round, applied, added; /* made here; whose sums are in the weights; summed by rank 0 */
    int64_t most;                  /* round - applied at the end of a round */
    int64_t moves, sums;           /* slots */
    float *anchor, *move, *sum, *in;
    int64_t *come; /* rank 0: rounds that each rank has sent */
    void **sent;   /* messages under way: of each slot, to each rank */
};

static int64_t slots(const struct lt_local_config *config)
{
    return config->delay + 1;
}

size_t lt_server_floats(const struct lt_local_config *config, int rank, size_t count)
{
    size_t arrays = 2 + (size_t)slots(config); /* anchor, what comes in, moves */
    return count * (rank ? arrays : arrays + 2 * (size_t)slots(config));
}

int lt_server_open(struct lt_local *local)
{
    struct lt_server *server = calloc(1, sizeof *server);
    size_t count = local->parameters->count, ranks = (size_t)local->group->ranks;
    local->server = server;
    if (!server)
        return TACHO_ENOMEM;
    *server = (struct lt_server){.local = local,
                                 .count = count,
                                 .moves = slots(&local->config),
                                 .sums = 2 * slots(&local->config),
                                 .anchor = local->scratch};
    server->in = server->anchor + count;
    server->move = server->in + count;
    server->sum = server->move + count * (size_t)server->moves;
    server->come = calloc(ranks, sizeof *server->come);
    server->sent = calloc((size_t)server->sums * ranks, sizeof *server->sent);
    lt_server_restart(local);
    return server->come && server->sent ? 0 : TACHO_ENOMEM;
}

void lt_server_close(struct lt_local *local)
{
    struct lt_server *server = local->server;
    if (!server)
        return;
    /* in a run that failed before, some may never arrive */
    int64_t sent = server->sent && local->together ? server->sums * local->group->ranks : 0;
    for (int64_t i = 0; i < sent; i++)
        local->group->settle(local->group->arg, server->sent[i]);
    free(server->come);
    free(server->sent);
    free(server);
}

void lt_server_restart(struct lt_local *local)
{
    memcpy(local->server->anchor, local->parameters->value, local->server->count * sizeof(float));
}

int64_t lt_server_delay(const struct lt_local *local)
{
    return local->server->most;
}

static float *slot(const struct lt_server *server, float *array, int64_t slots_of, int64_t round)
{
    return array + (size_t)(round % slots_of) * server->count;
}

/* The range of a message between rank 0 and `rank`, the communicator of that way. */
static void begin(struct lt_server *server, int sends, int rank, int tag, int64_t round)
{
    struct tacho_comm comm = {.bytes = server->count * sizeof(float),
                              .communicator = LT_BOARD_LOOSE + 2 * (uint64_t)rank + (tag == SUM),
                              .sequence = (uint64_t)round,
                              .op = sends ? TACHO_COMM_SEND : TACHO_COMM_RECV,
                              .ranks = 2};
    lt_local_begin(server->local, sends ? LT_RANGE_SEND : LT_RANGE_RECV, &comm);
}

/* Begins to send an array to a rank. */
static void post(struct lt_server *server, int to, int tag, float *array, int64_t round,
                 void **sent)
{
    struct lt_group *group = server->local->group;
    size_t bytes = server->count * sizeof *array;
    begin(server, 1, to ? to : group->rank, tag, round);
    *sent = group->post(group->arg, to, tag, array, bytes);
    lt_local_end(server->local);
    group->bytes += bytes;
    group->messages++;
    server->local->formula.bytes += bytes;
    server->local->formula.messages++;
}

static void take(struct lt_server *server, int from, int tag, int64_t round)
{
    struct lt_group *group = server->local->group;
    begin(server, 0, from ? from : group->rank, tag, round);
    group->take(group->arg, from, tag, server->in, server->count * sizeof *server->in);
    lt_local_end(server->local);
}

/* The mean of a round takes the place of this rank's own move. */
static void apply(struct lt_server *server, const float *sum)
{
    float *value = server->local->parameters->value, share = 1 / (float)server->local->group->ranks;
    int64_t round = ++server->applied;
    const float *own = slot(server, server->move, server->moves, round);
    for (size_t i = 0; i < server->count; i++) {
        float mean = sum[i] * share;
        server->anchor[i] += mean;
        value[i] += mean - own[i];
    }
    if (server->applied == server->round) /* the same bits on all ranks */
        memcpy(value, server->anchor, server->count * sizeof *value);
}

static void settle(struct lt_server *server, void **sent)
{
    server->local->group->settle(server->local->group->arg, *sent);
    *sent = NULL;
}

/* Rank 0: where the message of a slot to a rank is. */
static void **sum_sent(const struct lt_server *server, int64_t round, int rank)
{
    return &server->sent[(round % server->sums) * server->local->group->ranks + rank];
}

/* Rank 0: a rank's move of its next round comes in. */
static void add(struct lt_server *server, int rank, const float *move)
{
    int64_t round = ++server->come[rank];
    int first = 1;
    float *sum = slot(server, server->sum, server->sums, round);
    for (int i = 0; i < server->local->group->ranks; i++)
        first = first && (i == rank || server->come[i] < round);
    for (int i = 1; first && i < server->local->group->ranks; i++)
        settle(server, sum_sent(server, round, i)); /* it has come long ago */
    for (size_t i = 0; first && i < server->count; i++)
        sum[i] = move[i];
    for (size_t i = 0; !first && i < server->count; i++)
        sum[i] += move[i];
}

/* Rank 0: the rank that has sent the fewest rounds, of the others. */
static int slowest(const struct lt_server *server)
{
    int rank = 1;
    for (int i = 2; i < server->local->group->ranks; i++)
        if (server->come[i] < server->come[rank])
            rank = i;
    return rank;
}

/* Rank 0: takes the moves that are there, and sends the sums that are complete; waits for the
 * slowest rank until the sum of round `least` is one. */
static void serve(struct lt_server *server, int64_t least)
{
    struct lt_group *group = server->local->group;
    for (;;) {
        for (int i = 1; i < group->ranks; i++)
            while (group->arrived(group->arg, i, MOVE)) {
                take(server, i, MOVE, server->come[i] + 1);
                add(server, i, server->in);
            }
        while (server->added < server->round && server->come[slowest(server)] > server->added) {
            int64_t round = ++server->added;
            float *sum = slot(server, server->sum, server->sums, round);
            for (int i = 1; i < group->ranks; i++)
                post(server, i, SUM, sum, round, sum_sent(server, round, i));
            apply(server, sum);
        }
        if (server->applied >= least)
            return;
        int rank = slowest(server);
        take(server, rank, MOVE, server->come[rank] + 1);
        add(server, rank, server->in);
    }
}

/* The other ranks: takes the sums that are there, and waits for those up to round `least`. */
static void follow(struct lt_server *server, int64_t least)
{
    struct lt_group *group = server->local->group;
    while (server->applied < least ||
           (server->applied < server->round && group->arrived(group->arg, 0, SUM))) {
        take(server, 0, SUM, server->applied + 1);
        apply(server, server->in);
    }
}

void lt_server_round(struct lt_local *local, int together)
{
    struct lt_server *server = local->server;
    const float *value = local->parameters->value;
    int64_t round = ++server->round;
    int64_t least = together ? round : round - local->config.delay;
    float *move = slot(server, server->move, server->moves, round);
    void **sent = &server->sent[round % server->moves];
    if (local->group->rank)
        settle(server, sent); /* of the slot's round before, whose sum has come */
    for (size_t i = 0; i < server->count; i++)
        move[i] = value[i] - server->anchor[i];
    for (int64_t i = server->applied + 1; i < round; i++) {
        const float *before = slot(server, server->move, server->moves, i);
        for (size_t j = 0; j < server->count; j++)
            move[j] -= before[j];
    }
    if (local->group->rank == 0) {
        add(server, 0, move);
        serve(server, least);
    } else {
        post(server, 0, MOVE, move, round, sent);
        follow(server, least);
    }
    if (round - server->applied > server->most)
        server->most = round - server->applied;
}

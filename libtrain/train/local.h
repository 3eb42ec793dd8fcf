/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: local SGD (Stich 2019). Each rank updates its own weights by its own
 * gradients; every H steps, in a round, the ranks' weights come nearer to each other:
 *
 *   mean: all take the mean of them. With an outer step it is not taken as it is, but as a
 *     gradient: of SlowMo (Wang et al. 2020) and DiLoCo (Douillard et al. 2023), with momentum as
 *     Nesterov's:
 *       d = anchor - mean;  u = momentum u + d;  weights = anchor - rate (d + momentum u)
 *     where anchor are the weights after the last outer step. rate 1 and momentum 0 is the mean.
 *   gossip: pairs of ranks take the mean of their two.
 *   server: rank 0 adds up what each rank's weights have moved by, and each takes the mean of that,
 *     at most so many rounds later (server.c).
 *
 * Of S bytes of parameters a rank sends 2 S (N - 1) / N by mean, around a ring; S by gossip; S to
 * the server, which sends S to each. The optimizers' states stay the ranks' own; a checkpoint has
 * those of rank 0. Where weights are to be the same, all ranks come together: by gossip they take
 * the mean, with a server they wait for all rounds.
 */
#ifndef LT_LOCAL_H
#define LT_LOCAL_H

#include "libtrain/base/memory.h"
#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"
#include "libtrain/speak/trace.h"
#include "tacho_nvtx.h"

#define LT_LOCAL_MAP(X)         X(MEAN, "mean") X(GOSSIP, "gossip") X(SERVER, "server")
#define LT_ENUM_LOCAL(id, name) LT_LOCAL_##id,
enum lt_local_kind { LT_LOCAL_MAP(LT_ENUM_LOCAL) LT_LOCAL_COUNT };
#undef LT_ENUM_LOCAL

/* Kind called `name`, or -1. */
int lt_local_find(const char *name);

struct lt_local_config {
    int64_t every; /* steps; 0: gradients are summed in each step */
    enum lt_local_kind kind;
    double rate, momentum; /* mean: of an outer step */
    int64_t delay;         /* server: rounds that weights may be behind */
};

struct lt_local {
    struct lt_local_config config;
    struct lt_group *group;
    const struct lt_parameters *parameters;
    struct lt_trace *trace;
    struct lt_arena arena;
    float *anchor, *velocity; /* NULL: the mean is taken as it is */
    void *scratch;
    size_t scratch_bytes;
    struct lt_server *server; /* where it is the kind */
    int together;             /* since the last step the ranks' weights are the same */
    uint64_t sequence;
    struct lt_group_sent formula;
};

/* Adds what rank `rank` will hold, of so many parameters. */
void lt_local_memory(const struct lt_local_config *config, int rank, int ranks, size_t count,
                     struct lt_memory_plan *out);

/* group, parameters and trace are borrowed; every 0 or one rank: it does nothing. TACHO_ENOMEM. */
int lt_local_open(struct lt_local *local, const struct lt_local_config *config,
                  struct lt_group *group, const struct lt_parameters *parameters,
                  struct lt_trace *trace);
void lt_local_close(struct lt_local *local);

/* The parameters were written, the same on all ranks: outer steps go on from them. */
void lt_local_restart(struct lt_local *local);

/* After step number `step`, counted from 0: the round, where it is due. together: all ranks are to
 * have the same weights afterwards; mean has them after its rounds only. */
void lt_local_step(struct lt_local *local, int64_t step, int together);

/* Rounds that this rank's weights were behind at most; 0 without a server. */
int64_t lt_local_delay(const struct lt_local *local);

/* ---- the rounds, each in its file --------------------------------------------------------------- */

/* Opens and ends the range of one call of communication. */
static inline void lt_local_begin(struct lt_local *local, enum lt_range range,
                                  const struct tacho_comm *comm)
{
    lt_trace_begin(local->trace, LT_RANGE_COMM_WAIT, 0, 0);
    lt_trace_comm_begin(local->trace, range, comm);
}

static inline void lt_local_end(struct lt_local *local)
{
    lt_trace_end(local->trace);
    lt_trace_end(local->trace);
}

void lt_gossip_round(struct lt_local *local, int64_t round);

/* Floats that a rank holds; opens it in local->scratch, which has room for them. TACHO_ENOMEM. */
size_t lt_server_floats(const struct lt_local_config *config, int rank, size_t count);
int lt_server_open(struct lt_local *local);
void lt_server_close(struct lt_local *local);
void lt_server_restart(struct lt_local *local);
void lt_server_round(struct lt_local *local, int together);
int64_t lt_server_delay(const struct lt_local *local);

#endif

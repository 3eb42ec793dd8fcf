/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: local SGD (Stich 2019). Each rank updates its own weights by its own
 * gradients; every H steps all take the mean of them. With an outer step the mean is not taken as
 * it is, but as a gradient: of SlowMo (Wang et al. 2020) and DiLoCo (Douillard et al. 2023), with
 * momentum as Nesterov's:
 *   d = anchor - mean;  u = momentum u + d;  weights = anchor - rate (d + momentum u)
 * where anchor are the weights after the last outer step. rate 1 and momentum 0 is the mean.
 *
 * A rank sends 2 S (N - 1) / N bytes of S bytes of parameters every H steps, around a ring, instead
 * of in each. The optimizers' states stay the ranks' own; a checkpoint has those of rank 0.
 */
#ifndef LT_LOCAL_H
#define LT_LOCAL_H

#include "libtrain/base/memory.h"
#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"

struct lt_local_config {
    int64_t every; /* steps; 0: gradients are summed in each step */
    double rate, momentum;
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
    uint64_t sequence;
    struct lt_group_sent formula;
};

/* Adds what it will hold, of so many parameters. */
void lt_local_memory(const struct lt_local_config *config, int ranks, size_t count,
                     struct lt_memory_plan *out);

/* group, parameters and trace are borrowed; every 0 or one rank: it does nothing. TACHO_ENOMEM. */
int lt_local_open(struct lt_local *local, const struct lt_local_config *config,
                  struct lt_group *group, const struct lt_parameters *parameters,
                  struct lt_trace *trace);
void lt_local_close(struct lt_local *local);

/* The parameters were written: outer steps go on from them. */
void lt_local_restart(struct lt_local *local);

/* After step number `step`, counted from 0: the outer step, where it is due. */
void lt_local_step(struct lt_local *local, int64_t step);

#endif

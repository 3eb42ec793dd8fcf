/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: --elastic N, a supervisor. It starts `mpirun -np N train ...`, reads what
 * the job prints and passes it on. When a rank has died, it starts the job again from the last
 * checkpoint with the ranks that are left and the same global batch: fewer replicas, each of which
 * takes more micro-batches.
 */
#ifndef WORKLOADS_ELASTIC_H
#define WORKLOADS_ELASTIC_H

#include <signal.h>

#include "workloads/options.h"

/* Runs the job to its end; *status: the exit status that the program is to have. `stop` as in
 * recipe.h: the signal is passed on. TACHO_EUSAGE, TACHO_ENOTFOUND (no launcher), TACHO_EINTERNAL
 * with words in *err. */
int elastic_run(const struct options *options, int argc, char **argv,
                const volatile sig_atomic_t *stop, int *status, struct tacho_error *err);

/* Replicas for so many ranks, of which each replica takes `inner`: as many as divide the global
 * batch, of `batches` micro-batches; 0: none. */
int elastic_replicas(int ranks, int inner, int64_t batches);

/* "dp4.tp2" with other replicas; text[size] is filled. NULL: there is no layout. */
const char *elastic_layout(const char *layout, int replicas, char *text, size_t size);

#endif

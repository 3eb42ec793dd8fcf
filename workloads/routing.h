/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: --routing FILE, the choices of a mixture's routers as a table: a line for
 * each step, micro-batch and layer, with the rows that chose each expert. Rank N of several writes
 * FILE.N, rank 0 FILE.
 */
#ifndef WORKLOADS_ROUTING_H
#define WORKLOADS_ROUTING_H

#include <stdio.h>

#include "libtrain/train/train.h"

/* Opens the table of this rank; *out NULL where `path` is. TACHO_EUSAGE, TACHO_EIO with words in
 * *err. */
int routing_open(FILE **out, const char *path, const struct lt_model *model,
                 const struct lt_parallel *parallel, struct tacho_error *err);

/* The hook of the training loop; arg: the table. */
void routing_add(void *arg, const struct lt_routed *routed);

/* Accepts NULL. TACHO_EIO where not all of it could be written. */
int routing_close(FILE *table, const char *path, struct tacho_error *err);

#endif

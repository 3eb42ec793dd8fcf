/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: the options of several ranks, and what rank 0 prints of them.
 */
#ifndef WORKLOADS_PARALLEL_H
#define WORKLOADS_PARALLEL_H

#include <limits.h>

#include "libtrain/train/train.h"
#include "workloads/options.h"

/* Joins the other ranks, if a launcher started several, and gives OpenMP this rank's share of the
 * cores. plan: a call made wrong on purpose, or none. The caller closes *out, also after an error.
 * TACHO_EUSAGE for an invalid option, and the errors of lt_parallel_open. */
int parallel_open(struct lt_parallel **out, const struct options *options,
                  const struct lt_board_plan *plan, struct tacho_error *err);

/* --uneven: micro-batches of this rank, and of all ranks together, in a step. TACHO_EUSAGE with
 * words in *err. */
int parallel_micro_steps(const struct lt_parallel *parallel, const struct options *options,
                         int replicas, int *own, int64_t *all, struct tacho_error *err);

/* --layout, --zero, and one rank that adds as several do in the order of ranks. TACHO_EUSAGE with
 * words in *err. */
int parallel_division(const struct lt_parallel *parallel, const struct options *options,
                      struct lt_division_config *out, struct tacho_error *err);

/* The lines of rank 0; nothing where there is one rank. */
void parallel_print(const struct lt_parallel *parallel, const struct options *options,
                    const struct lt_division_config *division, const struct lt_model *model,
                    enum lt_dtype dtype);

/* At the end: what rank 0 sent by messages of the engine's own, by purpose where it had shards. */
void parallel_print_sent(const struct lt_parallel *parallel, const struct options *options,
                         const struct lt_sent_table *table);

/* Where this rank writes what each rank writes: rank 0 `path`, rank N path.N. TACHO_EUSAGE with
 * words in *err where that is too long. */
int parallel_own_path(const struct lt_parallel *parallel, const char *path, const char *option,
                      char own[PATH_MAX], struct tacho_error *err);

/* Writes the engine's times: rank 0 to `path`, rank N to path.N. */
int parallel_timers(const struct lt_parallel *parallel, const struct lt_trace *trace,
                    const char *path, struct tacho_error *err);

#endif

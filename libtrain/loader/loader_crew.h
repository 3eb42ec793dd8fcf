/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the loader: the workers of a ring, threads or forked processes, and the stages by
 * which a batch is made.
 *
 * A worker process has a copy of what the program had when it was forked, without the tensors
 * (arena.h). It runs no handler of the program, does not react to signals for the program, and is
 * killed by the kernel if the program dies first. The words of a worker that died are those of
 * whoever waits for its batch.
 */
#ifndef LT_LOADER_CREW_H
#define LT_LOADER_CREW_H

#include "libtrain/loader/loader.h"
#include "libtrain/loader/loader_ring.h"

struct lt_crew;

/* Makes room for the workers, or for one bench without workers. `ring` must have
 * lt_crew_shared_bytes of extra room. All arguments must outlive it. TACHO_ENOMEM. */
int lt_crew_create(struct lt_crew **out, const struct lt_part *part,
                   const struct lt_loader_config *config, struct lt_ring *ring,
                   struct lt_trace *trace);
size_t lt_crew_shared_bytes(const struct lt_loader_config *config, const struct lt_trace *trace);

/* TACHO_EINTERNAL with words in *err when a worker cannot be started; those that run go on until
 * lt_crew_destroy. */
int lt_crew_start(struct lt_crew *crew, struct tacho_error *err);

/* An lt_ring_check: whether a worker has died. */
int lt_crew_check(void *crew, struct tacho_error *err);

/* Makes a batch in line, on the calling thread, into its slot. */
void lt_crew_make(struct lt_crew *crew, uint64_t batch);

/* Stops the ring, waits for the workers (a process that does not end is killed), frees. Accepts
 * NULL. */
void lt_crew_destroy(struct lt_crew *crew);

#endif

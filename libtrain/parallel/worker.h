/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the thread `comm-0`, which communicates while the step's thread computes.
 * Jobs have numbers from 0 on and are done one at a time, in their order, by a function that gets
 * the number. The order of jobs is that in which the step's thread hands them over, so it is the
 * same on all ranks, as collectives need it.
 *
 * All calls come from the step's thread. What it wrote before it posts a job is seen by the job;
 * what the job wrote is seen after the wait.
 */
#ifndef LT_WORKER_H
#define LT_WORKER_H

#include <stddef.h>

#include "tacho_error.h"

struct lt_trace;
struct lt_worker;

/* Starts the thread, which catches no signals. TACHO_ENOMEM, TACHO_EINTERNAL with words in *err.
 * The caller frees with lt_worker_destroy. */
int lt_worker_create(struct lt_worker **out, void (*job)(void *arg, size_t number), void *arg,
                     struct lt_trace *trace, struct tacho_error *err);

/* Ends the thread after the job that it does now. Accepts NULL. */
void lt_worker_destroy(struct lt_worker *worker);

/* All jobs before number `jobs` may be done from now on; in a range comm_post. */
void lt_worker_post(struct lt_worker *worker, size_t jobs);

/* Until all jobs before number `jobs`, which are posted, are done. */
void lt_worker_wait(struct lt_worker *worker, size_t jobs);

/* Until all posted jobs are done; then numbers begin at 0 again. */
void lt_worker_drain(struct lt_worker *worker);

#endif

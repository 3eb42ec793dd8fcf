/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/speak/trace.c: the engine's own timers, one lane a thread. A range's self
 * time (its duration less that of the ranges inside it) goes to a class; inside a step, on the
 * thread of the steps, the classes sum to the step. Times are CLOCK_MONOTONIC ns.
 */
#ifndef LT_TIMERS_H
#define LT_TIMERS_H

#include "libtrain/speak/trace.h"

struct lt_timers;

/* `names`: `count` static strings, indexed by the id given to lt_timers_begin. */
int lt_timers_create(struct lt_timers **out, const char *const *names, int count);
void lt_timers_destroy(struct lt_timers *timers);

void lt_timers_thread(struct lt_timers *timers, const char *name);

/* work and step are NULL for ranges that are neither an op nor a step. */
void lt_timers_begin(struct lt_timers *timers, int id, enum lt_class class,
                     const struct tacho_work *work, const struct tacho_step *step);
/* `end`: lt_timers_now() when the range ended; the books are kept after that. */
void lt_timers_end(struct lt_timers *timers, int64_t end);
/* CLOCK_MONOTONIC, ns. */
int64_t lt_timers_now(void);
void lt_timers_count(struct lt_timers *timers);

/* lt_trace_forked and the others of trace.h. */
void lt_timers_forked(struct lt_timers *timers);
size_t lt_timers_lane_bytes(const struct lt_timers *timers);
void lt_timers_save(struct lt_timers *timers, void *target);
void lt_timers_add(struct lt_timers *timers, const void *from);

const struct lt_timers_step *lt_timers_steps(const struct lt_timers *timers, size_t *count);
int lt_timers_write(const struct lt_timers *timers, const char *path, struct tacho_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks of the target and all its descendants, sampled by the kernel (perf_event_open,
 * cpu-clock) on the CPU time that a thread uses: a thread that waits is not sampled. Writes rows of
 * the tables sample and stack (docs/schema.md).
 *
 * Stacks are unwound with the tables of the files (unwind.h) from the piece of the stack that the
 * kernel copies. Where tacho was built without that, or frame_pointers asks for it, the kernel
 * follows frame pointers: code built without them ends a stack early or adds an unknown frame. An
 * event for each CPU writes into a ring that the collector reads each turn; samples lost to a full
 * ring become a loss row. Functions are named by symbols.h while the process exists, else by their
 * file alone ("[libc.so.6]").
 */
#ifndef COL_STACKS_H
#define COL_STACKS_H

#include <sys/types.h>

#include "profiler/collector/drain/drain.h"

struct col_stacks;

/* Starts with the next exec of pid (0: at once, for the calling thread). hz: samples per second of
 * CPU time. NULL only when memory runs out; where the kernel refuses, col_stacks_refused says why.
 */
struct col_stacks *col_stacks_open(pid_t pid, int hz, bool frame_pointers);
/* Another process too, from its next exec on. */
void col_stacks_add(struct col_stacks *stacks, pid_t pid);
/* NULL: it samples. Else the kernel's reason; *fix is what to do about it, "" = nothing. */
const char *col_stacks_refused(const struct col_stacks *stacks, const char **fix);
/* By unwind tables? Else by frame pointers. */
bool col_stacks_unwinds(const struct col_stacks *stacks);
/* Is time in the kernel sampled too? */
bool col_stacks_sees_kernel(const struct col_stacks *stacks);

/* Writes the samples so far into the open transaction of the drain; `last`: no more will come. 0 or
 * a store error. */
int col_stacks_drain(struct col_stacks *stacks, struct col_drain *drain, bool last);
/* Writes the run keys "stacks", "stacks.hz", "stacks.period_ns" and "stacks.kernel", or a loss row
 * where sampling was refused. */
int col_stacks_finish(struct col_stacks *stacks, struct col_drain *drain);
/* The store was rolled back: rows written so far may be gone. */
void col_stacks_reset(struct col_stacks *stacks);
void col_stacks_close(struct col_stacks *stacks); /* NULL is fine */

#endif

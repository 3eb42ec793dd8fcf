/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python is doing, over the time of the clock: the frames of all threads of all Python
 * processes of the run, read from outside (frames.h) by a thread of the collector, and whether each
 * of these threads ran, waited for a core, or slept. The public header of python/.
 *
 * Rows: a track of kind `python` for each thread and state (its unit: "running", "runnable",
 * "asleep"), and on it one row of the table sample for each look; a frame is named
 * "function (/path/of/file.py:line)". Run keys: "python" (how, or why not), "python.hz" (looks a
 * second that were made), "python.torn" (looks at a thread that changed while it was read).
 */
#ifndef COL_PYTHON_SAMPLES_H
#define COL_PYTHON_SAMPLES_H

#include "profiler/collector/drain/drain.h"

struct col_python_samples;

/* Starts the thread. hz: looks a second; fewer are made where they would cost more than a small
 * part of a core, which is larger where the user asked for them; only then a process that cannot be
 * looked at is a loss. NULL: out of memory, or no thread can be had. */
struct col_python_samples *col_python_samples_open(int hz, bool asked);
/* Writes what was seen since the last call into the open transaction of the drain. 0 or a store
 * error. */
int col_python_samples_drain(struct col_python_samples *samples, struct col_drain *drain);
/* Stops looking, writes the rest and the run keys. */
int col_python_samples_finish(struct col_python_samples *samples, struct col_drain *drain);
/* The store was rolled back: rows written so far may be gone. */
void col_python_samples_reset(struct col_python_samples *samples);
void col_python_samples_close(struct col_python_samples *samples); /* NULL is fine */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: the lines of `doctor` about GPUs.
 */
#ifndef COL_PROBE_GPU_H
#define COL_PROBE_GPU_H

#include "profiler/collector/collector.h"

/* Calls `row` for each line until it returns non-zero, which is returned. Foreign libraries are
 * loaded in a child process with a time limit: a driver that hangs must not take the doctor with
 * it. */
int col_probe_gpu(int (*row)(void *ctx, const struct col_probe *p), void *ctx);

#endif

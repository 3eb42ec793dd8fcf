/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what the hardware counted (tacho run --counters roofline), from its
 * metrics to operations and bytes. The metrics are those of profiler/gpu_metrics.h, by their names
 * in the file (range_dram_read ...).
 */
#ifndef ANALYZERS_COUNTED_H
#define ANALYZERS_COUNTED_H

#include "analyzers/steps/context.h"

/* Fills *s from the values that `get` has; dtype of the type of most operations: "bf16", "fp16",
 * "tf32", "fp8" of the matrix units, else "fp32"; static. */
const char *an_counted_fill(struct an_step_counted *counted,
                            struct an_value (*get)(void *ctx, const char *metric), void *ctx);

/* Why `which` ("sampled", "roofline", "ranges") has no value: in the arena. */
struct an_value an_counted_none(struct an_context *context, const char *which);

#endif

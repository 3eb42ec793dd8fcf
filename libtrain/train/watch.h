/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the numbers of a run by layer, as counters, every some steps.
 *
 *     grad_norm.layerN     norm of the gradient, before clipping
 *     update_ratio.layerN  norm of the update over the norm of the weights
 *     underflow.layerN     share of the gradients of activations that are exactly 0
 *
 * Layers count from 0; `ends` is what belongs to no layer: tensors of parameters that are not
 * repeated (embeddings, head). The ratio is that of at most SAMPLES elements of each matrix, evenly
 * spread. Ownership: the model's arrays and the trace are borrowed until lt_watch_destroy.
 */
#ifndef LT_WATCH_H
#define LT_WATCH_H

#include "libtrain/models/model.h"
#include "libtrain/ops/scan.h"

struct lt_watch;

/* every 0: *out is NULL, which all functions accept. TACHO_ENOMEM. */
int lt_watch_create(struct lt_watch **out, const struct lt_parameters *parameters, int64_t every,
                    struct lt_trace *trace);
void lt_watch_destroy(struct lt_watch *watch);

/* Whether step number `step` is one that is counted. */
int lt_watch_due(const struct lt_watch *watch, int64_t step);

/* Empty, for the backward of a step that is counted; what it sees is counted by lt_watch_after. */
struct lt_scan *lt_watch_scan(struct lt_watch *watch);

/* Around the optimizer's update of such a step: counts the gradients and keeps weights; counts what
 * became of them. */
void lt_watch_before(struct lt_watch *watch, const struct lt_context *context, double *partial);
void lt_watch_after(struct lt_watch *watch);

/* Runs forward, and backward if that is not enough, once more on the batch, and finds the operation
 * that wrote the first value that is not finite: "gelu.forward, layer 2" in `words`, "" when it is
 * not found. */
void lt_watch_origin(struct lt_model *model, const struct lt_context *context,
                     const struct lt_batch *batch, char *words, size_t size);

#endif

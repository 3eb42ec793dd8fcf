/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: a stage of a pipeline at work. The model of a rank is that stage (model.h,
 * struct lt_stage_ops); activations go to the next stage, their gradients to the one before.
 *
 * A pass waits for its input in a range `recv`, and hands its result over in a range `send`,
 * without waiting for the receiver; both have tacho.comm. The waiting is the bubble. Each direction
 * of each pair of stages has a communicator of its own; so has the way from the last stage to the
 * next chunk of the first one.
 *
 * A word embedding that is also the LM head belongs to the first stage; the last stage has a copy.
 * Its gradient goes to the first stage after that one's last pass that adds to it (`ordered`:
 * before each backward pass, so that bits are those of one rank), and the new values come back
 * after the update.
 *
 * A rank sends in a step of m micro-batches, v chunks, A bytes of activations at a boundary and W
 * bytes of fp32 words: v m A forward (the last stage (v - 1) m A), v m A backward (the first stage
 * (v - 1) m A); the last stage W, or m W if `ordered`; the first stage W.
 */
#ifndef LT_PIPELINE_H
#define LT_PIPELINE_H

#include "libtrain/parallel/layout.h"
#include "libtrain/parallel/shard.h"
#include "libtrain/parallel/stages.h"

struct lt_pipeline;

/* model, group (all ranks) and trace are borrowed. TACHO_ENOMEM with words in *err; the caller
 * frees, also after an error. */
int lt_pipeline_create(struct lt_pipeline **out, const struct lt_staging *staging,
                       const struct lt_layout *layout, const struct lt_group *world,
                       struct lt_model *model, struct lt_trace *trace, struct tacho_error *err);
/* Accepts NULL. */
void lt_pipeline_destroy(struct lt_pipeline *pipeline);

/* Bytes of its buffers, for a model whose boundary and tied tensor have so many, and so many
 * micro-batches in flight. */
size_t lt_pipeline_bytes(size_t boundary, int slots, size_t tied, int micro, int64_t tokens);

/* Keeps a copy of micro-batch number `micro` of the next step. */
void lt_pipeline_batch(struct lt_pipeline *pipeline, int micro, const struct lt_batch *batch);

/* Calls `made` after each forward pass of a step over chunk 0, whose micro-batch's activations are
 * then selected. */
void lt_pipeline_watch(struct lt_pipeline *pipeline, void (*made)(void *arg, int micro), void *arg);

/* All passes of a step. parts: micro-batches of all replicas. The sum of the losses, on the last
 * stage; else 0. */
double lt_pipeline_step(struct lt_pipeline *pipeline, const struct lt_context *context,
                        struct lt_shard *shard, int parts);

/* After the update of the parameters: the copy of the tied tensor becomes what the first stage
 * has. */
void lt_pipeline_updated(struct lt_pipeline *pipeline);

/* The forward pass of one batch through all stages; the loss, on the last stage. */
double lt_pipeline_evaluate(struct lt_pipeline *pipeline, const struct lt_context *context,
                            const struct lt_batch *batch);

/* The newest steps but the first, in seconds: the mean of this stage's passes over a micro-batch of
 * each step, and all passes of the step with their waiting. The same place has the same step on all
 * ranks. Only doubles, so that ranks can gather it. */
#define LT_PIPELINE_STEPS 256
struct lt_pipeline_times {
    double steps; /* that are kept; 0: there was no second one */
    struct lt_pipeline_time {
        struct lt_stage_times passes;
        double step;
    } time[LT_PIPELINE_STEPS];
};
#define LT_PIPELINE_DOUBLES (sizeof(struct lt_pipeline_times) / sizeof(double))
const struct lt_pipeline_times *lt_pipeline_times(const struct lt_pipeline *pipeline);

/* Sent in steps so far, evaluations left out, and by the formula. */
struct lt_pipeline_sent {
    struct lt_group_sent activations, tied;
};
struct lt_pipeline_sent lt_pipeline_sent(const struct lt_pipeline *pipeline,
                                         struct lt_pipeline_sent *formula);

#endif

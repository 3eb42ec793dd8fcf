/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: what the training loop does differently where ranks divide the model among
 * them: shards of the optimizer, gradients and parameters (shard.h), stages of a pipeline
 * (pipeline.h), parts of layers, sequences or experts (parts.h).
 *
 * Checkpoints are those of a run with whole arrays: rank 0 writes them, every rank reads them, and
 * for that time the whole arrays are there. So a run can be continued with another layout.
 */
#ifndef LT_DIVISION_H
#define LT_DIVISION_H

#include "libtrain/parallel/parts.h"
#include "libtrain/parallel/pipeline.h"
#include "libtrain/parallel/shard.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/parallel.h"

/* What a rank sent for one purpose, and what the formula says. */
struct lt_sent_row {
    const char *purpose;
    struct lt_group_sent sent, formula;
    int bound; /* it sends as many bytes at most */
};
#define LT_SENT_ROWS 6
struct lt_sent_table {
    struct lt_sent_row row[LT_SENT_ROWS];
    int rows;
    int64_t delay;                /* rounds that weights of a rank were behind at most */
    struct lt_packer packed;      /* what it packed; level 0: nothing */
    struct lt_adapt adapt;        /* what was chosen by measurement; no choices: nothing */
    uint64_t gradients_as_floats; /* bytes that gradients would take without a codec */
    /* Of a pipeline, of replica 0: seconds of all passes of a step, measured on the slowest stage,
     * and simulated with the stages' measured passes; share of the stages' time that is no pass. 0:
     * not measured. */
    double measured, simulated, measured_bubble, simulated_bubble;
    /* FLOPs of attention of training where ranks divide sequences: the mean over the ranks, the
     * most, and the rank that has it. 0: not counted. */
    double attention_mean, attention_most;
    int attention_rank;
};

struct lt_division_config {
    struct lt_layout layout;
    struct lt_staging staging;    /* of a pipeline; stages and micro-batches are filled here */
    int sequence;                 /* ranks that divide layers divide the residual stream too */
    struct lt_shard_config shard; /* its stage 0: nothing is divided */
    /* Sums and norm of the gradient are those of one rank bit by bit (also where nothing is
     * divided). */
    int ordered;
    struct lt_sent_table *sent; /* filled at the end of a run; NULL: not wanted */
};

/* Of a run. shard and pipeline are NULL where there are none. */
struct lt_division {
    struct lt_division_config config;
    struct lt_parallel *parallel;
    struct lt_model *model;
    int micro_steps;
    struct lt_axis replica_axis, part_axis, expert_axis, context_axis, owner_axis;
    struct lt_group replicas, parts, experts, contexts, owners;
    /* opened where layers, experts or sequences are divided */
    struct lt_parts layer_parts, expert_parts, sequence_parts;
    int32_t *tokens; /* of a batch, this rank's, and their targets; NULL: it has all of them */
    struct lt_shard *shard;
    struct lt_pipeline *pipeline;
    uint64_t attention_flops; /* for lt_context.attention_flops, where ranks divide sequences */
};

/* Refuses what cannot be divided: optimizers of whole tensors, models that do not say what they use
 * or have no stages. Then makes what the configuration asks for. TACHO_EUSAGE, TACHO_ENOMEM with
 * words in *err; the caller closes, also after an error. */
int lt_division_open(struct lt_division *out, const struct lt_division_config *config,
                     struct lt_parallel *parallel, struct lt_model *model,
                     const struct lt_optimizer_config *optimizer, int micro_steps,
                     struct lt_trace *trace, struct tacho_error *err);
/* Ranks of a replica that have other parameters than each other. */
int lt_division_parts(const struct lt_division *division);
/* Of a batch of whole sequences, the tokens of this rank; valid until the next call. */
void lt_division_batch(const struct lt_division *division, struct lt_batch *batch);
/* Fills config.sent; local: what local.h sent by its formula; delay: its rounds. All ranks call it
 * at the end of a run that has not failed. */
void lt_division_measure(struct lt_division *division, struct lt_group_sent local, int64_t delay);
void lt_division_close(struct lt_division *division);

/* State for what this rank updates. */
int lt_division_optimizer(const struct lt_division *division, struct lt_optimizer *out,
                          const struct lt_optimizer_config *config, struct tacho_error *err);

/* The norm of the gradient, its squares summed without rounding: its bits do not depend on who has
 * which part. */
double lt_division_norm(const struct lt_division *division, const struct lt_context *context);

/* Bounds each element of this rank's part of the gradient; updates its part of the parameters, and
 * brings them to all that use them. Only with a shard. */
void lt_division_clip(const struct lt_division *division, const struct lt_context *context,
                      double bound);
void lt_division_update(struct lt_division *division, struct lt_optimizer *optimizer,
                        const struct lt_context *context, int64_t made, double rate, double scale);

/* Whole parameters on every rank, where they are sharded, and again without them. */
void lt_division_whole(const struct lt_division *division, int whole);

/* All ranks call these, and agree afterwards. Errors of checkpoint.h. */
int lt_division_write(const struct lt_division *division, const char *path,
                      const struct lt_optimizer *optimizer, const struct lt_checkpoint *state,
                      struct tacho_error *err);
int lt_division_read(const struct lt_division *division, const char *path,
                     struct lt_optimizer *optimizer, struct lt_checkpoint *state,
                     struct tacho_error *err);

#endif

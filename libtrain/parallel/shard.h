/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: ZeRO (Rajbhandari et al. 2020). The ranks of a group train the same model on
 * their own micro-batches, and each keeps a share: of the optimizer's state (stage 1), of the
 * gradients' sum too (stage 2), of the parameters too (stage 3). A group may have one rank.
 *
 * Units. Parameters travel in units: unit 0 is what the model has once, unit i + 1 is block i of
 * every tensor that is repeated. Experts that ranks divide are units of their own, which only the
 * ranks that have the same ones share: their N below is that of these ranks. A unit without the
 * padding between its tensors is cut into as many chunks as there are ranks, which differ by one
 * element at most (lt_group_chunk); rank r owns chunk r of each. The shard of a rank is its chunks,
 * one behind the other, in every array.
 *
 * With S bytes of fp32 parameters and N ranks, a rank sends, chunks of equal size presumed
 * (lt_shard_formula has the others):
 *   gradients: S (N - 1) / N by a reduce-scatter of each unit as soon as backward has finished it;
 *   stage 1 once a step, stages 2 and 3 for each micro-batch;
 *   parameters: S (N - 1) / N by an all-gather of each unit; stages 1 and 2 once a step, after the
 *   update; stage 3 as often as a micro-batch turns to the unit (lt_model_ops.uses): twice, before
 *   forward and before backward use it, but for a few; and the first stage of a pipeline brings
 *   unit 0 once more a step, for the tied embedding.
 * In order of uses, which the first micro-batch shows, a unit is gathered while the one before it
 * is in use.
 *
 * `ordered` (LT_ALL_REDUCE_ORDERED): the gradient of each micro-batch is made alone and added to
 * the sum, rank by rank: the bits of one rank that takes the same micro-batches one after the other
 * in this mode. It needs room for a rank's share of the sum in stage 1 too.
 *
 * What is not there occupies no memory: pages of units that are in use elsewhere are given back to
 * the system, and the book of memory.h knows them. Pages that two tensors of different units share
 * stay.
 */
#ifndef LT_SHARD_H
#define LT_SHARD_H

#include "libtrain/base/exact.h"
#include "libtrain/collectives/group.h"
#include "libtrain/models/model.h"
#include "libtrain/parallel/adapt.h"

#define LT_ZERO_STAGES 3

struct lt_shard_config {
    int stage;               /* 1 to 3 */
    enum lt_all_reduce kind; /* RING or ORDERED */
    int overlap;             /* a thread communicates during backward */
    /* Stage 3: says how often it uses a unit; hands_on: the first stage of a pipeline, which also
     * hands unit 0 on after the update (pipeline.h). */
    const struct lt_model *model;
    int hands_on;
    /* What gradients travel as, from step number `coded_after` on (counted from 0). What a codec
     * loses is kept in an array of the gradient's size and added to the next one. */
    struct lt_codec codec;
    uint64_t coded_after;
    struct lt_adapt adapt;  /* its choices, where the codec is to be chosen in a step of the run */
    uint64_t communicators; /* added to the numbers below; other groups have others */
    /* Where ranks divide experts, those that have the same ones: how many, and which this one is;
     * and what their communicators add. */
    int owner, owners;
    uint64_t owner_communicators;
};

/* Communicators in tacho.comm, of a job without a layout. */
#define LT_COMMUNICATOR_GRADIENTS  1u
#define LT_COMMUNICATOR_CONTROL    2u
#define LT_COMMUNICATOR_PARAMETERS 3u

/* A part of a rank's shard that is one piece of the flat arrays too. value and grad: where it is
 * now. */
struct lt_piece {
    float *value, *grad;
    size_t at;    /* first element in the shard */
    size_t first; /* first element in the flat arrays */
    size_t count;
    int decays, copied; /* copied: another rank counts it in the norm */
};

struct lt_shard;

/* group, owners (of experts; NULL: none are divided), parameters and trace are borrowed. The ranks'
 * parameters must be equal. In stage 2 and 3
 * the peaks of the book begin anew. All ranks of the group call it. TACHO_ENOMEM, TACHO_EINTERNAL
 * with words in *err; the caller frees, also after an error. */
int lt_shard_create(struct lt_shard **out, const struct lt_shard_config *config,
                    struct lt_group *group, struct lt_group *owners,
                    const struct lt_parameters *parameters, struct lt_trace *trace,
                    struct tacho_error *err);
/* Accepts NULL. */
void lt_shard_destroy(struct lt_shard *shard);

/* Floats of a rank's shard. */
size_t lt_shard_floats(const struct lt_shard *shard);
const struct lt_piece *lt_shard_pieces(const struct lt_shard *shard, size_t *count);

/* ---- a step, from its thread -------------------------------------------------------------------- */

/* Is the gradient of each micro-batch made alone (backward's `first`)? Then all of them are
 * announced by lt_shard_ready, else those of the last one. */
int lt_shard_apart(const struct lt_shard *shard);

/* Before the forward pass of a micro-batch; first: of the step. Sets ready and use. */
void lt_shard_begin(struct lt_shard *shard, struct lt_context *context, int first, int last);
/* Before its backward pass. */
void lt_shard_turn(struct lt_shard *shard);
/* After its backward pass: waits until its units are reduced. */
void lt_shard_end(struct lt_shard *shard);

/* Stage 3, for what uses parameters outside of these: sets use; brings one unit; lets go of the
 * last one. */
void lt_shard_enter(struct lt_shard *shard, struct lt_context *context);
void lt_shard_bring(struct lt_shard *shard, int unit);
void lt_shard_leave(struct lt_shard *shard);

/* Adds the squares of this rank's share of the gradient. */
void lt_shard_squares(const struct lt_shard *shard, const struct lt_context *context,
                      struct lt_exact *sum);

/* After the update of the pieces: stages 1 and 2 bring them to all ranks. */
void lt_shard_updated(struct lt_shard *shard);

/* ---- between steps; all ranks of the group call these ----------------------------------------- */

/* Stage 3: brings the whole parameters to every rank; and lets go of them again. */
void lt_shard_whole(struct lt_shard *shard);
void lt_shard_release(struct lt_shard *shard);

/* The shards of an array as one array of the flat layout, where `whole` is wanted (not NULL); and
 * this rank's shard from such an array. */
void lt_shard_collect(struct lt_shard *shard, const float *own, float *whole);
void lt_shard_take(const struct lt_shard *shard, const float *whole, float *own);
/* Stage 3: the flat values become what is held. */
void lt_shard_adopt(struct lt_shard *shard);

/* Has the sum of the gradient an array of its own? Bytes of scratch for the largest unit. */
struct lt_units;
int lt_shard_sums(const struct lt_shard_config *config);
size_t lt_shard_scratch(const struct lt_shard_config *config,
                        const struct lt_parameters *parameters, const struct lt_units *units,
                        int ranks);

/* ---- formulas ----------------------------------------------------------------------------------- */

struct lt_shard_sent {
    struct lt_group_sent gradients, parameters;
};
/* What a rank sends in `steps` steps with `micro_steps` micro-batches in all of them. */
struct lt_shard_sent lt_shard_formula(const struct lt_shard_config *config,
                                      const struct lt_parameters *parameters, int rank, int ranks,
                                      uint64_t steps, uint64_t micro_steps);
/* What this rank has sent in its steps so far; *formula: what the formula says, *floats: without a
 * codec. What it sent between steps is in none of them. */
struct lt_shard_sent lt_shard_sent(const struct lt_shard *shard, struct lt_shard_sent *formula,
                                   struct lt_shard_sent *floats);

/* What was measured, and chosen by that. *packer: packs messages, and counts, so that the formula
 * is a bound; NULL: nothing does. */
const struct lt_adapt *lt_shard_adapt(const struct lt_shard *shard,
                                      const struct lt_packer **packer);

/* Changes a plan of a whole rank to one of rank `rank`: parameters, gradients and buffers. The
 * optimizer's part follows from the result, the floats of the rank's shard. */
size_t lt_shard_memory(const struct lt_shard_config *config, const struct lt_parameters *parameters,
                       int rank, int ranks, enum lt_dtype dtype, struct lt_memory_plan *plan);

#endif

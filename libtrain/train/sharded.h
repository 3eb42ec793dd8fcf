/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: a training run whose optimizer has the shards of a rank: how it is made,
 * how its checkpoints are written and read. The file is that of a run with whole arrays, so a run
 * can be continued with another stage or number of ranks.
 */
#ifndef LT_SHARDED_H
#define LT_SHARDED_H

#include "libtrain/parallel/shard.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/parallel.h"

/* Refuses what shards cannot do: optimizers of whole tensors, clipping by layer, models that do not
 * say what they use. TACHO_EUSAGE with words in *err. */
int lt_sharded_check(const struct lt_shard_config *config, const struct lt_optimizer_config *kind,
                     const struct lt_model *model, struct tacho_error *err);

/* State for a rank's shard. */
int lt_sharded_optimizer(struct lt_optimizer *out, const struct lt_optimizer_config *config,
                         const struct lt_shard *shard, struct tacho_error *err);

/* Writes the checkpoint on rank 0 and reads it on every rank; for that time arrays of the whole
 * optimizer are there. All ranks call these. Errors of checkpoint.h. */
int lt_sharded_write(const char *path, struct lt_shard *shard, int rank,
                     const struct lt_model *model, const struct lt_optimizer *optimizer,
                     const struct lt_checkpoint *state, struct tacho_error *err);
int lt_sharded_read(const char *path, struct lt_shard *shard, struct lt_model *model,
                    struct lt_optimizer *optimizer, struct lt_checkpoint *state,
                    struct tacho_error *err);

#endif

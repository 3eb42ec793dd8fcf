/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with shards: between the training loop, the optimizer, checkpoints and shard.h.
 */
#include "libtrain/train/sharded.h"

int lt_sharded_check(const struct lt_shard_config *config, const struct lt_optimizer_config *kind,
                     const struct lt_model *model, struct tacho_error *err)
{
    if (!lt_optimizer_parts(kind))
        return tacho_fail(err, TACHO_EUSAGE,
                          "choose one that updates each element alone, for instance adamw, without "
                          "--lookahead",
                          "--zero, --all-reduce ordered: %s%s needs whole tensors",
                          lt_optimizer_name(kind->kind),
                          kind->lookahead_every > 0 ? " with --lookahead" : "");
    if (config->stage == 3 && !model->ops->tells_use)
        return tacho_fail(err, TACHO_EUSAGE, "use --zero 2",
                          "--zero 3: %s does not say when it uses its parameters",
                          model->ops->name);
    return 0;
}

int lt_sharded_optimizer(struct lt_optimizer *out, const struct lt_optimizer_config *config,
                         const struct lt_shard *shard, struct tacho_error *err)
{
    struct lt_parameters own = {.count = lt_shard_floats(shard)};
    return lt_optimizer_create(out, config, &own, err);
}

int lt_sharded_write(const char *path, struct lt_shard *shard, int rank,
                     const struct lt_model *model, const struct lt_optimizer *optimizer,
                     const struct lt_checkpoint *state, struct tacho_error *err)
{
    struct lt_optimizer whole = {0};
    int rc = rank ? 0 : lt_optimizer_create(&whole, &optimizer->config, &model->parameters, err);
    for (int i = 0; i < LT_OPTIMIZER_STATES; i++)
        if (optimizer->state[i])
            lt_shard_collect(shard, optimizer->state[i], whole.state[i]);
    if (rc == 0 && rank == 0)
        rc = lt_checkpoint_write(path, model, &whole, state, err);
    lt_optimizer_destroy(&whole);
    return rc;
}

int lt_sharded_read(const char *path, struct lt_shard *shard, struct lt_model *model,
                    struct lt_optimizer *optimizer, struct lt_checkpoint *state,
                    struct tacho_error *err)
{
    struct lt_optimizer whole;
    int rc = lt_optimizer_create(&whole, &optimizer->config, &model->parameters, err);
    if (rc == 0)
        rc = lt_checkpoint_read(path, model, &whole, state, err);
    for (int i = 0; rc == 0 && i < LT_OPTIMIZER_STATES; i++)
        if (optimizer->state[i])
            lt_shard_take(shard, whole.state[i], optimizer->state[i]);
    lt_optimizer_destroy(&whole);
    return rc;
}

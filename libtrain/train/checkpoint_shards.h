/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: the shards of a checkpoint. Each rank writes what it alone updates into
 * FILE.sSTEP.rRANK: a header, a table of segments, their floats one behind the other, and a sum
 * over all of it. A segment says where it belongs in the arrays of the whole model, so a run with
 * any layout and number of ranks reads them. FILE itself is the index (checkpoint.h).
 */
#ifndef LT_CHECKPOINT_SHARDS_H
#define LT_CHECKPOINT_SHARDS_H

#include "libtrain/models/model.h"
#include "libtrain/train/optimizer.h"

#define LT_SHARDS_CAP 65536

/* Floats [first, first + count) of an array of the whole model. */
struct lt_segment {
    uint64_t array; /* 0: values; i + 1: the optimizer's array i; the next one: the model's state */
    uint64_t first, count;
};
#define LT_SEGMENT_STATE (1u + LT_OPTIMIZER_STATES)

struct lt_shard_file {
    const struct lt_segment *segment;
    uint64_t segments;
    const float *data; /* of all segments, and one more float, which is 0, if their number is odd */
    uint64_t floats;
    uint64_t step;
    int rank, ranks;
};

/* Writes this rank's shard beside `path`; *sum: what the index is to say of it. Errors of
 * checkpoint.h. May be called from any thread, one at a time. */
int lt_shards_write(const char *path, const struct lt_shard_file *shard, uint64_t *sum,
                    struct tacho_error *err);

/* Fills the arrays of a whole model and optimizer from all shards of a step, whose values and
 * model's state are `floats` floats together. */
int lt_shards_read(const char *path, uint64_t step, const uint64_t *sums, int shards,
                   uint64_t floats, struct lt_model *model, struct lt_optimizer *optimizer,
                   struct tacho_error *err);

/* Removes all other shards beside `path` than those of so many ranks in that step, those too that
 * were begun and not ended. */
void lt_shards_clean(const char *path, uint64_t step, int ranks);

#endif

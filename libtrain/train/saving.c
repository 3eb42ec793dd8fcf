/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints of a run: at once, or beside training.
 */
#include "libtrain/speak/trace.h"
#include "libtrain/train/background.h"
#include "libtrain/train/checkpoint.h"
#include "libtrain/train/run.h"

/* Have the ranks the same weights? Sharded ones are there once. */
int lt_run_check_weights(struct run *run, struct tacho_error *err)
{
    if (run->config->division.shard.stage == 3)
        return 0;
    return lt_parallel_check(run->parallel, run->step - 1, err);
}

int lt_run_saved(struct run *run, int wait, struct tacho_error *err)
{
    struct lt_background_done done;
    int rc = lt_background_look(run->background, wait, &done, err);
    if (rc || !done.step)
        return rc;
    lt_parallel_saved(run->parallel, run->config->checkpoint, done.step);
    lt_run_report(run, &(struct lt_progress){.event = LT_EVENT_CHECKPOINT,
                                             .step = done.step - 1,
                                             .seconds = done.exposed,
                                             .beside = done.seconds});
    return 0;
}

static int write_state(struct run *run, const struct lt_checkpoint *state, struct tacho_error *err)
{
    const char *path = run->config->checkpoint;
    if (run->division.shard)
        return lt_division_write(&run->division, path, &run->optimizer, state, err);
    if (lt_parallel_rank(run->parallel))
        return 0;
    return lt_checkpoint_write(path, run->model, &run->optimizer, state, err);
}

/* Rank 0 writes the state; all ranks compare their weights first, because a checkpoint of weights
 * that have come apart would be of no use. */
int lt_run_checkpoint(struct run *run, struct tacho_error *err)
{
    struct lt_checkpoint state = {.seed = run->seed,
                                  .step = (uint64_t)run->step,
                                  .position = lt_loader_position(run->loader),
                                  .data = lt_part_identity(run->train),
                                  .dtype = (uint64_t)run->context.dtype,
                                  .scaling = run->scaling};
    struct lt_progress progress = {.event = LT_EVENT_CHECKPOINT, .step = run->step - 1};
    double start = lt_run_seconds();
    lt_trace_begin(run->trace, LT_RANGE_CHECKPOINT,
                   lt_checkpoint_bytes(run->model, &run->optimizer), 0);
    int rc = lt_run_check_weights(run, err);
    if (rc == 0 && run->background) {
        rc = lt_run_saved(run, 1, err); /* the one before */
        if (rc == 0)
            lt_background_begin(run->background, &state, start);
        lt_trace_end(run->trace);
        return rc;
    }
    if (rc == 0)
        rc = write_state(run, &state, err);
    rc = lt_parallel_agree(run->parallel, rc, err);
    progress.seconds = lt_run_seconds() - start;
    if (rc == 0) {
        lt_parallel_saved(run->parallel, run->config->checkpoint, run->step);
        lt_run_report(run, &progress);
    }
    lt_trace_end(run->trace);
    return rc;
}

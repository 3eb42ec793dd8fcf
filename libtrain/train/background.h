/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: checkpoints that are written beside training. The step's thread copies what
 * this rank alone keeps; a thread `checkpoint-0` writes the copy as the rank's shard;
 * when all ranks have, rank 0's thread writes the index. Only then the checkpoint is there, and the
 * shards of the one before it are removed.
 *
 * In the record: `checkpoint` on the step's thread is the copy, and what a checkpoint waits for an
 * earlier one; on checkpoint-0 it is what is written.
 */
#ifndef LT_BACKGROUND_H
#define LT_BACKGROUND_H

#include "libtrain/train/checkpoint.h"
#include "libtrain/train/division.h"

struct lt_background;

/* What is said of a checkpoint that is there. */
struct lt_background_done {
    int64_t step;   /* updates made */
    double seconds; /* from the copy's end until it was there */
    double exposed; /* of the copy, and of waiting */
};

/* Bytes of the copy, of a rank that keeps so many floats of each array of such an optimizer. */
size_t lt_background_bytes(const struct lt_optimizer_config *optimizer, size_t floats);

/* division, optimizer and trace are borrowed. TACHO_EUSAGE (an optimizer of whole tensors),
 * TACHO_ENOTSUP (a device), TACHO_ENOMEM with words in *err; the caller closes, also after an
 * error. */
int lt_background_open(struct lt_background **out, const char *path,
                       const struct lt_division *division, const struct lt_optimizer *optimizer,
                       struct lt_trace *trace, struct tacho_error *err);
/* Waits for the thread. Accepts NULL. */
void lt_background_close(struct lt_background *background);

/* All ranks call these, in the same steps. begin: an earlier one has ended; the steps' thread has
 * been at it since then (lt_run_seconds). look: has the
 * checkpoint under way ended (wait: until it has)? *done: its step is 0 where none has; the errors
 * of any rank, on all ranks. */
void lt_background_begin(struct lt_background *background, const struct lt_checkpoint *state,
                         double since);
int lt_background_look(struct lt_background *background, int wait, struct lt_background_done *done,
                       struct tacho_error *err);

#endif

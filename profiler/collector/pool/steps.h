/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of one process and the totals of what ran in each of them.
 *
 * A range belongs to the step during which it ENDS, whatever thread it ran on; what ends between
 * steps belongs to step COL_STEP_OUTSIDE. The totals of a step are written one round after it
 * closed, when the other threads' records of that time have been read too; what comes even later is
 * counted in the oldest step that is not written yet. Rows of equal key add up.
 */
#ifndef COL_STEPS_H
#define COL_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/collector/pool/state.h"
#include "store/store.h"

#define COL_STEP_OUTSIDE (-1)
#define COL_TOTALS_MAX   2048 /* of one step held in memory; more are written early */
#define COL_TOTALS_SAVED 8192 /* of closed steps; more are written early */

struct col_total {
    int64_t track, name, category, detail;
    int64_t count, total, self;
};

struct col_totals {
    struct col_total *row;
    uint32_t *slot; /* hash of the key -> row + 1 */
    uint32_t count, slots;
};

struct col_step {
    int64_t index, start, end, tokens, samples; /* end: INT64_MAX while open */
    uint64_t closed_round;
    col_flag paused, end_known;
    struct col_totals totals;
};

struct col_steps {
    struct col_step *step; /* oldest first, not yet written */
    size_t count, cap;
    struct col_totals outside;
    struct col_totals spare; /* tables of a written step, to be used again */
    bool dirty;              /* changed since the last save */
    int64_t rows;            /* steps written */
};

void col_steps_free(struct col_steps *steps);
int col_steps_open(struct col_steps *steps, int64_t index, int64_t start, int64_t tokens,
                   int64_t samples, bool paused);
/* Closes the newest open step of that index. end_known false: its end was lost. */
void col_steps_close(struct col_steps *steps, int64_t index, int64_t end, bool end_known,
                     uint64_t round);
/* The step that time falls in, NULL outside of steps. */
struct col_step *col_steps_find(struct col_steps *steps, int64_t time);
/* Adds one range to the totals of the step it ended in. Returns 0, a TACHO_ENOMEM, or 1: the table
 * is full, write it. */
int col_steps_add(struct col_steps *steps, struct col_step *step, const struct col_total *key,
                  int64_t duration, int64_t self);
/* Writes the steps closed before `round` (UINT64_MAX: all, open ones too) and the tables that are
 * full. */
int col_steps_write(struct col_steps *steps, store *db, int64_t process, uint64_t round);
/* Writes the totals of closed steps that wait for the end of the round, if they are many: they
 * would be saved with every commit until then. */
int col_steps_spill(struct col_steps *steps, store *db, int64_t process);
void col_steps_save(const struct col_steps *steps, struct col_buffer *buffer);
int col_steps_load(struct col_steps *steps, struct col_cursor *cursor);

#endif

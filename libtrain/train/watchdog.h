/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/train/: looks after the other ranks while this one waits for them
 * (collectives/board.h). A rank that died, calls that can never meet: the job ends at once, and one
 * rank says which rank and which call it was, and from which checkpoint to go on.
 */
#ifndef LT_WATCHDOG_H
#define LT_WATCHDOG_H

#include "libtrain/collectives/board.h"
#include "libtrain/speak/trace.h"
#include "libtrain/train/parallel_mpi.h"

struct lt_watchdog;

/* All ranks call it. The caller frees, also after an error. TACHO_ENOMEM. With one rank, and where
 * ranks cannot share memory, it does nothing. */
int lt_watchdog_open(struct lt_watchdog **out, const struct lt_mpi_place *place,
                     const struct lt_board_plan *plan);
/* This rank has ended as it should. Accepts NULL, as all below. */
void lt_watchdog_close(struct lt_watchdog *watchdog);

/* From here on calls are noted, until trace is NULL. */
void lt_watchdog_attach(struct lt_watchdog *watchdog, struct lt_trace *trace);

void lt_watchdog_step(struct lt_watchdog *watchdog, int64_t step);

/* A checkpoint of so many steps is there. path is borrowed. */
void lt_watchdog_saved(struct lt_watchdog *watchdog, const char *path, int64_t steps);

#endif

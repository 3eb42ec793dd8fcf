/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranges are open in a run that is being recorded, as of its newest commit: what a program
 * that does not go on is doing.
 */
#ifndef COL_OPEN_H
#define COL_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* An open range of a thread. Ids refer to the tables of the file; absent where it has none. */
struct col_open {
    int64_t track, start, name, detail, correlation;
    bool innermost; /* no other one is open in it */
};

/* Visits the open ranges of each thread, outermost first, until `visit` returns non-zero, which is
 * then returned. A run that is finished has none, and neither has one that another build of tacho
 * records. Else 0, or a code of the store. */
int col_open_each(store_reader *reader, int (*visit)(void *ctx, const struct col_open *open),
                  void *ctx);

#endif

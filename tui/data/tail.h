/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: follows a run by the ids of its rows. What was read once is not read again, and
 * what is kept is bounded: rows of steps and points of series are merged pairwise when there are
 * too many. Belongs to one thread.
 */
#ifndef TUI_TAIL_H
#define TUI_TAIL_H

#include "store/store.h"
#include "tui/data/model.h"

struct tui_tail;

struct tui_tail *tui_tail_new(void); /* NULL: no memory */
void tui_tail_free(struct tui_tail *tail);

/* Reads what was written since the last call, about `rows` rows at most. 1: there is more; 0: no
 * more; or a TACHO_E* code. The reader is of the same file in every call. */
int tui_tail_poll(struct tui_tail *tail, store_reader *reader, int64_t rows);

/* Steps of which an analysis saw the parts get their class_ms. */
void tui_tail_update(struct tui_tail *tail, const struct an_result *result);

/* A model of what was read so far: steps, series, counts, now_s; the rest is the caller's. NULL: no
 * memory. */
struct tui_model *tui_tail_model(const struct tui_tail *tail);

/* Value of a key of the run ("ended", "exit_status"), NULL: none. Valid until the next poll. */
const char *tui_tail_key(const struct tui_tail *tail, const char *key);
/* Latest time of steps and counters, start of the run; ns, STORE_ABSENT: none. */
int64_t tui_tail_newest(const struct tui_tail *tail);
int64_t tui_tail_start(const struct tui_tail *tail);
int64_t tui_tail_slices(const struct tui_tail *tail); /* recorded so far */

#endif

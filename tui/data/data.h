/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/: the data side. A thread of its own finds the run, follows it, has it analysed at
 * a bounded cost, and publishes models; the frame never waits for it.
 *
 * A file is open only while it is read: its recorder can finish and move it at any time. Events of
 * a run are not errors here but messages in the model: it ended, its recorder was killed, its file
 * was deleted, it was started again.
 *
 * Cost of a live run: one poll a second reads what is new. An analysis covers only as many of the
 * newest slices as take about TUI_ANALYSIS_MS of a core, and the next one waits until that is at
 * most TUI_ANALYSIS_SHARE of the time.
 */
#ifndef TUI_DATA_H
#define TUI_DATA_H

#include "tui/data/model.h"
#include "tui/data/source.h"

#define TUI_ANALYSIS_MS    20
#define TUI_ANALYSIS_SHARE 0.004
#define TUI_SLICES_LIVE    6000 /* of the first analysis; then as many as the cost allows */
#define TUI_SLICES_LEAST   2000
#define TUI_SLICES_WHOLE \
    64000 /* a run that is over and has no more is analysed whole, once: at most 300 bytes a slice \
             ... */
#define TUI_SLICES_IMPORT \
    100000 /* ... and 190 of an imported trace, which has fewer pieces of threads ... */
#define TUI_SLICES_ENDED 64000 /* ... of a larger one the newest part, at first */
#define TUI_POLL_ROWS    20000 /* between two models, while a long run is read for the first time */
#define TUI_MMAP_LEAST \
    131072 /* bytes: an array of an analysis goes back to the system as soon as it is freed */

struct tui_data;

/* Starts the thread. `source` and what it points to outlive it. 0 or a code. */
int tui_data_start(const struct tui_source *source, int interval_ms, struct tui_data **out,
                   struct tacho_error *err);
/* Readable when a model waits. */
int tui_data_fd(const struct tui_data *data);
/* The newest model, or NULL when it was taken before. The caller frees it. */
struct tui_model *tui_data_take(struct tui_data *data);
/* Has another part of the run analysed: the one before (-1) or after (+1) the present one; after
 * the last one the newest part. Does nothing where the whole run is analysed. */
void tui_data_move(struct tui_data *data, int parts);
/* Lists the runs that the user may turn to: a later model has them. */
void tui_data_list(struct tui_data *data);
/* Turns to a run of that list. */
void tui_data_choose(struct tui_data *data, const char *run);
/* Reads and analyses now. */
void tui_data_refresh(struct tui_data *data);
/* Ends the thread. false: it is still busy with one long read; then the program has to end with
 * _exit. NULL is fine. */
bool tui_data_stop(struct tui_data *data);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tui/views/: what is held over the run, the categories one above the other.
 */
#ifndef TUI_MEMORY_TIMELINE_H
#define TUI_MEMORY_TIMELINE_H

#include "tui/screen/draw.h"

/* Is anything known over time? The categories that the program tracks (memory.TAG) of the process
 * that holds most, else what an allocator had allocated and reserved (memory snapshots). */
bool tui_memory_timeline_known(const struct tui_model *model);

/* Draws a column a moment, with a legend above and the ends of the time below. */
void tui_memory_timeline(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state);

#endif

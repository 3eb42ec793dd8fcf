/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to job/: the processes of a run on this machine that record device work, and the steps
 * they are at.
 */
#ifndef COL_CAPTURE_VIEW_PRIVATE_H
#define COL_CAPTURE_VIEW_PRIVATE_H

#include <stdbool.h>

#include "profiler/collector/pool/shared.h"

#define COL_VIEW_PROCESSES 256

struct col_view {
    struct col_shared gpu[COL_VIEW_PROCESSES]; /* their gpu files, mapped */
    int count;
};

void col_view_open(struct col_view *view, const char *segments);
void col_view_close(struct col_view *view);
/* The step after the newest one that any process has begun. */
int64_t col_view_next_step(const struct col_view *view);
/* Has process i begun a step after `last`, or ended? True, too, where its file is damaged. */
bool col_view_is_through(const struct col_view *view, int i, int64_t last);

/* col_view_next_step of a run, and how many of its processes can record. */
int64_t col_capture_step(const char *segments, int *processes);

#endif

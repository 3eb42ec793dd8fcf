/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to history/: a file that runs are imported from.
 */
#ifndef HISTORY_IMPORT_H
#define HISTORY_IMPORT_H

#include "history/made.h"

struct history_source {
    struct history *history;
    const char *path;
    const char *recipe; /* what the user calls it; NULL: as the file does */
    const char *hint;
    struct tacho_error *err; /* never NULL */
    size_t line;             /* that is read, from 1 */
    size_t count;            /* entries */
};

/* Fills the error with "PATH:LINE: WHAT"; returns it. */
struct tacho_error *history_at(struct history_source *source, const char *what);
/* Enters a run with what is missing filled in, and frees it. */
int history_source_end(struct history_source *source, struct history_made *made);
/* Enters the rows of a table, which is changed. */
int history_take_csv(struct history_source *source, char *text);

#endif

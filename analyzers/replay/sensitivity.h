/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the rows that edits and sensitivities name, and what the longest paths
 * hold of each (docs/advise.md).
 */
#ifndef ANALYZERS_SENSITIVITY_H
#define ANALYZERS_SENSITIVITY_H

#include "analyzers/replay/replay.h"

#define AN_ROWS_MOST 96

/* What a part of the work is called where it is edited: "op:matrix", "loader.decode",
 * "collective:all_reduce", "launch". */
struct an_row {
    const char *key;
    int64_t own_ns; /* of its replayed nodes, all tracks */
    uint8_t cause;  /* enum an_cause */
};

struct an_rows {
    struct an_row row[AN_ROWS_MOST];
    size_t count, dispatch; /* dispatch: the row of latencies */
    uint8_t *row_of;        /* of every node of the graph; AN_ROWS_MOST: of none */
};

/* Names the rows of the replayed nodes. Lies in the arenas. 0 or TACHO_ENOMEM. */
int an_rows_of(const struct an_replay *replay, struct an_rows *rows);
/* "op:matrix, op:other": the rows of the kind that `key` is of, for messages. NULL: there are none.
 */
const char *an_rows_like(const struct an_rows *rows, const char *key, struct an_arena *arena);

/* Adds to ns[row] the least that a longest path of each frame holds of that row, after
 * an_replay_run(r, NULL, t): by so much the frames get shorter, in proportion, when the row's work
 * does. 0 or TACHO_ENOMEM. */
int an_sensitivity(const struct an_replay *replay, const struct an_times *times,
                   const struct an_rows *rows, int64_t *row_ns);

#endif

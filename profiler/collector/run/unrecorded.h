/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of the run that cannot record, and cannot say so: they changed their user, and that
 * user cannot read libtacho.so, or they also changed their network namespace, where the lender's
 * socket is out of reach. They are looked for in /proc, now and then, until one is found.
 */
#ifndef COL_UNRECORDED_H
#define COL_UNRECORDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profiler/collector/collector.h"
#include "profiler/collector/drain/drain.h"

struct col_unrecorded {
    char library[COL_PATH_MAX];
    bool looks;              /* there is something that can be found */
    bool is_private;         /* not every user can read the library */
    uint64_t network;        /* the namespace of this process */
    int64_t next;            /* time of the next look */
    bool found, was_counted; /* a process was found; the file has its row */
    bool is_cut_off;         /* it is in another network namespace; else the library is private */
    uint32_t user;           /* of the process */
};

/* `library`: absolute. */
void col_unrecorded_init(struct col_unrecorded *unrecorded, const char *library);
/* Looks, when it is time, at the processes below `child`. True when one is found. */
bool col_unrecorded_look(struct col_unrecorded *unrecorded, const struct col_drain *drain,
                         pid_t child, int64_t now);
/* The reason of its row in the table of losses. */
const char *col_unrecorded_reason(const struct col_unrecorded *unrecorded);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a process by its control groups: which groups limit it, and what they have counted.
 */
#ifndef COL_LIMITS_H
#define COL_LIMITS_H

#include "profiler/collector/os/cgroup.h"

#define COL_LIMITS_LEVELS 4u /* groups around each other that have a quota */

struct col_limits {
    struct col_cgroup cpu[COL_LIMITS_LEVELS]; /* those with a CPU quota */
    unsigned cpu_count;
    double quota;             /* the smallest one, cores; 0: none */
    struct col_cgroup memory; /* the group with the smallest limit of memory */
    int64_t memory_bytes;     /* that limit; 0: none */
    struct col_cgroup tasks;  /* the innermost group, which has the pressure */
    bool has_tasks;
    bool has_cpu; /* the groups of the CPU controller could be read */
};

/* Finds the limits by the text of /proc/PID/cgroup. */
void col_limits_find(const char *root, const char *text, struct col_limits *out);
/* ns in which the groups with a quota could not run, added up; -1: not counted. */
int64_t col_limits_throttled(const struct col_limits *limits);

#endif

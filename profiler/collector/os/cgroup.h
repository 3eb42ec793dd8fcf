/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups: the limits that a process shares with its group, and what they cost it. Versions
 * 1 and 2 and both side by side. Every path starts with a root, so that tests can supply the files.
 * The formats are those of the kernel's Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/ and
 * scheduler/sched-bwc.rst, and accounting/psi.rst.
 */
#ifndef COL_CGROUP_H
#define COL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COL_CGROUP_ROOT "/sys/fs/cgroup"
#define COL_CGROUP_PATH 1024

/* A group of a process in the hierarchy of one controller. */
struct col_cgroup {
    char path[COL_CGROUP_PATH]; /* its folder */
    size_t root;                /* length of the part of `path` that is the hierarchy's root */
    bool unified;               /* version 2 */
};

/* Finds the innermost group that is visible here, from the text of /proc/PID/cgroup. Controller:
 * "cpu", "memory"; "" is the unified hierarchy, which has the pressure files also where version 1
 * holds the controllers. False: there is no such hierarchy, or it is not mounted. */
bool col_cgroup_find(const char *root, const char *text, const char *controller,
                     struct col_cgroup *out);
/* Goes to the group around it; false: it was the outermost visible one. In a container that has the
 * container's limits. */
bool col_cgroup_outer(struct col_cgroup *group);

/* Writes a file of a group into text. Its length, or a negative errno. */
long col_cgroup_read(const struct col_cgroup *group, const char *file, char *text, size_t size);

/* CPU time that a group may use, in cores; 0: it is not limited. */
double col_cgroup_quota(const struct col_cgroup *group);
/* Bytes that a group may use; 0: it is not limited. */
int64_t col_cgroup_memory(const struct col_cgroup *group);
/* The smallest memory limit of the groups of a process, at most `machine`. */
int64_t col_cgroup_memory_limit(const char *root, const char *text, int64_t machine);

/* Time in which the threads of a group could not run because its quota was spent, ns since the
 * group was made, added up over CPUs; -1: not counted. */
int64_t col_cgroup_throttled(const struct col_cgroup *group);

/* Pressure (PSI): ns in which some, or all, tasks that had work to do waited for the resource. */
struct col_pressure {
    int64_t some, full;
};
/* Reads the text of a pressure file; false: it is none. */
bool col_pressure_parse(const char *text, struct col_pressure *out);

/* How often a group reached its memory limit, and how many of its processes were killed for it;
 * -1: not counted. */
struct col_cgroup_events {
    int64_t hits, kills;
};
struct col_cgroup_events col_cgroup_events(const struct col_cgroup *group);

#endif

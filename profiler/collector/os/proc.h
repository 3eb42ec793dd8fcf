/* SPDX-License-Identifier: Apache-2.0
 *
 * What /proc says about processes and the machine. The parsers take text, so that tests can supply
 * it.
 */
#ifndef COL_PROC_H
#define COL_PROC_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct col_proc_stat {
    int32_t pid, parent, group, session;
    char state;
    char comm[64];
    uint64_t minor_faults, major_faults, user_ticks, system_ticks, threads, start_ticks;
    int64_t rss_pages;
    int64_t cpu; /* that its first thread ran on last; -1: not said */
};

/* Parses /proc/PID/stat. The name may hold blanks and brackets: fields are counted from the LAST
 * ')'. 0 or TACHO_EFORMAT. */
int col_proc_parse_stat(const char *text, struct col_proc_stat *out);
/* 0, or a negative errno. */
int col_proc_read_stat(int32_t pid, struct col_proc_stat *out);

/* Value of the line "NAME: 123 kB" or "NAME 123" of a /proc text; -1 if none exists. The unit is
 * not looked at. */
int64_t col_proc_value(const char *text, const char *name);

/* Adds the CPUs of the line "Cpus_allowed_list: 0-3,8" of /proc/PID/status to `set`; false if none
 * exists. */
bool col_proc_add_cpus(const char *text, cpu_set_t *set);
/* Writes the CPUs of a set as ranges: "0-3,8". */
void col_cpu_ranges(const cpu_set_t *set, char *text, size_t size);

struct col_proc_cpu {
    uint64_t busy, idle; /* ticks of all CPUs; idle includes waiting for devices */
};
int col_proc_parse_cpu(const char *text, struct col_proc_cpu *out); /* /proc/stat */

struct col_proc_disk {
    uint64_t read_bytes, written_bytes;
};
/* /proc/diskstats: the sum over whole devices. Partitions, device-mapper and loop devices are
 * excluded: they would count twice.
 */
int col_proc_parse_disks(const char *text, struct col_proc_disk *out);

/* Reads a whole small file into text (terminated). Returns its length or a negative errno. */
long col_proc_read(const char *path, char *text, size_t size);

/* Does the process map a file of this name and inode? The folder does not count: a process with
 * another root sees another path. */
bool col_proc_maps(int32_t pid, const char *name, uint64_t inode);

/* Does the process map a file of this name, whatever folder it is in? */
bool col_proc_maps_named(int32_t pid, const char *name);

/* Calls `each` for the children of a process. */
void col_proc_children(int32_t pid, void (*each)(void *ctx, int32_t child), void *ctx);

#endif

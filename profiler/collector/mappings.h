/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: which file lies where in each process that is sampled, as the kernel's records tell it (perf_event_open(2)), and
 * /proc/PID/maps for a process that was there before.
 */
#ifndef COL_MAPPINGS_H
#define COL_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct col_mapping {
    uint64_t start, end, offset; /* offset: of start in the file */
    const char *path;            /* "/usr/lib/libc.so.6", "//anon", "[vdso]" */
    uint32_t file;               /* a number of the caller's (col_mappings_note_file), UINT32_MAX at first */
};

struct col_address_space {
    int32_t pid, parent;
    bool learnt;            /* its maps have been read, or its records seen from the start */
    struct col_mapping *at; /* by start, disjoint */
    size_t count, room;
};

struct col_mappings {
    struct col_address_space *space;
    size_t count;
    char **path; /* each once */
    size_t paths;
};

/* Body of a PERF_RECORD_MMAP2: pid, tid, address, length, offset, 24 bytes of inode, protection, flags, name. Mappings without
 * code are left out. Out of memory leaves a hole: its functions stay unknown. */
void col_mappings_add(struct col_mappings *m, const uint8_t *body, size_t bytes);
/* A child has what its parent has. */
void col_mappings_fork(struct col_mappings *m, int32_t pid, int32_t parent);
void col_mappings_drop(struct col_mappings *m, int32_t pid); /* exec */
/* Reads /proc/PID/maps where nothing was said of the process yet. */
void col_mappings_learn(struct col_mappings *m, int32_t pid);
bool col_mappings_find(const struct col_mappings *m, int32_t pid, uint64_t address, struct col_mapping *out);
/* Keeps the caller's number of the file with the mapping at `address`; returns it. */
uint32_t col_mappings_note_file(struct col_mappings *m, int32_t pid, uint64_t address, uint32_t file);
int32_t col_mappings_parent(const struct col_mappings *m, int32_t pid); /* 0: not known */
void col_mappings_free(struct col_mappings *m);

#endif

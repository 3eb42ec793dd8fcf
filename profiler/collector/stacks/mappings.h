/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file is mapped where in each sampled process, from the kernel's records
 * (perf_event_open(2)), and from /proc/PID/maps for a process that existed before.
 */
#ifndef COL_MAPPINGS_H
#define COL_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COL_MAPPING_NO_TABLES (UINT32_MAX - 1)
#define COL_MAPPING_VDSO      "[vdso]" /* a path: the code that the kernel maps into every process */
/* Processes that are kept after their end: records of their last moments may arrive late. */
#define COL_MAPPINGS_ENDED 64u

struct col_mapping {
    uint64_t start, end, offset; /* offset: of start in the file */
    /* "/usr/lib/libc.so.6", "//anon", "[vdso]"; the same pointer for the same file */
    const char *path;
    uint64_t inode;        /* distinguishes files that had the same name; 0: not known */
    uint32_t file, tables; /* numbers of symbols.h and unwind.h for the file, UINT32_MAX at first */
};

struct col_address_space {
    int32_t pid, parent;
    bool learnt;            /* its maps have been read, or its records seen from the start */
    uint64_t generation;    /* changes with every change; unique over all processes */
    struct col_mapping *at; /* by start, disjoint */
    size_t count, room;
};

struct col_mappings {
    struct col_address_space *space; /* by pid */
    size_t count, room;
    uint64_t generation;
    struct col_mapping_path {
        char *text;
        uint64_t inode;
    } * path; /* each once */
    size_t paths, path_room;
    int32_t ended[COL_MAPPINGS_ENDED]; /* a ring; 0: none yet */
    size_t ends;
};

/* Body of a PERF_RECORD_MMAP2: pid, tid, address, length, offset, 24 bytes of inode, protection,
 * flags, name. Mappings without code are skipped. When memory runs out the mapping is missing: its
 * functions stay unknown. */
void col_mappings_add(struct col_mappings *mappings, const uint8_t *body, size_t bytes);
/* Gives a child the mappings of its parent. */
void col_mappings_fork(struct col_mappings *mappings, int32_t pid, int32_t parent);
/* Forgets the mappings of a process that called exec. */
void col_mappings_drop(struct col_mappings *mappings, int32_t pid);
/* Reads /proc/PID/maps unless the mappings of the process are known already. */
void col_mappings_learn(struct col_mappings *mappings, int32_t pid);
/* Notes that a process has ended. Returns the pid of an earlier one whose mappings are dropped now,
 * 0: none. */
int32_t col_mappings_end(struct col_mappings *mappings, int32_t pid);
/* The mapping at `address`, NULL: none. The caller may set its file and tables. Valid until
 * something is added. */
struct col_mapping *col_mappings_find(const struct col_mappings *mappings, int32_t pid,
                                      uint64_t address);
/* Both return 0 for a process that is not known. */
uint64_t col_mappings_generation(const struct col_mappings *mappings, int32_t pid);
int32_t col_mappings_parent(const struct col_mappings *mappings, int32_t pid);
/* Is it a file or COL_MAPPING_VDSO, rather than memory without a name or with one of the kernel's?
 */
bool col_mapping_is_file(const struct col_mapping *mapping);
/* Opens a mapped file as process pid sees it: the process may run in a container, and the file may
 * have been replaced since. Regular files only. Returns a descriptor to close, or -1. */
int col_mapping_open(const char *path, int32_t pid);
void col_mappings_free(struct col_mappings *mappings);

#endif

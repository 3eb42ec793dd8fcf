/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: which file lies where in each process that is sampled, as the kernel's records tell it
 * (perf_event_open(2)), and /proc/PID/maps for a process that was there before.
 */
#ifndef COL_MAPPINGS_H
#define COL_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COL_MAPPING_NO_TABLES (UINT32_MAX - 1)
#define COL_MAPPING_VDSO      "[vdso]" /* a path: the code that the kernel maps into every process */
#define COL_MAPPINGS_ENDED \
    64u /* processes that are kept after their end: records of their last moments may come late */

struct col_mapping {
    uint64_t start, end, offset; /* offset: of start in the file */
    const char
        *path; /* "/usr/lib/libc.so.6", "//anon", "[vdso]"; the same pointer for the same file */
    uint64_t inode;        /* tells it from another file that had that name earlier; 0: none */
    uint32_t file, tables; /* numbers of symbols.h and unwind.h for the file, UINT32_MAX at first */
};

struct col_address_space {
    int32_t pid, parent;
    bool learnt;            /* its maps have been read, or its records seen from the start */
    uint64_t generation;    /* another number whenever something in it changes, never one of another
                               process */
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
 * flags, name. Mappings without code are left out. Out of memory leaves a hole: its functions stay
 * unknown. */
void col_mappings_add(struct col_mappings *mappings, const uint8_t *body, size_t bytes);
/* A child has what its parent has. */
void col_mappings_fork(struct col_mappings *mappings, int32_t pid, int32_t parent);
void col_mappings_drop(struct col_mappings *mappings, int32_t pid); /* exec */
/* Reads /proc/PID/maps where nothing was said of the process yet. */
void col_mappings_learn(struct col_mappings *mappings, int32_t pid);
/* The process is over. Returns one whose mappings are forgotten now, 0: none. */
int32_t col_mappings_end(struct col_mappings *mappings, int32_t pid);
/* The mapping at `address`, NULL: none. Its file and tables may be set. It lives until something is
 * added. */
struct col_mapping *col_mappings_find(const struct col_mappings *mappings, int32_t pid,
                                      uint64_t address);
uint64_t col_mappings_generation(const struct col_mappings *mappings,
                                 int32_t pid); /* 0: nothing is known of it */
int32_t col_mappings_parent(const struct col_mappings *mappings, int32_t pid); /* 0: not known */
/* Is it a file, or COL_MAPPING_VDSO? Else memory without a name, or a name of the kernel's. */
bool col_mapping_is_file(const struct col_mapping *mapping);
/* Opens what is mapped, as process pid sees it: it may live in a container, or have been replaced
 * since. Regular files only. A descriptor to close, or -1. */
int col_mapping_open(const char *path, int32_t pid);
void col_mappings_free(struct col_mappings *mappings);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions by address, for sampled call stacks. From the symbol tables of ELF files
 * (.symtab, .dynsym, and the separate debug file that a build id names under /usr/lib/debug), and
 * from /tmp/perf-PID.map, where just-in-time compilers and Python from 3.12 on (PYTHONPERFSUPPORT)
 * list their code.
 *
 * Files come from the sampled process and may contain anything: entries that are inconsistent are
 * ignored. Everything belongs to the table; a name is valid until the next call.
 */
#ifndef COL_SYMBOLS_H
#define COL_SYMBOLS_H

#include <stdint.h>

struct col_symbols;

struct col_symbols *col_symbols_new(void); /* NULL: out of memory */
void col_symbols_free(struct col_symbols *symbols);

/* Returns the index of a file for col_symbols_at; `path` as process pid sees it (col_mapping_open).
 * The file is read when it is first asked for. Another `inode` is another file: a library may be
 * rebuilt while it is in use. UINT32_MAX: out of memory. */
uint32_t col_symbols_file(struct col_symbols *symbols, int32_t pid, const char *path,
                          uint64_t inode);

/* The name of a function. `slot` is kept with the function for the caller's use (0 at first). Both
 * are NULL where nothing is known. */
struct col_symbol {
    const char *name; /* demangled */
    int64_t *slot;
};

/* Function at a file offset. */
struct col_symbol col_symbols_at(struct col_symbols *symbols, uint32_t file, uint64_t offset);
/* Function at an address outside of every file, by the map that process pid or its ancestor
 * `parent` (0: none) writes. */
struct col_symbol col_symbols_in_map(struct col_symbols *symbols, int32_t pid, int32_t parent,
                                     uint64_t address);
/* Allows each perf map to be read once more: it may have grown since an address was not found. */
void col_symbols_look_again(struct col_symbols *symbols);
/* Slot of a file as a whole, for addresses without a symbol. */
int64_t *col_symbols_file_slot(struct col_symbols *symbols, uint32_t file);
/* "libc.so.6", "vdso" */
const char *col_symbols_file_name(const struct col_symbols *symbols, uint32_t file);
/* Sets all slots to 0. */
void col_symbols_forget(struct col_symbols *symbols);

#endif

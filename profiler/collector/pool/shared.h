/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that a process of the run has mapped and writes to while it is read here. The process may
 * overwrite it, cut it short or remove it at any moment. So nothing is used in place: control words
 * are copied from a mapping, one by one and in order, and records are read into memory of the
 * reader. What is no longer there makes a function fail, and never ends the collector by a signal.
 *
 * A file stays open for as long as it is read, so that removing its name loses nothing.
 */
#ifndef COL_SHARED_H
#define COL_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "tacho_error.h"

struct col_shared {
    bool is_open;
    int fd;
    uint8_t *map; /* the first `mapped` bytes; NULL */
    uint64_t mapped;
};

/* Opens `name` in the folder `dirfd`. Errors: TACHO_ENOTFOUND; TACHO_EFORMAT, not a plain file of
 * the caller; TACHO_EBUSY, not possible at the moment (out of descriptors or memory), try again;
 * TACHO_EIO. */
int col_shared_open(int dirfd, const char *name, struct col_shared *file, struct tacho_error *err);
/* Maps the first `bytes` instead of what was mapped before. Errors: TACHO_EBUSY, as above. */
int col_shared_map(struct col_shared *file, uint64_t bytes, struct tacho_error *err);
/* Gives the descriptor back and keeps the mapping, which is all that is used from now on. */
void col_shared_close_file(struct col_shared *file);
void col_shared_close(struct col_shared *file);

/* Lets `access` read or write `bytes` of the mapping, through its address and `with`. It keeps
 * nothing that must be given back: it is left in its middle where the file has become shorter. Then
 * the result is false. */
bool col_shared_access(const struct col_shared *file, uint64_t offset, void *with, uint64_t bytes,
                       void (*access)(void *mapped, void *with, uint64_t bytes));

/* Copies mapped words in order of their address, each at once (acquire). `offset` and `bytes` are
 * multiples of 8. False where the file has become shorter. */
bool col_shared_copy(const struct col_shared *file, uint64_t offset, void *to, uint64_t bytes);
/* The same for lines of a directory, whose control words are of four bytes: each is read as it is
 * written, so that its release and this acquire are of one object. */
bool col_shared_copy_lines(const struct col_shared *file, uint64_t offset, void *to,
                           uint64_t bytes);
/* Stores a mapped word (release). False where the file has become shorter. */
bool col_shared_store(const struct col_shared *file, uint64_t offset, uint32_t value);
/* Reads any part of the file. False where the file has become shorter, or cannot be read. */
bool col_shared_read(const struct col_shared *file, uint64_t offset, void *to, uint64_t bytes);
/* Overwrites a part of the file with zeros, unless the file has become shorter. */
void col_shared_clear(const struct col_shared *file, uint64_t offset, uint64_t bytes);

#endif

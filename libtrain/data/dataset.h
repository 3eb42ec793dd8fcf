/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: files seen as one run of bytes. Nothing is read ahead or kept:
 * lt_dataset_read goes to the file, so storage behaves as it does in a real input pipeline. Of up
 * to LT_DATASET_OPEN files all stay open, or are mapped; with more, each read opens, reads and
 * closes the file that it needs.
 */
#ifndef LT_DATASET_H
#define LT_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

#define LT_DATASET_OPEN 256

struct lt_dataset;

/* Opens files, and the regular files right inside folders (by name, without hidden files and
 * links). The caller frees it with lt_dataset_close. TACHO_ENOTFOUND, TACHO_EIO, TACHO_EFORMAT (no
 * bytes at all), TACHO_ENOMEM, with words in *err. */
int lt_dataset_open(struct lt_dataset **out, const char *const *paths, size_t count,
                    struct tacho_error *err);

/* From now on reads copy from mappings of the files instead of calling pread. What cannot be mapped
 * is read as before. The first call in a program sets a handler of SIGBUS, so that a mapped file
 * that becomes shorter is an error (TACHO_EIO) and not the end of the program; a SIGBUS of other
 * origin goes to whatever was set before. Threads that read must not block SIGBUS. */
void lt_dataset_map(struct lt_dataset *data);

/* Accepts NULL. */
void lt_dataset_close(struct lt_dataset *data);

/* A hash of the size and of a sample of the bytes, for the identity of a source. TACHO_EIO with
 * words in *err. */
int lt_dataset_identity(const struct lt_dataset *data, uint64_t *identity, struct tacho_error *err);

uint64_t lt_dataset_bytes(const struct lt_dataset *data);
size_t lt_dataset_files(const struct lt_dataset *data);

/* The i-th of the files that have bytes; `path` is owned by the dataset. */
struct lt_dataset_file {
    const char *path;
    uint64_t start, bytes;
};
struct lt_dataset_file lt_dataset_file(const struct lt_dataset *data, size_t i);

/* A file without bytes that was passed over, or NULL; owned by the dataset. */
const char *lt_dataset_empty_file(const struct lt_dataset *data);

/* Fills buffer with `count` bytes from `offset`; the range must lie inside the bytes. Thread-safe.
 * TACHO_EIO with words in *err when a file cannot be read or has become shorter. */
int lt_dataset_read(const struct lt_dataset *data, uint64_t offset, void *buffer, size_t count,
                    struct tacho_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: text files seen as one run of bytes. Each byte is one token (0..255). Nothing is read ahead or kept:
 * lt_dataset_read goes to the file (pread), so storage behaves as it does in a real input pipeline.
 */
#ifndef LT_DATASET_H
#define LT_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "tacho_error.h"

struct lt_dataset;

/* Opens files, and the regular files right inside folders (by name, without hidden files and links). The caller frees it with
 * lt_dataset_close. TACHO_ENOTFOUND, TACHO_EIO, TACHO_EFORMAT (no bytes at all), TACHO_ENOMEM, with words in *err. */
int lt_dataset_open(struct lt_dataset **out, const char *const *paths, size_t count, struct tacho_error *err);

/* Accepts NULL. */
void lt_dataset_close(struct lt_dataset *data);

/* A hash of the size and of a sample of the bytes, for the identity of a source. TACHO_EIO with words in *err. */
int lt_dataset_identity(const struct lt_dataset *data, uint64_t *identity, struct tacho_error *err);

uint64_t lt_dataset_bytes(const struct lt_dataset *data);
size_t lt_dataset_files(const struct lt_dataset *data);

/* Fills buffer with `count` bytes from `offset`; the range must lie inside the bytes. Thread-safe. TACHO_EIO with words in *err
 * when a file cannot be read or has become shorter. */
int lt_dataset_read(const struct lt_dataset *data, uint64_t offset, void *buffer, size_t count, struct tacho_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: headers of the data files that sources read. Each function looks at the
 * first bytes of a file (`head`, at most LT_FORMAT_HEAD, fewer only when the file is shorter) and
 * at its size, touches nothing else, and says in words what is wrong: TACHO_EFORMAT when it is
 * another kind of file, TACHO_ECORRUPT when it is one of these but cannot be right.
 */
#ifndef LT_FORMAT_H
#define LT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/dataset.h"
#include "tacho_error.h"

#define LT_FORMAT_HEAD 1024

/* The first bytes of file `index` of the data, at most LT_FORMAT_HEAD; *head_bytes: how many.
 * TACHO_EIO with words in *err. */
int lt_format_head(const struct lt_dataset *data, size_t index, unsigned char *head,
                   size_t *head_bytes, struct tacho_error *err);

/* Token shards as llm.c writes them: 256 int32, the first three magic, version and number of
 * tokens, then uint16 tokens. Little endian. */
#define LT_SHARD_MAGIC   20240520
#define LT_SHARD_VERSION 1
#define LT_SHARD_HEADER  1024

/* *tokens: how many there are. */
int lt_format_shard(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                    uint64_t *tokens, struct tacho_error *err);

/* Fills LT_SHARD_HEADER bytes. tokens <= INT32_MAX. */
void lt_format_shard_header(unsigned char *head, uint64_t tokens);

/* IDX files of bytes, as MNIST's: 0, 0, type 8, number of dimensions, the dimensions as big-endian
 * uint32, the values. */
struct lt_idx {
    int dimensions;       /* 1: labels; 2 and more: the first counts samples */
    uint64_t count, each; /* samples, bytes a sample */
    uint64_t side[2];     /* rows and columns, where there are three dimensions; else 0 */
    size_t offset;        /* of the first value */
};

int lt_format_idx(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                  struct lt_idx *out, struct tacho_error *err);

/* Raw PGM (P5) and PPM (P6) images. Values above 255 are two bytes, the high one first. */
struct lt_pnm {
    int channels, value_bytes;
    uint32_t width, height, highest;
    size_t offset; /* of the first value */
};

int lt_format_pnm(const char *path, const unsigned char *head, size_t head_bytes, uint64_t bytes,
                  struct lt_pnm *out, struct tacho_error *err);

/* Whether a file starts as one of these does. */
int lt_format_is_shard(const unsigned char *head, size_t head_bytes);
int lt_format_is_idx(const unsigned char *head, size_t head_bytes);
int lt_format_is_pnm(const unsigned char *head, size_t head_bytes);

#endif

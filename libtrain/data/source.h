/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: where samples come from. A source has a number of samples, all of one kind, and knows
 * the stages of making a batch of them: read (one sample's raw bytes from storage), decode (raw
 * bytes to an item: tokens, or features and label), augment (images only: the item changed at
 * random), collate (the item into its row of the batch). The loader (loader.h) decides which
 * samples, in which order, on which thread.
 *
 *     text      bytes i t .. i t + t of files, a byte a token
 *     bpe       tokens i t .. i t + t of text, cut by a tokenizer as it is read (bpe.h)
 *     tokens    tokens i t .. i t + t of a shard of uint16 tokens
 *     idx       image i of an IDX file, label i of another (MNIST)
 *     images    file i of folders, one a class: JPEG, PNG, raw PGM or PPM, or bare bytes
 *
 * Items of the first three are t + 1 int32; of the others width floats from 0 to 1, and one int32,
 * the label.
 *
 * Sources are read only: all functions are thread-safe, and a forked child may use the source it
 * inherited.
 */
#ifndef LT_SOURCE_H
#define LT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "libtrain/data/dataset.h"
#include "tacho_error.h"

struct lt_source;

/* The arrays of a batch, to be filled row by row: tokens and targets b x t, or features b x width
 * and targets b. */
struct lt_rows {
    int32_t *tokens;
    float *features;
    int32_t *targets;
};

struct lt_source_ops {
    const char *name; /* "text" */
    /* Bytes that `read` will ask storage for; at most raw_bytes. */
    size_t (*bytes)(const struct lt_source *source, uint64_t sample);
    /* 0, or TACHO_EIO with words in *err. */
    int (*read)(const struct lt_source *source, uint64_t sample, void *raw,
                struct tacho_error *err);
    /* Fills item_bytes. 0, or TACHO_ECORRUPT with words in *err. */
    int (*decode)(const struct lt_source *source, uint64_t sample, const void *raw, void *item,
                  struct tacho_error *err);
    void (*collate)(const struct lt_source *source, const void *item, int64_t row,
                    const struct lt_rows *out);
    void (*close)(struct lt_source *source);
    /* Changes the decoded item as the random bits behind *key say; NULL: as in evaluations, without
     * chance. The function is NULL where a source has no such stage. */
    void (*augment)(const struct lt_source *source, void *item, const uint64_t *key);
};

struct lt_source {
    const struct lt_source_ops *ops;
    uint64_t samples;  /* at least 1 */
    uint64_t identity; /* of the data and of how it is cut into samples: differs for other data */
    size_t raw_bytes;  /* most that a sample has */
    size_t item_bytes; /* of a decoded sample */
    int64_t t, width;  /* tokens a sample, or floats a sample; the other is 0 */
    /* Of images: rows and columns of pixels, values a pixel; 0 where that is not known. */
    int64_t rows, columns, channels;
    int64_t classes; /* tokens, or labels, are 0 .. classes - 1 */
};

/* Samples first .. first + samples of a source, which must outlive it: what one loader draws from.
 */
struct lt_part {
    const struct lt_source *source;
    uint64_t first, samples;
};

/* Accepts NULL. */
void lt_source_close(struct lt_source *source);

static inline struct lt_part lt_source_whole(const struct lt_source *source)
{
    return (struct lt_part){.source = source, .samples = source->samples};
}

/* The last `share` (0..1) of the samples is held out, the rest is to learn from. TACHO_EFORMAT when
 * one of both would be empty.
 */
int lt_source_split(const struct lt_source *source, double share, struct lt_part *train,
                    struct lt_part *held_out, struct tacho_error *err);

/* Differs for other data and for another part of it: a checkpoint's position belongs to it. */
uint64_t lt_part_identity(const struct lt_part *part);

/* Bytes of the dataset, a byte a token. Takes over `data`, also when it fails. TACHO_EFORMAT when
 * there is not one sample, TACHO_ENOMEM, TACHO_EIO. The caller frees with lt_source_close. */
int lt_source_open_text(struct lt_source **out, struct lt_dataset *data, int64_t t,
                        struct tacho_error *err);

/* Shards of uint16 tokens as llm.c writes them. `vocab`: what tokens must be below; one that is not
 * is found when it is read. Takes over `data`, also when it fails. TACHO_EFORMAT, TACHO_ECORRUPT,
 * TACHO_EVERSION, TACHO_ENOMEM, TACHO_EIO, with words in *err. */
int lt_source_open_tokens(struct lt_source **out, struct lt_dataset *data, int64_t t, int64_t vocab,
                          struct tacho_error *err);

/* `data` is two files: images and labels. Classes: one more than the highest label. Takes over
 * `data`, also when it fails. Errors as above. */
int lt_source_open_idx(struct lt_source **out, struct lt_dataset *data, struct tacho_error *err);

/* `data` holds the files of all of `folders`, opened in that order; files of the i-th have label i.
 * side: all images are scaled to that many pixels a side (picture.h); 0: all have the size of the
 * first one, files with headers are checked as they are read, bare ones now. All have as many
 * channels as the first. Takes over `data`, also when it fails. Errors as above, and TACHO_ENOTSUP
 * where the build cannot read the kind of file. */
int lt_source_open_images(struct lt_source **out, struct lt_dataset *data,
                          const char *const *folders, size_t classes, int64_t side,
                          struct tacho_error *err);

/* ---- for sources --------------------------------------------------------------------------------------------------------- */

/* collate of items that are t + 1 int32. */
void lt_source_collate_tokens(const struct lt_source *source, const void *item, int64_t row,
                              const struct lt_rows *out);

/* collate of items that are width floats and one int32, the label. */
void lt_source_collate_features(const struct lt_source *source, const void *item, int64_t row,
                                const struct lt_rows *out);

/* bytes of sources whose samples all have raw_bytes. */
size_t lt_source_fixed_bytes(const struct lt_source *source, uint64_t sample);

/* A hash of `bytes` bytes, going on from `hash` (0 at the start). */
uint64_t lt_source_hash(uint64_t hash, const void *data, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: gradients in fewer bytes. A codec writes an array of floats as a message of
 * a known size, and reads it back; what is lost is the caller's to keep (error feedback).
 *
 *   bf16:  rounded to nearest even, 2 bytes an element.
 *   int8:  a scale, the largest magnitude / 127, then a byte an element.
 *   1bit:  the mean of what is positive or 0 and the mean of what is negative, then a bit an
 * element (Seide et al. 2014).
 *   topk:  the elements of largest magnitude, ceil(density count) of them, each with its index: 8
 * bytes an element (Aji and Heafield 2017).
 *   randk: as many elements, one drawn from each of so many equal stretches by a key that is in the
 * message: 8 bytes and 4 an element (Stich et al. 2018).
 *
 * powersgd is none of these: it sums factors of matrices, not messages (parallel/low_rank.h).
 */
#ifndef LT_CODEC_H
#define LT_CODEC_H

#include <stddef.h>

/* id, function, name, whether what it loses is kept and added to the next gradient */
#define LT_CODEC_MAP(X) \
    X(NONE, none, "none", 0) \
    X(BF16, bf16, "bf16", 0) \
    X(INT8, int8, "int8", 1) \
    X(ONE_BIT, one_bit, "1bit", 1) X(TOP_K, top_k, "topk", 1) X(RANDOM_K, random_k, "randk", 1)
#define LT_ENUM_CODEC(id, function, name, feedback) LT_CODEC_##id,
enum lt_codec_kind {
    LT_CODEC_MAP(LT_ENUM_CODEC) LT_CODEC_COUNT, /* of those that write messages */
    LT_CODEC_POWER_SGD = LT_CODEC_COUNT
};
#undef LT_ENUM_CODEC

struct lt_codec {
    enum lt_codec_kind kind;
    double density; /* topk, randk: share of the elements that is sent */
    int rank;       /* powersgd: columns of the factors */
    int level;      /* messages are packed by zstd at that level (packer.h); 0: they are not */
};

/* Kind called `name`, or -1. */
int lt_codec_find(const char *name);
const char *lt_codec_name(enum lt_codec_kind kind);
int lt_codec_feeds_back(const struct lt_codec *codec);
/* Is it another way than floats? */
int lt_codec_codes(const struct lt_codec *codec);

/* The rest is of those that write messages. Bytes of the message of `count` elements, and of the
 * scratch that encoding needs. */
size_t lt_codec_bytes(const struct lt_codec *codec, size_t count);
size_t lt_codec_scratch(const struct lt_codec *codec, size_t count);

/* Writes x[count] as a message; reads one into x[count]. */
void lt_codec_encode(const struct lt_codec *codec, const float *x, size_t count, void *message,
                     void *scratch);
void lt_codec_decode(const struct lt_codec *codec, const void *message, size_t count, float *x);

#endif

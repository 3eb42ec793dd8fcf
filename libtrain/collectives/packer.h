/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: entropy coding of messages by zstd. What it costs and what it saves is
 * counted. Without HAVE_ZSTD there is none.
 */
#ifndef LT_PACKER_H
#define LT_PACKER_H

#include <stddef.h>
#include <stdint.h>

#define LT_PACKER_LEVELS 19 /* of zstd, from 1 on */

struct lt_packer {
    void *packing, *unpacking; /* zstd's contexts */
    int level;
    double seconds;         /* of processor time, in both directions */
    uint64_t before, after; /* bytes that were packed, and what they became */
};

/* Is zstd there? */
int lt_packer_works(void);

/* TACHO_ENOTSUP in a build without zstd, TACHO_ENOMEM; close also after an error. */
int lt_packer_open(struct lt_packer *packer, int level);
void lt_packer_close(struct lt_packer *packer);

/* A message of `bytes` into packed, which has room for as many: returns how many it became. A
 * message that would not become smaller is copied as it is, which its size says. */
size_t lt_packer_pack(struct lt_packer *packer, const void *message, size_t bytes, void *packed);

/* The message of `bytes` that was packed into `size`. Ends the program where it is none: all ranks
 * run the same program. */
void lt_packer_unpack(struct lt_packer *packer, const void *packed, size_t size, void *message,
                      size_t bytes);

#endif

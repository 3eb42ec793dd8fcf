/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of zstd that the engine makes, and their replacements for a build without it.
 */
#include "libtrain/collectives/packer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tacho_error.h"

#ifdef HAVE_ZSTD
#include <zstd.h>

int lt_packer_works(void)
{
    return 1;
}

int lt_packer_open(struct lt_packer *packer, int level)
{
    *packer = (struct lt_packer){
        .packing = ZSTD_createCCtx(), .unpacking = ZSTD_createDCtx(), .level = level};
    return packer->packing && packer->unpacking ? 0 : TACHO_ENOMEM;
}

void lt_packer_close(struct lt_packer *packer)
{
    ZSTD_freeCCtx(packer->packing);
    ZSTD_freeDCtx(packer->unpacking);
    packer->packing = packer->unpacking = NULL;
}

/* Processor time of this thread. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

size_t lt_packer_pack(struct lt_packer *packer, const void *message, size_t bytes, void *packed)
{
    double start = now();
    size_t size = 0;
    if (bytes > 1) /* room for one less: then it has become smaller */
        size = ZSTD_compressCCtx(packer->packing, packed, bytes - 1, message, bytes, packer->level);
    if (bytes < 2 || ZSTD_isError(size)) {
        size = bytes;
        if (bytes)
            memcpy(packed, message, bytes);
    }
    packer->seconds += now() - start;
    packer->before += bytes;
    packer->after += size;
    return size;
}

void lt_packer_unpack(struct lt_packer *packer, const void *packed, size_t size, void *message,
                      size_t bytes)
{
    double start = now();
    size_t got = bytes;
    if (size < bytes)
        got = ZSTD_decompressDCtx(packer->unpacking, message, bytes, packed, size);
    else if (bytes)
        memcpy(message, packed, bytes);
    if (got != bytes || size > bytes) {
        fprintf(stderr, "train: a packed message of %zu bytes is damaged\n", size);
        abort();
    }
    packer->seconds += now() - start;
}

#else

int lt_packer_works(void)
{
    return 0;
}

int lt_packer_open(struct lt_packer *packer, int level)
{
    *packer = (struct lt_packer){.level = level};
    return TACHO_ENOTSUP;
}

void lt_packer_close(struct lt_packer *packer)
{
    (void)packer;
}

size_t lt_packer_pack(struct lt_packer *packer, const void *message, size_t bytes, void *packed)
{
    (void)packer;
    memcpy(packed, message, bytes);
    return bytes;
}

void lt_packer_unpack(struct lt_packer *packer, const void *packed, size_t size, void *message,
                      size_t bytes)
{
    (void)packer;
    memcpy(message, packed, size < bytes ? size : bytes);
}
#endif

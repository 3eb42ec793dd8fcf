/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash FNV-1a of 64 bits (Fowler, Noll, Vo), for tables in memory and for names of groups.
 * Begin with TACHO_HASH_BEGIN and hand on what each call returns. Its low bits are weak where the
 * last byte alone differs: a table whose size is a power of two mixes the high half in. It keeps
 * nobody from making two texts with the same hash.
 */
#ifndef TACHO_HASH_H
#define TACHO_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TACHO_HASH_BEGIN 0xcbf29ce484222325u

/* Goes on with a number as one unit. */
static inline uint64_t tacho_hash_number(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * 0x100000001b3u;
}

/* Goes on with `count` bytes. */
static inline uint64_t tacho_hash_bytes(uint64_t hash, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = tacho_hash_number(hash, (unsigned char)bytes[i]);
    return hash;
}

/* Goes on with a text, without its NUL. */
static inline uint64_t tacho_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = tacho_hash_number(hash, (unsigned char)*text);
    return hash;
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes for tables in memory whose keys come from files and programs of others. They depend on
 * random bytes of this process, so that nobody can prepare keys that all lie in one place of a
 * table and make each look-up as long as the table. They are neither stored nor printed: the next
 * process has others. (Two words are multiplied to 128 bits whose halves are combined, as in
 * wyhash and in Go's maps.)
 */
#ifndef STORE_KEYED_HASH_H
#define STORE_KEYED_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern uint64_t store_hash_secret[2];

static inline uint64_t store_hash_mix(uint64_t left, uint64_t right)
{
    unsigned __int128 product = (unsigned __int128)left * right;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* All bits of the result can be used, the low ones, too. */
static inline uint64_t store_hash_pair(uint64_t first, uint64_t second)
{
    uint64_t hash = store_hash_mix(first ^ store_hash_secret[0], second ^ store_hash_secret[1]);
    return store_hash_mix(hash ^ store_hash_secret[1], 0x9e3779b97f4a7c15u);
}

static inline uint64_t store_hash_bytes(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = store_hash_secret[0] ^ count, word[2];
    for (; count > sizeof word; at += sizeof word, count -= sizeof word) {
        memcpy(word, at, sizeof word);
        hash = store_hash_mix(word[0] ^ hash, word[1] ^ store_hash_secret[1]);
    }
    word[0] = word[1] = 0;
    if (count)
        memcpy(word, at, count);
    hash = store_hash_mix(word[0] ^ hash, word[1] ^ store_hash_secret[1]);
    return store_hash_mix(hash ^ store_hash_secret[1], 0x9e3779b97f4a7c15u);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The random bytes are those that the kernel gives every process at its start.
 */
#include "store/keyed_hash.h"

#include <sys/auxv.h>

/* Other numbers than 0, in case the kernel gives none. */
uint64_t store_hash_secret[2] = {0x243f6a8885a308d3u, 0x13198a2e03707344u};

__attribute__((constructor)) static void take_secret(void)
{
    unsigned long random = getauxval(AT_RANDOM);
    if (!random)
        return;
    uint64_t bytes[2];
    memcpy(bytes, (const void *)random, sizeof bytes);
    /* The stack protector uses the same bytes: what is kept here is only made of them. */
    store_hash_secret[0] ^= store_hash_mix(bytes[0] ^ 0xa4093822299f31d0u, bytes[1]);
    store_hash_secret[1] ^= store_hash_mix(bytes[1] ^ 0x082efa98ec4e6c89u, bytes[0]);
}

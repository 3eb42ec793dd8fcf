/* SPDX-License-Identifier: Apache-2.0
 *
 * Public: what is UTF-8. Names come from programs and files that may hold any byte; every room that
 * keeps or prints them asks here.
 */
#ifndef TACHO_UTF8_H
#define TACHO_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 sequence at p, of which `left` bytes may be read: 1..4, or 0 when there is
 * none: a stray or missing continuation, a form longer than needed, a surrogate, above U+10FFFF,
 * cut off (RFC 3629). A NUL is a sequence of 1. */
static inline size_t tacho_utf8_sequence(const unsigned char *p, size_t left)
{
    if (!left)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
               : (p[0] & 0xf0) == 0xe0        ? 3
               : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                              : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Bytes of a text of which `bytes` may be kept, cut where a character begins: at most `bytes`. The
 * byte behind them is read, which may be the NUL at the end. */
static inline size_t tacho_utf8_cut(const char *text, size_t bytes)
{
    while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--;
    return bytes;
}

#endif

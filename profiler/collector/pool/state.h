/* SPDX-License-Identifier: Apache-2.0
 *
 * Private: plain bytes for the live state that is stored with every transaction, and read back
 * after a collector died.
 */
#ifndef COL_STATE_H
#define COL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct col_buffer {
    uint8_t *bytes;
    size_t used, cap;
    bool failed; /* out of memory */
};

static inline void col_buffer_put(struct col_buffer *b, const void *data, size_t n)
{
    if (b->failed || n == 0)
        return;
    if (b->cap - b->used < n) {
        size_t cap = (b->used + n) * 2 + 256;
        uint8_t *p = realloc(b->bytes, cap);
        if (!p) {
            b->failed = true;
            return;
        }
        b->bytes = p;
        b->cap = cap;
    }
    memcpy(b->bytes + b->used, data, n);
    b->used += n;
}

struct col_cursor {
    const uint8_t *at, *end;
    bool bad; /* shorter than what was asked for */
};

static inline void col_cursor_get(struct col_cursor *c, void *data, size_t n)
{
    if (c->bad || (size_t)(c->end - c->at) < n) {
        c->bad = true;
        if (n)
            memset(data, 0, n);
        return;
    }
    if (n)
        memcpy(data, c->at, n);
    c->at += n;
}

#endif

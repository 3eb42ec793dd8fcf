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

static inline void col_buffer_put(struct col_buffer *buffer, const void *data, size_t n)
{
    if (buffer->failed || n == 0)
        return;
    if (buffer->cap - buffer->used < n) {
        size_t cap = (buffer->used + n) * 2 + 256;
        uint8_t *p = realloc(buffer->bytes, cap);
        if (!p) {
            buffer->failed = true;
            return;
        }
        buffer->bytes = p;
        buffer->cap = cap;
    }
    memcpy(buffer->bytes + buffer->used, data, n);
    buffer->used += n;
}

struct col_cursor {
    const uint8_t *at, *end;
    bool bad; /* shorter than what was asked for */
};

static inline void col_cursor_get(struct col_cursor *cursor, void *data, size_t n)
{
    if (cursor->bad || (size_t)(cursor->end - cursor->at) < n) {
        cursor->bad = true;
        if (n)
            memset(data, 0, n);
        return;
    }
    if (n)
        memcpy(data, cursor->at, n);
    cursor->at += n;
}

#endif

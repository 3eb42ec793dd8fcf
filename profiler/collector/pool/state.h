/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain bytes for the live state that is stored with every transaction, and read back after a
 * collector died.
 */
#ifndef COL_STATE_H
#define COL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whether something holds, in what is stored: whoever wrote it may have put any number there, and a
 * bool of another value than 0 and 1 is undefined. */
typedef uint8_t col_flag;

struct col_buffer {
    uint8_t *bytes;
    size_t used, cap;
    bool failed; /* out of memory */
};

/* Makes room for as many bytes, without keeping what is there. */
static inline bool col_buffer_room(struct col_buffer *buffer, size_t bytes)
{
    if (buffer->cap >= bytes)
        return true;
    uint8_t *larger = realloc(buffer->bytes, bytes);
    if (!larger)
        return false;
    buffer->bytes = larger;
    buffer->cap = bytes;
    return true;
}

static inline void col_buffer_put(struct col_buffer *buffer, const void *data, size_t bytes)
{
    if (buffer->failed || bytes == 0)
        return;
    if (buffer->cap - buffer->used < bytes) {
        size_t cap = (buffer->used + bytes) * 2 + 256;
        uint8_t *larger = realloc(buffer->bytes, cap);
        if (!larger) {
            buffer->failed = true;
            return;
        }
        buffer->bytes = larger;
        buffer->cap = cap;
    }
    memcpy(buffer->bytes + buffer->used, data, bytes);
    buffer->used += bytes;
}

struct col_cursor {
    const uint8_t *at, *end;
    bool bad; /* shorter than what was asked for */
};

/* Reads the next bytes; zeros where there are fewer. */
static inline void col_cursor_get(struct col_cursor *cursor, void *data, size_t bytes)
{
    cursor->bad |= (size_t)(cursor->end - cursor->at) < bytes;
    if (bytes == 0)
        return;
    if (cursor->bad) {
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, cursor->at, bytes);
    cursor->at += bytes;
}

/* Are there as many elements of this size? Asked before memory is taken for them. */
static inline bool col_cursor_holds(struct col_cursor *cursor, size_t count, size_t size)
{
    cursor->bad |= count > (size_t)(cursor->end - cursor->at) / size;
    return !cursor->bad;
}

#endif

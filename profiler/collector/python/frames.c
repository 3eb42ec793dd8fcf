/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk: runtime, interpreters, threads, frames. From 3.11 on the frames of a thread lie in one
 * piece of memory (a chunk of its data stack), which is copied at once: that is cheap, and the
 * frames in it are of one moment.
 */
#include "profiler/collector/python/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define INTERPRETERS 8u
#define WINDOW       (32u << 10)
#define TAG_MASK     (~(uint64_t)7) /* the low bits of a reference are marks (3.14) */
#define USER_SPACE   UINT64_C(0x00ffffffffffffff)

int col_python_read_process(void *ctx, uint64_t address, void *to, size_t bytes)
{
    struct iovec local = {.iov_base = to, .iov_len = bytes};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = bytes};
    ssize_t got = process_vm_readv(*(const int32_t *)ctx, &local, 1, &remote, 1, 0);
    if (got < 0)
        return -errno;
    return (size_t)got == bytes ? 0 : -EFAULT;
}

static int read_at(const struct col_python_memory *memory, uint64_t address, void *to, size_t bytes)
{
    if (!address || address > USER_SPACE || bytes > USER_SPACE - address)
        return -EFAULT;
    return memory->read(memory->ctx, address, to, bytes);
}

static int read_word(const struct col_python_memory *memory, uint64_t address, uint64_t *word)
{
    return read_at(memory, address, word, sizeof *word);
}

/* The word at an offset of a copied structure; 0 where the copy ends before it. */
static uint64_t word_at(const uint8_t *copy, size_t bytes, uint16_t offset)
{
    uint64_t word = 0;
    if ((size_t)offset + sizeof word <= bytes)
        memcpy(&word, copy + offset, sizeof word);
    return word;
}

/* The byte at an offset; 0 where the copy ends before it. */
static uint8_t byte_at(const uint8_t *copy, size_t bytes, uint16_t offset)
{
    return offset < bytes ? copy[offset] : 0;
}

static int32_t number_at(const uint8_t *copy, size_t bytes, uint16_t offset)
{
    int32_t number = 0;
    if ((size_t)offset + sizeof number <= bytes)
        memcpy(&number, copy + offset, sizeof number);
    return number;
}

/* ---- threads ------------------------------------------------------------------------------ */

/* Adds the threads of one interpreter. */
static int threads_of(const struct col_python *python, const struct col_python_memory *memory,
                      uint64_t interpreter, struct col_python_thread *thread, size_t most, int have)
{
    const struct col_python_layout *layout = &python->layout;
    uint64_t state, next = 0, native = 0;
    int rc = read_word(memory, interpreter + layout->threads, &state);
    for (; rc == 0 && state && (size_t)have < most; state = next) {
        struct col_python_thread found = {.state = state};
        rc = read_word(memory, state + layout->thread_next, &next);
        if (rc == 0)
            rc = read_word(memory, state + layout->thread_id, &found.pthread);
        if (rc == 0 && layout->native_id != COL_PYTHON_NONE)
            rc = read_word(memory, state + layout->native_id, &native);
        found.tid = native < INT32_MAX ? (int32_t)native : 0;
        if (rc == 0)
            thread[have++] = found;
    }
    return rc && !have ? rc : have;
}

int col_python_threads(const struct col_python *python, const struct col_python_memory *memory,
                       struct col_python_thread *thread, size_t most)
{
    uint64_t interpreter;
    int have = 0,
        rc = read_word(memory, python->runtime + python->layout.interpreters, &interpreter);
    for (unsigned i = 0; rc == 0 && interpreter && i < INTERPRETERS; i++) {
        int now = threads_of(python, memory, interpreter, thread, most, have);
        if (now < 0)
            return now;
        have = now;
        rc = read_word(memory, interpreter + python->layout.interpreter_next, &interpreter);
    }
    return rc && !have ? rc : have;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* A piece of the process that is copied already, and the memory behind it. */
struct view {
    const struct col_python_memory *memory;
    uint64_t start;
    size_t bytes;
    uint8_t copy[WINDOW];
};

static int view_read(const struct view *view, uint64_t address, void *to, size_t bytes)
{
    if (address >= view->start && address - view->start <= view->bytes &&
        bytes <= view->bytes - (address - view->start)) {
        memcpy(to, view->copy + (address - view->start), bytes);
        return 0;
    }
    return read_at(view->memory, address, to, bytes);
}

/* Copies the newest chunk of the data stack of a thread: { previous, size, top, frames ... }. */
static void view_open(struct view *view, const struct col_python *python, uint64_t state)
{
    uint64_t chunk, head[3];
    view->bytes = 0;
    view->start = 0;
    if (python->layout.chunk == COL_PYTHON_NONE ||
        read_word(view->memory, state + python->layout.chunk, &chunk) || !chunk ||
        read_at(view->memory, chunk, head, sizeof head) || head[1] <= sizeof head)
        return;
    size_t bytes = head[1] < WINDOW ? (size_t)head[1] : WINDOW;
    if (read_at(view->memory, chunk, view->copy, bytes) == 0) {
        view->start = chunk;
        view->bytes = bytes;
    }
}

/* The instruction of a frame as bytes from the first one of its code. */
static int64_t position(const struct col_python_layout *layout, const uint8_t *copy, uint64_t code)
{
    if (layout->kind == COL_PYTHON_FRAME_OBJECTS)
        return (int64_t)number_at(copy, COL_PYTHON_FRAME_BYTES, layout->frame_at) *
               layout->index_bytes;
    uint64_t instruction = word_at(copy, COL_PYTHON_FRAME_BYTES, layout->frame_at);
    return (int64_t)(instruction - (code + layout->code_bytes));
}

/* Where the innermost frame of a thread is; 0: it runs no Python. */
static int innermost(const struct col_python *python, const struct col_python_memory *memory,
                     uint64_t state, uint64_t *frame)
{
    int rc = read_word(memory, state + python->layout.frame, frame);
    if (rc == 0 && python->layout.kind == COL_PYTHON_CFRAME && *frame)
        rc = read_word(memory, *frame + python->layout.cframe_frame, frame);
    return rc;
}

int col_python_frames(const struct col_python *python, const struct col_python_memory *memory,
                      const struct col_python_thread *thread,
                      struct col_python_frame frame[COL_PYTHON_DEPTH], bool *cut)
{
    const struct col_python_layout *layout = &python->layout;
    struct view view = {.memory = memory};
    uint8_t copy[COL_PYTHON_FRAME_BYTES];
    uint64_t address, limit = 2 * COL_PYTHON_DEPTH;
    int count = 0, rc;
    *cut = false;
    view_open(&view, python, thread->state);
    rc = innermost(python, memory, thread->state, &address);
    for (; rc == 0 && address && limit; limit--) {
        if (address & 7)
            return -EAGAIN;
        rc = view_read(&view, address, copy, sizeof copy);
        if (rc)
            return rc == -EFAULT ? -EAGAIN : rc;
        address = word_at(copy, sizeof copy, layout->frame_back);
        if (layout->frame_owner != COL_PYTHON_NONE &&
            byte_at(copy, sizeof copy, layout->frame_owner) >= layout->owner_inner)
            continue;
        if ((*cut = count == COL_PYTHON_DEPTH))
            break;
        uint64_t code = word_at(copy, sizeof copy, layout->frame_code) & TAG_MASK;
        frame[count++] =
            (struct col_python_frame){.code = code, .at = position(layout, copy, code)};
    }
    if (!limit)
        return -EAGAIN;
    return rc ? rc : count;
}

/* ---- objects ------------------------------------------------------------------------------ */

int col_python_code(const struct col_python *python, const struct col_python_memory *memory,
                    uint64_t address, struct col_python_code *code)
{
    const struct col_python_layout *layout = &python->layout;
    uint8_t copy[COL_PYTHON_CODE_BYTES];
    /* no smaller than a code object of any version without its instructions */
    size_t bytes = (size_t)layout->code_table + 8;
    if (bytes > sizeof copy)
        return -EINVAL;
    int rc = read_at(memory, address, copy, bytes);
    if (rc)
        return rc == -EFAULT ? -EAGAIN : rc;
    if (word_at(copy, bytes, layout->type) != python->code_type)
        return -EAGAIN;
    *code = (struct col_python_code){.file = word_at(copy, bytes, layout->code_file),
                                     .name = word_at(copy, bytes, layout->code_name),
                                     .table = word_at(copy, bytes, layout->code_table),
                                     .first_line = number_at(copy, bytes, layout->code_line)};
    return 0;
}

/* Appends a character as UTF-8. 0: it does not fit. What is no character, and what would control a
 * terminal, becomes a question mark. */
static size_t put_character(char *text, size_t room, uint32_t character)
{
    bool odd = character < 0x20 || (character >= 0x7f && character < 0xa0) ||
               (character >= 0xd800 && character < 0xe000) || character > 0x10ffff;
    uint8_t bytes[4];
    size_t count = 1;
    if (odd)
        character = '?';
    bytes[0] = (uint8_t)character;
    if (character >= 0x10000) {
        count = 4;
        bytes[0] = (uint8_t)(0xf0 | character >> 18);
    } else if (character >= 0x800) {
        count = 3;
        bytes[0] = (uint8_t)(0xe0 | character >> 12);
    } else if (character >= 0x80) {
        count = 2;
        bytes[0] = (uint8_t)(0xc0 | character >> 6);
    }
    for (size_t i = 1; i < count; i++)
        bytes[i] = (uint8_t)(0x80 | (character >> 6 * (count - 1 - i) & 0x3f));
    if (count > room)
        return 0;
    memcpy(text, bytes, count);
    return count;
}

static uint32_t character_at(const uint8_t *data, unsigned kind, size_t i)
{
    uint16_t two;
    uint32_t four;
    switch (kind) {
    case 2:
        memcpy(&two, data + 2 * i, sizeof two);
        return two;
    case 4:
        memcpy(&four, data + 4 * i, sizeof four);
        return four;
    default:
        return data[i];
    }
}

int col_python_text(const struct col_python *python, const struct col_python_memory *memory,
                    uint64_t address, char *text, size_t size)
{
    const struct col_python_layout *layout = &python->layout;
    uint8_t head[COL_PYTHON_TEXT_HEAD], data[4 * COL_PYTHON_FILE];
    if (layout->text_ascii > sizeof head)
        return -EINVAL;
    int rc = read_at(memory, address, head, layout->text_ascii);
    if (rc)
        return rc;
    uint64_t length = word_at(head, layout->text_ascii, layout->text_length);
    /* state: 2 bits interned, 3 bits kind, 1 bit compact, 1 bit ASCII */
    uint32_t state = (uint32_t)number_at(head, layout->text_ascii, layout->text_state);
    unsigned kind = state >> 2 & 7;
    bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || length > INT32_MAX || !size)
        return -EAGAIN;
    size_t count = length < size - 1 ? (size_t)length : size - 1;
    if (count > COL_PYTHON_FILE)
        count = COL_PYTHON_FILE;
    uint64_t from = address + (ascii ? layout->text_ascii : layout->text_compact);
    if (count && (rc = read_at(memory, from, data, count * kind)) != 0)
        return rc;
    size_t used = 0, put = 1;
    for (size_t i = 0; i < count && put; i++) {
        put = put_character(text + used, size - 1 - used, character_at(data, kind, i));
        used += put;
    }
    text[used] = 0;
    return (int)used;
}

int col_python_bytes(const struct col_python *python, const struct col_python_memory *memory,
                     uint64_t address, size_t most, uint8_t **data, size_t *bytes)
{
    uint64_t size;
    *data = NULL;
    *bytes = 0;
    int rc = read_word(memory, address + python->layout.bytes_size, &size);
    if (rc || !size)
        return rc;
    *bytes = size < most ? (size_t)size : most;
    if (!(*data = malloc(*bytes)))
        return -ENOMEM;
    rc = read_at(memory, address + python->layout.bytes_data, *data, *bytes);
    if (rc) {
        free(*data);
        *data = NULL;
        *bytes = 0;
    }
    return rc;
}

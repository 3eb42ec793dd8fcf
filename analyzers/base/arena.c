/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: memory in blocks of 64 KiB that is freed all at once. Larger arrays get a block of their
 * own, so that they can be freed early. Blocks come from calloc: large ones cost no time until
 * they are written. A shared arena is one mapping, which begins with the arena itself; its pages
 * are zero and take memory when they are written.
 */
#include "analyzers/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tacho_error.h"

#define ARENA_BLOCK ((size_t)64 << 10)

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char data[];
};

struct an_arena {
    struct arena_block *head;
    size_t mapped, taken; /* bytes of a shared arena, and those handed out; else 0 */
    bool failed;
};

struct an_arena *an_arena_new(void)
{
    return calloc(1, sizeof(struct an_arena));
}

struct an_arena *an_arena_shared(size_t bytes)
{
    size_t size = bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK;
    struct an_arena *arena =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return NULL;
    arena->mapped = size;
    arena->taken = sizeof *arena;
    return arena;
}

bool an_arena_is_shared(const struct an_arena *arena)
{
    return arena && arena->mapped;
}

void an_arena_free(struct an_arena *arena)
{
    if (!arena)
        return;
    if (arena->mapped) {
        munmap(arena, arena->mapped);
        return;
    }
    for (struct arena_block *block = arena->head, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

bool an_arena_failed(const struct an_arena *arena)
{
    return arena->failed;
}

/* The same as arena_take() of a shared arena: from the rest of its mapping. */
static void *take_shared(struct an_arena *arena, size_t bytes, size_t align)
{
    size_t offset = (arena->taken + align - 1) / align * align;
    if (offset > arena->mapped || bytes > arena->mapped - offset) {
        arena->failed = true;
        return NULL;
    }
    arena->taken = offset + bytes;
    return (unsigned char *)arena + offset;
}

/* Returns `bytes` of zeroed memory at a multiple of `align`: from the current block if they fit,
 * else from a new one. A block that is made for one large array is put behind the current block,
 * which still has room for small ones. */
static void *arena_take(struct an_arena *arena, size_t bytes, size_t align)
{
    if (arena->mapped)
        return take_shared(arena, bytes, align);
    struct arena_block *block = arena->head;
    if (block) {
        size_t offset = (block->used + align - 1) / align * align;
        if (offset <= block->size && bytes <= block->size - offset) {
            block->used = offset + bytes;
            return block->data + offset;
        }
    }
    size_t size = bytes > ARENA_BLOCK / 4 ? bytes : ARENA_BLOCK;
    if (size > SIZE_MAX - sizeof *block ||
        !(block = calloc(1, sizeof *block +
                                size))) { /* large and zero: pages come as they are written */
        arena->failed = true;
        return NULL;
    }
    block->size = size;
    block->used = bytes;
    /* a block made for one large array must not hide the room that is left in the current one */
    if (arena->head && size != ARENA_BLOCK) {
        block->next = arena->head->next;
        arena->head->next = block;
    } else {
        block->next = arena->head;
        arena->head = block;
    }
    return block->data;
}

void an_arena_give_back(struct an_arena *arena, const void *array)
{
    for (struct arena_block **link = &arena->head, *block; (block = *link); link = &block->next)
        if ((const void *)block->data == array && block->size != ARENA_BLOCK) {
            *link = block->next;
            free(block);
            return;
        }
}

void *an_arena_zero(struct an_arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 2 / size) {
        arena->failed = true;
        return NULL;
    }
    size_t bytes = count * size;
    /* Blocks are zero, and no part is handed out twice. */
    return arena_take(arena, bytes ? bytes : 1, sizeof(max_align_t));
}

void *an_arena_copy(struct an_arena *arena, const void *data, size_t bytes)
{
    void *copy = an_arena_zero(arena, bytes, 1);
    if (copy && bytes)
        memcpy(copy, data, bytes);
    return copy;
}

const char *an_arena_text(struct an_arena *arena, const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = arena_take(arena, size, 1);
    return copy ? memcpy(copy, text, size) : "";
}

const char *an_arena_format(struct an_arena *arena, const char *format, ...)
{
    char small[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < 0)
        return "";
    if ((size_t)length < sizeof small)
        return an_arena_text(arena, small);
    char *text = arena_take(arena, (size_t)length + 1, 1);
    if (!text)
        return "";
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

int an_grow(void *array, size_t *capacity, size_t need, size_t element)
{
    if (need <= *capacity)
        return 0;
    size_t size = *capacity < 64 ? 64 : *capacity + *capacity / 2;
    if (size < need)
        size = need;
    if (size > SIZE_MAX / element)
        return TACHO_ENOMEM;
    void *old, *bigger;
    memcpy(&old, array, sizeof old); /* the caller's pointer may have any type */
    if (!(bigger = realloc(old, size * element)))
        return TACHO_ENOMEM;
    memcpy(array, &bigger, sizeof bigger);
    *capacity = size;
    return 0;
}

void an_order(void *rows, size_t count, size_t size,
              int (*order)(const void *first, const void *second, void *ctx), void *ctx)
{
    const char *row = rows;
    size_t sorted = 1;
    while (sorted < count && order(row + (sorted - 1) * size, row + sorted * size, ctx) <= 0)
        sorted++;
    if (sorted < count)
        qsort_r(rows, count, size, order, ctx);
}

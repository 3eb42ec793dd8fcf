/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tacho_error.h"

#define ARENA_BLOCK ((size_t)64 << 10)

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char data[];
};

struct an_arena {
    struct arena_block *head;
    bool failed;
};

struct an_arena *an_arena_new(void)
{
    return calloc(1, sizeof(struct an_arena));
}

void an_arena_free(struct an_arena *arena)
{
    if (!arena)
        return;
    for (struct arena_block *arena_block = arena->head, *next; arena_block; arena_block = next) {
        next = arena_block->next;
        free(arena_block);
    }
    free(arena);
}

bool an_arena_failed(const struct an_arena *arena)
{
    return arena->failed;
}

static void *arena_take(struct an_arena *arena, size_t bytes, size_t align)
{
    struct arena_block *arena_block = arena->head;
    if (arena_block) {
        size_t at = (arena_block->used + align - 1) / align * align;
        if (at <= arena_block->size && bytes <= arena_block->size - at) {
            arena_block->used = at + bytes;
            return arena_block->data + at;
        }
    }
    size_t size = bytes > ARENA_BLOCK / 4 ? bytes : ARENA_BLOCK;
    if (size > SIZE_MAX - sizeof *arena_block ||
        !(arena_block = calloc(1, sizeof *arena_block +
                                      size))) { /* large and zero: pages come as they are written */
        arena->failed = true;
        return NULL;
    }
    arena_block->size = size;
    arena_block->used = bytes;
    /* a block made for one large array must not hide the room that is left in the current one */
    if (arena->head && size != ARENA_BLOCK) {
        arena_block->next = arena->head->next;
        arena->head->next = arena_block;
    } else {
        arena_block->next = arena->head;
        arena->head = arena_block;
    }
    return arena_block->data;
}

void an_arena_give_back(struct an_arena *arena, const void *array)
{
    for (struct arena_block **at = &arena->head, *arena_block; (arena_block = *at);
         at = &arena_block->next)
        if ((const void *)arena_block->data == array && arena_block->size != ARENA_BLOCK) {
            *at = arena_block->next;
            free(arena_block);
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
    return arena_take(arena, bytes ? bytes : 1,
                      sizeof(max_align_t)); /* blocks are zero, and no part is handed out twice */
}

void *an_arena_copy(struct an_arena *arena, const void *data, size_t bytes)
{
    void *p = an_arena_zero(arena, bytes, 1);
    if (p && bytes)
        memcpy(p, data, bytes);
    return p;
}

const char *an_arena_text(struct an_arena *arena, const char *text)
{
    if (!text)
        return NULL;
    size_t n = strlen(text) + 1;
    char *p = arena_take(arena, n, 1);
    return p ? memcpy(p, text, n) : "";
}

const char *an_arena_format(struct an_arena *arena, const char *format, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(small, sizeof small, format, ap);
    va_end(ap);
    if (n < 0)
        return "";
    if ((size_t)n < sizeof small)
        return an_arena_text(arena, small);
    char *p = arena_take(arena, (size_t)n + 1, 1);
    if (!p)
        return "";
    va_start(ap, format);
    vsnprintf(p, (size_t)n + 1, format, ap);
    va_end(ap);
    return p;
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

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

void an_arena_free(struct an_arena *a)
{
    if (!a)
        return;
    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

bool an_arena_failed(const struct an_arena *a)
{
    return a->failed;
}

static void *arena_take(struct an_arena *a, size_t bytes, size_t align)
{
    struct arena_block *b = a->head;
    if (b) {
        size_t at = (b->used + align - 1) / align * align;
        if (at <= b->size && bytes <= b->size - at) {
            b->used = at + bytes;
            return b->data + at;
        }
    }
    size_t size = bytes > ARENA_BLOCK / 4 ? bytes : ARENA_BLOCK;
    if (size > SIZE_MAX - sizeof *b ||
        !(b = calloc(1, sizeof *b + size))) { /* large and zero: pages come as they are written */
        a->failed = true;
        return NULL;
    }
    b->size = size;
    b->used = bytes;
    /* a block made for one large array must not hide the room that is left in the current one */
    if (a->head && size != ARENA_BLOCK) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b->data;
}

void an_arena_give_back(struct an_arena *a, const void *array)
{
    for (struct arena_block **at = &a->head, *b; (b = *at); at = &b->next)
        if ((const void *)b->data == array && b->size != ARENA_BLOCK) {
            *at = b->next;
            free(b);
            return;
        }
}

void *an_arena_zero(struct an_arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 2 / size) {
        a->failed = true;
        return NULL;
    }
    size_t bytes = count * size;
    return arena_take(a, bytes ? bytes : 1,
                      sizeof(max_align_t)); /* blocks are zero, and no part is handed out twice */
}

void *an_arena_copy(struct an_arena *a, const void *data, size_t bytes)
{
    void *p = an_arena_zero(a, bytes, 1);
    if (p && bytes)
        memcpy(p, data, bytes);
    return p;
}

const char *an_arena_text(struct an_arena *a, const char *text)
{
    if (!text)
        return NULL;
    size_t n = strlen(text) + 1;
    char *p = arena_take(a, n, 1);
    return p ? memcpy(p, text, n) : "";
}

const char *an_arena_format(struct an_arena *a, const char *format, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(small, sizeof small, format, ap);
    va_end(ap);
    if (n < 0)
        return "";
    if ((size_t)n < sizeof small)
        return an_arena_text(a, small);
    char *p = arena_take(a, (size_t)n + 1, 1);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * One mapping for all tensors of a class. Pages are backed and zeroed by the threads that will work
 * on them, before the first step, so that a training step meets no page fault. All arenas are
 * listed, because children that are forked should not inherit them.
 */
#include "libtrain/base/arena.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tacho_error.h"

#define PAGE      ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20) /* asked for inside of an arena; zeroed at a time */

/* All that there are, for lt_arena_fork; what has no place in the list is inherited by children. */
#define LIST_CAP 64
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void *base;
    size_t bytes;
} list[LIST_CAP];

/* Puts `base` in the place of `old`. */
static void list_replace(const void *old, void *base, size_t bytes)
{
    pthread_mutex_lock(&list_lock);
    for (size_t i = 0; i < LIST_CAP; i++)
        if (list[i].base == old) {
            list[i].base = base;
            list[i].bytes = bytes;
            break;
        }
    pthread_mutex_unlock(&list_lock);
}

void lt_arena_fork(int inherit)
{
    pthread_mutex_lock(&list_lock);
    for (size_t i = 0; i < LIST_CAP; i++)
        if (list[i].base)
            madvise(list[i].base, list[i].bytes, inherit ? MADV_DOFORK : MADV_DONTFORK);
    pthread_mutex_unlock(&list_lock);
}

/* Zeroes in parallel: each thread backs the pages it is likely to work on. */
static void touch(float *base, size_t count)
{
    int64_t pages = (int64_t)((count * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pages; i++) {
        size_t first = (size_t)i * (HUGE_PAGE / sizeof(float));
        size_t floats =
            count - first < HUGE_PAGE / sizeof(float) ? count - first : HUGE_PAGE / sizeof(float);
        memset(base + first, 0, floats * sizeof(float));
    }
}

size_t lt_arena_bytes(size_t count)
{
    return (count * sizeof(float) + PAGE - 1) / PAGE * PAGE;
}

/* Pages of the host, backed and zeroed; NULL: none left. */
static void *take_pages(size_t bytes, size_t count)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    madvise(base, bytes, MADV_HUGEPAGE); /* a refusal costs speed, not correctness */
    list_replace(NULL, base, bytes);
    touch(base, count);
    return base;
}

int lt_arena_create(struct lt_arena *arena, enum lt_memory_tag tag, const struct lt_tensor *table,
                    size_t tensors)
{
    return lt_arena_create_in(arena, NULL, tag, table, tensors);
}

int lt_arena_create_in(struct lt_arena *arena, struct lt_space *space, enum lt_memory_tag tag,
                       const struct lt_tensor *table, size_t tensors)
{
    size_t count = 0;
    *arena = (struct lt_arena){0};
    for (size_t i = 0; i < tensors; i++) {
        size_t padded = lt_arena_padded(table[i].count);
        if (padded < table[i].count || count + padded < count)
            return TACHO_ENOMEM;
        count += padded;
    }
    if (count == 0)
        count = LT_ALIGN;
    if (count > (SIZE_MAX - 2 * HUGE_PAGE) / sizeof(float))
        return TACHO_ENOMEM;
    size_t bytes = lt_arena_bytes(count);
    void *base = space ? space->take(space, bytes) : take_pages(bytes, count);
    if (!base)
        return TACHO_ENOMEM;
    *arena =
        (struct lt_arena){.base = base, .count = count, .bytes = bytes, .tag = tag, .space = space};
    lt_memory_add(tag, (int64_t)bytes);
    float *next = arena->base;
    for (size_t i = 0; i < tensors; i++) {
        *table[i].slot = next;
        next += lt_arena_padded(table[i].count);
    }
    return 0;
}

void lt_arena_destroy(struct lt_arena *arena)
{
    if (arena->base) {
        if (arena->space) {
            arena->space->give(arena->space, arena->base);
        } else {
            list_replace(arena->base, NULL, 0);
            munmap(arena->base, arena->bytes);
        }
        lt_memory_add(arena->tag, -(int64_t)arena->bytes);
    }
    *arena = (struct lt_arena){0};
}

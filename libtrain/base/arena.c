/* SPDX-License-Identifier: Apache-2.0
 *
 * One mapping for all tensors of a class. Pages are backed and zeroed by the threads that will work
 * on them, before the first step, so that a training step meets no page fault. All arenas are
 * listed, because children that are forked should not inherit them.
 */
#include "libtrain/base/arena.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- files in the place of memory -------------------------------------------------------------- */

static const char *folders[LT_MEMORY_COUNT];

/* A file without a name; where the file system does not make such, one whose name is taken away. */
static int open_nameless(const char *folder)
{
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || snprintf(path, sizeof path, "%s/train-XXXXXX", folder) >= (int)sizeof path)
        return fd;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int lt_arena_offload(enum lt_memory_tag tag, const char *folder)
{
    int fd = folder ? open_nameless(folder) : -1;
    if (folder && fd < 0)
        return TACHO_EIO;
    if (fd >= 0)
        close(fd);
    folders[tag] = folder;
    return 0;
}

/* Zeros that lie in a file; the disk's room is taken now. NULL: there is none. */
static void *take_file(const char *folder, size_t bytes)
{
    int fd = open_nameless(folder);
    void *base = MAP_FAILED;
    if (fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes) == 0)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED)
        return NULL;
    list_replace(NULL, base, bytes);
    return base;
}

/* ---- memory ------------------------------------------------------------------------------------ */

size_t lt_arena_floats(size_t bytes)
{
    return bytes / PAGE * (PAGE / sizeof(float));
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
    const char *folder = space ? NULL : folders[tag];
    void *base = NULL;
    if (space)
        base = space->take(space, bytes);
    else
        base = folder ? take_file(folder, bytes) : take_pages(bytes, count);
    if (!base)
        return TACHO_ENOMEM;
    *arena = (struct lt_arena){.base = base,
                               .count = count,
                               .bytes = bytes,
                               .tag = tag,
                               .space = space,
                               .offloaded = folder != NULL};
    if (!folder)
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
        if (!arena->offloaded)
            lt_memory_add(arena->tag, -(int64_t)arena->bytes);
    }
    *arena = (struct lt_arena){0};
}

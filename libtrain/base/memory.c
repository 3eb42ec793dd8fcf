/* SPDX-License-Identifier: Apache-2.0
 *
 * The book of memory: bytes by purpose, now and at their highest, under one lock. Beside it, what
 * the kernel says of the process and of the machine; a run compares the two at its end.
 */
#include "libtrain/base/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lt_memory book;

static const char *const names[LT_MEMORY_COUNT] = {
#define ROW(id, name) [LT_MEMORY_##id] = (name),
    LT_MEMORY_MAP(ROW)
#undef ROW
};

static void raise_to(int64_t *peak, int64_t value)
{
    if (value > *peak)
        *peak = value;
}

void lt_memory_add(enum lt_memory_tag tag, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    book.tag[tag] += bytes;
    book.total += bytes;
    raise_to(&book.tag_peak[tag], book.tag[tag]);
    raise_to(&book.total_peak, book.total);
    pthread_mutex_unlock(&lock);
}

void lt_memory_read(struct lt_memory *out)
{
    pthread_mutex_lock(&lock);
    *out = book;
    pthread_mutex_unlock(&lock);
}

void lt_memory_reset_peak(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        book.tag_peak[i] = book.tag[i];
    book.total_peak = book.total;
    pthread_mutex_unlock(&lock);
}

uint64_t lt_memory_plan_total(const struct lt_memory_plan *plan)
{
    uint64_t total = 0;
    for (int i = 0; i < LT_MEMORY_COUNT; i++)
        total += plan->tag[i];
    return total;
}

const char *lt_memory_name(enum lt_memory_tag tag)
{
    return names[tag];
}

/* The line "NAME: N kB" of a file of /proc, in bytes; -1: none. */
static int64_t field(const char *path, const char *name)
{
    char line[256];
    long long kib = -1;
    size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    while (kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) != 0 || line[length] != ':' ||
            sscanf(line + length + 1, "%lld", &kib) != 1)
            kib = -1;
    fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

int lt_memory_resident(struct lt_resident *out)
{
    static const char path[] = "/proc/self/status";
    out->now = field(path, "VmRSS");
    out->peak = field(path, "VmHWM");
    out->file = field(path, "RssFile");
    if (out->file < 0)
        out->file = 0;
    return out->now < 0 || out->peak < 0 ? -1 : 0;
}

int64_t lt_memory_available(void)
{
    static const char path[] = "/proc/meminfo";
    int64_t memory = field(path, "MemAvailable"), swap = field(path, "SwapFree");
    if (memory >= 0 && swap > 0)
        memory += swap;
    return memory < 0 ? -1 : memory;
}

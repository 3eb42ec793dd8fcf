/* SPDX-License-Identifier: Apache-2.0 */
#include "libtrain/memory.h"

#include <pthread.h>
#include <stdio.h>

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

int lt_memory_resident(int64_t *now, int64_t *peak)
{
    char line[256];
    long long kib, found = 0;
    FILE *f = fopen("/proc/self/status", "re");
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %lld", &kib) == 1) {
            *now = kib * 1024;
            found |= 1;
        } else if (sscanf(line, "VmHWM: %lld", &kib) == 1) {
            *peak = kib * 1024;
            found |= 2;
        }
    }
    fclose(f);
    return found == 3 ? 0 : -1;
}

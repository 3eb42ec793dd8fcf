/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the agent: reads a pool file (profiler/wire.h) on its own, without the collector.
 * Header-only.
 *
 *     struct pool_reader r;
 *     if (pool_open(&r, path) == 0) {
 *         pool_drain(&r, visit, arg, true);      repeatedly, while the target runs; true: give read
 * segments back pool_close(&r);
 *     }
 */
#ifndef POOL_READER_H
#define POOL_READER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/wire.h"

struct pool_position {
    uint64_t generation;
    uint32_t bytes;
};

struct pool_reader {
    struct wire_pool *pool;
    struct wire_segment *directory;
    char *arena, *segments;
    size_t bytes;
    struct pool_position *position;
    uint32_t *order; /* scratch */
};

/* A record with its parts found. Pointers are into the pool. */
struct pool_event {
    const struct wire_record *record;
    uint32_t kind; /* without flags */
    uint32_t thread, tid;
    uint32_t category, category_name;
    uint32_t schema, payload_bytes;
    const void *payload;
    uint64_t value, range;
};

typedef void (*pool_visit)(const struct pool_reader *r, const struct pool_event *e, void *arg);

static inline int pool_open(struct pool_reader *r, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    memset(r, 0, sizeof *r);
    if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < sizeof(struct wire_pool)) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    r->pool = map;
    r->bytes = (size_t)st.st_size;
    if (r->pool->magic != WIRE_MAGIC || r->pool->version != WIRE_VERSION ||
        r->pool->file_bytes != r->bytes) {
        munmap(map, r->bytes);
        return -1;
    }
    r->directory = (struct wire_segment *)(void *)((char *)map + r->pool->directory_offset);
    r->arena = (char *)map + r->pool->arena_offset;
    r->segments = (char *)map + r->pool->segments_offset;
    r->position = calloc(r->pool->segment_cap, sizeof *r->position);
    r->order = calloc(r->pool->segment_cap, sizeof *r->order);
    return r->position && r->order ? 0 : -1;
}

static inline void pool_close(struct pool_reader *r)
{
    free(r->position);
    free(r->order);
    if (r->pool)
        munmap(r->pool, r->bytes);
    memset(r, 0, sizeof *r);
}

/* Text of an arena id; NULL when it lies outside of what is used. */
static inline const struct wire_text *pool_text(const struct pool_reader *r, uint32_t id)
{
    uint64_t at = (uint64_t)id * 8, used = atomic_load(&r->pool->arena_used);
    const struct wire_text *t = (const struct wire_text *)(const void *)(r->arena + at);
    return at + sizeof *t <= used && at + sizeof *t + t->bytes < used ? t : NULL;
}

static inline const char *pool_name(const struct pool_reader *r, uint32_t id)
{
    const struct wire_text *t = pool_text(r, id);
    return t ? t->text : "(bad id)";
}

/* Splits a record into its parts. Returns its length, 0 when it is malformed. */
static inline uint32_t pool_parse(const char *at, uint32_t left, struct pool_event *e)
{
    const struct wire_record *record = (const struct wire_record *)(const void *)at;
    uint32_t size = left >= sizeof *record ? record->words * 8u : 0, used = sizeof *record;
    if (size < used || size > left)
        return 0;
    e->record = record;
    e->kind = record->kind & WIRE_KIND_MASK;
    if (record->kind & WIRE_CATEGORY) {
        memcpy(&e->category, at + used, 4);
        memcpy(&e->category_name, at + used + 4, 4);
        used += 8;
    }
    if (record->kind & WIRE_PAYLOAD) {
        memcpy(&e->schema, at + used, 4);
        memcpy(&e->payload_bytes, at + used + 4, 4);
        e->payload = at + used + 8;
        used += 8 + (e->payload_bytes + 7) / 8 * 8;
    }
    if (record->kind & WIRE_VALUE) {
        memcpy(&e->value, at + used, 8);
        used += 8;
    }
    if (e->kind == WIRE_START || e->kind == WIRE_END) {
        memcpy(&e->range, at + used, 8);
        used += 8;
    }
    return used == size && e->kind >= WIRE_PUSH && e->kind <= WIRE_THREAD ? size : 0;
}

static inline bool pool_before(const struct wire_segment *a, const struct wire_segment *b)
{
    return a->thread != b->thread ? a->thread < b->thread : a->chain_seq < b->chain_seq;
}

/* Visits what was committed since the last time, each thread's records in order. Returns the number
 * of records, -1 when the pool is malformed (said on stderr). */
static inline long pool_drain(struct pool_reader *r, pool_visit visit, void *arg, bool recycle)
{
    uint32_t peak = atomic_load(&r->pool->segments_peak), n = 0;
    long records = 0;
    for (uint32_t i = 0; i < peak; i++) {
        uint32_t state = atomic_load_explicit(&r->directory[i].state, memory_order_acquire);
        if (state != WIRE_ACTIVE && state != WIRE_FULL)
            continue;
        uint32_t at = n++;
        for (; at > 0 && pool_before(&r->directory[i], &r->directory[r->order[at - 1]]); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = i;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = r->order[k],
                 state = atomic_load_explicit(&r->directory[i].state, memory_order_acquire);
        struct wire_segment *line = &r->directory[i];
        uint32_t committed = atomic_load_explicit(&line->committed, memory_order_acquire);
        if (r->position[i].generation != line->generation)
            r->position[i] = (struct pool_position){.generation = line->generation};
        while (r->position[i].bytes < committed) {
            struct pool_event e = {.thread = line->thread, .tid = line->tid};
            const char *at =
                r->segments + (uint64_t)i * r->pool->segment_bytes + r->position[i].bytes;
            uint32_t size = pool_parse(at, committed - r->position[i].bytes, &e);
            if (!size) {
                fprintf(stderr, "segment %u: malformed record at %u of %u\n", i,
                        r->position[i].bytes, committed);
                return -1;
            }
            visit(r, &e, arg);
            r->position[i].bytes += size;
            records++;
        }
        if (recycle && state == WIRE_FULL && r->position[i].bytes == committed)
            atomic_store_explicit(&line->state, WIRE_FREE, memory_order_release);
    }
    return records;
}

static inline const char *pool_loss_name(int reason)
{
    static const char *const names[] = {
#define POOL_LOSS_NAME(name, event_lost, text) #name,
        WIRE_LOSS_MAP(POOL_LOSS_NAME)
#undef POOL_LOSS_NAME
    };
    return names[reason];
}

#endif

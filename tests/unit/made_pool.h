/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests, fuzz targets and benchmarks of the collector: a pool made by hand in mapped memory, as
 * an agent in this very process would have made it. The caller maps the file, and owns it.
 */
#ifndef MADE_POOL_H
#define MADE_POOL_H

#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/wire.h"

/* Sizes of a pool: the arena of texts lies behind the directory, the segments behind the arena. */
struct made_pool_shape {
    uint64_t arena_at, arena_bytes; /* from the pool's begin */
    uint32_t segments, segment_bytes;
};

static inline uint64_t made_pool_bytes(const struct made_pool_shape *s)
{
    return s->arena_at + s->arena_bytes + (uint64_t)s->segments * s->segment_bytes;
}

/* Fills the header in, all but its magic: the pool is not yet one for who looks. 0, or -1 without
 * /proc. */
static inline int made_pool_begin(struct wire_pool *head, const struct made_pool_shape *s)
{
    struct col_proc_stat self;
    if (col_proc_read_stat((int32_t)getpid(), &self) != 0)
        return -1;
    *head = (struct wire_pool){.version = WIRE_VERSION,
                               .clock = WIRE_CLOCK_MONOTONIC,
                               .pid = (uint32_t)getpid(),
                               .start_ticks = self.start_ticks,
                               .segment_bytes = s->segment_bytes,
                               .segment_cap = s->segments,
                               .directory_offset = WIRE_HEADER_BYTES,
                               .arena_offset = s->arena_at,
                               .arena_cap = s->arena_bytes,
                               .segments_offset = s->arena_at + s->arena_bytes,
                               .file_bytes = made_pool_bytes(s),
                               .created = 1,
                               .rank = "3",
                               .program = "made"};
    atomic_store(&head->segments_backed, s->segments);
    atomic_store(&head->arena_used, 16);
    return 0;
}

/* A text into the arena; its name in records. */
static inline uint32_t made_pool_text(struct wire_pool *head, enum wire_text_type type,
                                      const char *text)
{
    uint64_t at = atomic_load(&head->arena_used);
    struct wire_text *t = (struct wire_text *)((uint8_t *)head + head->arena_offset + at);
    t->bytes = (uint32_t)strlen(text);
    t->type = type;
    memcpy(t->text, text, t->bytes);
    atomic_store(&head->arena_used, at + ((sizeof *t + t->bytes + 8) & ~7ull));
    return (uint32_t)(at / 8);
}

#endif

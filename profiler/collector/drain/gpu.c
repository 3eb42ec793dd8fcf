/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of device buffers that an agent keeps beside its pool: opened and checked, its buffers
 * read in the order in which CUPTI filled them. What decides where to read is copied out of the
 * file once and checked, as with pools.
 */
#include "profiler/collector/drain/gpu_private.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Zeroed after the last record of a buffer: CUPTI may have written a little more. */
#define SLACK      (64u << 10)
#define MOST_BYTES (1ull << 40) /* of a file; more is damage */
#define MOST_NAMES (128u * WIRE_GPU_NAMES)
#define WAIT_AGAIN 30u /* anchors between two times that buffers wait for the clock */

/* ---- the file -------------------------------------------------------------------------------------------------------------- */

static bool inside(uint64_t offset, uint64_t bytes, uint64_t whole)
{
    return offset <= whole && bytes <= whole - offset;
}

/* What decides where to read. */
struct layout {
    uint32_t version, buffer_bytes, buffer_cap, name_cap;
    uint64_t directory_offset, names_offset, buffers_offset;
};

static struct layout layout_of(const struct wire_gpu *head)
{
    return (struct layout){head->version,       head->buffer_bytes,     head->buffer_cap,
                           head->name_cap,      head->directory_offset, head->names_offset,
                           head->buffers_offset};
}

/* Are the sizes plausible? The process may have written anything there. */
static bool layout_ok(const struct layout *layout)
{
    const uint64_t bytes = MOST_BYTES;
    return layout->version == WIRE_VERSION && layout->buffer_bytes >= 4096 &&
           layout->buffer_bytes <= (64u << 20) && layout->buffer_bytes % 8 == 0 &&
           layout->buffer_cap && layout->buffer_cap <= (1u << 16) && layout->name_cap &&
           layout->name_cap <= MOST_NAMES && (layout->name_cap & (layout->name_cap - 1)) == 0 &&
           layout->directory_offset % 64 == 0 && layout->names_offset % 8 == 0 &&
           layout->buffers_offset % 8 == 0 &&
           inside(layout->directory_offset,
                  (uint64_t)layout->buffer_cap * sizeof(struct wire_buffer), 1u << 30) &&
           inside(layout->names_offset, (uint64_t)layout->name_cap * sizeof(struct wire_gpu_name),
                  bytes) &&
           inside(layout->buffers_offset, (uint64_t)layout->buffer_cap * layout->buffer_bytes,
                  bytes);
}

void col_gpu_free(struct col_gpu *gpu)
{
    if (!gpu)
        return;
    col_shared_close(&gpu->file);
    free(gpu->directory);
    free(gpu->names);
    free(gpu->read);
    free(gpu->pending);
    free(gpu->release);
    free(gpu->stream);
    free(gpu->thread);
    free(gpu->context);
    free(gpu->priority);
    free(gpu->event);
    free(gpu->kernel);
    free(gpu);
}

static uint64_t directory_bytes(const struct col_gpu *gpu)
{
    return (uint64_t)gpu->buffer_cap * sizeof *gpu->directory;
}

/* Takes the layout over, maps what is copied at each look, and allocates what is kept for each
 * buffer. */
static int gpu_init(struct col_gpu *gpu, const struct layout *layout)
{
    gpu->buffer_bytes = layout->buffer_bytes;
    gpu->buffer_cap = layout->buffer_cap;
    gpu->name_cap = layout->name_cap;
    gpu->directory_offset = layout->directory_offset;
    gpu->names_offset = layout->names_offset;
    gpu->buffers_offset = layout->buffers_offset;
    gpu->directory = calloc(gpu->buffer_cap, sizeof *gpu->directory);
    gpu->read = calloc(gpu->buffer_cap, sizeof *gpu->read);
    gpu->pending = calloc(gpu->buffer_cap, sizeof *gpu->pending);
    gpu->release = calloc(gpu->buffer_cap, sizeof *gpu->release);
    if (!gpu->directory || !gpu->read || !gpu->pending || !gpu->release)
        return TACHO_EBUSY;
    return col_shared_map(&gpu->file, gpu->directory_offset + directory_bytes(gpu), NULL);
}

/* Opens and checks the file of device buffers that belongs to a pool. 0 with pool->gpu set;
 * TACHO_ENOTFOUND: none exists; TACHO_EFORMAT: it is not complete; TACHO_EBUSY: not at the moment.
 */
static int gpu_open(struct col_drain *drain, struct col_pool *pool)
{
    char name[COL_POOL_NAME];
    snprintf(name, sizeof name, WIRE_GPU_PREFIX "%.*s", (int)(sizeof name - sizeof WIRE_GPU_PREFIX),
             pool->name + strlen(WIRE_PREFIX));
    if (drain->folder < 0 || !store_file_is_own(drain->folder, name))
        return TACHO_ENOTFOUND;
    struct col_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return TACHO_EBUSY;
    int rc = col_shared_open(drain->folder, name, &gpu->file, NULL);
    if (rc == 0 && (!col_shared_read(&gpu->file, 0, &gpu->head, sizeof gpu->head) ||
                    gpu->head.magic != WIRE_GPU_MAGIC))
        rc = TACHO_EFORMAT;
    struct layout layout = layout_of(&gpu->head);
    if (rc == 0)
        rc = layout_ok(&layout) ? gpu_init(gpu, &layout) : TACHO_EFORMAT;
    if (rc) {
        col_gpu_free(gpu);
        return rc;
    }
    memcpy(gpu->name, name, sizeof name);
    if (drain->clock.count) {
        const struct col_anchor *earlier = &drain->clock.ring[drain->clock.first];
        gpu->clock.tsc = (int64_t)(earlier->tsc & INT64_MAX);
        gpu->clock.tsc_at = earlier->monotonic;
    }
    pool->gpu = gpu;
    return 0;
}

/* Copies what has changed in header and directory. False where the file was cut short: then nothing
 * more is read, and a row says so. */
static bool look(struct col_drain *drain, struct col_gpu *gpu, int *rc)
{
    if (!gpu->lost &&
        col_shared_copy_lines(&gpu->file, gpu->directory_offset, gpu->directory,
                              directory_bytes(gpu)) &&
        col_shared_copy(&gpu->file, 0, &gpu->head, sizeof gpu->head))
        return true;
    if (!gpu->lost)
        *rc = col_drain_lose(drain, "device work not read: its file was cut short");
    gpu->lost = true;
    gpu->pending_count = gpu->pending_at = 0;
    return false;
}

/* How many buffers of the file have been given memory so far. */
static uint32_t backed(const struct col_gpu *gpu)
{
    uint32_t buffers = gpu->head.buffers_backed;
    return buffers < gpu->buffer_cap ? buffers : gpu->buffer_cap;
}

/* ---- rounds -------------------------------------------------------------------------------------------------------------------- */

/* By sequence, the second member of an entry: the order in which CUPTI completed the buffers. */
static int order_pending(const void *left, const void *right)
{
    const uint64_t left_sequence = *(const uint64_t *)((const char *)left + 8),
                   right_sequence = *(const uint64_t *)((const char *)right + 8);
    return (left_sequence > right_sequence) - (left_sequence < right_sequence);
}

/* Sizes of records: those of the table of versions, replaced by those that the agent saw. */
static void read_sizes(struct col_gpu *gpu)
{
    col_cupti_bytes(gpu->head.cupti_version, gpu->bytes);
    for (uint32_t kind = 0; kind < COL_CUPTI_KINDS; kind++) {
        uint32_t seen = gpu->head.record_bytes[kind];
        if (seen >= 16 && seen <= 4096)
            gpu->bytes[kind] = seen;
    }
}

/* A buffer that CUPTI has completed is read in this round; one that a former collector has read
 * already is only given back. */
int col_gpu_note(struct col_drain *drain, struct col_pool *pool)
{
    if (!pool->gpu) {
        int rc = gpu_open(drain, pool);
        pool->postponed = rc == TACHO_EBUSY;
        if (rc)
            return 0; /* none, it is being made, or not at the moment */
    }
    struct col_gpu *gpu = pool->gpu;
    int rc = 0;
    if (!look(drain, gpu, &rc))
        return rc;
    col_gpu_clock_read(&gpu->clock, &gpu->head);
    read_sizes(gpu);
    gpu->pending_count = gpu->pending_at = 0;
    for (uint32_t i = 0; i < backed(gpu); i++) {
        const struct wire_buffer *buffer = &gpu->directory[i];
        if (buffer->state != WIRE_BUFFER_DONE)
            continue;
        if (buffer->generation == gpu->read[i]) {
            /* read by a collector that died after its COMMIT */
            gpu->release[gpu->release_count++] = i;
            gpu->read[i] = 0;
            continue;
        }
        gpu->pending[gpu->pending_count].buffer = i;
        gpu->pending[gpu->pending_count++].sequence = buffer->sequence;
    }
    qsort(gpu->pending, gpu->pending_count, sizeof *gpu->pending, order_pending);
    rc = col_gpu_report_state(drain, gpu);
    rc = rc ? rc : col_gpu_report_gaps(drain, gpu, STORE_ABSENT);
    return rc ? rc : col_gpu_report_waits(drain, pool, STORE_ABSENT);
}

static uint64_t offset_of(const struct col_gpu *gpu, uint32_t index)
{
    return gpu->buffers_offset + (uint64_t)index * gpu->buffer_bytes;
}

/* Adds a loss row unless the records end where they should: at the end of the buffer, at CUPTI's
 * mark, or, in a buffer that CUPTI had not given back, at zeros. */
static int lose_rest(struct col_drain *drain, const uint8_t *buffer, size_t offset, size_t valid,
                     enum col_gpu_origin origin)
{
    char reason[96];
    uint32_t kind = 0;
    if (valid - offset >= sizeof kind)
        memcpy(&kind, buffer + offset, sizeof kind);
    bool end = kind ? kind == COL_CUPTI_END : origin == COL_GPU_SALVAGED || offset == valid;
    snprintf(reason, sizeof reason, "rest of a buffer not read: a record of unknown size (kind %u)",
             kind);
    return end ? 0 : col_drain_loss_uncounted(drain, "cupti", reason);
}

/* Another profiler has changed CUPTI's clock, and the agent has not read it twice since. */
static bool must_wait(struct col_gpu *gpu, uint32_t valid, const uint8_t *buffer)
{
    struct col_cupti_record record;
    size_t offset = 0;
    bool known = true;
    while (known && offset < valid &&
           col_cupti_next(gpu->bytes, buffer, valid, &offset, &record) > 0)
        known = col_gpu_clock_knows(&gpu->clock, record.start);
    if (!known && (!gpu->awaited || gpu->clock.seen > gpu->awaited + WAIT_AGAIN))
        gpu->awaited = gpu->clock.seen + 2;
    return !known && gpu->clock.seen < gpu->awaited;
}

/* Reads the records of a buffer up to `valid` bytes. 1: it has to wait for the clock. */
static int read_buffer(struct col_drain *drain, struct col_pool *pool, uint32_t index,
                       uint32_t valid, enum col_gpu_origin origin)
{
    struct col_gpu *gpu = pool->gpu;
    const uint8_t *buffer;
    struct col_cupti_record record;
    size_t offset = 0;
    int rc = 0;
    if (valid > gpu->buffer_bytes)
        valid = gpu->buffer_bytes;
    if (!col_buffer_room(&drain->piece, gpu->buffer_bytes))
        return TACHO_ENOMEM;
    buffer = drain->piece.bytes;
    if (!col_shared_read(&gpu->file, offset_of(gpu, index), drain->piece.bytes, valid)) {
        rc = col_drain_lose(drain, "device work not read: its file was cut short");
        valid = 0;
    }
    if (!pool->gone && !gpu->ending && must_wait(gpu, valid, buffer))
        return 1;
    while (rc == 0 && offset < valid &&
           col_cupti_next(gpu->bytes, buffer, valid, &offset, &record) > 0)
        rc = col_gpu_row(drain, pool, &record, origin);
    drain->bytes_since_commit += offset;
    if (rc == 0)
        rc = lose_rest(drain, buffer, offset, valid, origin);
    gpu->read[index] = gpu->directory[index].generation;
    gpu->dirty = true;
    return rc ? rc
              : store_position_set(drain->db, gpu->name, index, (int64_t)gpu->read[index], valid);
}

int col_gpu_read(struct col_drain *drain, struct col_pool *pool)
{
    struct col_gpu *gpu = pool->gpu;
    while (gpu && gpu->pending_at < gpu->pending_count) {
        if (drain->bytes_since_commit >= col_commit_bytes(drain)) {
            drain->unfinished = true;
            return 0;
        }
        uint32_t i = gpu->pending[gpu->pending_at++].buffer;
        int rc = read_buffer(drain, pool, i, gpu->directory[i].valid,
                             gpu->directory[i].forced ? COL_GPU_FORCED : COL_GPU_COMPLETE);
        if (rc < 0)
            return rc;
        if (rc > 0) {
            gpu->pending_at--;
            return 0;
        }
        gpu->release[gpu->release_count++] = i;
    }
    return 0;
}

/* The part that was written is zeroed before the buffer goes back: a reader recognises the end of
 * the records by it. */
void col_gpu_release(struct col_pool *pool)
{
    struct col_gpu *gpu = pool->gpu;
    for (uint32_t next = 0; gpu && next < gpu->release_count; next++) {
        uint32_t index = gpu->release[next];
        const struct wire_buffer *buffer = &gpu->directory[index];
        uint64_t used = ((uint64_t)buffer->valid + SLACK + 4095) & ~(uint64_t)4095;
        uint64_t line = gpu->directory_offset + (uint64_t)index * sizeof *buffer;
        col_shared_clear(&gpu->file, offset_of(gpu, index),
                         used < gpu->buffer_bytes ? used : gpu->buffer_bytes);
        col_shared_store(&gpu->file, line + offsetof(struct wire_buffer, state), WIRE_BUFFER_FREE);
    }
    if (gpu)
        gpu->release_count = 0;
}

int col_gpu_stop(struct col_drain *drain, struct col_pool *pool)
{
    struct col_gpu *gpu = pool->gpu;
    if (!gpu)
        return 0;
    gpu->ending = true;
    int rc = col_gpu_read(drain, pool);
    int64_t end = pool->last_event ? pool->last_event : col_clock_now();
    rc = rc ? rc : col_gpu_report_gaps(drain, gpu, end);
    return rc ? rc : col_gpu_report_waits(drain, pool, end);
}

/* Reads the buffers that CUPTI held when the process ended. Their records may be incomplete. */
int col_gpu_finish(struct col_drain *drain, struct col_pool *pool)
{
    struct col_gpu *gpu = pool->gpu;
    int rc = 0;
    if (!gpu)
        return gpu_open(drain, pool) == TACHO_EFORMAT
                   ? col_drain_lose(drain, "device work not read: its file is damaged")
                   : 0;
    if (gpu->salvaged || !look(drain, gpu, &rc))
        return rc;
    col_gpu_clock_read(&gpu->clock, &gpu->head);
    for (uint32_t i = 0; i < backed(gpu) && rc == 0; i++)
        if (gpu->directory[i].state == WIRE_BUFFER_LENT &&
            gpu->read[i] != gpu->directory[i].generation)
            rc = read_buffer(drain, pool, i, gpu->buffer_bytes, COL_GPU_SALVAGED);
    gpu->salvaged = gpu->dirty = true;
    uint32_t state = gpu->head.state;
    if (rc == 0 && state == WIRE_GPU_STARTING && !gpu->state_reported)
        rc = col_drain_loss_uncounted(
            drain, "cupti",
            "device work not recorded: the process ended while recording was being started");
    if (rc == 0)
        rc = col_gpu_report_counters(drain, &gpu->head);
    return rc ? rc : col_gpu_stop(drain, pool);
}

/* ---- live state ---------------------------------------------------------------------------------------------------------------- */

struct saved_gpu {
    int64_t memory_track, memory;
    uint32_t streams, threads, contexts, priorities, gaps_reported;
    col_flag state_reported, salvaged, ids_reported, waits_reported;
};

/* The lists follow the fixed part, each with the length that it says. */
int col_gpu_save(struct col_drain *drain, struct col_pool *pool)
{
    struct col_gpu *gpu = pool->gpu;
    char key[COL_POOL_NAME + 32];
    if (!gpu || !gpu->dirty)
        return 0;
    struct saved_gpu saved = {.memory_track = gpu->memory_track,
                              .memory = gpu->memory,
                              .streams = gpu->stream_count,
                              .threads = gpu->thread_count,
                              .contexts = gpu->context_count,
                              .priorities = gpu->priority_count,
                              .gaps_reported = gpu->gaps_reported,
                              .state_reported = gpu->state_reported,
                              .salvaged = gpu->salvaged,
                              .ids_reported = gpu->ids_reported,
                              .waits_reported = gpu->waits_reported};
    drain->scratch.used = 0;
    col_buffer_put(&drain->scratch, &saved, sizeof saved);
    col_buffer_put(&drain->scratch, gpu->stream, saved.streams * sizeof *gpu->stream);
    col_buffer_put(&drain->scratch, gpu->thread, saved.threads * sizeof *gpu->thread);
    col_buffer_put(&drain->scratch, gpu->context, saved.contexts * sizeof *gpu->context);
    col_buffer_put(&drain->scratch, gpu->priority, saved.priorities * sizeof *gpu->priority);
    gpu->dirty = false;
    snprintf(key, sizeof key, "g:%s:", pool->name);
    return drain->scratch.failed
               ? TACHO_ENOMEM
               : store_live_set(drain->db, key, drain->scratch.bytes, drain->scratch.used);
}

/* Loads a list with room for a power of two, as the lists of gpu_rows.c expect. NULL: it is empty,
 * or cut short, or out of memory. */
static void *load_list(struct col_cursor *cursor, uint32_t count, size_t size)
{
    size_t room = 1;
    while (room < count)
        room *= 2;
    void *list = count && col_cursor_holds(cursor, count, size) ? malloc(room * size) : NULL;
    if (list)
        col_cursor_get(cursor, list, count * size);
    return list;
}

int col_gpu_load(struct col_drain *drain, struct col_pool *pool, const void *value, size_t bytes)
{
    struct col_cursor cursor = {.at = value, .end = (const uint8_t *)value + bytes};
    struct saved_gpu saved;
    col_cursor_get(&cursor, &saved, sizeof saved);
    if (cursor.bad)
        return TACHO_EVERSION;
    int rc = pool->gpu ? 0 : gpu_open(drain, pool);
    if (rc)
        return rc == TACHO_EBUSY ? rc : 0;
    struct col_gpu *gpu = pool->gpu;
    gpu->memory_track = saved.memory_track;
    gpu->memory = saved.memory;
    gpu->gaps_reported = saved.gaps_reported;
    gpu->state_reported = saved.state_reported;
    gpu->salvaged = saved.salvaged;
    gpu->ids_reported = saved.ids_reported;
    gpu->waits_reported = saved.waits_reported;
    gpu->stream = load_list(&cursor, saved.streams, sizeof *gpu->stream);
    gpu->thread = load_list(&cursor, saved.threads, sizeof *gpu->thread);
    gpu->context = load_list(&cursor, saved.contexts, sizeof *gpu->context);
    gpu->priority = load_list(&cursor, saved.priorities, sizeof *gpu->priority);
    if (cursor.bad || cursor.at != cursor.end)
        return TACHO_EVERSION;
    if ((saved.streams && !gpu->stream) || (saved.threads && !gpu->thread) ||
        (saved.contexts && !gpu->context) || (saved.priorities && !gpu->priority))
        return TACHO_ENOMEM;
    gpu->stream_count = saved.streams;
    gpu->thread_count = saved.threads;
    gpu->context_count = saved.contexts;
    gpu->priority_count = saved.priorities;
    return 0;
}

bool col_gpu_load_position(struct col_drain *drain, const char *name, int64_t buffer,
                           int64_t generation)
{
    for (uint32_t i = 0; i < drain->pool_count; i++) {
        struct col_gpu *gpu = drain->pool[i]->gpu;
        if (gpu && strcmp(gpu->name, name) == 0 && buffer >= 0 &&
            buffer < (int64_t)gpu->buffer_cap) {
            gpu->read[buffer] = (uint64_t)generation;
            return true;
        }
    }
    return false;
}

int col_gpu_forget(struct col_drain *drain, struct col_pool *pool)
{
    char key[COL_POOL_NAME + 32];
    if (!pool->gpu)
        return 0;
    if (drain->folder >= 0)
        store_file_remove(drain->folder, pool->gpu->name);
    snprintf(key, sizeof key, "g:%s:", pool->name);
    int rc = store_live_set(drain->db, key, NULL, 0);
    return rc ? rc : store_position_clear(drain->db, pool->gpu->name, -1);
}

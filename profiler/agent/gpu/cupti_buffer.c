/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of buffers that CUPTI fills and the collector decodes (profiler/wire.h). CUPTI asks for
 * a buffer on the program's own threads: there one is only taken, never made; the flush thread
 * keeps some ready.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/agent/gpu/cuda.h"

#define FIRST 4u /* buffers backed at the start */
#define READY 3u /* free ones that the flush thread keeps */
/* Given to CUPTI where no buffer is free: what it writes there is counted and lost. */
#define SCRATCH_BYTES (64u << 10)
#define SCRATCHES     64u

/* Only around the walk over a buffer; the request path never takes it (CUPTI holds locks of its own
 * there). */
static pthread_mutex_t walk_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t grow_lock = PTHREAD_MUTEX_INITIALIZER;   /* takes no other */
static pthread_mutex_t anchor_lock = PTHREAD_MUTEX_INITIALIZER; /* takes no other */
static _Atomic(uint8_t *) scratch[SCRATCHES];                   /* all that were made */
static _Atomic uint32_t scratch_lent[SCRATCHES];
/* For the flush thread: how far a lent buffer was filled. */
static uint32_t written[WIRE_GPU_BUFFERS * 64u];

/* By buffer: the generation that CUPTI had when another profiler began. */
static uint64_t marked[WIRE_GPU_BUFFERS * 64u];

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + 4095) & ~(uint64_t)4095;
}

/* ---- the file ---- */

/* How many buffers the file may have: by default, by $TACHO_GPU_MIB, and by the limit of file
 * sizes. */
static uint32_t buffer_cap(uint64_t offset)
{
    const char *mib = getenv(WIRE_ENV_GPU_MIB);
    uint64_t cap = WIRE_GPU_BUFFERS;
    struct rlimit limit;
    if (mib && atol(mib) > 0)
        cap = (uint64_t)atol(mib) * (1u << 20) / WIRE_GPU_BUFFER_BYTES;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        uint64_t room =
            limit.rlim_cur > offset ? (limit.rlim_cur - offset) / WIRE_GPU_BUFFER_BYTES : 0;
        cap = room < cap ? room : cap;
    }
    const uint64_t most = sizeof written / sizeof *written;
    if (cap < 1)
        return 1;
    return (uint32_t)(cap > most ? most : cap);
}

static void file_path(char *path, size_t size, const char *prefix)
{
    snprintf(path, size, "%s/%s%u.%u", agent_setup.folder, prefix, agent_process->pid,
             agent_cuda.number);
}

bool agent_buffer_open(int driver_version)
{
    struct agent_cuda *self = &agent_cuda;
    const struct wire_pool *pool = atomic_load_explicit(&agent_process->pool, memory_order_acquire);
    uint64_t directory = page_up(sizeof(struct wire_gpu));
    uint64_t most = page_up(sizeof written / sizeof *written * sizeof(struct wire_buffer));
    uint64_t names = directory + most,
             buffers = page_up(names + WIRE_GPU_NAMES * sizeof(struct wire_gpu_name));
    uint32_t cap = buffer_cap(buffers), first = cap < FIRST ? cap : FIRST;
    uint64_t bytes = buffers + (uint64_t)cap * WIRE_GPU_BUFFER_BYTES;
    char path[4096], final[4096];
    self->number = agent_process->number;
    file_path(path, sizeof path, WIRE_NEW WIRE_GPU_PREFIX);
    file_path(final, sizeof final, WIRE_GPU_PREFIX);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    char *map = ftruncate(fd, (off_t)bytes)
                    ? MAP_FAILED
                    : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        goto fail;
    if (!agent_pool_back(fd, map, 0, buffers) ||
        !agent_pool_back(fd, map, buffers, (uint64_t)first * WIRE_GPU_BUFFER_BYTES)) {
        munmap(map, bytes);
        goto fail;
    }
    struct wire_gpu *gpu = (struct wire_gpu *)(void *)map;
    gpu->version = WIRE_VERSION;
    gpu->pid = agent_process->pid;
    gpu->start_ticks = pool->start_ticks;
    gpu->buffer_bytes = WIRE_GPU_BUFFER_BYTES;
    gpu->buffer_cap = cap;
    gpu->name_cap = WIRE_GPU_NAMES;
    gpu->driver_version = driver_version;
    gpu->directory_offset = directory;
    gpu->names_offset = names;
    gpu->buffers_offset = buffers;
    gpu->file_bytes = bytes;
    relaxed_store(&gpu->buffers_backed, first);
    __atomic_store_n(&gpu->magic, WIRE_GPU_MAGIC, __ATOMIC_RELEASE);
    self->directory = (struct wire_buffer *)(void *)(map + directory);
    self->names = (struct wire_gpu_name *)(void *)(map + names);
    self->buffers = (uint8_t *)map + buffers;
    self->gpu = gpu;
    close(fd);
    return rename(path, final) == 0;
fail:
    unlink(path);
    close(fd);
    return false;
}

static uint32_t ready_buffers(uint32_t backed)
{
    uint32_t ready = 0;
    for (uint32_t i = 0; i < backed; i++)
        ready += relaxed_load(&agent_cuda.directory[i].state) == WIRE_BUFFER_FREE;
    return ready;
}

/* Backs some more if fewer than `least` are ready. */
static void grow(uint32_t least)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    char path[4096];
    struct stat status;
    pthread_mutex_lock(&grow_lock);
    uint32_t backed = relaxed_load(&gpu->buffers_backed);
    if (backed == gpu->buffer_cap || ready_buffers(backed) >= least)
        goto out;
    uint32_t target =
        backed + WIRE_GPU_GROW < gpu->buffer_cap ? backed + WIRE_GPU_GROW : gpu->buffer_cap;
    file_path(path, sizeof path, WIRE_GPU_PREFIX);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &status) || (uint64_t)status.st_size != gpu->file_bytes)) {
        close(fd);
        fd = -1;
    }
    if (agent_pool_back(fd, (char *)gpu, gpu->buffers_offset + (uint64_t)backed * gpu->buffer_bytes,
                        (uint64_t)(target - backed) * gpu->buffer_bytes))
        atomic_store_explicit(&gpu->buffers_backed, target, memory_order_release);
    if (fd >= 0)
        close(fd);
out:
    pthread_mutex_unlock(&grow_lock);
}

void agent_buffer_grow(void)
{
    relaxed_store(&agent_cuda.want_buffers, 0);
    grow(READY);
}

/* ---- lending ---- */

/* Memory for CUPTI when no buffer is free: what it writes there is only counted. NULL: there is no
 * more. */
static uint8_t *scratch_take(void)
{
    for (unsigned i = 0; i < SCRATCHES; i++) {
        uint32_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(&scratch_lent[i], &none, 1,
                                                     memory_order_acq_rel, memory_order_relaxed))
            continue;
        uint8_t *buffer = atomic_load_explicit(&scratch[i], memory_order_acquire);
        if (buffer)
            return buffer;
        void *made =
            mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made != MAP_FAILED)
            atomic_store_explicit(&scratch[i], made, memory_order_release);
        else
            atomic_store_explicit(&scratch_lent[i], 0, memory_order_release);
        return made == MAP_FAILED ? NULL : made;
    }
    return NULL;
}

/* Which one of the agent's a buffer is; SCRATCHES: none. */
static unsigned scratch_find(const uint8_t *buffer)
{
    unsigned i = 0;
    while (i < SCRATCHES && atomic_load_explicit(&scratch[i], memory_order_acquire) != buffer)
        i++;
    return i;
}

/* Takes the memory back for the next time, zeroed as CUPTI expects it. */
static void scratch_give(unsigned which)
{
    memset(atomic_load_explicit(&scratch[which], memory_order_acquire), 0, SCRATCH_BYTES);
    atomic_store_explicit(&scratch_lent[which], 0, memory_order_release);
}

/* Takes a free buffer and has the flush thread make more when few are left. NULL: none is free. */
static uint8_t *buffer_take(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t backed = atomic_load_explicit(&gpu->buffers_backed, memory_order_acquire), ready = 0;
    uint8_t *taken = NULL;
    for (uint32_t i = 0; i < backed; i++) {
        struct wire_buffer *buffer = &agent_cuda.directory[i];
        uint32_t state = WIRE_BUFFER_FREE;
        if (relaxed_load(&buffer->state) != WIRE_BUFFER_FREE)
            continue;
        if (!taken &&
            atomic_compare_exchange_strong_explicit(&buffer->state, &state, WIRE_BUFFER_LENT,
                                                    memory_order_acquire, memory_order_relaxed)) {
            __atomic_store_n(&buffer->generation, buffer->generation + 1, __ATOMIC_RELAXED);
            buffer->valid = buffer->records = buffer->dropped = buffer->forced = 0;
            buffer->sequence = 0;
            taken = agent_cuda.buffers + (uint64_t)i * gpu->buffer_bytes;
        } else {
            ready++;
        }
    }
    if (ready < READY - 1 && backed < gpu->buffer_cap)
        relaxed_store(&agent_cuda.want_buffers, 1);
    return taken;
}

/* On a thread of the program, inside an API call of CUDA. */
static void buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *max_records = 0;
    *buffer = NULL;
    if (agent_cuda_live()) {
        relaxed_add(&agent_cuda.requests, 1);
        *buffer = buffer_take();
        if (!*buffer) { /* many threads at once: better a stall here, once, than records that are
                           lost */
            int saved = errno;
            grow(1);
            errno = saved;
            *buffer = buffer_take();
        }
        *size = agent_cuda.gpu->buffer_bytes;
    }
    if (*buffer)
        return;
    /* No room, or a child of the process that started this. NULL crashed CUPTI before 12.9. */
    *buffer = scratch_take();
    *size = *buffer ? SCRATCH_BYTES : 0;
}

/* ---- walks over records ---- */

/* Steps over the records with the CUPTI that wrote them: it knows its own sizes. */
static uint32_t walk(uint8_t *buffer, size_t valid, bool note)
{
    uint8_t *record = NULL, *before = NULL;
    uint32_t count = 0;
    while (agent_cuda.cupti.ActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK && record) {
        if (before && note)
            agent_record_note(before, (size_t)(record - before));
        before = record;
        count++;
    }
    if (before && note)
        agent_record_note(before, (size_t)(buffer + valid - before));
    return count;
}

/* How many bytes of a buffer hold records, where CUPTI has not said it: up to the first that is
 * zero. The last one counts if a record of its kind was seen before. */
static size_t filled(uint8_t *buffer, size_t bytes)
{
    uint8_t *record = NULL, *before = NULL;
    while (agent_cuda.cupti.ActivityGetNextRecord(buffer, bytes, &record) == CUPTI_OK && record) {
        if (before)
            agent_record_size(before, (size_t)(record - before));
        before = record;
    }
    if (!before)
        return 0;
    uint32_t kind, last = 0;
    memcpy(&kind, before, sizeof kind);
    if (kind < WIRE_GPU_KINDS)
        last = relaxed_load(&agent_cuda.gpu->record_bytes[kind]);
    if (!last)
        agent_lose(WIRE_LOSS_GPU_TAKEN, 1);
    return (size_t)(before - buffer) + last;
}

/* A buffer has come back with records in it: notes their names while the pointers are valid, and
 * hands it to the collector. */
static void publish(struct wire_buffer *buffer, uint8_t *data, size_t valid)
{
    pthread_mutex_lock(&walk_lock);
    agent_cuda.epoch++;
    buffer->records = walk(data, valid, true);
    buffer->valid = (uint32_t)valid;
    buffer->sequence = relaxed_add(&agent_cuda.gpu->sequence, 1) + 1;
    pthread_mutex_unlock(&walk_lock);
    relaxed_add(&agent_cuda.records, buffer->records);
    atomic_store_explicit(&buffer->state, valid ? WIRE_BUFFER_DONE : WIRE_BUFFER_FREE,
                          memory_order_release);
}

static void buffer_done(struct wire_buffer *buffer, void *context, uint32_t stream, uint8_t *data,
                        size_t valid)
{
    size_t dropped = 0;
    buffer->context = (uint64_t)(uintptr_t)context;
    buffer->stream = stream;
    buffer->forced = atomic_load_explicit(&agent_cuda.forcing, memory_order_acquire);
    if (agent_cuda.cupti.ActivityGetNumDroppedRecords &&
        agent_cuda.cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_OK &&
        dropped) {
        buffer->dropped = (uint32_t)dropped;
        agent_lose(WIRE_LOSS_GPU_DROPPED, dropped);
    }
    publish(buffer, data, valid);
}

/* On a thread of CUPTI's, or on one that flushes. A buffer that is not the agent's is another
 * profiler's, from before the agent took the records back: it is left alone. */
static void buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid)
{
    int saved = errno;
    const struct wire_gpu *gpu = agent_cuda.gpu;
    unsigned which = buffer ? scratch_find(buffer) : SCRATCHES;
    if (valid > size)
        valid = size;
    if (which < SCRATCHES) {
        uint32_t lost = agent_cuda_live() ? walk(buffer, valid, false) : 0;
        if (lost)
            agent_lose(WIRE_LOSS_GPU_NO_BUFFER, lost);
        scratch_give(which);
    }
    if (buffer && agent_cuda_live()) {
        uint64_t offset = (uint64_t)(buffer - agent_cuda.buffers);
        relaxed_add(&agent_cuda.completions, 1);
        if (buffer >= agent_cuda.buffers &&
            offset < (uint64_t)gpu->buffer_cap * gpu->buffer_bytes &&
            offset % gpu->buffer_bytes == 0)
            buffer_done(&agent_cuda.directory[offset / gpu->buffer_bytes], context, stream, buffer,
                        valid);
    }
    errno = saved;
}

int agent_buffer_register(void)
{
    const struct cupti *cupti = &agent_cuda.cupti;
    size_t dropped;
    int rc = cupti->ActivityRegisterCallbacks(buffer_request, buffer_complete);
    if (!rc && cupti->ActivityGetNumDroppedRecords)
        cupti->ActivityGetNumDroppedRecords(NULL, 0, &dropped);
    return rc;
}

uint32_t agent_buffer_lent(void)
{
    uint32_t lent = 0, backed = relaxed_load(&agent_cuda.gpu->buffers_backed);
    for (uint32_t i = 0; i < backed; i++)
        lent += relaxed_load(&agent_cuda.directory[i].state) == WIRE_BUFFER_LENT;
    return lent;
}

void agent_buffer_mark(void)
{
    uint32_t backed = relaxed_load(&agent_cuda.gpu->buffers_backed);
    for (uint32_t i = 0; i < backed; i++) {
        const struct wire_buffer *buffer = &agent_cuda.directory[i];
        bool lent = atomic_load_explicit(&buffer->state, memory_order_acquire) == WIRE_BUFFER_LENT;
        marked[i] = lent ? __atomic_load_n(&buffer->generation, __ATOMIC_RELAXED) : 0;
    }
}

void agent_buffer_reclaim(void)
{
    const struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t backed = relaxed_load(&gpu->buffers_backed);
    for (uint32_t i = 0; i < backed; i++) {
        struct wire_buffer *buffer = &agent_cuda.directory[i];
        uint8_t *data = agent_cuda.buffers + (uint64_t)i * gpu->buffer_bytes;
        if (atomic_load_explicit(&buffer->state, memory_order_acquire) != WIRE_BUFFER_LENT ||
            !marked[i] || buffer->generation != marked[i])
            continue;
        buffer->forced = 1;
        publish(buffer, data, filled(data, gpu->buffer_bytes));
    }
}

/* ---- for the watchdog ---- */

/* A glance at memory that CUPTI may be writing at this moment: whether anything is there is all
 * that is asked. */
__attribute__((no_sanitize("thread"))) bool agent_buffer_written(void)
{
    const struct wire_gpu *gpu = agent_cuda.gpu;
    uint32_t backed = relaxed_load(&gpu->buffers_backed);
    bool grew = false;
    for (uint32_t i = 0; i < backed; i++) {
        uint32_t from = written[i];
        if (atomic_load_explicit(&agent_cuda.directory[i].state, memory_order_acquire) !=
            WIRE_BUFFER_LENT) {
            written[i] = 0;
            continue;
        }
        const uint8_t *buffer = agent_cuda.buffers + (uint64_t)i * gpu->buffer_bytes;
        uint32_t last = from;
        /* no record has that many zeros in a row */
        for (uint32_t offset = from; offset + 8 <= gpu->buffer_bytes && offset - last < 512;
             offset += 8)
            if (__atomic_load_n((const uint64_t *)(const void *)(buffer + offset),
                                __ATOMIC_RELAXED))
                last = offset + 8;
        grew |= last > from;
        from = last;
        written[i] = from;
    }
    return grew;
}

void agent_buffer_anchor(void)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    struct wire_gpu_anchor best = {0};
    int64_t best_span = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        struct wire_gpu_anchor anchor = {0};
        struct timespec real;
        int64_t before = (int64_t)agent_clock_monotonic();
        clock_gettime(CLOCK_REALTIME, &real);
        anchor.realtime = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec;
        if (!agent_cuda.cupti.GetTimestamp || agent_cuda.cupti.GetTimestamp(&anchor.cupti))
            anchor.cupti = (uint64_t)anchor.realtime;
        anchor.tsc = agent_setup.clock == WIRE_CLOCK_TSC ? agent_now() : 0;
        int64_t after = (int64_t)agent_clock_monotonic();
        anchor.monotonic = before + (after - before) / 2;
        if (after - before < best_span) {
            best_span = after - before;
            best = anchor;
        }
    }
    pthread_mutex_lock(&anchor_lock);
    uint32_t anchors = relaxed_load(&gpu->anchors);
    gpu->anchor[anchors % WIRE_GPU_ANCHORS] = best;
    atomic_store_explicit(&gpu->anchors, anchors + 1, memory_order_release);
    pthread_mutex_unlock(&anchor_lock);
}

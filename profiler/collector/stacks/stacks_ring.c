/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks/stacks_ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BYTES_LEAST  (64u << 10) /* of one ring */
#define BYTES_USUAL  (1u << 20)
#define BYTES_MOST   (32u << 20)
#define ROOM_MS      500u  /* of samples: a collector that waits for a disk loses none */
#define RECORD_BYTES 1536u /* of a sample without its stack */
#define REGISTER_MASK \
    0xff01ffull /* general ones, stack and instruction pointer, as PERF_REG_X86_* counts */

static int open_event(const struct col_rings *rings, pid_t pid, int cpu)
{
    struct perf_event_attr perf_event_attr = {
        .size = sizeof perf_event_attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 1000000000u / (unsigned)rings->hz,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
        .disabled = pid != 0,
        .enable_on_exec = pid != 0,
        .inherit = 1,
        .exclude_hv = 1,
        .exclude_kernel = !rings->kernel,
        .exclude_callchain_kernel = 1,
        .mmap = 1,
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .sample_max_stack = COL_STACKS_CHAIN,
        .watermark = 1,
        .wakeup_watermark = BYTES_MOST}; /* nobody waits: rings are looked at each turn */
    if (rings->stack_bytes) {
        perf_event_attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        perf_event_attr.sample_regs_user = REGISTER_MASK;
        perf_event_attr.sample_stack_user = rings->stack_bytes;
    }
    return (int)syscall(SYS_perf_event_open, &perf_event_attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A ring that holds ROOM_MS of a CPU that is always busy, or as much as the kernel lets this user
 * lock. */
static bool map_ring(const struct col_rings *all, struct ring *ring)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = BYTES_USUAL;
    uint64_t need = (uint64_t)all->hz * ROOM_MS / 1000 * (RECORD_BYTES + all->stack_bytes);
    while (bytes < need && bytes < BYTES_MOST)
        bytes *= 2;
    for (; bytes >= BYTES_LEAST; bytes /= 2) {
        void *p = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
        if (p == MAP_FAILED)
            continue;
        ring->page = p;
        ring->data = (const uint8_t *)p + page;
        ring->bytes = bytes;
        return true;
    }
    return false;
}

static void unmap_ring(struct ring *ring)
{
    if (ring->page)
        munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->bytes);
    if (ring->fd >= 0)
        close(ring->fd);
}

/* One event a CPU: the kernel gives a ring to inherited events of one CPU only. */
int col_rings_open(struct col_rings *rings, pid_t pid)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    rings->ring = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof *rings->ring);
    int error = rings->ring ? 0 : ENOMEM;
    for (int cpu = 0; !error && cpu < cpus; cpu++) {
        struct ring ring = {.fd = open_event(rings, pid, cpu), .cpu = cpu};
        if (ring.fd < 0 && errno == ENODEV) /* offline */
            continue;
        if (ring.fd < 0 || !map_ring(rings, &ring)) {
            error = errno;
            unmap_ring(&ring);
        } else {
            rings->ring[rings->count++] = ring;
        }
    }
    if (!error && !rings->count)
        error = ENODEV;
    if (error)
        col_rings_close(rings);
    return error;
}

void col_rings_close(struct col_rings *rings)
{
    for (size_t i = 0; i < rings->count; i++)
        unmap_ring(&rings->ring[i]);
    for (size_t i = 0; i < rings->fds; i++)
        close(rings->fd[i]);
    free(rings->ring);
    free(rings->fd);
    rings->ring = NULL;
    rings->fd = NULL;
    rings->count = rings->fds = 0;
}

void col_rings_add(struct col_rings *rings, pid_t pid)
{
    for (size_t i = 0; i < rings->count; i++) {
        int *list = realloc(rings->fd, (rings->fds + 1) * sizeof *list);
        if (!list)
            return;
        rings->fd = list;
        int fd = open_event(rings, pid, rings->ring[i].cpu);
        if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, rings->ring[i].fd) == 0)
            rings->fd[rings->fds++] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

static void copy_out(const struct ring *ring, uint64_t from, void *to, size_t bytes)
{
    size_t at = from & (ring->bytes - 1),
           first = bytes < ring->bytes - at ? bytes : (size_t)ring->bytes - at;
    memcpy(to, ring->data + at, first);
    memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

/* When the record at the tail was made: of a sample behind its ids, of others in the trailer
 * (sample_id_all). */
static void look_at(struct ring *ring)
{
    struct perf_event_header header;
    ring->time = UINT64_MAX;
    if (ring->head - ring->tail < sizeof header)
        return;
    copy_out(ring, ring->tail, &header, sizeof header);
    if (header.size < sizeof header + 16 ||
        header.size > ring->head - ring->tail) { /* cannot be: the kernel writes whole records */
        ring->tail = ring->head;
        atomic_store_explicit((_Atomic uint64_t *)&ring->page->data_tail, ring->tail,
                              memory_order_release);
    } else {
        copy_out(ring,
                 header.type == PERF_RECORD_SAMPLE ? ring->tail + sizeof header + 8
                                                   : ring->tail + header.size - 8,
                 &ring->time, sizeof ring->time);
    }
}

void col_rings_look(struct col_rings *rings)
{
    for (size_t i = 0; i < rings->count; i++) {
        struct ring *ring = &rings->ring[i];
        ring->head =
            atomic_load_explicit((_Atomic uint64_t *)&ring->page->data_head, memory_order_acquire);
        ring->tail = ring->page->data_tail;
        look_at(ring);
    }
}

const uint8_t *col_rings_next(struct col_rings *rings, uint64_t before, uint64_t *time)
{
    struct perf_event_header header;
    struct ring *ring = NULL;
    for (size_t i = 0; i < rings->count; i++)
        if (rings->ring[i].time < before && (!ring || rings->ring[i].time < ring->time))
            ring = &rings->ring[i];
    if (!ring)
        return NULL;
    rings->current = (size_t)(ring - rings->ring);
    *time = ring->time;
    size_t at = ring->tail & (ring->bytes - 1);
    copy_out(ring, ring->tail, &header, sizeof header);
    if (header.size <= ring->bytes - at)
        return ring->data + at;
    copy_out(ring, ring->tail, rings->record, header.size);
    return rings->record;
}

void col_rings_taken(struct col_rings *rings)
{
    struct ring *ring = &rings->ring[rings->current];
    struct perf_event_header header;
    copy_out(ring, ring->tail, &header, sizeof header);
    ring->tail += header.size;
    atomic_store_explicit((_Atomic uint64_t *)&ring->page->data_tail, ring->tail,
                          memory_order_release);
    look_at(ring);
}

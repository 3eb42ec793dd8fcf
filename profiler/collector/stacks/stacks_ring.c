/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens one sampling event and one ring buffer for each CPU, and merges the rings into one stream
 * of records in the order of time. A record that wraps around the end of its ring is copied; all
 * others are read in place. Each ring has room for half a second of a busy CPU, so that a collector
 * that waits for its disk loses nothing.
 */
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
/* General registers, stack and instruction pointer, as PERF_REG_X86_* counts them. */
#define REGISTER_MASK 0xff01ffull

/* Opens the event of one CPU: a sample each period of CPU time, with the call chain and, if asked
 * for, registers and a piece of the stack; plus the records of mappings, names, forks and exits.
 * Nothing waits on the event (the rings are read each turn), so the wake-up mark is set high. */
static int open_event(const struct col_rings *rings, pid_t pid, int cpu)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = 1000000000u / (unsigned)rings->hz,
                                   .sample_type =
                                       PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
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
                                   .wakeup_watermark = BYTES_MOST};
    if (rings->stack_bytes) {
        attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        attr.sample_regs_user = REGISTER_MASK;
        attr.sample_stack_user = rings->stack_bytes;
    }
    return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
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
        void *memory = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
        if (memory == MAP_FAILED)
            continue;
        ring->page = memory;
        ring->data = (const uint8_t *)memory + page;
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

/* Tells the kernel that everything before the tail may be overwritten. */
static void give_back(struct ring *ring)
{
    atomic_store_explicit((_Atomic uint64_t *)&ring->page->data_tail, ring->tail,
                          memory_order_release);
}

/* Copies bytes out of a ring; they may wrap around its end. */
static void copy_out(const struct ring *ring, uint64_t from, void *to, size_t bytes)
{
    size_t offset = from & (ring->bytes - 1),
           first = bytes < ring->bytes - offset ? bytes : (size_t)ring->bytes - offset;
    memcpy(to, ring->data + offset, first);
    memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

/* Reads the time of the record at the tail: samples have it after their ids, all other records in
 * their trailer (sample_id_all). */
static void read_time(struct ring *ring)
{
    struct perf_event_header header;
    ring->time = UINT64_MAX;
    if (ring->head - ring->tail < sizeof header)
        return;
    copy_out(ring, ring->tail, &header, sizeof header);
    /* The kernel writes whole records: anything else is damage, and the rest is skipped. */
    if (header.size < sizeof header + 16 || header.size > ring->head - ring->tail) {
        ring->tail = ring->head;
        give_back(ring);
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
        read_time(ring);
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
    size_t offset = ring->tail & (ring->bytes - 1);
    copy_out(ring, ring->tail, &header, sizeof header);
    if (header.size <= ring->bytes - offset)
        return ring->data + offset;
    copy_out(ring, ring->tail, rings->record, header.size);
    return rings->record;
}

void col_rings_taken(struct col_rings *rings)
{
    struct ring *ring = &rings->ring[rings->current];
    struct perf_event_header header;
    copy_out(ring, ring->tail, &header, sizeof header);
    ring->tail += header.size;
    give_back(ring);
    read_time(ring);
}

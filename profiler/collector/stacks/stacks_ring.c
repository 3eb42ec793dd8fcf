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

static int open_event(const struct col_rings *r, pid_t pid, int cpu)
{
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = 1000000000u / (unsigned)r->hz,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
        .disabled = pid != 0,
        .enable_on_exec = pid != 0,
        .inherit = 1,
        .exclude_hv = 1,
        .exclude_kernel = !r->kernel,
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
    if (r->stack_bytes) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = REGISTER_MASK;
        a.sample_stack_user = r->stack_bytes;
    }
    return (int)syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A ring that holds ROOM_MS of a CPU that is always busy, or as much as the kernel lets this user
 * lock. */
static bool map_ring(const struct col_rings *all, struct ring *r)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = BYTES_USUAL;
    uint64_t need = (uint64_t)all->hz * ROOM_MS / 1000 * (RECORD_BYTES + all->stack_bytes);
    while (bytes < need && bytes < BYTES_MOST)
        bytes *= 2;
    for (; bytes >= BYTES_LEAST; bytes /= 2) {
        void *p = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (p == MAP_FAILED)
            continue;
        r->page = p;
        r->data = (const uint8_t *)p + page;
        r->bytes = bytes;
        return true;
    }
    return false;
}

static void unmap_ring(struct ring *r)
{
    if (r->page)
        munmap(r->page, (size_t)sysconf(_SC_PAGESIZE) + r->bytes);
    if (r->fd >= 0)
        close(r->fd);
}

/* One event a CPU: the kernel gives a ring to inherited events of one CPU only. */
int col_rings_open(struct col_rings *r, pid_t pid)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    r->ring = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof *r->ring);
    int error = r->ring ? 0 : ENOMEM;
    for (int cpu = 0; !error && cpu < cpus; cpu++) {
        struct ring x = {.fd = open_event(r, pid, cpu), .cpu = cpu};
        if (x.fd < 0 && errno == ENODEV) /* offline */
            continue;
        if (x.fd < 0 || !map_ring(r, &x)) {
            error = errno;
            unmap_ring(&x);
        } else {
            r->ring[r->count++] = x;
        }
    }
    if (!error && !r->count)
        error = ENODEV;
    if (error)
        col_rings_close(r);
    return error;
}

void col_rings_close(struct col_rings *r)
{
    for (size_t i = 0; i < r->count; i++)
        unmap_ring(&r->ring[i]);
    for (size_t i = 0; i < r->fds; i++)
        close(r->fd[i]);
    free(r->ring);
    free(r->fd);
    r->ring = NULL;
    r->fd = NULL;
    r->count = r->fds = 0;
}

void col_rings_add(struct col_rings *r, pid_t pid)
{
    for (size_t i = 0; i < r->count; i++) {
        int *list = realloc(r->fd, (r->fds + 1) * sizeof *list);
        if (!list)
            return;
        r->fd = list;
        int fd = open_event(r, pid, r->ring[i].cpu);
        if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->ring[i].fd) == 0)
            r->fd[r->fds++] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

static void copy_out(const struct ring *r, uint64_t from, void *to, size_t bytes)
{
    size_t at = from & (r->bytes - 1),
           first = bytes < r->bytes - at ? bytes : (size_t)r->bytes - at;
    memcpy(to, r->data + at, first);
    memcpy((uint8_t *)to + first, r->data, bytes - first);
}

/* When the record at the tail was made: of a sample behind its ids, of others in the trailer
 * (sample_id_all). */
static void look_at(struct ring *r)
{
    struct perf_event_header h;
    r->time = UINT64_MAX;
    if (r->head - r->tail < sizeof h)
        return;
    copy_out(r, r->tail, &h, sizeof h);
    if (h.size < sizeof h + 16 ||
        h.size > r->head - r->tail) { /* cannot be: the kernel writes whole records */
        r->tail = r->head;
        atomic_store_explicit((_Atomic uint64_t *)&r->page->data_tail, r->tail,
                              memory_order_release);
    } else {
        copy_out(r, h.type == PERF_RECORD_SAMPLE ? r->tail + sizeof h + 8 : r->tail + h.size - 8,
                 &r->time, sizeof r->time);
    }
}

void col_rings_look(struct col_rings *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct ring *x = &r->ring[i];
        x->head =
            atomic_load_explicit((_Atomic uint64_t *)&x->page->data_head, memory_order_acquire);
        x->tail = x->page->data_tail;
        look_at(x);
    }
}

const uint8_t *col_rings_next(struct col_rings *r, uint64_t before, uint64_t *time)
{
    struct perf_event_header h;
    struct ring *x = NULL;
    for (size_t i = 0; i < r->count; i++)
        if (r->ring[i].time < before && (!x || r->ring[i].time < x->time))
            x = &r->ring[i];
    if (!x)
        return NULL;
    r->current = (size_t)(x - r->ring);
    *time = x->time;
    size_t at = x->tail & (x->bytes - 1);
    copy_out(x, x->tail, &h, sizeof h);
    if (h.size <= x->bytes - at)
        return x->data + at;
    copy_out(x, x->tail, r->record, h.size);
    return r->record;
}

void col_rings_taken(struct col_rings *r)
{
    struct ring *x = &r->ring[r->current];
    struct perf_event_header h;
    copy_out(x, x->tail, &h, sizeof h);
    x->tail += h.size;
    atomic_store_explicit((_Atomic uint64_t *)&x->page->data_tail, x->tail, memory_order_release);
    look_at(x);
}

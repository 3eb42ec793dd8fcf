/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/mappings.h"
#include "profiler/collector/proc.h"
#include "profiler/collector/symbols.h"
#include "profiler/collector/unwind.h"

#define RING_BYTES (1u << 20) /* of one CPU */
#define RING_LEAST (64u << 10)
#define REGISTERS  0xff01ffull /* general ones, stack and instruction pointer, as PERF_REG_X86_* counts */
#define LATE_NS    1000000     /* records of another CPU that are older than this have arrived */
#define FRAMES_MAX 127u

struct ring {
    int fd, cpu;
    struct perf_event_mmap_page *head;
    uint8_t *data;
    uint64_t bytes;
};

/* A record that was read and waits for its turn. */
struct waiting {
    uint64_t time;
    size_t at; /* in bytes */
};

struct thread {
    int32_t pid, tid;
    int64_t track; /* 0: not in the file yet */
    char name[16];
};

struct col_stacks {
    int hz, error;
    time_t begun;
    bool kernel, finished;
    struct ring *ring;
    size_t rings;
    int *fd; /* events that write into a ring of another one */
    size_t fds;
    struct col_buffer bytes;
    struct waiting *waiting;
    size_t count, room;
    struct thread *thread;
    size_t threads, thread_room;
    struct col_mappings maps;
    struct col_symbols *symbols;
    struct col_unwind *unwind;     /* NULL: by frame pointers */
    int64_t unknown, kernel_frame; /* string ids, 0: not yet */
    int64_t lost, samples;
};

/* ---- events ------------------------------------------------------------------------------------------------------------------ */

static int open_event(const struct col_stacks *s, pid_t pid, int cpu)
{
    struct perf_event_attr a = {.size = sizeof a,
                                .type = PERF_TYPE_SOFTWARE,
                                .config = PERF_COUNT_SW_CPU_CLOCK,
                                .sample_period = 1000000000u / (unsigned)s->hz,
                                .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN,
                                .disabled = pid != 0,
                                .enable_on_exec = pid != 0,
                                .inherit = 1,
                                .exclude_hv = 1,
                                .exclude_kernel = !s->kernel,
                                .exclude_callchain_kernel = 1,
                                .mmap = 1,
                                .mmap2 = 1,
                                .comm = 1,
                                .comm_exec = 1,
                                .task = 1,
                                .sample_id_all = 1,
                                .use_clockid = 1,
                                .clockid = CLOCK_MONOTONIC,
                                .sample_max_stack = FRAMES_MAX,
                                .watermark = 1,
                                .wakeup_watermark = RING_BYTES};
    if (s->unwind) {
        a.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
        a.sample_regs_user = REGISTERS;
        a.sample_stack_user = COL_UNWIND_STACK;
    }
    return (int)syscall(SYS_perf_event_open, &a, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool map_ring(struct ring *r)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t bytes = RING_BYTES; bytes >= RING_LEAST; bytes /= 2) {
        void *p = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (p == MAP_FAILED)
            continue;
        r->head = p;
        r->data = (uint8_t *)p + page;
        r->bytes = bytes;
        return true;
    }
    return false;
}

static void unmap_ring(struct ring *r)
{
    if (r->head)
        munmap(r->head, (size_t)sysconf(_SC_PAGESIZE) + r->bytes);
    if (r->fd >= 0)
        close(r->fd);
}

/* One event a CPU: the kernel gives a ring to inherited events of one CPU only. */
static int open_rings(struct col_stacks *s, pid_t pid)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    s->ring = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof *s->ring);
    if (!s->ring)
        return ENOMEM;
    for (int cpu = 0; cpu < cpus; cpu++) {
        struct ring r = {.fd = open_event(s, pid, cpu), .cpu = cpu};
        if (r.fd < 0 && errno == ENODEV) /* offline */
            continue;
        if (r.fd < 0 || !map_ring(&r)) {
            int error = errno;
            unmap_ring(&r);
            return error;
        }
        s->ring[s->rings++] = r;
    }
    return s->rings ? 0 : ENODEV;
}

static void close_rings(struct col_stacks *s)
{
    for (size_t i = 0; i < s->rings; i++)
        unmap_ring(&s->ring[i]);
    free(s->ring);
    s->ring = NULL;
    s->rings = 0;
}

struct col_stacks *col_stacks_open(pid_t pid, int hz, bool frame_pointers)
{
    struct col_stacks *s = calloc(1, sizeof *s);
    if (!s || !(s->symbols = col_symbols_new())) {
        free(s);
        return NULL;
    }
    s->hz = hz;
    s->begun = time(NULL);
    if (!frame_pointers)
        s->unwind = col_unwind_new(&s->maps);
    s->kernel = true;
    s->error = open_rings(s, pid);
    if (s->error == EACCES || s->error == EPERM) { /* kernel.perf_event_paranoid 2: user code only */
        close_rings(s);
        s->kernel = false;
        s->error = open_rings(s, pid);
    }
    if (s->error)
        close_rings(s);
    return s;
}

/* Events of other processes write into the rings that are there. */
void col_stacks_add(struct col_stacks *s, pid_t pid)
{
    for (size_t i = 0; i < s->rings; i++) {
        int *list = realloc(s->fd, (s->fds + 1) * sizeof *list);
        if (!list)
            return;
        s->fd = list;
        int fd = open_event(s, pid, s->ring[i].cpu);
        if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->ring[i].fd) == 0)
            s->fd[s->fds++] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

const char *col_stacks_refused(const struct col_stacks *s, const char **fix)
{
    *fix = "";
    if (!s->error)
        return NULL;
    if (s->error == EACCES || s->error == EPERM)
        *fix = "sysctl kernel.perf_event_paranoid=2, or give tacho CAP_PERFMON; in a container its seccomp filter must allow "
               "perf_event_open";
    else if (s->error == ENOSYS || s->error == ENOENT || s->error == EOPNOTSUPP)
        *fix = "a kernel with CONFIG_PERF_EVENTS";
    return strerror(s->error);
}

bool col_stacks_unwinds(const struct col_stacks *s)
{
    return s->unwind != NULL;
}

bool col_stacks_sees_kernel(const struct col_stacks *s)
{
    return s->kernel;
}

/* ---- rings ------------------------------------------------------------------------------------------------------------------- */

/* The trailer of every record but samples: pid, tid, time (sample_id_all). */
static uint64_t time_of(const struct perf_event_header *h, const uint8_t *record)
{
    uint64_t time = 0;
    if (h->type == PERF_RECORD_SAMPLE) {
        if (h->size >= sizeof *h + 16)
            memcpy(&time, record + sizeof *h + 8, sizeof time);
    } else if (h->size >= sizeof *h + 16) {
        memcpy(&time, record + h->size - 8, sizeof time);
    }
    return time;
}

static void copy_out(const struct ring *r, uint64_t from, void *to, size_t bytes)
{
    size_t at = from & (r->bytes - 1), first = bytes < r->bytes - at ? bytes : (size_t)r->bytes - at;
    memcpy(to, r->data + at, first);
    memcpy((uint8_t *)to + first, r->data, bytes - first);
}

static int keep(struct col_stacks *s, const struct ring *r, uint64_t at, const struct perf_event_header *h)
{
    uint8_t record[UINT16_MAX + 1];
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 1024;
        struct waiting *list = realloc(s->waiting, room * sizeof *list);
        if (!list)
            return TACHO_ENOMEM;
        s->waiting = list;
        s->room = room;
    }
    copy_out(r, at, record, h->size);
    s->waiting[s->count++] = (struct waiting){time_of(h, record), s->bytes.used};
    col_buffer_put(&s->bytes, record, h->size);
    return s->bytes.failed ? TACHO_ENOMEM : 0;
}

static int read_ring(struct col_stacks *s, struct ring *r)
{
    uint64_t head = atomic_load_explicit((_Atomic uint64_t *)&r->head->data_head, memory_order_acquire);
    uint64_t at = r->head->data_tail;
    int rc = 0;
    while (rc == 0 && head - at >= sizeof(struct perf_event_header)) {
        struct perf_event_header h;
        copy_out(r, at, &h, sizeof h);
        if (h.size < sizeof h || h.size > head - at) {
            at = head; /* cannot be: the kernel writes whole records */
            break;
        }
        rc = keep(s, r, at, &h);
        at += h.size;
    }
    atomic_store_explicit((_Atomic uint64_t *)&r->head->data_tail, at, memory_order_release);
    return rc;
}

/* By time, of equal times in the order read. */
static int order_waiting(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static struct thread *thread_of(struct col_stacks *s, int32_t pid, int32_t tid)
{
    for (size_t i = 0; i < s->threads; i++)
        if (s->thread[i].tid == tid && s->thread[i].pid == pid)
            return &s->thread[i];
    if (s->threads == s->thread_room) {
        size_t room = s->thread_room ? 2 * s->thread_room : 32;
        struct thread *list = realloc(s->thread, room * sizeof *list);
        if (!list)
            return NULL;
        s->thread = list;
        s->thread_room = room;
    }
    s->thread[s->threads] = (struct thread){.pid = pid, .tid = tid};
    return &s->thread[s->threads++];
}

static struct col_process *process_of(struct col_drain *d, int32_t pid)
{
    for (uint32_t i = d->process_count; i-- > 0;)
        if (d->process[i]->pid == pid)
            return d->process[i];
    return NULL;
}

/* A track of kind `samples` for each thread that was seen on a CPU. */
static int track_of(struct col_drain *d, struct thread *x, int64_t time, int64_t *track)
{
    struct col_process *p = process_of(d, x->pid);
    int rc = 0;
    *track = x->track;
    if (x->track)
        return 0;
    if (!p)
        rc = col_drain_process(d, x->pid, time, x->name[0] ? x->name : NULL, &p);
    if (rc)
        return rc;
    struct store_track t = {.process = p->id, .kind = "samples", .name = x->name[0] ? x->name : p->program, .tid = x->tid};
    rc = store_track_add(d->db, &t);
    if (rc == 0)
        *track = x->track = t.id;
    return rc;
}

/* A frame's name as a row of string; what it is kept with spares the look-up next time. */
static int frame_text(struct col_drain *d, int64_t *slot, int64_t *id, const char *format, const char *name)
{
    char text[2048];
    int n = snprintf(text, sizeof text, format, name);
    size_t bytes = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    int rc = store_string(d->db, text, bytes, id);
    if (rc == 0)
        *slot = *id;
    return rc;
}

/* Return addresses point behind the call: the caller asks for one byte less. */
static int frame(struct col_stacks *s, struct col_drain *d, int32_t pid, uint64_t address, int64_t *id)
{
    struct col_mapping m;
    struct col_symbol x = {NULL, NULL};
    bool file = false;
    if (col_mappings_find(&s->maps, pid, address, &m)) {
        file = m.path[0] == '/' && m.path[1] != '/'; /* "//anon" is none */
        if (m.file == UINT32_MAX && file)
            m.file = col_mappings_note_file(&s->maps, pid, address, col_symbols_file(s->symbols, pid, m.path));
        file = file && m.file != UINT32_MAX;
        if (file)
            x = col_symbols_at(s->symbols, m.file, address - m.start + m.offset);
    }
    if (!file)
        x = col_symbols_in_map(s->symbols, pid, col_mappings_parent(&s->maps, pid), address);
    if (x.name && *x.slot) {
        *id = *x.slot;
        return 0;
    }
    if (x.name)
        return frame_text(d, x.slot, id, "%s", x.name);
    int64_t *slot = file ? col_symbols_file_slot(s->symbols, m.file) : &s->unknown;
    *id = *slot;
    if (*id)
        return 0;
    return file ? frame_text(d, slot, id, "[%s]", col_symbols_file_name(s->symbols, m.file))
                : frame_text(d, slot, id, "%s", "[unknown]");
}

/* Outermost first; what the kernel marks (contexts) are not frames. */
static int stack_of(struct col_stacks *s, struct col_drain *d, int32_t pid, const uint64_t *ip, size_t n, bool in_kernel,
                    int64_t *stack)
{
    int rc = 0;
    *stack = STORE_ABSENT;
    for (size_t i = n; i-- > 0 && rc == 0;) {
        int64_t id;
        if (ip[i] >= PERF_CONTEXT_MAX || !ip[i])
            continue;
        bool leaf = !i || ip[i - 1] >= PERF_CONTEXT_MAX;
        rc = frame(s, d, pid, leaf && !in_kernel ? ip[i] : ip[i] - 1, &id);
        if (rc == 0)
            rc = store_stack(d->db, *stack, id, stack);
    }
    if (rc == 0 && in_kernel) {
        int64_t id = s->kernel_frame;
        if (!id)
            rc = frame_text(d, &s->kernel_frame, &id, "%s", "[kernel]");
        if (rc == 0)
            rc = store_stack(d->db, *stack, id, stack);
    }
    return rc;
}

/* What follows the frame pointers' chain in a sample: abi, registers, size, bytes of the stack, how many of them are its own.
 * The longer of the two chains is the better one. Returns its length. */
static size_t unwind(struct col_stacks *s, int32_t pid, const uint8_t *at, size_t bytes, uint64_t *ip, size_t n)
{
    /* where PERF_REG_X86_* (ax bx cx dx si di bp sp ip, r8 ...) stand in the order of DWARF */
    static const uint8_t place[COL_UNWIND_REGISTERS] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t head[1 + COL_UNWIND_REGISTERS + 1], reg[COL_UNWIND_REGISTERS], own, found[FRAMES_MAX];
    size_t frames = 0, user = 0;
    if (bytes < sizeof head)
        return n;
    memcpy(head, at, sizeof head);
    uint64_t size = head[1 + COL_UNWIND_REGISTERS];
    if (head[0] != PERF_SAMPLE_REGS_ABI_64 || !size || size > bytes - sizeof head || bytes - sizeof head - size < sizeof own)
        return n;
    memcpy(&own, at + sizeof head + size, sizeof own);
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        reg[place[i]] = head[1 + i];
    frames = col_unwind(s->unwind, pid, reg, at + sizeof head, own < size ? own : size, found, FRAMES_MAX);
    for (size_t i = 0; i < n; i++)
        user += ip[i] < PERF_CONTEXT_MAX;
    if (frames < user || !frames)
        return n;
    memcpy(ip, found, frames * sizeof *ip);
    return frames;
}

static int on_sample(struct col_stacks *s, struct col_drain *d, const struct perf_event_header *h, const uint8_t *body,
                     size_t bytes, uint64_t time)
{
    int32_t id[2];
    uint64_t n, ip[FRAMES_MAX + 8];
    int64_t track, stack;
    if (bytes < 24)
        return 0;
    memcpy(id, body, sizeof id);
    memcpy(&n, body + 16, sizeof n);
    if (n > (bytes - 24) / 8)
        return 0;
    uint64_t kept = n < FRAMES_MAX + 8 ? n : FRAMES_MAX + 8;
    memcpy(ip, body + 24, kept * sizeof *ip);
    struct thread *x = thread_of(s, id[0], id[1]);
    if (!x)
        return TACHO_ENOMEM;
    if (s->unwind)
        kept = unwind(s, id[0], body + 24 + 8 * n, bytes - 24 - 8 * n, ip, kept);
    bool in_kernel = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    col_mappings_learn(&s->maps, id[0]);
    int rc = track_of(d, x, (int64_t)time, &track);
    if (rc == 0)
        rc = stack_of(s, d, id[0], ip, kept, in_kernel, &stack);
    if (rc == 0)
        rc = store_sample_add(d->db, &(struct store_sample){.track = track, .time = (int64_t)time, .stack = stack});
    s->samples += rc == 0;
    return rc;
}

/* pid, tid, then its name, ended by NUL and padded. */
static void on_comm(struct col_stacks *s, const struct perf_event_header *h, const uint8_t *body, size_t bytes)
{
    int32_t id[2];
    if (bytes < 9)
        return;
    memcpy(id, body, sizeof id);
    if (h->misc & PERF_RECORD_MISC_COMM_EXEC) {
        col_mappings_drop(&s->maps, id[0]);
        col_unwind_forget(s->unwind, id[0]);
    }
    struct thread *x = thread_of(s, id[0], id[1]);
    if (x)
        snprintf(x->name, sizeof x->name, "%.*s", (int)(bytes - 8), (const char *)body + 8);
}

static int on_record(struct col_stacks *s, struct col_drain *d, const uint8_t *record, uint64_t time)
{
    struct perf_event_header h;
    memcpy(&h, record, sizeof h);
    const uint8_t *body = record + sizeof h;
    size_t bytes = h.size - sizeof h, own = bytes < 16 ? 0 : bytes - 16; /* without the trailer */
    uint64_t lost[2];
    int32_t task[4]; /* pid, parent's pid, tid, parent's tid */
    switch (h.type) {
    case PERF_RECORD_SAMPLE:
        return on_sample(s, d, &h, body, bytes, time);
    case PERF_RECORD_MMAP2:
        col_mappings_add(&s->maps, body, own);
        return 0;
    case PERF_RECORD_COMM:
        on_comm(s, &h, body, own);
        return 0;
    case PERF_RECORD_FORK:
        if (own >= sizeof task) {
            memcpy(task, body, sizeof task);
            if (task[0] != task[1])
                col_mappings_fork(&s->maps, task[0], task[1]);
        }
        return 0;
    case PERF_RECORD_LOST:
        if (own < sizeof lost)
            return 0;
        memcpy(lost, body, sizeof lost);
        s->lost += (int64_t)lost[1];
        return col_drain_loss(d, "stacks", "sample or mapping lost: the kernel's ring was full", (int64_t)lost[1],
                              (int64_t)time, (int64_t)time);
    default:
        return 0;
    }
}

/* What is left begins the buffer again. */
static int forget_first(struct col_stacks *s, size_t done)
{
    struct col_buffer rest = {0};
    for (size_t i = done; i < s->count; i++) {
        struct perf_event_header h;
        memcpy(&h, s->bytes.bytes + s->waiting[i].at, sizeof h);
        size_t at = rest.used;
        col_buffer_put(&rest, s->bytes.bytes + s->waiting[i].at, h.size);
        s->waiting[i - done] = (struct waiting){s->waiting[i].time, at};
    }
    s->count -= done;
    free(s->bytes.bytes);
    s->bytes = rest;
    return rest.failed ? TACHO_ENOMEM : 0;
}

int col_stacks_drain(struct col_stacks *s, struct col_drain *d, bool last)
{
    uint64_t now = (uint64_t)col_clock_now();
    size_t done = 0;
    int rc = 0;
    for (size_t i = 0; i < s->rings && rc == 0; i++)
        rc = read_ring(s, &s->ring[i]);
    if (rc || !s->count)
        return rc;
    qsort(s->waiting, s->count, sizeof *s->waiting, order_waiting);
    for (; done < s->count && rc == 0; done += rc == 0) {
        if (!last && s->waiting[done].time + LATE_NS > now)
            break;
        rc = on_record(s, d, s->bytes.bytes + s->waiting[done].at, s->waiting[done].time);
    }
    int kept = forget_first(s, done);
    return rc ? rc : kept;
}

int col_stacks_finish(struct col_stacks *s, struct col_drain *d)
{
    const char *fix, *refused = col_stacks_refused(s, &fix);
    char text[512];
    int rc;
    if (refused) {
        snprintf(text, sizeof text, "not sampled: %s%s%s", refused, fix[0] ? "; " : "", fix);
        rc = store_run_set(d->db, "stacks", text);
        return rc ? rc : col_drain_loss(d, "stacks", text, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    }
    rc = col_stacks_drain(s, d, true);
    rc = rc ? rc
            : store_run_set(d->db, "stacks",
                            s->unwind ? "sampled: cpu-clock, unwind tables" : "sampled: cpu-clock, frame pointers");
    rc = rc ? rc : store_run_set_int(d->db, "stacks.hz", s->hz);
    rc = rc ? rc : store_run_set_int(d->db, "stacks.period_ns", 1000000000 / s->hz);
    return rc ? rc
              : store_run_set(d->db, "stacks.kernel",
                              s->kernel ? "sampled" : "not sampled: kernel.perf_event_paranoid allows user code only");
}

void col_stacks_reset(struct col_stacks *s)
{
    s->unknown = s->kernel_frame = 0;
    col_symbols_forget(s->symbols);
    for (size_t i = 0; i < s->threads; i++)
        s->thread[i].track = 0;
}

/* Was it written because we asked for it (target.c)? By its first function: Python's and oneDNN's names. Other compilers write
 * maps because their user wants them. */
static bool is_asked_for(const char *path)
{
    char line[512] = "";
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    const char *name = fgets(line, sizeof line, f) ? strchr(line, ' ') : NULL;
    name = name ? strchr(name + 1, ' ') : NULL;
    fclose(f);
    return name && (strncmp(name + 1, "py::", 4) == 0 || strncmp(name + 1, "jit_", 4) == 0);
}

/* Such maps go with the run. */
static void remove_maps(const struct col_stacks *s)
{
    for (size_t i = 0; i < s->maps.count; i++) {
        char path[64];
        struct stat st;
        snprintf(path, sizeof path, "/tmp/perf-%d.map", s->maps.space[i].pid);
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_ctim.tv_sec >= s->begun &&
            is_asked_for(path))
            unlink(path);
    }
}

void col_stacks_close(struct col_stacks *s)
{
    if (!s)
        return;
    if (!s->error && !getenv("PYTHONPERFSUPPORT") && !getenv("ONEDNN_JIT_PROFILE"))
        remove_maps(s);
    close_rings(s);
    for (size_t i = 0; i < s->fds; i++)
        close(s->fd[i]);
    free(s->fd);
    free(s->bytes.bytes);
    free(s->waiting);
    free(s->thread);
    col_unwind_free(s->unwind);
    col_mappings_free(&s->maps);
    col_symbols_free(s->symbols);
    free(s);
}

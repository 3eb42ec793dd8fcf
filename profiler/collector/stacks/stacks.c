/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/collector/stacks/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/collector/stacks/mappings.h"
#include "profiler/collector/stacks/stacks_ring.h"
#include "profiler/collector/stacks/symbols.h"
#include "profiler/collector/stacks/unwind.h"

#define LATE_NS    1000000    /* records of another CPU that are older than this have arrived */
#define FRAMES_MAX 512u       /* of one stack */
#define KNOWN_MOST (1u << 20) /* frames whose stacks are remembered */

struct thread {
    int32_t pid, tid; /* tid 0: a free place */
    int64_t track;    /* 0: not in the file yet */
    char name[16];
};

/* The stack that a frame at this address makes of its caller's stack. Spares the look-ups of its
 * name and of the row. */
struct known {
    uint64_t generation, address; /* of the process, col_mappings_generation; 0: a free place */
    int64_t parent, stack;
    int64_t nameless; /* the frame's string where only its file is known, else 0 */
};

struct col_stacks {
    int error;
    time_t begun;
    struct col_rings rings;
    struct thread *thread; /* a hash table, its size a power of two */
    size_t threads, thread_room;
    struct known *known; /* likewise */
    size_t knowns, known_room;
    struct col_mappings maps;
    struct col_symbols *symbols;
    struct col_unwind *unwind;                /* NULL: by frame pointers */
    int64_t unknown, kernel_frame, cut_frame; /* string ids, 0: not yet */
    int64_t samples, cut, stuck;
};

struct col_stacks *col_stacks_open(pid_t pid, int hz, bool frame_pointers)
{
    struct col_stacks *s = calloc(1, sizeof *s);
    if (!s || !(s->symbols = col_symbols_new())) {
        free(s);
        return NULL;
    }
    s->begun = time(NULL);
    if (!frame_pointers)
        s->unwind = col_unwind_new(&s->maps);
    s->rings = (struct col_rings){
        .hz = hz, .stack_bytes = s->unwind ? COL_UNWIND_STACK : 0, .kernel = true};
    s->error = col_rings_open(&s->rings, pid);
    if (s->error == EACCES ||
        s->error == EPERM) { /* kernel.perf_event_paranoid 2: user code only */
        s->rings.kernel = false;
        s->error = col_rings_open(&s->rings, pid);
    }
    return s;
}

void col_stacks_add(struct col_stacks *s, pid_t pid)
{
    col_rings_add(&s->rings, pid);
}

const char *col_stacks_refused(const struct col_stacks *s, const char **fix)
{
    *fix = "";
    if (!s->error)
        return NULL;
    if (s->error == EACCES || s->error == EPERM)
        *fix = "sysctl kernel.perf_event_paranoid=2, or give tacho CAP_PERFMON; in a container its "
               "seccomp filter must allow "
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
    return s->rings.kernel;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

static struct thread *place_of(struct thread *list, size_t room, int32_t pid, int32_t tid)
{
    size_t at = (size_t)mixed((uint64_t)(uint32_t)tid, (uint64_t)(uint32_t)pid) & (room - 1);
    while (list[at].tid && (list[at].tid != tid || list[at].pid != pid))
        at = (at + 1) & (room - 1);
    return &list[at];
}

/* NULL: out of memory. It lives until the next call. */
static struct thread *thread_of(struct col_stacks *s, int32_t pid, int32_t tid)
{
    if (2 * s->threads >= s->thread_room) {
        size_t room = s->thread_room ? 2 * s->thread_room : 64;
        struct thread *list = calloc(room, sizeof *list);
        if (!list)
            return NULL;
        for (size_t i = 0; i < s->thread_room; i++)
            if (s->thread[i].tid)
                *place_of(list, room, s->thread[i].pid, s->thread[i].tid) = s->thread[i];
        free(s->thread);
        s->thread = list;
        s->thread_room = room;
    }
    struct thread *x = place_of(s->thread, s->thread_room, pid, tid);
    if (!x->tid) {
        *x = (struct thread){.pid = pid, .tid = tid};
        s->threads++;
    }
    return x;
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
    struct store_track t = {.process = p->id,
                            .kind = "samples",
                            .name = x->name[0] ? x->name : p->program,
                            .tid = x->tid};
    rc = store_track_add(d->db, &t);
    if (rc == 0)
        *track = x->track = t.id;
    return rc;
}

/* A frame's name as a row of string; what it is kept with spares the look-up next time. */
static int frame_text(struct col_drain *d, int64_t *slot, int64_t *id, const char *format,
                      const char *name)
{
    char text[2048];
    int n = snprintf(text, sizeof text, format, name);
    size_t bytes = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    int rc = store_string(d->db, text, bytes, id);
    if (rc == 0)
        *slot = *id;
    return rc;
}

/* The name of what runs at this address. *lasting: it will not get another one. *nameless: only its
 * file is known. */
static int frame(struct col_stacks *s, struct col_drain *d, int32_t pid, uint64_t address,
                 int64_t *id, bool *lasting, bool *nameless)
{
    struct col_mapping *m = col_mappings_find(&s->maps, pid, address);
    struct col_symbol x = {NULL, NULL};
    bool file = m && col_mapping_is_file(m);
    if (file && m->file == UINT32_MAX)
        m->file = col_symbols_file(s->symbols, pid, m->path, m->inode);
    file = file && m->file != UINT32_MAX;
    x = file ? col_symbols_at(s->symbols, m->file, address - m->start + m->offset)
             : col_symbols_in_map(s->symbols, pid, col_mappings_parent(&s->maps, pid), address);
    *lasting = file || x.name;
    *nameless = file && !x.name;
    if (x.name && *x.slot) {
        *id = *x.slot;
        return 0;
    }
    if (x.name)
        return frame_text(d, x.slot, id, "%s", x.name);
    int64_t *slot = file ? col_symbols_file_slot(s->symbols, m->file) : &s->unknown;
    *id = *slot;
    if (*id)
        return 0;
    return file ? frame_text(d, slot, id, "[%s]", col_symbols_file_name(s->symbols, m->file))
                : frame_text(d, slot, id, "%s", "[unknown]");
}

static struct known *known_place(struct known *list, size_t room, const struct known *x)
{
    size_t at = (size_t)mixed(mixed(x->generation, x->address), (uint64_t)x->parent) & (room - 1);
    while (list[at].generation && (list[at].address != x->address || list[at].parent != x->parent ||
                                   list[at].generation != x->generation))
        at = (at + 1) & (room - 1);
    return &list[at];
}

/* Out of memory: it is not remembered. When there are too many, all are forgotten: most are of code
 * that is gone. */
static void remember(struct col_stacks *s, const struct known *x)
{
    if (2 * s->knowns >= s->known_room) {
        size_t room = !s->known_room                   ? 1024
                      : s->known_room < 2 * KNOWN_MOST ? 2 * s->known_room
                                                       : s->known_room;
        struct known *list = calloc(room, sizeof *list);
        if (!list)
            return;
        for (size_t i = 0; room > s->known_room && i < s->known_room; i++)
            if (s->known[i].generation)
                *known_place(list, room, &s->known[i]) = s->known[i];
        if (room == s->known_room)
            s->knowns = 0;
        free(s->known);
        s->known = list;
        s->known_room = room;
    }
    *known_place(s->known, s->known_room, x) = *x;
    s->knowns++;
}

/* Neighbours in a file without symbols are one frame: *nameless is that of the caller, then of this
 * one. */
static int one_more(struct col_stacks *s, struct col_drain *d, int32_t pid, uint64_t address,
                    int64_t *stack, int64_t *nameless)
{
    struct known x = {
        .generation = col_mappings_generation(&s->maps, pid), .address = address, .parent = *stack};
    const struct known *k =
        s->known_room && x.generation ? known_place(s->known, s->known_room, &x) : NULL;
    bool lasting, no_name;
    int64_t id;
    if (k && k->generation) {
        *stack = k->stack;
        *nameless = k->nameless;
        return 0;
    }
    int rc = frame(s, d, pid, address, &id, &lasting, &no_name);
    if (rc == 0 && (!no_name || *nameless != id))
        rc = store_stack(d->db, *stack, id, stack);
    x.stack = *stack;
    x.nameless = *nameless = rc == 0 && no_name ? id : 0;
    if (rc == 0 && lasting && x.generation)
        remember(s, &x);
    return rc;
}

/* A frame that stands for something else than a function. */
static int mark(struct col_drain *d, int64_t *slot, const char *name, int64_t *stack)
{
    int64_t id = *slot;
    int rc = id ? 0 : frame_text(d, slot, &id, "%s", name);
    return rc ? rc : store_stack(d->db, *stack, id, stack);
}

/* Frames from the innermost to the outermost, by one address in each. */
struct chain {
    uint64_t ip[FRAMES_MAX];
    size_t count;
    bool cut;
};

static int stack_of(struct col_stacks *s, struct col_drain *d, int32_t pid, const struct chain *c,
                    bool in_kernel, int64_t *stack)
{
    int64_t nameless = 0;
    *stack = STORE_ABSENT;
    int rc = c->cut ? mark(d, &s->cut_frame, "[truncated]", stack) : 0;
    for (size_t i = c->count; i-- > 0 && rc == 0;)
        rc = one_more(s, d, pid, c->ip[i], stack, &nameless);
    if (rc == 0 && in_kernel)
        rc = mark(d, &s->kernel_frame, "[kernel]", stack);
    return rc;
}

/* The chain of frame pointers, as the kernel followed it: contexts are not frames, and return
 * addresses point behind the call. It ends where it leaves code: there the frame pointer was used
 * for something else. */
static void follow(const struct col_stacks *s, int32_t pid, const uint8_t *at, uint64_t n,
                   struct chain *c)
{
    c->count = 0;
    for (uint64_t i = 0; i < n && c->count < FRAMES_MAX; i++) {
        uint64_t ip;
        memcpy(&ip, at + 8 * i, sizeof ip);
        if (ip >= PERF_CONTEXT_MAX || !ip)
            continue;
        if (c->count && !col_mappings_find(&s->maps, pid, ip - 1))
            break;
        c->ip[c->count] = c->count ? ip - 1 : ip;
        c->count++;
    }
    c->cut = c->count >= COL_STACKS_CHAIN;
}

/* What follows the frame pointers' chain in a sample: abi, registers, size, bytes of the stack, how
 * many of them are its own. c has the chain; a longer one takes its place, and a whole one. Where
 * the bytes end too early, the chain may go on. */
static void unwind(struct col_stacks *s, int32_t pid, const uint8_t *at, size_t bytes,
                   struct chain *c)
{
    /* where PERF_REG_X86_* (ax bx cx dx si di bp sp ip, r8 ...) stand in the order of DWARF */
    static const uint8_t place[COL_UNWIND_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                        8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t head[1 + COL_UNWIND_REGISTERS + 1], reg[COL_UNWIND_REGISTERS], own;
    struct chain found;
    enum col_unwind_end end;
    if (bytes < sizeof head)
        return;
    memcpy(head, at, sizeof head);
    uint64_t size = head[1 + COL_UNWIND_REGISTERS];
    if (head[0] != PERF_SAMPLE_REGS_ABI_64 || !size || size > bytes - sizeof head ||
        bytes - sizeof head - size < sizeof own)
        return;
    memcpy(&own, at + sizeof head + size, sizeof own);
    own = own < size ? own : size;
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        reg[place[i]] = head[1 + i];
    found.count = col_unwind(s->unwind, pid, reg, at + sizeof head, own, own == size, found.ip,
                             FRAMES_MAX, &end);
    found.cut = end == COL_UNWIND_CUT;
    s->stuck += end == COL_UNWIND_STUCK;
    for (size_t i = 0; found.cut && i < c->count && found.count < FRAMES_MAX; i++)
        if (c->ip[i] == found.ip[found.count - 1]) {
            for (size_t k = i + 1; k < c->count && found.count < FRAMES_MAX; k++)
                found.ip[found.count++] = c->ip[k];
            found.cut = i + 1 == c->count || c->cut || found.count == FRAMES_MAX;
        }
    if (end == COL_UNWIND_WHOLE || found.count >= c->count)
        *c = found;
}

static int on_sample(struct col_stacks *s, struct col_drain *d, const struct perf_event_header *h,
                     const uint8_t *body, size_t bytes, uint64_t time)
{
    int32_t id[2];
    uint64_t n;
    int64_t track, stack;
    struct chain c;
    if (bytes < 24)
        return 0;
    memcpy(id, body, sizeof id);
    memcpy(&n, body + 16, sizeof n);
    if (n > (bytes - 24) / 8)
        return 0;
    struct thread *x = thread_of(s, id[0], id[1]);
    if (!x)
        return TACHO_ENOMEM;
    col_mappings_learn(&s->maps, id[0]);
    follow(s, id[0], body + 24, n, &c);
    if (s->unwind)
        unwind(s, id[0], body + 24 + 8 * n, bytes - 24 - 8 * n, &c);
    bool in_kernel = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    int rc = track_of(d, x, (int64_t)time, &track);
    if (rc == 0)
        rc = stack_of(s, d, id[0], &c, in_kernel, &stack);
    if (rc == 0)
        rc = store_sample_add(
            d->db, &(struct store_sample){.track = track, .time = (int64_t)time, .stack = stack});
    s->samples += rc == 0;
    s->cut += rc == 0 && c.cut;
    return rc;
}

/* Was it written because we asked for it (target.c)? By its first function: Python's and oneDNN's
 * names. Other compilers write maps because their user wants them. */
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
static void remove_map(const struct col_stacks *s, int32_t pid)
{
    char path[64];
    struct stat st;
    if (!pid || getenv("PYTHONPERFSUPPORT") || getenv("ONEDNN_JIT_PROFILE"))
        return;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        st.st_ctim.tv_sec >= s->begun && is_asked_for(path))
        unlink(path);
}

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

/* pid, tid, then its name, ended by NUL and padded. */
static void on_comm(struct col_stacks *s, const struct perf_event_header *h, const uint8_t *body,
                    size_t bytes)
{
    int32_t id[2];
    if (bytes < 9)
        return;
    memcpy(id, body, sizeof id);
    if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
        col_mappings_drop(&s->maps, id[0]);
    struct thread *x = thread_of(s, id[0], id[1]);
    if (x)
        snprintf(x->name, sizeof x->name, "%.*s", (int)(bytes - 8), (const char *)body + 8);
}

/* A child, or a new thread: it is called like who made it, until it says something else. */
static void on_fork(struct col_stacks *s, const int32_t task[4])
{
    struct thread from = {0}, *x;
    if (task[0] != task[1])
        col_mappings_fork(&s->maps, task[0], task[1]);
    if ((x = thread_of(s, task[1], task[3])))
        from = *x;
    if (from.name[0] && (x = thread_of(s, task[0], task[2])))
        memcpy(x->name, from.name, sizeof x->name);
}

static int on_record(struct col_stacks *s, struct col_drain *d, const uint8_t *record,
                     uint64_t time)
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
            on_fork(s, task);
        }
        return 0;
    case PERF_RECORD_EXIT:
        if (own >= sizeof task) {
            memcpy(task, body, sizeof task);
            if (task[0] == task[2])
                remove_map(s, col_mappings_end(&s->maps, task[0]));
        }
        return 0;
    case PERF_RECORD_LOST:
        if (own < sizeof lost)
            return 0;
        memcpy(lost, body, sizeof lost);
        return col_drain_loss(d, "stacks", "sample or mapping lost: the kernel's ring was full",
                              (int64_t)lost[1], (int64_t)time, (int64_t)time);
    default:
        return 0;
    }
}

int col_stacks_drain(struct col_stacks *s, struct col_drain *d, bool last)
{
    uint64_t before = last ? UINT64_MAX : (uint64_t)col_clock_now() - LATE_NS, time;
    const uint8_t *record;
    int rc = 0;
    col_symbols_look_again(s->symbols);
    col_rings_look(&s->rings);
    while (rc == 0 && (record = col_rings_next(&s->rings, before, &time)))
        if ((rc = on_record(s, d, record, time)) == 0)
            col_rings_taken(&s->rings);
    return rc;
}

int col_stacks_finish(struct col_stacks *s, struct col_drain *d)
{
    const char *fix, *refused = col_stacks_refused(s, &fix);
    char text[512];
    int rc;
    if (refused) {
        snprintf(text, sizeof text, "not sampled: %s%s%s", refused, fix[0] ? "; " : "", fix);
        rc = store_run_set(d->db, "stacks", text);
        return rc ? rc
                  : col_drain_loss(d, "stacks", text, STORE_ABSENT, STORE_ABSENT, STORE_ABSENT);
    }
    rc = col_stacks_drain(s, d, true);
    rc = rc ? rc
            : store_run_set(d->db, "stacks",
                            s->unwind ? "sampled: cpu-clock, unwind tables"
                                      : "sampled: cpu-clock, frame pointers");
    rc = rc ? rc : store_run_set_int(d->db, "stacks.hz", s->rings.hz);
    rc = rc ? rc : store_run_set_int(d->db, "stacks.period_ns", 1000000000 / s->rings.hz);
    return rc ? rc
              : store_run_set(
                    d->db, "stacks.kernel",
                    s->rings.kernel
                        ? "sampled"
                        : "not sampled: kernel.perf_event_paranoid allows user code only");
}

void col_stacks_reset(struct col_stacks *s)
{
    s->unknown = s->kernel_frame = s->cut_frame = 0;
    col_symbols_forget(s->symbols);
    for (size_t i = 0; i < s->thread_room; i++)
        s->thread[i].track = 0;
    free(s->known);
    s->known = NULL;
    s->knowns = s->known_room = 0;
}

void col_stacks_close(struct col_stacks *s)
{
    if (!s)
        return;
    for (size_t i = 0; !s->error && i < s->maps.count; i++)
        remove_map(s, s->maps.space[i].pid);
    col_rings_close(&s->rings);
    free(s->thread);
    free(s->known);
    col_unwind_free(s->unwind);
    col_mappings_free(&s->maps);
    col_symbols_free(s->symbols);
    free(s);
}

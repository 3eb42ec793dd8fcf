/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the kernel's records into rows. A sample becomes a chain of addresses (unwound, or followed
 * by frame pointers), and each frame of it one row of the table stack that points to its caller.
 * Frames that were stored before are remembered by address and caller, because almost every sample
 * repeats most of an earlier stack. The other records keep the mappings and names of processes up
 * to date.
 */
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

#define LATE_NS    1000000    /* older records of all CPUs have arrived */
#define FRAMES_MAX 512u       /* of one stack */
#define KNOWN_MOST (1u << 20) /* frames whose stacks are remembered */

struct thread {
    int32_t pid, tid; /* tid 0: a free place */
    int64_t track;    /* 0: not in the file yet */
    char name[16];
};

/* The stack row that a frame at this address adds to its caller's. Saves looking up the name and
 * the row again. */
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
    struct col_stacks *stacks = calloc(1, sizeof *stacks);
    if (!stacks || !(stacks->symbols = col_symbols_new())) {
        free(stacks);
        return NULL;
    }
    stacks->begun = time(NULL);
    if (!frame_pointers)
        stacks->unwind = col_unwind_new(&stacks->maps);
    stacks->rings = (struct col_rings){
        .hz = hz, .stack_bytes = stacks->unwind ? COL_UNWIND_STACK : 0, .kernel = true};
    stacks->error = col_rings_open(&stacks->rings, pid);
    /* kernel.perf_event_paranoid 2 allows user code only */
    if (stacks->error == EACCES || stacks->error == EPERM) {
        stacks->rings.kernel = false;
        stacks->error = col_rings_open(&stacks->rings, pid);
    }
    return stacks;
}

void col_stacks_add(struct col_stacks *stacks, pid_t pid)
{
    col_rings_add(&stacks->rings, pid);
}

const char *col_stacks_refused(const struct col_stacks *stacks, const char **fix)
{
    *fix = "";
    if (!stacks->error)
        return NULL;
    if (stacks->error == EACCES || stacks->error == EPERM)
        *fix = "sysctl kernel.perf_event_paranoid=2, or give tacho CAP_PERFMON; in a container its "
               "seccomp filter must allow "
               "perf_event_open";
    else if (stacks->error == ENOSYS || stacks->error == ENOENT || stacks->error == EOPNOTSUPP)
        *fix = "a kernel with CONFIG_PERF_EVENTS";
    return strerror(stacks->error);
}

bool col_stacks_unwinds(const struct col_stacks *stacks)
{
    return stacks->unwind != NULL;
}

bool col_stacks_sees_kernel(const struct col_stacks *stacks)
{
    return stacks->rings.kernel;
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

/* Mixes two numbers into a hash (the multiplier of Fibonacci hashing, a step of MurmurHash3). */
static uint64_t mixed(uint64_t left, uint64_t right)
{
    uint64_t hash = (left ^ right * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

static struct thread *place_of(struct thread *list, size_t room, int32_t pid, int32_t tid)
{
    size_t place = (size_t)mixed((uint64_t)(uint32_t)tid, (uint64_t)(uint32_t)pid) & (room - 1);
    while (list[place].tid && (list[place].tid != tid || list[place].pid != pid))
        place = (place + 1) & (room - 1);
    return &list[place];
}

/* The entry of a thread, made if it is new. NULL: out of memory. Valid until the next call. */
static struct thread *thread_of(struct col_stacks *stacks, int32_t pid, int32_t tid)
{
    if (2 * stacks->threads >= stacks->thread_room) {
        size_t room = stacks->thread_room ? 2 * stacks->thread_room : 64;
        struct thread *list = calloc(room, sizeof *list);
        if (!list)
            return NULL;
        for (size_t i = 0; i < stacks->thread_room; i++)
            if (stacks->thread[i].tid)
                *place_of(list, room, stacks->thread[i].pid, stacks->thread[i].tid) =
                    stacks->thread[i];
        free(stacks->thread);
        stacks->thread = list;
        stacks->thread_room = room;
    }
    struct thread *thread = place_of(stacks->thread, stacks->thread_room, pid, tid);
    if (!thread->tid) {
        *thread = (struct thread){.pid = pid, .tid = tid};
        stacks->threads++;
    }
    return thread;
}

/* The thread's track of kind `samples`, added when the thread is first seen on a CPU. */
static int track_of(struct col_drain *drain, struct thread *thread, int64_t time, int64_t *track)
{
    struct col_process *process = col_process_of(drain, thread->pid);
    int rc = 0;
    *track = thread->track;
    if (thread->track)
        return 0;
    if (!process)
        rc = col_drain_process(drain, thread->pid, time, thread->name[0] ? thread->name : NULL,
                               &process);
    if (rc)
        return rc;
    struct store_track added = {.process = process->id,
                                .kind = "samples",
                                .name = thread->name[0] ? thread->name : process->program,
                                .tid = thread->tid};
    rc = store_track_add(drain->db, &added);
    if (rc == 0)
        *track = thread->track = added.id;
    return rc;
}

/* Stores the name of a frame as a row of the table string. *slot keeps the id for the next time. */
static int frame_text(struct col_drain *drain, int64_t *slot, int64_t *id, const char *format,
                      const char *name)
{
    char text[2048];
    *id = *slot;
    if (*id)
        return 0;
    int length = snprintf(text, sizeof text, format, name);
    int rc = store_string(drain->db, text, length < 0 ? 0 : strlen(text), id);
    if (rc == 0)
        *slot = *id;
    return rc;
}

/* Finds the name of the function at an address: its symbol, the entry of a perf map, or its file in
 * brackets. *lasting: the name is final and may be cached. *nameless: only the file is known. */
static int frame_name(struct col_stacks *stacks, struct col_drain *drain, int32_t pid,
                      uint64_t address, int64_t *id, bool *lasting, bool *nameless)
{
    struct col_mapping *mapping = col_mappings_find(&stacks->maps, pid, address);
    struct col_symbol symbol = {NULL, NULL};
    bool file = mapping && col_mapping_is_file(mapping);
    if (file && mapping->file == UINT32_MAX)
        mapping->file = col_symbols_file(stacks->symbols, pid, mapping->path, mapping->inode);
    file = file && mapping->file != UINT32_MAX;
    if (file)
        symbol = col_symbols_at(stacks->symbols, mapping->file,
                                address - mapping->start + mapping->offset);
    else
        symbol = col_symbols_in_map(stacks->symbols, pid, col_mappings_parent(&stacks->maps, pid),
                                    address);
    *lasting = file || symbol.name;
    *nameless = file && !symbol.name;
    if (symbol.name)
        return frame_text(drain, symbol.slot, id, "%s", symbol.name);
    if (file)
        return frame_text(drain, col_symbols_file_slot(stacks->symbols, mapping->file), id, "[%s]",
                          col_symbols_file_name(stacks->symbols, mapping->file));
    return frame_text(drain, &stacks->unknown, id, "%s", "[unknown]");
}

/* The entry of a frame in the table, or the free place where it belongs. */
static struct known *known_place(struct known *list, size_t room, const struct known *known)
{
    size_t place =
        (size_t)mixed(mixed(known->generation, known->address), (uint64_t)known->parent) &
        (room - 1);
    while (list[place].generation &&
           (list[place].address != known->address || list[place].parent != known->parent ||
            list[place].generation != known->generation))
        place = (place + 1) & (room - 1);
    return &list[place];
}

/* Remembers the stack row of a frame. The table doubles up to KNOWN_MOST frames; beyond that it is
 * emptied, because most of its frames are of code that is gone. Out of memory: not remembered. */
static void remember(struct col_stacks *stacks, const struct known *known)
{
    if (2 * stacks->knowns >= stacks->known_room) {
        size_t room = stacks->known_room ? stacks->known_room : 512;
        if (room < 2 * KNOWN_MOST)
            room *= 2;
        struct known *list = calloc(room, sizeof *list);
        if (!list)
            return;
        for (size_t i = 0; room > stacks->known_room && i < stacks->known_room; i++)
            if (stacks->known[i].generation)
                *known_place(list, room, &stacks->known[i]) = stacks->known[i];
        if (room == stacks->known_room)
            stacks->knowns = 0;
        free(stacks->known);
        stacks->known = list;
        stacks->known_room = room;
    }
    *known_place(stacks->known, stacks->known_room, known) = *known;
    stacks->knowns++;
}

/* Adds one frame on top of *stack. Neighbouring frames in a file without symbols become one: on
 * entry *nameless is the caller's name if only its file is known, on return that of this frame. */
static int push_frame(struct col_stacks *stacks, struct col_drain *drain, int32_t pid,
                      uint64_t address, int64_t *stack, int64_t *nameless)
{
    struct known wanted = {.generation = col_mappings_generation(&stacks->maps, pid),
                           .address = address,
                           .parent = *stack};
    const struct known *found = stacks->known_room && wanted.generation
                                    ? known_place(stacks->known, stacks->known_room, &wanted)
                                    : NULL;
    bool lasting, no_name;
    int64_t id;
    if (found && found->generation) {
        *stack = found->stack;
        *nameless = found->nameless;
        return 0;
    }
    int rc = frame_name(stacks, drain, pid, address, &id, &lasting, &no_name);
    if (rc == 0 && (!no_name || *nameless != id))
        rc = store_stack(drain->db, *stack, id, stack);
    wanted.stack = *stack;
    wanted.nameless = *nameless = rc == 0 && no_name ? id : 0;
    if (rc == 0 && lasting && wanted.generation)
        remember(stacks, &wanted);
    return rc;
}

/* Adds a frame that is not a function, such as "[kernel]". */
static int push_mark(struct col_drain *drain, int64_t *slot, const char *name, int64_t *stack)
{
    int64_t id;
    int rc = frame_text(drain, slot, &id, "%s", name);
    return rc ? rc : store_stack(drain->db, *stack, id, stack);
}

/* The frames of a sample from the innermost to the outermost, one address in each. */
struct chain {
    uint64_t ip[FRAMES_MAX];
    size_t count;
    bool cut;
};

/* Stores the stack of a sample, outermost frame first. */
static int store_chain(struct col_stacks *stacks, struct col_drain *drain, int32_t pid,
                       const struct chain *chain, bool in_kernel, int64_t *stack)
{
    int64_t nameless = 0;
    *stack = STORE_ABSENT;
    int rc = chain->cut ? push_mark(drain, &stacks->cut_frame, "[truncated]", stack) : 0;
    for (size_t i = chain->count; i-- > 0 && rc == 0;)
        rc = push_frame(stacks, drain, pid, chain->ip[i], stack, &nameless);
    if (rc == 0 && in_kernel)
        rc = push_mark(drain, &stacks->kernel_frame, "[kernel]", stack);
    return rc;
}

/* Reads the chain of frame pointers as the kernel followed it. Context markers are skipped, and a
 * return address is moved back into its call instruction. The chain ends where it leaves mapped
 * code: there the frame pointer register held something else. */
static void follow(const struct col_stacks *stacks, int32_t pid, const uint8_t *chain_bytes,
                   uint64_t length, struct chain *chain)
{
    chain->count = 0;
    for (uint64_t i = 0; i < length && chain->count < FRAMES_MAX; i++) {
        uint64_t ip;
        memcpy(&ip, chain_bytes + 8 * i, sizeof ip);
        if (ip >= PERF_CONTEXT_MAX || !ip)
            continue;
        if (chain->count && !col_mappings_find(&stacks->maps, pid, ip - 1))
            break;
        chain->ip[chain->count] = chain->count ? ip - 1 : ip;
        chain->count++;
    }
    chain->cut = chain->count >= COL_STACKS_CHAIN;
}

/* Unwinds a sample by tables. `dump` is the part of the record after the chain of frame pointers:
 * abi, registers, size, bytes of the stack, how many of them are valid. The result replaces `chain`
 * if it is complete or not shorter. Where the copied bytes end too early, the rest of the chain of
 * frame pointers is appended. */
static void unwind(struct col_stacks *stacks, int32_t pid, const uint8_t *dump, size_t bytes,
                   struct chain *chain)
{
    /* the DWARF number of each PERF_REG_X86_* (ax bx cx dx si di bp sp ip, r8 ...) */
    static const uint8_t place[COL_UNWIND_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                        8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t head[1 + COL_UNWIND_REGISTERS + 1], reg[COL_UNWIND_REGISTERS], own;
    struct chain found;
    enum col_unwind_end end;
    if (bytes < sizeof head)
        return;
    memcpy(head, dump, sizeof head);
    uint64_t size = head[1 + COL_UNWIND_REGISTERS];
    if (head[0] != PERF_SAMPLE_REGS_ABI_64 || !size || size > bytes - sizeof head ||
        bytes - sizeof head - size < sizeof own)
        return;
    memcpy(&own, dump + sizeof head + size, sizeof own);
    own = own < size ? own : size;
    for (int i = 0; i < COL_UNWIND_REGISTERS; i++)
        reg[place[i]] = head[1 + i];
    found.count = col_unwind(stacks->unwind, pid, reg, dump + sizeof head, own, own == size,
                             found.ip, FRAMES_MAX, &end);
    found.cut = end == COL_UNWIND_CUT;
    stacks->stuck += end == COL_UNWIND_STUCK;
    for (size_t i = 0; found.cut && i < chain->count && found.count < FRAMES_MAX; i++)
        if (chain->ip[i] == found.ip[found.count - 1]) {
            for (size_t next = i + 1; next < chain->count && found.count < FRAMES_MAX; next++)
                found.ip[found.count++] = chain->ip[next];
            found.cut = i + 1 == chain->count || chain->cut || found.count == FRAMES_MAX;
        }
    if (end == COL_UNWIND_WHOLE || found.count >= chain->count)
        *chain = found;
}

/* A sample: pid, tid, time, length and addresses of the chain of frame pointers, then registers and
 * stack. Becomes one row of the table sample on the track of its thread. */
static int on_sample(struct col_stacks *stacks, struct col_drain *drain,
                     const struct perf_event_header *header, const uint8_t *body, size_t bytes,
                     uint64_t time)
{
    int32_t ids[2];
    uint64_t length;
    int64_t track, stack;
    struct chain chain;
    if (bytes < 24)
        return 0;
    memcpy(ids, body, sizeof ids);
    memcpy(&length, body + 16, sizeof length);
    if (length > (bytes - 24) / 8)
        return 0;
    struct thread *thread = thread_of(stacks, ids[0], ids[1]);
    if (!thread)
        return TACHO_ENOMEM;
    col_mappings_learn(&stacks->maps, ids[0]);
    follow(stacks, ids[0], body + 24, length, &chain);
    if (stacks->unwind)
        unwind(stacks, ids[0], body + 24 + 8 * length, bytes - 24 - 8 * length, &chain);
    if (!col_has_room_for_sample(drain, (int64_t)time))
        return 0;
    bool in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    int rc = track_of(drain, thread, (int64_t)time, &track);
    if (rc == 0)
        rc = store_chain(stacks, drain, ids[0], &chain, in_kernel, &stack);
    if (rc == 0)
        rc = store_sample_add(
            drain->db,
            &(struct store_sample){.track = track, .time = (int64_t)time, .stack = stack});
    stacks->samples += rc == 0;
    stacks->cut += rc == 0 && chain.cut;
    return rc;
}

/* Was the perf map written because tacho asked for it (target.c)? Decided by the name of its first
 * function: Python and oneDNN write maps on request; other compilers only if their user wants it.
 */
static bool is_asked_for(const char *path)
{
    char line[512] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const char *name = fgets(line, sizeof line, file) ? strchr(line, ' ') : NULL;
    name = name ? strchr(name + 1, ' ') : NULL;
    fclose(file);
    return name && (strncmp(name + 1, "py::", 4) == 0 || strncmp(name + 1, "jit_", 4) == 0);
}

/* Removes the perf map of a process if it exists only because of this run. */
static void remove_map(const struct col_stacks *stacks, int32_t pid)
{
    char path[64];
    struct stat stat;
    if (!pid || getenv("PYTHONPERFSUPPORT") || getenv("ONEDNN_JIT_PROFILE"))
        return;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
    if (lstat(path, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_uid == geteuid() &&
        stat.st_ctim.tv_sec >= stacks->begun && is_asked_for(path))
        unlink(path);
}

/* ---- records ------------------------------------------------------------------------------------------------------------------ */

/* The body has pid, tid and the new name, terminated and padded. */
static void on_comm(struct col_stacks *stacks, const struct perf_event_header *header,
                    const uint8_t *body, size_t bytes)
{
    int32_t ids[2];
    if (bytes < 9)
        return;
    memcpy(ids, body, sizeof ids);
    if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
        col_mappings_drop(&stacks->maps, ids[0]);
    struct thread *thread = thread_of(stacks, ids[0], ids[1]);
    if (thread)
        snprintf(thread->name, sizeof thread->name, "%.*s", (int)(bytes - 8),
                 (const char *)body + 8);
}

/* A new process or thread has the name of the one that made it until it sets another. */
static void on_fork(struct col_stacks *stacks, const int32_t task[4])
{
    struct thread from = {0}, *thread;
    if (task[0] != task[1])
        col_mappings_fork(&stacks->maps, task[0], task[1]);
    if ((thread = thread_of(stacks, task[1], task[3])))
        from = *thread;
    if (from.name[0] && (thread = thread_of(stacks, task[0], task[2])))
        memcpy(thread->name, from.name, sizeof thread->name);
}

/* Takes one record of the rings: writes samples and losses, and updates the mappings of processes
 * and the names of threads. */
static int on_record(struct col_stacks *stacks, struct col_drain *drain, const uint8_t *record,
                     uint64_t time)
{
    struct perf_event_header header;
    memcpy(&header, record, sizeof header);
    const uint8_t *body = record + sizeof header;
    size_t bytes = header.size - sizeof header,
           own = bytes < 16 ? 0 : bytes - 16; /* without the trailer */
    uint64_t lost[2] = {0};
    int32_t task[4] = {0}; /* pid, parent's pid, tid, parent's tid */
    memcpy(task, body, own < sizeof task ? 0 : sizeof task);
    memcpy(lost, body, own < sizeof lost ? 0 : sizeof lost);
    switch (header.type) {
    case PERF_RECORD_SAMPLE:
        return on_sample(stacks, drain, &header, body, bytes, time);
    case PERF_RECORD_MMAP2:
        col_mappings_add(&stacks->maps, body, own);
        return 0;
    case PERF_RECORD_COMM:
        on_comm(stacks, &header, body, own);
        return 0;
    case PERF_RECORD_FORK:
        if (own >= sizeof task)
            on_fork(stacks, task);
        return 0;
    case PERF_RECORD_EXIT:
        if (own >= sizeof task && task[0] == task[2])
            remove_map(stacks, col_mappings_end(&stacks->maps, task[0]));
        return 0;
    case PERF_RECORD_LOST:
        if (own < sizeof lost)
            return 0;
        return col_drain_loss(drain, "stacks", "sample or mapping lost: the kernel's ring was full",
                              (int64_t)lost[1], (int64_t)time, (int64_t)time);
    default:
        return 0;
    }
}

int col_stacks_drain(struct col_stacks *stacks, struct col_drain *drain, bool last)
{
    uint64_t before = last ? UINT64_MAX : (uint64_t)col_clock_now() - LATE_NS, time;
    const uint8_t *record;
    int rc = 0;
    col_symbols_look_again(stacks->symbols);
    col_rings_look(&stacks->rings);
    while (rc == 0 && (record = col_rings_next(&stacks->rings, before, &time)))
        if ((rc = on_record(stacks, drain, record, time)) == 0)
            col_rings_taken(&stacks->rings);
    return rc;
}

int col_stacks_finish(struct col_stacks *stacks, struct col_drain *drain)
{
    const char *fix, *refused = col_stacks_refused(stacks, &fix);
    char text[512];
    int rc;
    if (refused) {
        snprintf(text, sizeof text, "not sampled: %s%s%s", refused, fix[0] ? "; " : "", fix);
        rc = store_run_set(drain->db, "stacks", text);
        return rc ? rc : col_drain_loss_uncounted(drain, "stacks", text);
    }
    const char *method =
        stacks->unwind ? "sampled: cpu-clock, unwind tables" : "sampled: cpu-clock, frame pointers";
    const char *kernel = stacks->rings.kernel
                             ? "sampled"
                             : "not sampled: kernel.perf_event_paranoid allows user code only";
    struct col_keys keys = {.db = drain->db, .rc = col_stacks_drain(stacks, drain, true)};
    col_key_text(&keys, "stacks", method);
    col_key_int(&keys, "stacks.hz", stacks->rings.hz);
    col_key_int(&keys, "stacks.period_ns", 1000000000 / stacks->rings.hz);
    col_key_text(&keys, "stacks.kernel", kernel);
    return keys.rc;
}

void col_stacks_reset(struct col_stacks *stacks)
{
    stacks->unknown = stacks->kernel_frame = stacks->cut_frame = 0;
    col_symbols_forget(stacks->symbols);
    for (size_t i = 0; i < stacks->thread_room; i++)
        stacks->thread[i].track = 0;
    free(stacks->known);
    stacks->known = NULL;
    stacks->knowns = stacks->known_room = 0;
}

void col_stacks_close(struct col_stacks *stacks)
{
    if (!stacks)
        return;
    for (size_t i = 0; !stacks->error && i < stacks->maps.count; i++)
        remove_map(stacks, stacks->maps.space[i].pid);
    col_rings_close(&stacks->rings);
    free(stacks->thread);
    free(stacks->known);
    col_unwind_free(stacks->unwind);
    col_mappings_free(&stacks->maps);
    col_symbols_free(stacks->symbols);
    free(stacks);
}

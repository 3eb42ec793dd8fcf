/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool file. It is opened again by name for each growth: a descriptor kept open could be closed
 * by the program and its number used for a file of the program's own. Pages are backed before they
 * are touched (fallocate, then populated), because a write to a sparse page on a full disk raises
 * SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define POOL_NAMES 10000u /* files one pid may leave in the folder (exec, reuse of the pid) */
/* Segments backed when the pool is made: most forked helpers need no more. */
#define POOL_FIRST    2u
#define POOL_RETRY_MS 100u  /* after "no space" */
#define SEGMENT_RETRY 1u    /* ms after "pool at its cap" */
#define ASK_RETRY_MS  2000u /* after the collector lent no file */

/* The pool whose arena a child copies: the latest one that this process or an ancestor of it made.
 */
static struct wire_pool *inherited;
static uint32_t inherited_epoch;

/* Private memory: a child keeps the domains, and enters them in its own pool. */
static _Atomic uint32_t domain_name[WIRE_DOMAINS];
static _Atomic uint32_t domain_count = 1;

uint32_t agent_domain_count(void)
{
    return atomic_load_explicit(&domain_count, memory_order_acquire);
}

uint32_t agent_domain_name(uint32_t index)
{
    return relaxed_load(&domain_name[index]);
}

void agent_domain_add(uint32_t index, uint32_t name)
{
    struct wire_pool *pool = relaxed_load(&agent_process->pool);
    relaxed_store(&domain_name[index], name);
    atomic_store_explicit(&domain_count, index + 1, memory_order_release);
    if (pool) {
        relaxed_store(&pool->domain_name[index], name);
        atomic_store_explicit(&pool->domains, index + 1, memory_order_release);
    }
}

static uint64_t page_up(uint64_t bytes)
{
    return (bytes + 4095) & ~(uint64_t)4095;
}

static void pool_path(char *path, size_t size, const char *prefix, uint32_t pid, uint32_t number)
{
    snprintf(path, size, "%s/%s%u.%u", agent_setup.folder, prefix, pid, number);
}

/* Allocates storage for [offset, offset + bytes) of the file `fd` and populates its pages in the
 * mapping; only the latter if fd < 0, when the file cannot be opened any more (chroot). */
bool agent_pool_back(int fd, char *map, uint64_t offset, uint64_t bytes)
{
    if (fd >= 0) {
        int rc;
        do
            rc = fallocate(fd, 0, (off_t)offset, (off_t)bytes) ? errno : 0;
        while (rc == EINTR);
        if (rc == EOPNOTSUPP || rc == ENOSYS)
            rc = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
        if (rc)
            return false;
    }
    uint64_t from = offset & ~(uint64_t)4095;
    if (madvise(map + from, page_up(offset + bytes) - from, MADV_POPULATE_WRITE) == 0)
        return true;
    /* Old kernels cannot populate: the allocated pages are then faulted in when touched. */
    return errno == EINVAL && fd >= 0;
}

/* The pool's file, by its name. -1 where the name no longer leads to it (a chroot, a removed
 * folder). */
static int pool_reopen(const struct wire_pool *pool)
{
    char path[4096];
    struct stat status;
    pool_path(path, sizeof path, WIRE_PREFIX, agent_process->pid, agent_process->number);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &status) || (uint64_t)status.st_size != pool->file_bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool pool_grow(struct wire_pool *pool, uint64_t offset, uint64_t bytes)
{
    int fd = pool_reopen(pool);
    bool ok = agent_pool_back(fd, (char *)pool, offset, bytes);
    if (fd >= 0)
        close(fd);
    return ok;
}

bool agent_pool_back_arena(uint64_t bytes)
{
    struct wire_pool *pool = relaxed_load(&agent_process->pool);
    uint64_t backed = relaxed_load(&pool->arena_backed);
    if (bytes <= backed)
        return true;
    if (bytes > pool->arena_cap)
        return false;
    uint64_t target = (bytes + WIRE_ARENA_GROW - 1) / WIRE_ARENA_GROW * WIRE_ARENA_GROW;
    if (target > pool->arena_cap)
        target = pool->arena_cap;
    if (!pool_grow(pool, pool->arena_offset + backed, target - backed))
        return false;
    atomic_store_explicit(&pool->arena_backed, target, memory_order_release);
    return true;
}

/* The first of these variables that is set: launchers have different names for one thing. */
static void first_env(char *text, size_t size, const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value) {
            snprintf(text, size, "%s", value);
            return;
        }
    }
}

static void read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

/* Who the process is: for the collector, which matches the pool with /proc and with the ranks of
 * the job. */
static void pool_identify(struct wire_pool *pool)
{
    static const char *const rank[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                       "PMI_RANK", "SLURM_PROCID",         NULL};
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    static const char *const world[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", NULL};
    char text[1024];
    pool->version = WIRE_VERSION;
    pool->clock = agent_setup.clock;
    pool->pid = agent_process->pid;
    pool->parent_pid = (uint32_t)getppid();
    read_text("/proc/sys/kernel/random/boot_id", pool->boot_id, sizeof pool->boot_id);
    first_env(pool->rank, sizeof pool->rank, rank);
    first_env(pool->local_rank, sizeof pool->local_rank, local);
    first_env(pool->world_size, sizeof pool->world_size, world);
    ssize_t length = readlink("/proc/self/exe", text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    const char *base = strrchr(text, '/');
    snprintf(pool->program, sizeof pool->program, "%.127s", base ? base + 1 : text);
    /* start time: field 22; the command in field 2 may hold blanks and brackets, so count from its
     * closing one */
    read_text("/proc/self/stat", text, sizeof text);
    const char *column = strrchr(text, ')');
    for (int field = 2; column && field < 22; field++)
        column = strchr(column + 1, ' ');
    pool->start_ticks = column ? strtoull(column + 1, NULL, 10) : 0;
}

/* Names, domains and losses that the process has before its own pool: of its ancestors, or counted
 * while none could be made. */
static bool pool_inherit(struct wire_pool *pool, int fd)
{
    char *arena = (char *)pool + pool->arena_offset;
    uint64_t used = 16; /* id 0: the empty string */
    if (inherited) {
        uint64_t theirs = atomic_load_explicit(&inherited->arena_used, memory_order_acquire);
        if (theirs > WIRE_ARENA_GROW &&
            !agent_pool_back(fd, (char *)pool, pool->arena_offset, theirs))
            return false;
        memcpy(arena, (char *)inherited + inherited->arena_offset, theirs);
        used = theirs;
    }
    uint64_t backed = (used + WIRE_ARENA_GROW - 1) / WIRE_ARENA_GROW * WIRE_ARENA_GROW;
    relaxed_store(&pool->arena_backed, used > WIRE_ARENA_GROW ? page_up(used) : backed);
    relaxed_store(&pool->arena_used, used);
    uint32_t domains = agent_domain_count();
    for (uint32_t i = 0; i < domains; i++)
        relaxed_store(&pool->domain_name[i], agent_domain_name(i));
    relaxed_store(&pool->domains, domains);
    return true;
}

void agent_pool_detach(void)
{
    if (!inherited)
        return;
    size_t used = inherited->arena_offset +
                  atomic_load_explicit(&inherited->arena_used, memory_order_acquire);
    size_t bytes = inherited->file_bytes;
    void *copy = mmap(NULL, used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, inherited, used);
    if (mmap(inherited, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED)
        memcpy(inherited, copy, used);
    munmap(copy, used);
}

static uint32_t pool_cap(uint64_t segments_offset)
{
    struct rlimit limit;
    uint64_t cap = agent_setup.segment_cap;
    /* Growing a file beyond RLIMIT_FSIZE raises SIGXFSZ: stay below. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        uint64_t room = limit.rlim_cur > segments_offset
                            ? (limit.rlim_cur - segments_offset) / WIRE_SEGMENT_BYTES
                            : 0;
        cap = room < cap ? room : cap;
    }
    return (uint32_t)cap;
}

/* Gives the complete file its name, without replacing one that is there. Old filesystems have no
 * such rename; a hard link does the same. */
static bool pool_publish(uint32_t pid, uint32_t number)
{
    char from[4096], to[4096];
    pool_path(from, sizeof from, WIRE_NEW, pid, number);
    pool_path(to, sizeof to, WIRE_PREFIX, pid, number);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    if (link(from, to))
        return false;
    unlink(from);
    return true;
}

/* Opens new.PID.N with the first N whose names are both free. */
static int pool_create_file(uint32_t pid, uint32_t *number)
{
    char path[4096];
    for (uint32_t tried = *number; tried < POOL_NAMES; tried++) {
        pool_path(path, sizeof path, WIRE_PREFIX, pid, tried);
        if (access(path, F_OK) == 0)
            continue;
        pool_path(path, sizeof path, WIRE_NEW, pid, tried);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        *number = tried;
        return fd;
    }
    return -1;
}

/* The file for a new pool, of the process's own or one that the collector lends. -1: none. */
static int pool_new_file(uint32_t pid, uint32_t *number, struct agent_loan *loan)
{
    struct agent_process *self = agent_process;
    int fd = pool_create_file(pid, number);
    bool denied =
        errno == EACCES || errno == EPERM || errno == ENOENT || errno == ENOTDIR || errno == EROFS;
    loan->connection = -1;
    if (fd >= 0 || !denied || agent_now() < self->ask_at)
        return fd;
    fd = agent_lender_ask(loan);
    if (fd < 0)
        self->ask_at = agent_now() + ASK_RETRY_MS * agent_setup.tick_ms;
    return fd;
}

/* Where the parts of a pool's file begin, and how many segments it may have. */
struct pool_layout {
    uint64_t arena, segments, bytes;
    uint32_t cap, first; /* segments: at most; backed when the pool is made */
};

static struct pool_layout pool_layout(void)
{
    uint64_t directory = (uint64_t)agent_setup.segment_cap * sizeof(struct wire_segment);
    struct pool_layout layout = {.arena = page_up(WIRE_HEADER_BYTES + directory)};
    layout.segments = layout.arena + WIRE_ARENA_BYTES;
    layout.cap = pool_cap(layout.segments);
    layout.first = layout.cap < POOL_FIRST ? layout.cap : POOL_FIRST;
    layout.bytes = layout.segments + (uint64_t)layout.cap * WIRE_SEGMENT_BYTES;
    return layout;
}

/* Fills the head of a new pool. The magic number comes last: a reader that sees it sees the rest.
 */
static bool pool_fill(struct wire_pool *pool, const struct pool_layout *layout, int fd,
                      const struct agent_loan *loan)
{
    pool->segment_bytes = WIRE_SEGMENT_BYTES;
    pool->segment_cap = layout->cap;
    pool->directory_offset = WIRE_HEADER_BYTES;
    pool->arena_offset = layout->arena;
    pool->arena_cap = WIRE_ARENA_BYTES;
    pool->segments_offset = layout->segments;
    pool->file_bytes = layout->bytes;
    pool->created = agent_now();
    relaxed_store(&pool->segments_backed, layout->first);
    if (!pool_inherit(pool, fd))
        return false;
    pool_identify(pool);
    if (loan->connection >= 0) {
        pool->pid = loan->pid;
        pool->start_ticks = loan->start_ticks;
    }
    __atomic_store_n(&pool->magic, WIRE_MAGIC, __ATOMIC_RELEASE);
    return true;
}

/* Makes the pool of the process. The file has another name until it is complete, so the collector
 * never sees half of one. False, with nothing left behind: no space, or no permission. */
static bool pool_build(void)
{
    struct agent_process *self = agent_process;
    char path[4096];
    uint32_t pid = (uint32_t)getpid(), number = 0;
    struct pool_layout layout = pool_layout();
    struct agent_loan loan;
    if (!layout.cap)
        return false;
    int fd = pool_new_file(pid, &number, &loan);
    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t)layout.bytes))
        goto fail_file;
    char *map = mmap(NULL, layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        goto fail_file;
    if (!agent_pool_back(fd, map, 0, layout.arena + WIRE_ARENA_GROW) ||
        !agent_pool_back(fd, map, layout.segments, (uint64_t)layout.first * WIRE_SEGMENT_BYTES))
        goto fail_map;
    self->pid = pid;
    self->number = number;
    struct wire_pool *pool = (struct wire_pool *)(void *)map;
    if (!pool_fill(pool, &layout, fd, &loan))
        goto fail_map;
    if (!(loan.connection >= 0 ? agent_lender_end(&loan, true) : pool_publish(pid, number)))
        goto fail_map;
    close(fd);
    self->directory = (struct wire_segment *)(void *)(map + WIRE_HEADER_BYTES);
    self->segments = map + layout.segments;
    self->epoch = ++inherited_epoch;
    inherited = pool;
    atomic_store_explicit(&self->arena, map + layout.arena, memory_order_release);
    atomic_store(&self->pool, pool);
    return true;
fail_map:
    munmap(map, layout.bytes);
fail_file:
    pool_path(path, sizeof path, WIRE_NEW, pid, number);
    unlink(path);
    if (loan.connection >= 0)
        agent_lender_end(&loan, false);
    close(fd);
    return false;
}

/* A name takes no block: it can be made where a pool cannot. */
static void none_path(char *path, size_t size)
{
    snprintf(path, size, "%s/" WIRE_NONE "%u", agent_setup.folder, (uint32_t)getpid());
}

static enum wire_loss_reason pool_mark_none(void)
{
    char path[4096];
    none_path(path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        close(fd);
        return WIRE_LOSS_NO_SPACE;
    }
    /* Behind a chroot or with another user's rights: the nearest ancestor's pool is still mapped,
     * and counts for this process.
     */
    bool space =
        errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    atomic_store_explicit(&agent_process->ancestor, inherited, memory_order_release);
    return space ? WIRE_LOSS_NO_SPACE : WIRE_LOSS_NO_FOLDER;
}

void agent_pool_never(uint64_t lost)
{
    char from[4096], to[4096 + 32];
    none_path(from, sizeof from);
    snprintf(to, sizeof to, "%s.%" PRIu64, from, lost);
    rename(from, to);
}

bool agent_pool_open(void)
{
    struct agent_process *self = agent_process;
    uint64_t now = agent_now();
    if (relaxed_load(&self->pool))
        return true;
    if (now < relaxed_load(&self->retry_at))
        return false;
    if (!pool_build()) {
        relaxed_store(&self->why, pool_mark_none());
        relaxed_store(&self->retry_at, now + POOL_RETRY_MS * agent_setup.tick_ms);
        return false;
    }
    bool late = false;
    for (uint32_t i = 0; i < WIRE_LOSS_COUNT; i++) {
        uint64_t lost = atomic_exchange(&self->early[i], 0);
        if (lost)
            agent_lose((enum wire_loss_reason)i, lost);
        late |= lost != 0;
    }
    if (late) {
        char path[4096];
        none_path(path, sizeof path);
        unlink(path);
    }
    return true;
}

/* Index of a FREE segment among those that have backing, lowest first: it is the warmest. */
static uint32_t segment_find(struct wire_pool *pool, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        uint32_t free_state = WIRE_FREE;
        if (relaxed_load(&agent_process->directory[i].state) == WIRE_FREE &&
            atomic_compare_exchange_strong_explicit(&agent_process->directory[i].state, &free_state,
                                                    WIRE_TAKEN, memory_order_acquire,
                                                    memory_order_relaxed))
            return i;
    }
    return pool->segment_cap;
}

/* A free segment: one that is backed already, else one of a group that is backed now. segment_cap
 * when none exists, with the reason. */
static uint32_t segment_reserve(struct wire_pool *pool, enum wire_loss_reason *reason)
{
    uint32_t backed = relaxed_load(&pool->segments_backed);
    uint32_t i = segment_find(pool, 0, backed);
    if (i < pool->segment_cap)
        return i;
    *reason = WIRE_LOSS_NO_SEGMENT;
    if (backed == pool->segment_cap)
        return i;
    uint32_t target = (backed + WIRE_GROW) / WIRE_GROW * WIRE_GROW;
    if (target > pool->segment_cap)
        target = pool->segment_cap;
    if (!pool_grow(pool, pool->segments_offset + (uint64_t)backed * WIRE_SEGMENT_BYTES,
                   (uint64_t)(target - backed) * WIRE_SEGMENT_BYTES)) {
        *reason = WIRE_LOSS_NO_SPACE;
        return pool->segment_cap;
    }
    atomic_store_explicit(&pool->segments_backed, target, memory_order_release);
    return segment_find(pool, backed, target);
}

bool agent_pool_take(struct agent_thread *thread, enum wire_loss_reason *reason)
{
    struct wire_pool *pool = relaxed_load(&agent_process->pool);
    uint32_t i = segment_reserve(pool, reason);
    if (i == pool->segment_cap) {
        uint64_t wait =
            (*reason == WIRE_LOSS_NO_SPACE ? POOL_RETRY_MS : SEGMENT_RETRY) * agent_setup.tick_ms;
        relaxed_store(&agent_process->why, (uint32_t)*reason);
        relaxed_store(&agent_process->retry_at, agent_now() + wait);
        return false;
    }
    struct wire_segment *line = &agent_process->directory[i];
    /* the collector may copy the line at any moment; it uses it only once it is ACTIVE */
    relaxed_store(&line->committed, 0);
    relaxed_store(&line->last, 0);
    __atomic_store_n(&line->thread, thread->ordinal, __ATOMIC_RELAXED);
    __atomic_store_n(&line->tid, thread->tid, __ATOMIC_RELAXED);
    __atomic_store_n(&line->chain_seq, thread->chain_seq++, __ATOMIC_RELAXED);
    __atomic_store_n(&line->generation, line->generation + 1, __ATOMIC_RELAXED);
    if (i >= relaxed_load(&pool->segments_peak))
        atomic_store_explicit(&pool->segments_peak, i + 1, memory_order_release);
    atomic_store_explicit(&line->state, WIRE_ACTIVE, memory_order_release);
    thread->line = line;
    thread->base = agent_process->segments + (uint64_t)i * WIRE_SEGMENT_BYTES;
    thread->pos = thread->base;
    thread->end = thread->base + WIRE_SEGMENT_BYTES;
    return true;
}

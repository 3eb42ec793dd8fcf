/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a file that another process has mapped. An access to a mapped page that the file no longer
 * has raises SIGBUS: the few accesses to a mapping are guarded, and the handler leaves them. Large
 * parts are read by pread, which returns fewer bytes instead.
 */
#include "profiler/collector/pool/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/files.h"

#define SPARE_DESCRIPTORS 16 /* kept for /proc and the store */

/* ---- SIGBUS ---------------------------------------------------------------------------------- */

static _Thread_local sigjmp_buf *guard; /* NULL: no guarded access is going on */
static struct sigaction before;

/* An access that is not guarded is repeated with the action of before, which ends the process. */
static void on_sigbus(int number)
{
    if (guard)
        siglongjmp(*guard, 1);
    sigaction(number, &before, NULL);
}

static void install_handler(void)
{
    struct sigaction action = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER}, old;
    if (sigaction(SIGBUS, &action, &old) == 0 && old.sa_handler != on_sigbus)
        before = old;
}

static void begin_guard(sigjmp_buf *here)
{
    guard = here;
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_guard(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    guard = NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int fail(struct tacho_error *err, const char *name, int error)
{
    bool passes = error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
    int code = passes ? TACHO_EBUSY : TACHO_EIO;
    if (error == ENOENT)
        code = TACHO_ENOTFOUND;
    return tacho_fail(err, code, NULL, "%s: %s", name, strerror(error));
}

/* Would the descriptor leave too few for other things? */
static bool is_among_last(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    return (rlim_t)fd + SPARE_DESCRIPTORS >= limit.rlim_cur;
}

int col_shared_open(int dirfd, const char *name, struct col_shared *file, struct tacho_error *err)
{
    *file = (struct col_shared){.is_open = false};
    int fd = store_file_open(dirfd, name, O_RDWR);
    if (fd < 0 && errno == EPERM)
        return tacho_fail(err, TACHO_EFORMAT, NULL, "%s: not a file of the agent", name);
    if (fd < 0)
        return fail(err, name, errno);
    if (is_among_last(fd)) {
        close(fd);
        return fail(err, name, EMFILE);
    }
    file->is_open = true;
    file->fd = fd;
    return 0;
}

static void unmap(struct col_shared *file)
{
    if (file->map)
        munmap(file->map, file->mapped);
    file->map = NULL;
    file->mapped = 0;
}

int col_shared_map(struct col_shared *file, uint64_t bytes, struct tacho_error *err)
{
    unmap(file);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (map == MAP_FAILED)
        return fail(err, "a pool cannot be mapped", errno);
    install_handler();
    file->map = map;
    file->mapped = bytes;
    return 0;
}

void col_shared_close_file(struct col_shared *file)
{
    if (file->is_open)
        close(file->fd);
    file->is_open = false;
}

void col_shared_close(struct col_shared *file)
{
    unmap(file);
    col_shared_close_file(file);
}

/* ---- the mapping ------------------------------------------------------------------------------ */

static bool is_mapped(const struct col_shared *file, uint64_t offset, uint64_t bytes)
{
    return file->map && offset <= file->mapped && bytes <= file->mapped - offset;
}

bool col_shared_access(const struct col_shared *file, uint64_t offset, void *with, uint64_t bytes,
                       void (*access)(void *mapped, void *with, uint64_t bytes))
{
    sigjmp_buf here;
    if (!is_mapped(file, offset, bytes))
        return false;
    if (sigsetjmp(here, 0)) {
        end_guard();
        return false;
    }
    begin_guard(&here);
    access(file->map + offset, with, bytes);
    end_guard();
    return true;
}

static void load_words(void *mapped, void *to, uint64_t bytes)
{
    const uint64_t *from = mapped;
    uint64_t *word = to;
    for (uint64_t i = 0; i < bytes / sizeof *word; i++)
        word[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
}

static void load_half_words(void *mapped, void *to, uint64_t bytes)
{
    const uint32_t *from = mapped;
    uint32_t *half = to;
    for (uint64_t i = 0; i < bytes / sizeof *half; i++)
        half[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
}

static void store_half_word(void *mapped, void *from, uint64_t bytes)
{
    (void)bytes;
    __atomic_store_n((uint32_t *)mapped, *(const uint32_t *)from, __ATOMIC_RELEASE);
}

bool col_shared_copy(const struct col_shared *file, uint64_t offset, void *to, uint64_t bytes)
{
    return col_shared_access(file, offset, to, bytes, load_words);
}

bool col_shared_copy_lines(const struct col_shared *file, uint64_t offset, void *to, uint64_t bytes)
{
    return col_shared_access(file, offset, to, bytes, load_half_words);
}

bool col_shared_store(const struct col_shared *file, uint64_t offset, uint32_t value)
{
    return col_shared_access(file, offset, &value, sizeof value, store_half_word);
}

/* ---- the rest of the file ---------------------------------------------------------------------- */

bool col_shared_read(const struct col_shared *file, uint64_t offset, void *to, uint64_t bytes)
{
    uint8_t *at = to;
    while (bytes) {
        ssize_t got = pread(file->fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return true;
}

void col_shared_clear(const struct col_shared *file, uint64_t offset, uint64_t bytes)
{
    static const uint8_t zeros[64 << 10];
    struct stat stat;
    bool fits = fstat(file->fd, &stat) == 0 && offset + bytes <= (uint64_t)stat.st_size;
    while (fits && bytes) {
        size_t part = bytes < sizeof zeros ? (size_t)bytes : sizeof zeros;
        fits = pwrite(file->fd, zeros, part, (off_t)offset) == (ssize_t)part;
        offset += part;
        bytes -= part;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of files as one run of bytes. Files stay open while they are few, and may be mapped: reads
 * then copy from the mapping. A mapped file that someone cuts short raises SIGBUS in the middle of
 * such a copy. The handler jumps back to the copy, which reports an error of the file instead of
 * ending the program.
 */
#include "libtrain/data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libtrain/base/fail.h"
#include "libtrain/data/source.h"

#define IDENTITY_BLOCKS 32 /* places that the identity of the data looks at */

struct file {
    char *path;
    int fd;          /* -1: opened for each read */
    const char *map; /* NULL: not mapped */
    uint64_t start, bytes;
};

struct lt_dataset {
    struct file *files;
    size_t count, cap;
    uint64_t bytes;
    char *empty; /* the first file without bytes */
};

/* Takes over the open descriptor. */
static int add_file(struct lt_dataset *dataset, const char *path, int fd, uint64_t bytes,
                    struct tacho_error *err)
{
    int rc = 0;
    if (bytes == 0) {
        dataset->empty = dataset->empty ? dataset->empty : strdup(path);
        goto out;
    }
    if (dataset->count == dataset->cap) {
        size_t cap = dataset->cap ? 2 * dataset->cap : 16;
        struct file *more = realloc(dataset->files, cap * sizeof *more);
        if (!more) {
            rc = tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
            goto out;
        }
        dataset->files = more;
        dataset->cap = cap;
    }
    char *copy = strdup(path);
    if (!copy) {
        rc = tacho_fail(err, TACHO_ENOMEM, NULL, "%s: out of memory", path);
        goto out;
    }
    if (dataset->count == LT_DATASET_OPEN) /* too many to keep open: then all are treated alike */
        for (size_t i = 0; i < dataset->count; i++) {
            close(dataset->files[i].fd);
            dataset->files[i].fd = -1;
        }
    int keep = dataset->count < LT_DATASET_OPEN;
    dataset->files[dataset->count++] =
        (struct file){.path = copy, .fd = keep ? fd : -1, .start = dataset->bytes, .bytes = bytes};
    dataset->bytes += bytes;
    if (keep)
        return 0;
out:
    close(fd);
    return rc;
}

static int add_path(struct lt_dataset *dataset, const char *path, int inside,
                    struct tacho_error *err);

/* Those that a folder gives: not the hidden ones. */
static int wanted(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds the regular files of a folder, sorted by name, so that the data is the same on every
 * machine. */
static int add_folder(struct lt_dataset *dataset, const char *path, struct tacho_error *err)
{
    struct dirent **names = NULL;
    int rc = 0, count = scandir(path, &names, wanted, alphasort);
    if (count < 0)
        return lt_fail_file(err, "give --data a file or folder you may read", path);
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        int length = snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (rc == 0 && length > 0 && (size_t)length < sizeof name)
            rc = add_path(dataset, name, 1, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* Inside a folder links and special files are passed over; what the user named himself may be a
 * link. */
static int add_path(struct lt_dataset *dataset, const char *path, int inside,
                    struct tacho_error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (inside ? O_NOFOLLOW : 0));
    if (fd < 0 && inside && errno == ELOOP)
        return 0;
    if (fd < 0 || fstat(fd, &status)) {
        int code = errno == ENOENT ? TACHO_ENOTFOUND : TACHO_EIO;
        int rc = tacho_fail(err, code, "give --data a file or a folder to learn from", "%s: %s",
                            path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    if (S_ISREG(status.st_mode))
        return add_file(dataset, path, fd, (uint64_t)status.st_size, err);
    close(fd);
    if (inside)
        return 0;
    if (S_ISDIR(status.st_mode))
        return add_folder(dataset, path, err);
    return tacho_fail(err, TACHO_EFORMAT, "give --data a file or a folder to learn from",
                      "%s: neither a file nor a folder", path);
}

int lt_dataset_open(struct lt_dataset **out, const char *const *paths, size_t count,
                    struct tacho_error *err)
{
    int rc = 0;
    struct lt_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return lt_no_memory(err);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = add_path(dataset, paths[i], 0, err);
    if (rc == 0 && dataset->bytes == 0)
        rc = tacho_fail(err, TACHO_EFORMAT,
                        "give --data a file with something in it, or a folder that has some",
                        "%s: no bytes to learn from", count ? paths[0] : "no data");
    if (rc) {
        lt_dataset_close(dataset);
        return rc;
    }
    *out = dataset;
    return 0;
}

void lt_dataset_close(struct lt_dataset *data)
{
    if (!data)
        return;
    for (size_t i = 0; i < data->count; i++) {
        struct file *file = &data->files[i];
        if (file->map)
            munmap((void *)(uintptr_t)file->map, file->bytes);
        if (file->fd >= 0)
            close(file->fd);
        free(data->files[i].path);
    }
    free(data->empty);
    free(data->files);
    free(data);
}

uint64_t lt_dataset_bytes(const struct lt_dataset *data)
{
    return data->bytes;
}

size_t lt_dataset_files(const struct lt_dataset *data)
{
    return data->count;
}

struct lt_dataset_file lt_dataset_file(const struct lt_dataset *data, size_t i)
{
    const struct file *file = &data->files[i];
    return (struct lt_dataset_file){.path = file->path, .start = file->start, .bytes = file->bytes};
}

const char *lt_dataset_empty_file(const struct lt_dataset *data)
{
    return data->empty;
}

/* ---- mapped files -------------------------------------------------------------------------------------------------------- */

static pthread_once_t bus_once = PTHREAD_ONCE_INIT;
static struct sigaction bus_before;
/* Where the copy under way gives up; NULL outside of a copy. */
static _Thread_local sigjmp_buf *volatile bus_guard;

/* A fault outside of a copy happens again when this returns, and then reaches the handler that was
 * installed before. */
static void on_bus(int signal)
{
    if (bus_guard)
        siglongjmp(*bus_guard, 1);
    sigaction(signal, &bus_before, NULL);
}

/* SA_NODEFER: the jump leaves the handler with the signal mask as it was. */
static void catch_bus(void)
{
    struct sigaction act = {.sa_handler = on_bus, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &act, &bus_before);
}

void lt_dataset_map(struct lt_dataset *data)
{
    pthread_once(&bus_once, catch_bus);
    for (size_t i = 0; i < data->count; i++) {
        struct file *file = &data->files[i];
        void *map = file->fd >= 0 && !file->map
                        ? mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0)
                        : MAP_FAILED;
        if (map != MAP_FAILED)
            file->map = map;
    }
}

/* 0, or -1 when the pages are gone. */
static int copy_mapped(void *target, const void *from, size_t count)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0)) {
        bus_guard = NULL;
        return -1;
    }
    bus_guard = &here;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(target, from, count);
    atomic_signal_fence(memory_order_seq_cst);
    bus_guard = NULL;
    return 0;
}

static int shorter(const struct file *file, struct tacho_error *err)
{
    return tacho_fail(err, TACHO_EIO, "do not change the data while a run reads it",
                      "%s: shorter than when the run began", file->path);
}

/* The rest of a page after the end of a file reads as zeros, so the length counts too. */
static int read_map(const struct file *file, uint64_t offset, char *buffer, size_t count,
                    struct tacho_error *err)
{
    struct stat status;
    if (copy_mapped(buffer, file->map + offset, count) || fstat(file->fd, &status) ||
        (uint64_t)status.st_size < offset + count)
        return shorter(file, err);
    return 0;
}

/* Reads from the mapping, from the open descriptor, or from a file that is opened for this read
 * alone. A file that ends early is an error of its own. */
static int read_file(const struct file *file, uint64_t offset, char *buffer, size_t count,
                     struct tacho_error *err)
{
    if (file->map)
        return read_map(file, offset, buffer, count, err);
    int fd = file->fd >= 0 ? file->fd : open(file->path, O_RDONLY | O_CLOEXEC);
    int rc = 0;
    while (fd >= 0 && count > 0) {
        ssize_t got = pread(fd, buffer, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            rc = shorter(file, err);
        if (got <= 0)
            break;
        buffer += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    if (rc == 0 && count > 0)
        rc = tacho_fail(err, TACHO_EIO, "do not change the data while a run reads it", "%s: %s",
                        file->path, strerror(errno));
    if (fd >= 0 && file->fd < 0)
        close(fd);
    return rc;
}

/* The last file that starts at or before `offset`. */
static size_t find(const struct lt_dataset *dataset, uint64_t offset)
{
    size_t low = 0, high = dataset->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (dataset->files[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int lt_dataset_read(const struct lt_dataset *data, uint64_t offset, void *buffer, size_t count,
                    struct tacho_error *err)
{
    char *target = buffer;
    for (size_t i = find(data, offset); count > 0; i++) {
        if (i >= data->count)
            return tacho_fail(err, TACHO_EINTERNAL, NULL, "%s: read beyond the end",
                              data->files[data->count - 1].path);
        const struct file *file = &data->files[i];
        uint64_t left = file->bytes - (offset - file->start);
        size_t part = count < left ? count : (size_t)left;
        int rc = read_file(file, offset - file->start, target, part, err);
        if (rc)
            return rc;
        target += part;
        offset += part;
        count -= part;
    }
    return 0;
}

/* All of a small dataset, evenly spread blocks of a large one. */
int lt_dataset_identity(const struct lt_dataset *data, uint64_t *identity, struct tacho_error *err)
{
    char block[4096];
    uint64_t hash = lt_source_hash(0, &data->bytes, sizeof data->bytes);
    uint64_t stride =
        data->bytes / IDENTITY_BLOCKS > sizeof block ? data->bytes / IDENTITY_BLOCKS : sizeof block;
    for (uint64_t offset = 0; offset < data->bytes; offset += stride) {
        size_t bytes =
            data->bytes - offset < sizeof block ? (size_t)(data->bytes - offset) : sizeof block;
        int rc = lt_dataset_read(data, offset, block, bytes, err);
        if (rc)
            return rc;
        hash = lt_source_hash(hash, block, bytes);
    }
    *identity = hash;
    return 0;
}

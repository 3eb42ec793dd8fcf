/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of the disk under a folder, past the page cache (O_DIRECT): from front to back in blocks of
 * 1 MiB, and 4 KiB blocks at random places; with one reader and with several, because a device that
 * serves requests side by side needs several to show what it can. The file has no name, so that
 * nothing is left behind whatever happens.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "libtrain/calibrate/calibrate.h"
#include "libtrain/ops/random.h"

#define BLOCK       (1 << 20)
#define SMALL       4096
#define READERS     8
#define TMPFS_MAGIC 0x01021994l

struct disk {
    int file;
    int64_t bytes;
    char reason[160];
};

/* One repeat: `readers` threads share the blocks [0, blocks). */
struct reading {
    const struct disk *disk;
    int64_t blocks, size;
    int random;
    uint64_t seed;
    atomic_llong next;
    atomic_int error;
};

static void *reader(void *arg)
{
    struct reading *r = arg;
    void *to = NULL;
    if (posix_memalign(&to, SMALL, (size_t)r->size)) {
        atomic_store(&r->error, ENOMEM);
        return NULL;
    }
    for (;;) {
        int64_t i = atomic_fetch_add(&r->next, 1), places = r->disk->bytes / r->size;
        if (i >= r->blocks || atomic_load(&r->error))
            break;
        int64_t place = r->random
                            ? (int64_t)(lt_random_bits(r->seed, (uint64_t)i) % (uint64_t)places)
                            : i % places;
        ssize_t n = pread(r->disk->file, to, (size_t)r->size, place * r->size);
        if (n != r->size)
            atomic_store(&r->error, n < 0 ? errno : EIO);
    }
    free(to);
    return NULL;
}

/* Seconds, or < 0: a negative errno. */
static double read_once(struct reading *r, int readers)
{
    pthread_t thread[READERS];
    int started = 0;
    atomic_store(&r->next, 0);
    atomic_store(&r->error, 0);
    double begin = lt_seconds();
    while (started < readers - 1 && pthread_create(&thread[started], NULL, reader, r) == 0)
        started++;
    reader(r);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    int error = atomic_load(&r->error);
    return error ? -error : lt_seconds() - begin;
}

static int measure(struct lt_calibration *c, const struct lt_calibrate_options *options,
                   const struct disk *d, int random)
{
    enum lt_ceiling_id id = random ? LT_CEILING_DISK_RANDOM_READ : LT_CEILING_DISK_SEQUENTIAL_READ;
    int count = options->quick ? 3 : 5, best_readers = 0;
    double best[LT_CALIBRATE_REPEATS], budget = options->quick ? 0.15 : 0.5;
    struct reading r = {.disk = d, .size = random ? SMALL : BLOCK, .random = random, .seed = 1};
    int64_t best_blocks = 1;
    for (int readers = 1; readers <= READERS; readers *= READERS) {
        double seconds[LT_CALIBRATE_REPEATS];
        r.blocks = random ? 64 * readers : 16;
        double once = read_once(&r, readers);
        if (once > 0) { /* as many blocks as fit into the time, a whole file at most */
            double blocks = (double)r.blocks * budget / once;
            int64_t places = d->bytes / r.size;
            r.blocks = blocks < 16 ? 16 : blocks > (double)places ? places : (int64_t)blocks;
        }
        for (int i = 0; i < count && once > 0; i++) {
            r.seed++;
            once = seconds[i] = read_once(&r, readers);
        }
        if (once <= 0)
            return lt_calibration_absent(c, id, "", "name a folder on a local disk: --disk DIR",
                                         "reading failed: %s", strerror((int)-once));
        lt_median(seconds, count);
        if (!best_readers || (double)r.blocks / seconds[0] > (double)best_blocks / best[0]) {
            memcpy(best, seconds, sizeof best);
            best_readers = readers;
            best_blocks = r.blocks;
        }
    }
    return lt_calibration_add(
        c, id, "", (double)(best_blocks * r.size), best, count,
        "direct I/O, %s of %d KiB, %.4g MiB of a file of %lld MiB, %d reader%s at once",
        random ? "random blocks" : "blocks in order", (int)(r.size >> 10),
        (double)(best_blocks * r.size) / (1 << 20), (long long)(d->bytes >> 20), best_readers,
        best_readers == 1 ? "" : "s");
}

/* Random bytes, so that no filesystem stores less than it is given. 0 or an errno. */
static int fill(const struct disk *d)
{
    uint64_t *block = NULL;
    int rc = posix_memalign((void **)&block, SMALL, BLOCK);
    for (int64_t at = 0; at < d->bytes && rc == 0; at += BLOCK) {
        for (size_t i = 0; i < BLOCK / sizeof *block; i++)
            block[i] = lt_random_bits((uint64_t)at, i);
        ssize_t n = pwrite(d->file, block, BLOCK, at);
        rc = n == BLOCK ? 0 : n < 0 ? errno : ENOSPC;
    }
    free(block);
    return rc ? rc : fsync(d->file) ? errno : 0;
}

/* An open file without a name, or -1 with a reason. */
static int open_disk(struct disk *d, const char *folder)
{
    char path[4096];
    struct statfs fs;
    struct statvfs room;
    if (statfs(folder, &fs) || statvfs(folder, &room)) {
        snprintf(d->reason, sizeof d->reason, "%.100s: %s", folder, strerror(errno));
        return -1;
    }
    if (fs.f_type == TMPFS_MAGIC) {
        snprintf(d->reason, sizeof d->reason,
                 "%.100s is in memory (tmpfs): there is no disk to read", folder);
        return -1;
    }
    if ((double)room.f_bavail * (double)room.f_frsize < 2.0 * (double)d->bytes) {
        snprintf(d->reason, sizeof d->reason, "%.100s: less than %lld MiB free", folder,
                 (long long)(2 * d->bytes >> 20));
        return -1;
    }
    snprintf(path, sizeof path, "%.4000s/tacho-disk-XXXXXX", folder);
    d->file = mkostemp(path, O_DIRECT | O_CLOEXEC);
    if (d->file < 0) {
        snprintf(
            d->reason, sizeof d->reason,
            errno == EINVAL
                ? "%.100s: its filesystem has no direct I/O: only the page cache could be measured"
                : "%.100s: no file can be made there",
            folder);
        return -1;
    }
    unlink(path);
    int error = fill(d);
    if (error) {
        snprintf(d->reason, sizeof d->reason, "%.100s: a file of %lld MiB: %s", folder,
                 (long long)(d->bytes >> 20), strerror(error));
        close(d->file);
        return -1;
    }
    return 0;
}

int lt_calibrate_disk(struct lt_calibration *c, const struct lt_calibrate_options *options)
{
    static const char fix[] = "name a folder on a local disk with room: --disk DIR";
    struct disk d = {.bytes = options->quick ? 64ll << 20 : 512ll << 20};
    if (open_disk(&d, options->disk ? options->disk : ".")) {
        int rc = lt_calibration_absent(c, LT_CEILING_DISK_SEQUENTIAL_READ, "", fix, "%s", d.reason);
        return rc ? rc
                  : lt_calibration_absent(c, LT_CEILING_DISK_RANDOM_READ, "", fix, "%s", d.reason);
    }
    int rc = measure(c, options, &d, 0);
    if (rc == 0)
        rc = measure(c, options, &d, 1);
    close(d.file);
    return rc;
}

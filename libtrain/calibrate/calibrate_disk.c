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

/* One thread of a repeat: takes the next block until all are read or one has failed. With
 * O_DIRECT the buffer must be aligned. */
static void *reader(void *arg)
{
    struct reading *reading = arg;
    void *buffer = NULL;
    if (posix_memalign(&buffer, SMALL, (size_t)reading->size)) {
        atomic_store(&reading->error, ENOMEM);
        return NULL;
    }
    for (;;) {
        int64_t i = atomic_fetch_add(&reading->next, 1),
                places = reading->disk->bytes / reading->size;
        if (i >= reading->blocks || atomic_load(&reading->error))
            break;
        int64_t place =
            reading->random
                ? (int64_t)(lt_random_bits(reading->seed, (uint64_t)i) % (uint64_t)places)
                : i % places;
        ssize_t got =
            pread(reading->disk->file, buffer, (size_t)reading->size, place * reading->size);
        if (got != reading->size)
            atomic_store(&reading->error, got < 0 ? errno : EIO);
    }
    free(buffer);
    return NULL;
}

/* Seconds, or < 0: a negative errno. */
static double read_once(struct reading *reading, int readers)
{
    pthread_t thread[READERS];
    int started = 0;
    atomic_store(&reading->next, 0);
    atomic_store(&reading->error, 0);
    double begin = lt_seconds();
    while (started < readers - 1 && pthread_create(&thread[started], NULL, reader, reading) == 0)
        started++;
    reader(reading);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    int error = atomic_load(&reading->error);
    return error ? -error : lt_seconds() - begin;
}

/* Reads with one reader and with eight, each several times, and reports the better of the two.
 * The first read of each decides how many blocks fit into the time that a repeat may take. */
static int measure(struct lt_calibration *calibration, const struct lt_calibrate_options *options,
                   const struct disk *disk, int random)
{
    enum lt_ceiling_id id = random ? LT_CEILING_DISK_RANDOM_READ : LT_CEILING_DISK_SEQUENTIAL_READ;
    int count = options->quick ? 3 : 5, best_readers = 0;
    double best[LT_CALIBRATE_REPEATS], budget = options->quick ? 0.15 : 0.5;
    struct reading reading = {
        .disk = disk, .size = random ? SMALL : BLOCK, .random = random, .seed = 1};
    int64_t best_blocks = 1;
    for (int readers = 1; readers <= READERS; readers *= READERS) {
        double seconds[LT_CALIBRATE_REPEATS];
        reading.blocks = random ? 64 * readers : 16;
        double once = read_once(&reading, readers);
        if (once > 0) { /* as many blocks as fit into the time, a whole file at most */
            double blocks = (double)reading.blocks * budget / once;
            int64_t places = disk->bytes / reading.size;
            reading.blocks = 16;
            if (blocks >= 16)
                reading.blocks = blocks > (double)places ? places : (int64_t)blocks;
        }
        for (int i = 0; i < count && once > 0; i++) {
            reading.seed++;
            once = seconds[i] = read_once(&reading, readers);
        }
        if (once <= 0)
            return lt_calibration_absent(calibration, id, "",
                                         "name a folder on a local disk: --disk DIR",
                                         "reading failed: %s", strerror((int)-once));
        lt_median(seconds, count);
        if (!best_readers || (double)reading.blocks / seconds[0] > (double)best_blocks / best[0]) {
            memcpy(best, seconds, sizeof best);
            best_readers = readers;
            best_blocks = reading.blocks;
        }
    }
    return lt_calibration_add(
        calibration, id, "", (double)(best_blocks * reading.size), best, count,
        "direct I/O, %s of %d KiB, %.4g MiB of a file of %lld MiB, %d reader%s at once",
        random ? "random blocks" : "blocks in order", (int)(reading.size >> 10),
        (double)(best_blocks * reading.size) / (1 << 20), (long long)(disk->bytes >> 20),
        best_readers, tacho_plural(best_readers));
}

/* Random bytes, so that no filesystem stores less than it is given. 0 or an errno. */
static int fill(const struct disk *disk)
{
    uint64_t *block = NULL;
    int rc = posix_memalign((void **)&block, SMALL, BLOCK);
    for (int64_t offset = 0; offset < disk->bytes && rc == 0; offset += BLOCK) {
        for (size_t i = 0; i < BLOCK / sizeof *block; i++)
            block[i] = lt_random_bits((uint64_t)offset, i);
        ssize_t written = pwrite(disk->file, block, BLOCK, offset);
        if (written != BLOCK)
            rc = written < 0 ? errno : ENOSPC;
    }
    free(block);
    if (rc == 0 && fsync(disk->file))
        rc = errno;
    return rc;
}

/* An open file without a name, or -1 with a reason. */
static int open_disk(struct disk *disk, const char *folder)
{
    char path[4096];
    struct statfs filesystem;
    struct statvfs room;
    if (statfs(folder, &filesystem) || statvfs(folder, &room)) {
        snprintf(disk->reason, sizeof disk->reason, "%.100s: %s", folder, strerror(errno));
        return -1;
    }
    if (filesystem.f_type == TMPFS_MAGIC) {
        snprintf(disk->reason, sizeof disk->reason,
                 "%.100s is in memory (tmpfs): there is no disk to read", folder);
        return -1;
    }
    if ((double)room.f_bavail * (double)room.f_frsize < 2.0 * (double)disk->bytes) {
        snprintf(disk->reason, sizeof disk->reason, "%.100s: less than %lld MiB free", folder,
                 (long long)(2 * disk->bytes >> 20));
        return -1;
    }
    snprintf(path, sizeof path, "%.4000s/tacho-disk-XXXXXX", folder);
    disk->file = mkostemp(path, O_DIRECT | O_CLOEXEC);
    if (disk->file < 0) {
        snprintf(
            disk->reason, sizeof disk->reason,
            errno == EINVAL
                ? "%.100s: its filesystem has no direct I/O: only the page cache could be measured"
                : "%.100s: cannot create a file there",
            folder);
        return -1;
    }
    unlink(path);
    int error = fill(disk);
    if (error) {
        snprintf(disk->reason, sizeof disk->reason, "%.100s: a file of %lld MiB: %s", folder,
                 (long long)(disk->bytes >> 20), strerror(error));
        close(disk->file);
        return -1;
    }
    return 0;
}

int lt_calibrate_disk(struct lt_calibration *calibration,
                      const struct lt_calibrate_options *options)
{
    static const char fix[] = "name a folder on a local disk with room: --disk DIR";
    struct disk disk = {.bytes = options->quick ? 64ll << 20 : 512ll << 20};
    if (open_disk(&disk, options->disk ? options->disk : ".")) {
        int rc = lt_calibration_absent(calibration, LT_CEILING_DISK_SEQUENTIAL_READ, "", fix, "%s",
                                       disk.reason);
        return rc ? rc
                  : lt_calibration_absent(calibration, LT_CEILING_DISK_RANDOM_READ, "", fix, "%s",
                                          disk.reason);
    }
    int rc = measure(calibration, options, &disk, 0);
    if (rc == 0)
        rc = measure(calibration, options, &disk, 1);
    close(disk.file);
    return rc;
}

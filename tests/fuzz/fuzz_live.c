/* SPDX-License-Identifier: Apache-2.0
 *
 * What another user may have put into the folder of a live run: the link to the pools, the proof
 * beside them, files under any name. Whatever it is, opening and removing the run removes nothing
 * that tacho did not make, and says what is wrong.
 *
 * The input: a byte of switches, then edits of the proof, the link's text, names of files.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "profiler/collector/job/live_private.h"
#include "profiler/collector/pool/pool.h"

enum {
    LINKED = 1,      /* the pools are in memory; else inside of the live folder */
    SAME_RUN = 2,    /* run.db has the run id of the proof */
    OTHER_BOOT = 4,  /* of the machine */
    WRITABLE = 8,    /* by other users */
    LINK_AS_IS = 16, /* the link leads to the pools */
    LEAVE = 32,      /* the run is not removed */
};

struct folders {
    char base[64], home[96], pools[96], kept[128];
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void make_file(int folder, const char *name, const void *bytes, size_t size)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd < 0 || write(fd, bytes, size) == (ssize_t)size);
    if (fd >= 0)
        close(fd);
}

/* The proof that tacho would have written, with some words of it changed, or cut. */
static void make_proof(const struct folders *names, int home, int pools, struct fuzz_input *in)
{
    struct col_live_proof proof = {.run_id = "0123456789abcdef"};
    struct stat stat;
    check(fstat(home, &stat) == 0);
    proof.device = stat.st_dev;
    proof.inode = stat.st_ino;
    memcpy(proof.folder, names->home, sizeof names->home);
    size_t edits = (size_t)fuzz_take(in, 1) % 8, size = sizeof proof;
    while (edits--) {
        size_t at = (size_t)fuzz_take(in, 2) % sizeof proof;
        ((uint8_t *)&proof)[at] = (uint8_t)fuzz_take(in, 1);
    }
    if (fuzz_take(in, 1) % 8 == 0)
        size = (size_t)fuzz_take(in, 2) % sizeof proof;
    make_file(pools, RUN_ID, &proof, size);
}

/* Files under names by chance; how many of them are not tacho's. */
static int make_names(int pools, struct fuzz_input *in)
{
    int foreign = 0;
    for (int files = (int)fuzz_take(in, 1) % 6; files > 0; files--) {
        static const char *const starts[] = {"", WIRE_PREFIX, WIRE_NEW, WIRE_NONE, WIRE_GPU_PREFIX};
        char name[64] = "";
        size_t count;
        const char *start = starts[fuzz_take(in, 1) % 5];
        const uint8_t *bytes = fuzz_bytes(in, 1 + (size_t)fuzz_take(in, 1) % 16, &count);
        size_t length = strlen(start);
        memcpy(name, start, length);
        memcpy(name + length, bytes, count);
        if (strchr(name, '/') || !strcmp(name, "") || !strcmp(name, ".") || !strcmp(name, "..") ||
            faccessat(pools, name, F_OK, 0) == 0)
            continue;
        make_file(pools, name, "x", 1);
        foreign += !col_pool_is_name(name);
    }
    return foreign;
}

static bool count_name(void *ctx, int folder, const char *name)
{
    (void)folder;
    *(int *)ctx += strcmp(name, RUN_ID) != 0 && !col_pool_is_name(name);
    return true;
}

static int count_foreign(int pools)
{
    int count = 0;
    check(store_folder_each(pools, count_name, &count));
    return count;
}

static void make_link(const struct folders *names, unsigned how, int home, struct fuzz_input *in)
{
    char target[160] = "";
    size_t count;
    const uint8_t *bytes = fuzz_bytes(in, 1 + (size_t)fuzz_take(in, 1) % 80, &count);
    if (how & LINK_AS_IS)
        memcpy(target, names->pools, sizeof names->pools);
    else
        memcpy(target, bytes, count);
    if (target[0])
        check(symlinkat(target, home, SEGMENTS) == 0);
}

/* Opens the run as `tacho recover` does, and removes it. */
static void use(const struct folders *names, unsigned how)
{
    struct col_live live;
    struct tacho_error err = {0};
    col_live_check_owner(names->home, &err);
    col_live_locked(names->home);
    memset(&err, 0, sizeof err);
    if (col_live_open(names->home, &live, &err)) {
        check(err.what[0]);
        return;
    }
    if (how & SAME_RUN)
        memcpy(live.run_id, "0123456789abcdef", 17);
    int rc = col_live_open_segments(&live, how & OTHER_BOOT, &err);
    check(!rc || (err.what[0] && live.pools < 0));
    col_live_was_full(&live);
    if (how & LEAVE || rc)
        col_live_leave(&live);
    else
        col_live_remove(&live);
}

static bool remove_one(void *ctx, int folder, const char *name)
{
    (void)ctx;
    unlinkat(folder, name, 0);
    return true;
}

static void empty(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    store_folder_each(folder, remove_one, NULL);
    close(folder);
    rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct folders names;
    unsigned how = (unsigned)fuzz_take(&in, 1), pid = (unsigned)getpid();
    snprintf(names.base, sizeof names.base, "/dev/shm/fuzz-live-%u", pid);
    snprintf(names.home, sizeof names.home, "%s/run" COL_LIVE_SUFFIX, names.base);
    if (how & LINKED)
        snprintf(names.pools, sizeof names.pools, IN_MEMORY "/tacho-%u-%06x", (unsigned)getuid(),
                 pid & 0xffffff);
    else
        snprintf(names.pools, sizeof names.pools, "%s/" SEGMENTS, names.home);
    snprintf(names.kept, sizeof names.kept, "%s/precious", names.home);
    check(mkdir(names.base, 0700) == 0 && mkdir(names.home, 0700) == 0 &&
          mkdir(names.pools, 0700) == 0);
    int home = open(names.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int pools = open(names.pools, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(home >= 0 && pools >= 0);
    make_file(home, DB, "x", 1);
    make_file(home, "precious", "x", 1);
    make_proof(&names, home, pools, &in);
    int foreign = make_names(pools, &in);
    if (how & LINKED)
        make_link(&names, how, home, &in);
    if (how & WRITABLE)
        fchmod(home, 0777);
    use(&names, how);
    check(access(names.kept, F_OK) == 0 && count_foreign(pools) == foreign);
    close(pools);
    empty(names.pools);
    close(home);
    empty(names.home);
    check(rmdir(names.base) == 0);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a pool says of itself is believed as far as its file has blocks: a process that borrowed a
 * file and leaves holes in it cannot make the recorder keep tables for a million segments, or
 * names.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/pool/pool.h"
#include "tests/unit/made_pool.h"

#define SEGMENTS     (1u << 20)
#define DIRECTORY    ((uint64_t)SEGMENTS * sizeof(struct wire_segment))
#define FOLDER       "/dev/shm"
#define MOST_NOTHING 1024 /* segments that are looked at although nothing is backed */

static struct made_pool_shape shape = {.arena_at = WIRE_HEADER_BYTES + DIRECTORY,
                                       .arena_bytes = 8 * WIRE_ARENA_BYTES,
                                       .segments = SEGMENTS,
                                       .segment_bytes = 4096};

struct made {
    char name[64];
    int folder, fd;
    struct wire_pool *head;
};

/* A pool with holes where its segments are. */
static void make(struct made *made)
{
    made->folder = open(FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(made->name, sizeof made->name, WIRE_PREFIX "%d.77", (int)getpid());
    made->fd = openat(made->folder, made->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(made->fd >= 0);
    assert_int_equal(ftruncate(made->fd, (off_t)made_pool_bytes(&shape)), 0);
    made->head = mmap(NULL, WIRE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, made->fd, 0);
    assert_true(made->head != MAP_FAILED);
    assert_int_equal(made_pool_begin(made->head, &shape), 0);
    atomic_store(&made->head->segments_peak, SEGMENTS);
    atomic_store(&made->head->arena_used, shape.arena_bytes);
    made->head->magic = WIRE_MAGIC;
}

static void throw_away(struct made *made)
{
    munmap(made->head, WIRE_HEADER_BYTES);
    unlinkat(made->folder, made->name, 0);
    close(made->fd);
    close(made->folder);
}

static void look(const struct made *made, struct col_map *map)
{
    assert_int_equal(col_map_open(made->folder, made->name, NULL, map, NULL), 0);
    assert_true(col_map_look(map, true));
}

static void test_holes_are_not_believed(void **state)
{
    (void)state;
    struct made made;
    struct col_map map;
    make(&made);
    look(&made, &map);
    assert_true(map.peak <= MOST_NOTHING);
    assert_true(map.arena_used <= 1u << 20);
    col_map_close(&map);
    throw_away(&made);
}

/* What is backed is read, whatever is written into it. */
static void test_what_is_backed_is_believed(void **state)
{
    (void)state;
    struct made made;
    struct col_map map;
    uint64_t segments = shape.arena_at + shape.arena_bytes;
    make(&made);
    assert_int_equal(posix_fallocate(made.fd, (off_t)segments, 3000 * 4096), 0);
    assert_int_equal(posix_fallocate(made.fd, (off_t)shape.arena_at, 3 << 20), 0);
    look(&made, &map);
    assert_true(map.peak >= 3000);
    assert_true(map.peak <= 8192);
    assert_true(map.arena_used >= 3u << 20);
    assert_true(map.arena_used <= 32u << 20);
    col_map_close(&map);
    throw_away(&made);
}

int main(void)
{
    struct statfs fs;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_holes_are_not_believed),
                                       cmocka_unit_test(test_what_is_backed_is_believed)};
    if (statfs(FOLDER, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return 77; /* only there is it certain that blocks are counted */
    return cmocka_run_group_tests_name("col_pool", tests, NULL, NULL);
}

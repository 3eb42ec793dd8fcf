/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a live run where somebody else can rename it and put his own things in its place:
 * nothing but what tacho made is removed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/job/live.h"
#include "profiler/collector/pool/pool.h"

static int setup(void **state)
{
    char *folder = NULL;
    const char *temporary = getenv("TMPDIR");
    if (asprintf(&folder, "%s/col-live-XXXXXX", temporary ? temporary : "/tmp") < 0)
        return -1;
    if (!mkdtemp(folder))
        return -1;
    *state = folder;
    return chdir(folder);
}

static int teardown(void **state)
{
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", (char *)*state);
    free(*state);
    return chdir("/") || system(command);
}

/* Files of the folder of pools in the order in which they are removed. */
static struct {
    int count;
    char last_of_pools[64];
} removed;

/* In place of the one of libc. */
int unlinkat(int folder, const char *name, int flags)
{
    bool is_of_pools = strcmp(name, "run") == 0 || col_pool_is_name(name);
    if (!flags && is_of_pools) {
        removed.count++;
        snprintf(removed.last_of_pools, sizeof removed.last_of_pools, "%s", name);
    }
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}

static void make_file(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("precious", file);
    fclose(file);
}

static const char *const victims[] = {
    "victim/run.db", "victim/lock", "victim/control", "victim/pool.1.0", "victim/data",
};
#define VICTIMS (sizeof victims / sizeof *victims)

static void make_victim(void)
{
    assert_int_equal(mkdir("victim", 0700), 0);
    for (size_t i = 0; i < VICTIMS; i++)
        make_file(victims[i]);
}

static void assert_victim(void)
{
    for (size_t i = 0; i < VICTIMS; i++)
        assert_int_equal(access(victims[i], F_OK), 0);
}

static void create(struct col_live *live)
{
    struct tacho_error err = {0};
    assert_int_equal(col_live_create("run", "program", false, live, &err), 0);
    assert_true(live->home >= 0 && live->pools >= 0 && live->run_id[0]);
}

static void test_nothing_left(void **state)
{
    struct col_live live;
    (void)state;
    create(&live);
    make_file("run.tacho.live/run.db");
    char segments[COL_PATH_MAX];
    memcpy(segments, live.segments, sizeof segments);
    col_live_remove(&live);
    assert_false(live.left);
    assert_int_not_equal(access("run.tacho.live", F_OK), 0);
    assert_int_not_equal(access(segments, F_OK), 0);
}

/* The name of the folder leads elsewhere when the run is removed. */
static void test_folder_replaced(void **state)
{
    struct col_live live;
    (void)state;
    make_victim();
    create(&live);
    make_file("run.tacho.live/run.db");
    assert_int_equal(rename("run.tacho.live", "moved"), 0);
    assert_int_equal(symlink("victim", "run.tacho.live"), 0);
    col_live_remove(&live);
    assert_true(live.left);
    assert_victim();
    assert_int_not_equal(access("moved/run.db", F_OK), 0);
}

/* What is published is the run's file, not one that lies under its name by now. */
static void test_replaced_before_publishing(void **state)
{
    struct col_live live;
    struct tacho_error err = {0};
    char path[COL_PATH_MAX], text[16] = "";
    (void)state;
    make_victim();
    create(&live);
    FILE *file = fopen("run.tacho.live/run.db", "w");
    assert_non_null(file);
    fputs("recorded", file);
    fclose(file);
    assert_int_equal(rename("run.tacho.live", "moved"), 0);
    assert_int_equal(symlink("victim", "run.tacho.live"), 0);
    assert_int_equal(col_live_publish(&live, path, &err), 0);
    assert_victim();
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "recorded");
}

static void test_foreign_things_stay(void **state)
{
    struct col_live live;
    char path[COL_PATH_MAX + 32], segments[COL_PATH_MAX];
    (void)state;
    make_victim();
    create(&live);
    memcpy(segments, live.segments, sizeof segments);
    make_file("run.tacho.live/run.db");
    make_file("run.tacho.live/notes");
    static const char *const kept[] = {
        "pool.2.0", "pool.3.0", "pool.x", "pool.4.0", "gpu.5", "data",
    };
    snprintf(path, sizeof path, "%s/pool.1.0", segments);
    make_file(path);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(path, sizeof path, "%s/%s", segments, kept[i]);
        if (i == 0)
            assert_int_equal(symlink("/etc/passwd", path), 0);
        else if (i == 1)
            assert_int_equal(mkfifo(path, 0600), 0);
        else if (i == 3)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            make_file(path);
    }
    col_live_remove(&live);
    assert_true(live.left);
    assert_victim();
    struct stat st;
    snprintf(path, sizeof path, "%s/pool.1.0", segments);
    assert_int_not_equal(lstat(path, &st), 0);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(path, sizeof path, "%s/%s", segments, kept[i]);
        assert_int_equal(lstat(path, &st), 0);
    }
    assert_int_equal(access("run.tacho.live/notes", F_OK), 0);
    assert_int_not_equal(access("run.tacho.live/run.db", F_OK), 0);
    snprintf(path, sizeof path, "rm -r '%.4000s'", segments);
    assert_int_equal(system(path), 0);
}

/* A run that is taken over gets its pools only from the folder that was made for it. */
static void test_segments_proved(void **state)
{
    struct col_live live;
    struct tacho_error err = {0};
    char run_id[COL_RUN_ID], segments[COL_PATH_MAX];
    (void)state;
    make_victim();
    create(&live);
    make_file("run.tacho.live/run.db");
    memcpy(run_id, live.run_id, sizeof run_id);
    memcpy(segments, live.segments, sizeof segments);
    col_live_leave(&live);

    assert_int_equal(col_live_open("run.tacho.live", &live, &err), 0);
    memcpy(live.run_id, run_id, sizeof run_id);
    live.run_id[0] = live.run_id[0] == '0' ? '1' : '0'; /* of another run */
    assert_int_equal(col_live_open_segments(&live, false, &err), TACHO_EFORMAT);
    assert_int_equal(live.pools, -1);
    memcpy(live.run_id, run_id, sizeof run_id);
    assert_int_equal(col_live_open_segments(&live, false, &err), 0);
    assert_true(live.pools >= 0);
    assert_string_equal(live.segments, segments);
    col_live_leave(&live);

    assert_int_equal(rename("run.tacho.live/segments", "segments"), 0);
    assert_int_equal(symlink("../victim", "run.tacho.live/segments"), 0);
    assert_int_equal(col_live_open("run.tacho.live", &live, &err), 0);
    memcpy(live.run_id, run_id, sizeof run_id);
    assert_int_equal(col_live_open_segments(&live, false, &err), TACHO_EFORMAT);
    assert_non_null(strstr(err.what, "tacho did not create it"));
    col_live_leave(&live);

    assert_int_equal(unlink("run.tacho.live/segments"), 0);
    assert_int_equal(rename("segments", "run.tacho.live/segments"), 0);
    assert_int_equal(chmod("run.tacho.live", 0770), 0);
    assert_int_equal(col_live_open("run.tacho.live", &live, &err), TACHO_EDENIED);
    assert_int_equal(col_live_check_owner("run.tacho.live", &err), TACHO_EDENIED);
    assert_int_equal(chmod("run.tacho.live", 0700), 0);
    assert_int_equal(col_live_check_owner("run.tacho.live", &err), 0);
    assert_int_equal(col_live_open("run.tacho.live", &live, &err), 0);
    memcpy(live.run_id, run_id, sizeof run_id);
    assert_int_equal(col_live_open_segments(&live, false, &err), 0);
    col_live_remove(&live);
    assert_false(live.left);
    assert_victim();
}

/* A recorder that is killed while it removes its pools leaves none without the proof, by which
 * 'tacho doctor' knows them. */
static void test_proof_goes_last(void **state)
{
    struct col_live live;
    char path[COL_PATH_MAX + 32], segments[COL_PATH_MAX];
    (void)state;
    create(&live);
    make_file("run.tacho.live/run.db");
    memcpy(segments, live.segments, sizeof segments);
    for (int i = 0; i < 20; i++) { /* names before and after it in any order */
        snprintf(path, sizeof path, "%s/%s.%d.0", segments, i % 2 ? "pool" : "none", i + 1);
        make_file(path);
    }
    removed.count = 0;
    col_live_remove(&live);
    assert_false(live.left);
    assert_int_equal(removed.count, 21);
    assert_string_equal(removed.last_of_pools, "run");
}

static void test_names(void **state)
{
    static const char *const made[] = {
        "pool.1.0", "pool.123.45", "gpu.1.0", "new.1.0", "none.1", "none.1.20", "new.gpu.1.0",
    };
    static const char *const others[] = {
        "pool.", "pool.1", "pool.1.", "pool.x.0", "pool.1.0x", "pool.1.0.0",  "pool.-1.0", "gpu.1",
        "none.", "none.x", "none.1.", "control2", "spool.1.0", "../pool.1.0", "new.gpu.1", "",
    };
    (void)state;
    assert_true(col_pool_is_name("control"));
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        assert_true(col_pool_is_name(made[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(col_pool_is_name(others[i]));
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_nothing_left),
        IN_FOLDER(test_folder_replaced),
        IN_FOLDER(test_replaced_before_publishing),
        IN_FOLDER(test_foreign_things_stay),
        IN_FOLDER(test_segments_proved),
        IN_FOLDER(test_proof_goes_last),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}

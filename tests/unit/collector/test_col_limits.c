/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups read from files in a folder of the test: version 2, version 1, both side by side,
 * a container that sees only a part of its path, and no control groups.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/samplers/limits.h"

static char root[64];

/* Writes root/path and the folders to it. */
static void put(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(name, 0755);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/tacho-groups-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* The inner group has a quota of 1.5 cores and no limit of memory, the outer one has the others. */
static void test_version_2(void **state)
{
    struct col_limits limits;
    (void)state;
    put("cgroup.controllers", "cpu memory\n");
    put("pod/job/cpu.max", "150000 100000\n");
    put("pod/job/cpu.stat", "usage_usec 9\nnr_periods 4\nnr_throttled 2\nthrottled_usec 250\n");
    put("pod/cpu.max", "400000 100000\n");
    put("pod/cpu.stat", "nr_throttled 1\nthrottled_usec 50\n");
    put("pod/job/memory.max", "max\n");
    put("pod/memory.max", "1048576\n");
    put("pod/memory.events", "low 0\nhigh 3\nmax 4\noom 1\noom_kill 1\noom_group_kill 0\n");
    col_limits_find(root, "0::/pod/job\n", &limits);
    assert_true(limits.has_cpu && limits.has_tasks);
    assert_int_equal(limits.cpu_count, 2);
    assert_true(limits.quota > 1.499 && limits.quota < 1.501);
    assert_int_equal(col_limits_throttled(&limits), 300000);
    assert_int_equal(limits.memory_bytes, 1048576);
    const struct col_cgroup_events events = col_cgroup_events(&limits.memory);
    assert_int_equal(events.hits, 7);
    assert_int_equal(events.kills, 1);
    assert_int_equal(col_cgroup_memory_limit(root, "0::/pod/job\n", 9000000), 1048576);
    assert_int_equal(col_cgroup_memory_limit(root, "0::/pod/job\n", 9000), 9000);
}

/* memory.high slows a group before memory.max is reached. */
static void test_high(void **state)
{
    struct col_limits limits;
    (void)state;
    put("cgroup.controllers", "memory\n");
    put("job/memory.max", "2000000\n");
    put("job/memory.high", "1000000\n");
    col_limits_find(root, "0::/job\n", &limits);
    assert_int_equal(limits.memory_bytes, 1000000);
    assert_true(limits.has_cpu); /* the hierarchy is there: no quota */
    assert_int_equal(limits.cpu_count, 0);
    assert_int_equal(col_limits_throttled(&limits), -1);
}

/* Version 1: ns instead of us, -1 and 2^63 - 4096 instead of "max". Version 2 beside it has the
 * pressure. */
static void test_version_1(void **state)
{
    static const char text[] = "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/x\n0::/job\n";
    struct col_limits limits;
    (void)state;
    put("cpu/cgroup.procs", "");
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/job/cpu.cfs_quota_us", "50000\n");
    put("cpu/job/cpu.cfs_period_us", "100000\n");
    put("cpu/job/cpu.stat", "nr_periods 5\nnr_throttled 2\nthrottled_time 77000\n");
    put("memory/cgroup.procs", "");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/job/memory.limit_in_bytes", "5000000\n");
    put("memory/job/memory.failcnt", "12\n");
    put("memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    put("unified/cgroup.controllers", "\n");
    put("unified/job/memory.pressure", "some avg10=0.00 total=5\nfull avg10=0.00 total=3\n");
    col_limits_find(root, text, &limits);
    assert_int_equal(limits.cpu_count, 1);
    assert_true(limits.quota > 0.499 && limits.quota < 0.501);
    assert_int_equal(col_limits_throttled(&limits), 77000);
    assert_int_equal(limits.memory_bytes, 5000000);
    assert_int_equal(col_cgroup_events(&limits.memory).hits, 12);
    assert_int_equal(col_cgroup_events(&limits.memory).kills, 2);
    assert_true(limits.has_tasks && limits.tasks.unified);
    char pressure[128];
    struct col_pressure read;
    assert_true(col_cgroup_read(&limits.tasks, "memory.pressure", pressure, sizeof pressure) > 0);
    assert_true(col_pressure_parse(pressure, &read));
    assert_true(read.some == 5000 && read.full == 3000);
}

/* The path is that of the host; only the container's own group is mounted, as the root. */
static void test_container(void **state)
{
    struct col_limits limits;
    (void)state;
    put("cgroup.controllers", "cpu\n");
    put("cpu.max", "200000 100000\n");
    put("cpu.stat", "throttled_usec 1\n");
    col_limits_find(root, "0::/kubepods/pod1/abc\n", &limits);
    assert_true(limits.has_cpu);
    assert_true(limits.quota > 1.99 && limits.quota < 2.01);
    assert_int_equal(col_limits_throttled(&limits), 1000);
}

static void test_none(void **state)
{
    static const char *const texts[] = {"", "0::/job\n", "nonsense", "1:cpu", "1:cpu:\n"};
    struct col_limits limits;
    struct col_pressure pressure;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        col_limits_find(root, texts[i], &limits);
        assert_false(limits.has_cpu || limits.has_tasks || limits.memory_bytes);
        assert_int_equal(col_limits_throttled(&limits), -1);
    }
    assert_false(col_pressure_parse("", &pressure));
    assert_false(col_pressure_parse("some avg10=0.00\n", &pressure));
    assert_true(col_pressure_parse("some avg10=0.00 total=7\n", &pressure));
    assert_true(pressure.some == 7000 && pressure.full == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_high, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_container, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_none, make_root, remove_root)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

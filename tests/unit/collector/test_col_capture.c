/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that a capture window is placed ahead of: their gpu files are overwritten and cut
 * short while they are looked at, and so is the control file. None of it may end who looks.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/collector/job/capture_view_private.h"
#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/os/proc.h"
#include "profiler/wire.h"

static char folder[64], gpu_path[96], control[96];

static void write_file(const char *path, const void *from, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, from, bytes), bytes);
    close(fd);
}

/* This process has begun step `step - 1`. */
static void write_step(uint64_t step)
{
    struct col_proc_stat stat;
    struct wire_gpu *gpu = calloc(1, sizeof *gpu);
    assert_non_null(gpu);
    assert_int_equal(col_proc_read_stat(getpid(), &stat), 0);
    gpu->magic = WIRE_GPU_MAGIC;
    gpu->version = WIRE_VERSION;
    gpu->pid = (uint32_t)getpid();
    gpu->start_ticks = stat.start_ticks;
    atomic_store(&gpu->state, WIRE_GPU_ON);
    atomic_store(&gpu->step, step);
    write_file(gpu_path, gpu, sizeof *gpu);
    free(gpu);
}

static int make_folder(void **state)
{
    const struct wire_control empty = {.magic = WIRE_CONTROL_MAGIC};
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tacho-capture-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(gpu_path, sizeof gpu_path, "%s/" WIRE_GPU_PREFIX "1", folder);
    snprintf(control, sizeof control, "%s/" WIRE_CONTROL, folder);
    write_file(control, &empty, sizeof empty);
    write_step(8);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(gpu_path);
    unlink(control);
    return rmdir(folder);
}

static void test_steps(void **state)
{
    struct col_view view;
    int processes = 0;
    (void)state;
    assert_int_equal(col_capture_step(folder, &processes), 8);
    assert_int_equal(processes, 1);
    col_view_open(&view, folder);
    assert_int_equal(col_view_next_step(&view), 8);
    assert_false(col_view_is_through(&view, 0, 7));
    assert_true(col_view_is_through(&view, 0, 6));
    col_view_close(&view);
}

static void test_cut_short(void **state)
{
    struct col_view view;
    int processes = 1;
    (void)state;
    col_view_open(&view, folder);
    assert_int_equal(view.count, 1);
    assert_int_equal(truncate(gpu_path, 0), 0);
    assert_int_equal(col_view_next_step(&view), 0);
    assert_true(col_view_is_through(&view, 0, 20)); /* nobody waits for it */
    col_view_close(&view);
    assert_int_equal(col_capture_step(folder, &processes), 0);
    assert_int_equal(processes, 0);
}

static void test_overwritten(void **state)
{
    const uint64_t steps[] = {UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1};
    struct col_view view;
    (void)state;
    col_view_open(&view, folder);
    assert_int_equal(view.count, 1);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        write_step(steps[i]);
        assert_int_equal(col_view_next_step(&view), 0);
        assert_true(col_view_is_through(&view, 0, 20));
    }
    write_step(9);
    assert_int_equal(col_view_next_step(&view), 9);
    col_view_close(&view);
}

static void test_control(void **state)
{
    enum wire_capture mode;
    struct wire_control now;
    (void)state;
    assert_int_equal(col_control_set(folder, WIRE_CAPTURE_STEPS, 5, 7, 1, 0), 0);
    assert_int_equal(col_control_mode(folder, &mode), 0);
    assert_int_equal(mode, WIRE_CAPTURE_STEPS);
    int fd = open(control, O_RDONLY);
    assert_int_equal(read(fd, &now, sizeof now), sizeof now);
    close(fd);
    assert_int_equal(now.from, 5);
    assert_int_equal(now.to, 7);
    assert_int_equal(now.sequence, 2);
    assert_int_equal(truncate(control, 0), 0);
    assert_int_equal(col_control_set(folder, WIRE_CAPTURE_STEPS, 5, 7, 1, 0), TACHO_EIO);
    write_file(control, "no word of control", 18);
    assert_int_equal(col_control_set(folder, WIRE_CAPTURE_STEPS, 5, 7, 1, 0), TACHO_EVERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_steps, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_cut_short, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_overwritten, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_control, make_folder, remove_folder),
    };
    return cmocka_run_group_tests_name("collector: capture windows", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows for device work in a run that is under way. Each process says in its gpu file at which
 * step it is; the window begins far enough ahead that all of them see it in time.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/job/together.h"
#include "profiler/collector/os/proc.h"

#define LOOK_MS   300 /* between two looks at the pace of steps */
#define MARGIN    2   /* steps, at least */
#define REACH_MS  300 /* an agent looks at the control word at each step, and ten times a second */
#define PROCESSES 256

struct view {
    const struct wire_gpu *gpu[PROCESSES];
    int count;
};

static void view_close(struct view *view)
{
    for (int i = 0; i < view->count; i++)
        munmap((void *)(uintptr_t)view->gpu[i], sizeof(struct wire_gpu));
    view->count = 0;
}

static bool process_lives(const struct wire_gpu *gpu)
{
    struct col_proc_stat st;
    return col_proc_read_stat((int32_t)gpu->pid, &st) == 0 && st.start_ticks == gpu->start_ticks &&
           st.state != 'Z';
}

static void view_add(struct view *view, int folder, const char *name)
{
    struct stat st;
    int fd = view->count < PROCESSES ? openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return;
    void *map = fstat(fd, &st) || (size_t)st.st_size < sizeof(struct wire_gpu)
                    ? MAP_FAILED
                    : mmap(NULL, sizeof(struct wire_gpu), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    const struct wire_gpu *gpu = map;
    if (__atomic_load_n(&gpu->magic, __ATOMIC_ACQUIRE) == WIRE_GPU_MAGIC &&
        gpu->version == WIRE_VERSION && atomic_load(&gpu->state) == WIRE_GPU_ON &&
        process_lives(gpu))
        view->gpu[view->count++] = gpu;
    else
        munmap(map, sizeof(struct wire_gpu));
}

static void view_open(struct view *view, const char *segments)
{
    view->count = 0;
    DIR *dir = opendir(segments);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (!strncmp(entry->d_name, WIRE_GPU_PREFIX, strlen(WIRE_GPU_PREFIX)))
            view_add(view, dirfd(dir), entry->d_name);
    closedir(dir);
}

/* The step after the newest one that any process has begun. */
static int64_t next_step(const struct view *view)
{
    uint64_t newest = 0;
    for (int i = 0; i < view->count; i++) {
        uint64_t step = atomic_load_explicit(&view->gpu[i]->step, memory_order_acquire);
        newest = step > newest ? step : newest;
    }
    return (int64_t)newest;
}

int64_t col_capture_step(const char *segments, int *processes)
{
    struct view view;
    view_open(&view, segments);
    int64_t step = next_step(&view);
    *processes = view.count;
    view_close(&view);
    return step;
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Has this process begun a step behind the window, or gone? */
static bool is_through(const struct wire_gpu *gpu, int64_t to)
{
    return (int64_t)atomic_load_explicit(&gpu->step, memory_order_acquire) > to + 1 ||
           !process_lives(gpu) || atomic_load(&gpu->state) != WIRE_GPU_ON;
}

static void wait_for(const struct view *view, struct col_capture *capture)
{
    for (bool all = false; !all;) {
        sleep_ms(50);
        capture->done = 0;
        for (int i = 0; i < view->count; i++)
            capture->done += is_through(view->gpu[i], capture->to);
        all = capture->done == view->count;
    }
}

int col_capture(const char *live, struct col_capture *capture, struct tacho_error *err)
{
    char segments[COL_PATH_MAX];
    struct view view;
    if (col_together_of(live, segments))
        return col_together_capture(segments, capture, err);
    snprintf(segments, sizeof segments, "%.*s/segments", COL_PATH_MAX - 16, live);
    enum wire_capture mode;
    int rc = col_control_mode(segments, &mode);
    if (rc)
        return tacho_fail(err, rc, NULL, "%s: the run has no control file: %s", live,
                          tacho_error_text(rc));
    if (mode == WIRE_CAPTURE_ALL)
        return tacho_fail(err, TACHO_EUSAGE,
                          "start it with --gpu later to record some steps on demand",
                          "%s: all of its work on GPUs is recorded already", live);
    view_open(&view, segments);
    capture->processes = view.count;
    if (!view.count)
        return tacho_fail(
            err, TACHO_ENOTFOUND,
            "it has not started CUDA yet, or CUPTI refused: see the losses of the run",
            "%s: no process of the run can record work on GPUs now", live);
    capture->from = capture->to = -1;
    if (capture->ns > 0) {
        rc = col_control_set(segments, WIRE_CAPTURE_UNTIL, 0, 0, 1, capture->ns);
        if (rc == 0 && capture->wait)
            sleep_ms((long)(capture->ns / 1000000));
    } else {
        int64_t before = next_step(&view);
        sleep_ms(LOOK_MS);
        int64_t now = next_step(&view), ahead = (now - before) * REACH_MS / LOOK_MS + MARGIN;
        capture->from = capture->at >= 0 ? capture->at : now + ahead;
        capture->to = capture->from + capture->steps - 1;
        rc = col_control_set(segments, WIRE_CAPTURE_STEPS, capture->from, capture->to, 1, 0);
        if (rc == 0 && capture->wait)
            wait_for(&view, capture);
    }
    view_close(&view);
    return rc ? tacho_fail(err, rc, NULL, "%s: %s", segments, tacho_error_text(rc)) : 0;
}

int col_capture_job(const char *folder, struct col_capture *capture, struct tacho_error *err)
{
    char meeting[COL_PATH_MAX];
    if (!col_together_find(folder, meeting))
        return tacho_fail(
            err, TACHO_ENOTFOUND, "name a run: NAME.tacho.live",
            "%s: not the folder of one job on several machines, started with --gpu later", folder);
    return col_together_capture(meeting, capture, err);
}

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

static void view_close(struct view *v)
{
    for (int i = 0; i < v->count; i++)
        munmap((void *)(uintptr_t)v->gpu[i], sizeof(struct wire_gpu));
    v->count = 0;
}

static bool process_lives(const struct wire_gpu *g)
{
    struct col_proc_stat st;
    return col_proc_read_stat((int32_t)g->pid, &st) == 0 && st.start_ticks == g->start_ticks &&
           st.state != 'Z';
}

static void view_add(struct view *v, int folder, const char *name)
{
    struct stat st;
    int fd = v->count < PROCESSES ? openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0)
        return;
    void *map = fstat(fd, &st) || (size_t)st.st_size < sizeof(struct wire_gpu)
                    ? MAP_FAILED
                    : mmap(NULL, sizeof(struct wire_gpu), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return;
    const struct wire_gpu *g = map;
    if (__atomic_load_n(&g->magic, __ATOMIC_ACQUIRE) == WIRE_GPU_MAGIC &&
        g->version == WIRE_VERSION && atomic_load(&g->state) == WIRE_GPU_ON && process_lives(g))
        v->gpu[v->count++] = g;
    else
        munmap(map, sizeof(struct wire_gpu));
}

static void view_open(struct view *v, const char *segments)
{
    v->count = 0;
    DIR *dir = opendir(segments);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (!strncmp(e->d_name, WIRE_GPU_PREFIX, strlen(WIRE_GPU_PREFIX)))
            view_add(v, dirfd(dir), e->d_name);
    closedir(dir);
}

/* The step after the newest one that any process has begun. */
static int64_t next_step(const struct view *v)
{
    uint64_t newest = 0;
    for (int i = 0; i < v->count; i++) {
        uint64_t step = atomic_load_explicit(&v->gpu[i]->step, memory_order_acquire);
        newest = step > newest ? step : newest;
    }
    return (int64_t)newest;
}

int64_t col_capture_step(const char *segments, int *processes)
{
    struct view v;
    view_open(&v, segments);
    int64_t step = next_step(&v);
    *processes = v.count;
    view_close(&v);
    return step;
}

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Has this process begun a step behind the window, or gone? */
static bool is_through(const struct wire_gpu *g, int64_t to)
{
    return (int64_t)atomic_load_explicit(&g->step, memory_order_acquire) > to + 1 ||
           !process_lives(g) || atomic_load(&g->state) != WIRE_GPU_ON;
}

static void wait_for(const struct view *v, struct col_capture *c)
{
    for (bool all = false; !all;) {
        sleep_ms(50);
        c->done = 0;
        for (int i = 0; i < v->count; i++)
            c->done += is_through(v->gpu[i], c->to);
        all = c->done == v->count;
    }
}

int col_capture(const char *live, struct col_capture *c, struct tacho_error *err)
{
    char segments[COL_PATH_MAX];
    struct view v;
    if (col_together_of(live, segments))
        return col_together_capture(segments, c, err);
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
    view_open(&v, segments);
    c->processes = v.count;
    if (!v.count)
        return tacho_fail(
            err, TACHO_ENOTFOUND,
            "it has not started CUDA yet, or CUPTI refused: see the losses of the run",
            "%s: no process of the run can record work on GPUs now", live);
    c->from = c->to = -1;
    if (c->ns > 0) {
        rc = col_control_set(segments, WIRE_CAPTURE_UNTIL, 0, 0, 1, c->ns);
        if (rc == 0 && c->wait)
            sleep_ms((long)(c->ns / 1000000));
    } else {
        int64_t before = next_step(&v);
        sleep_ms(LOOK_MS);
        int64_t now = next_step(&v), ahead = (now - before) * REACH_MS / LOOK_MS + MARGIN;
        c->from = c->at >= 0 ? c->at : now + ahead;
        c->to = c->from + c->steps - 1;
        rc = col_control_set(segments, WIRE_CAPTURE_STEPS, c->from, c->to, 1, 0);
        if (rc == 0 && c->wait)
            wait_for(&v, c);
    }
    view_close(&v);
    return rc ? tacho_fail(err, rc, NULL, "%s: %s", segments, tacho_error_text(rc)) : 0;
}

int col_capture_job(const char *folder, struct col_capture *c, struct tacho_error *err)
{
    char meeting[COL_PATH_MAX];
    if (!col_together_find(folder, meeting))
        return tacho_fail(
            err, TACHO_ENOTFOUND, "name a run: NAME.tacho.live",
            "%s: not the folder of one job on several machines, started with --gpu later", folder);
    return col_together_capture(meeting, c, err);
}

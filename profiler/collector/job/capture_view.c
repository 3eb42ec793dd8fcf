/* SPDX-License-Identifier: Apache-2.0
 *
 * Each agent writes the step that it has begun into its gpu file (profiler/wire.h). A view maps
 * these files of all processes of a run, so that a capture window can be placed ahead of them and
 * its end be awaited.
 */
#include "profiler/collector/job/capture_view_private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiler/collector/job/gpu_env.h"
#include "profiler/collector/os/proc.h"
#include "store/files.h"

void col_view_close(struct col_view *view)
{
    for (int i = 0; i < view->count; i++)
        munmap((void *)(uintptr_t)view->gpu[i], sizeof(struct wire_gpu));
    view->count = 0;
}

/* Is the process alive, and can it record device work now? */
static bool is_recording(const struct wire_gpu *gpu)
{
    struct col_proc_stat stat;
    return atomic_load(&gpu->state) == WIRE_GPU_ON &&
           col_proc_read_stat((int32_t)gpu->pid, &stat) == 0 &&
           stat.start_ticks == gpu->start_ticks && stat.state != 'Z';
}

/* Maps the gpu file of a process, if it is complete and the process records. */
static bool view_add(void *ctx, int folder, const char *name)
{
    struct col_view *view = ctx;
    if (strncmp(name, WIRE_GPU_PREFIX, strlen(WIRE_GPU_PREFIX)) != 0)
        return true;
    int fd = store_file_open(folder, name, O_RDONLY);
    const struct wire_gpu *gpu = fd >= 0 ? col_map_shared(fd, sizeof *gpu, PROT_READ) : NULL;
    if (!gpu)
        return true;
    if (__atomic_load_n(&gpu->magic, __ATOMIC_ACQUIRE) == WIRE_GPU_MAGIC &&
        gpu->version == WIRE_VERSION && is_recording(gpu))
        view->gpu[view->count++] = gpu;
    else
        munmap((void *)(uintptr_t)gpu, sizeof *gpu);
    return view->count < COL_VIEW_PROCESSES;
}

void col_view_open(struct col_view *view, const char *segments)
{
    view->count = 0;
    int folder = open(segments, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return;
    store_folder_each(folder, view_add, view);
    close(folder);
}

int64_t col_view_next_step(const struct col_view *view)
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
    struct col_view view;
    col_view_open(&view, segments);
    int64_t step = col_view_next_step(&view);
    *processes = view.count;
    col_view_close(&view);
    return step;
}

bool col_view_is_through(const struct col_view *view, int i, int64_t last)
{
    const struct wire_gpu *gpu = view->gpu[i];
    return (int64_t)atomic_load_explicit(&gpu->step, memory_order_acquire) > last + 1 ||
           !is_recording(gpu);
}

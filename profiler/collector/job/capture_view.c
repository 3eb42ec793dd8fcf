/* SPDX-License-Identifier: Apache-2.0
 *
 * Each agent writes the step that it has begun into its gpu file (profiler/wire.h). A view maps
 * these files of all processes of a run, so that a capture window can be placed ahead of them and
 * its end be awaited. A process may overwrite its file or cut it short at any moment.
 */
#include "profiler/collector/job/capture_view_private.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/proc.h"
#include "profiler/wire.h"
#include "store/files.h"

/* A process says more only where its file was overwritten. */
#define MOST_STEPS (1ull << 53)

/* What is used of a gpu file: its first line, and where the process is. */
struct words {
    uint64_t magic, start_ticks, step;
    uint32_t version, pid, state;
};

static void read_words(void *mapped, void *to, uint64_t bytes)
{
    const struct wire_gpu *gpu = mapped;
    struct words *words = to;
    (void)bytes;
    words->magic = __atomic_load_n(&gpu->magic, __ATOMIC_ACQUIRE);
    words->version = gpu->version;
    words->pid = gpu->pid;
    words->start_ticks = gpu->start_ticks;
    words->state = atomic_load(&gpu->state);
    words->step = atomic_load_explicit(&gpu->step, memory_order_acquire);
}

/* False: the process has cut its file short, or written a step that cannot be. */
static bool look(const struct col_shared *gpu, struct words *words)
{
    return col_shared_access(gpu, 0, words, sizeof(struct wire_gpu), read_words) &&
           words->step < MOST_STEPS;
}

void col_view_close(struct col_view *view)
{
    for (int i = 0; i < view->count; i++)
        col_shared_close(&view->gpu[i]);
    view->count = 0;
}

/* Is the process alive, and can it record device work now? */
static bool is_recording(const struct words *words)
{
    struct col_proc_stat stat;
    return words->state == WIRE_GPU_ON && col_proc_read_stat((int32_t)words->pid, &stat) == 0 &&
           stat.start_ticks == words->start_ticks && stat.state != 'Z';
}

/* Maps the gpu file of a process, if it is complete and the process records. Its descriptor is
 * given back: the recorder needs those that it has for the pools. */
static bool view_add(void *ctx, int folder, const char *name)
{
    struct col_view *view = ctx;
    struct col_shared *gpu = &view->gpu[view->count];
    struct words words;
    if (strncmp(name, WIRE_GPU_PREFIX, strlen(WIRE_GPU_PREFIX)) != 0 ||
        col_shared_open(folder, name, gpu, NULL))
        return true;
    bool records = col_shared_map(gpu, sizeof(struct wire_gpu), NULL) == 0 && look(gpu, &words) &&
                   words.magic == WIRE_GPU_MAGIC && words.version == WIRE_VERSION &&
                   is_recording(&words);
    if (records) {
        col_shared_close_file(gpu);
        view->count++;
    } else {
        col_shared_close(gpu);
    }
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
    struct words words;
    uint64_t newest = 0;
    for (int i = 0; i < view->count; i++)
        if (look(&view->gpu[i], &words) && words.step > newest)
            newest = words.step;
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
    struct words words;
    if (!look(&view->gpu[i], &words))
        return true; /* it is not to be waited for */
    return (int64_t)words.step - 1 > last || !is_recording(&words);
}

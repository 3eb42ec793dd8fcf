/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment that makes a target record device work, and the control word in the segment
 * folder that opens and closes capture windows. The agent reads the word at each step; it is
 * written between two increments of a sequence number, so that a reader never takes a half-written
 * window.
 */
#include "profiler/collector/job/gpu_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/collector/os/clock.h"
#include "profiler/collector/pool/shared.h"
#include "profiler/control.h"
#include "store/files.h"

/* Has the user set a variable to something else than tacho's library? */
static bool set_by_user(const char *name, const char *library, const char **value)
{
    *value = getenv(name);
    return *value && **value && strcmp(*value, library) != 0;
}

/* Adds a line about a variable that the user has set. */
static void warn(struct col_gpu_env *keep, const char *name, const char *old, const char *what)
{
    size_t length = strlen(keep->warning);
    snprintf(keep->warning + length, sizeof keep->warning - length, "%s%s was set to %.1000s: %s",
             length ? "\n" : "", name, old, what);
}

/* tacho's library is loaded by CUDA through CUDA_INJECTION64_PATH and by NCCL as its profiler
 * plugin. A library that the user had in the first variable is passed on and loaded after tacho's.
 */
size_t col_gpu_environment(const struct col_options *options, const char *library,
                           struct col_env *env, struct col_gpu_env *keep)
{
    size_t count = 0;
    const char *old;
    keep->mode[0] = keep->warning[0] = 0;
    if (options->gpu == COL_GPU_OFF) {
        env[count++] = (struct col_env){WIRE_ENV_GPU, "off"};
        return count;
    }
    const struct {
        bool on;
        const char *word;
    } words[] = {{options->whole_graphs, "whole-graphs"},
                 {options->gpu_memory, "memory"},
                 {options->gpu_counters & COL_COUNTERS_SAMPLED, "pm"},
                 {options->gpu_counters & COL_COUNTERS_ROOFLINE, "range"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(keep->mode);
        if (words[i].on)
            snprintf(keep->mode + length, sizeof keep->mode - length, "%s%s", length ? "," : "",
                     words[i].word);
    }
    const char *asked = getenv(WIRE_ENV_GPU);
    size_t used = strlen(keep->mode);
    if (used && asked && *asked) /* beside the words that the user gives the agent */
        snprintf(keep->mode + used, sizeof keep->mode - used, ",%s", asked);
    if (keep->mode[0])
        env[count++] = (struct col_env){WIRE_ENV_GPU, keep->mode};
    if (set_by_user("CUDA_INJECTION64_PATH", library, &old)) {
        warn(keep, "CUDA_INJECTION64_PATH", old,
             "it is loaded after tacho's library; two users of CUPTI cannot both record");
        env[count++] = (struct col_env){WIRE_ENV_CHAIN, old};
    }
    env[count++] = (struct col_env){"CUDA_INJECTION64_PATH", library};
    if (set_by_user("NCCL_PROFILER_PLUGIN", library, &old))
        warn(keep, "NCCL_PROFILER_PLUGIN", old,
             "not changed; NCCL's NVTX ranges show the collectives instead");
    else
        env[count++] = (struct col_env){"NCCL_PROFILER_PLUGIN", library};
    return count;
}

static void control_path(char *path, size_t size, const char *segments)
{
    snprintf(path, size, "%s/" WIRE_CONTROL, segments);
}

int col_control_create(int folder, const struct col_options *options)
{
    struct wire_control control = {.magic = WIRE_CONTROL_MAGIC};
    struct control_window window = {.mode = WIRE_CAPTURE_ALL};
    if (options->gpu == COL_GPU_LATER)
        window = (struct control_window){.mode = WIRE_CAPTURE_NONE, .every = 1};
    else if (options->duration_ns > 0)
        window = (struct control_window){.mode = WIRE_CAPTURE_UNTIL,
                                         .every = 1,
                                         .until = col_clock_now() + options->duration_ns};
    else if (options->steps_from >= 0)
        window = (struct control_window){.mode = WIRE_CAPTURE_STEPS,
                                         .from = options->steps_from,
                                         .to = options->steps_to,
                                         .every = options->every};
    else if (options->every > 1)
        window = (struct control_window){
            .mode = WIRE_CAPTURE_STEPS, .to = INT64_MAX, .every = options->every};
    if (window.mode != WIRE_CAPTURE_ALL)
        control_write(&control, &window);
    int fd = store_file_open(folder, WIRE_CONTROL, O_WRONLY | O_CREAT);
    if (fd < 0)
        return errno == ENOSPC ? TACHO_ENOSPACE : TACHO_EIO;
    ssize_t bytes = write(fd, &control, sizeof control);
    close(fd);
    return bytes == (ssize_t)sizeof control ? 0 : TACHO_ENOSPACE;
}

/* The window is replaced where the file is mapped by the processes of the run, too. */
static void replace_window(void *mapped, void *window, uint64_t bytes)
{
    (void)bytes;
    control_write(mapped, window);
}

int col_control_set(const char *segments, enum wire_capture mode, int64_t first, int64_t last,
                    int64_t every, int64_t ns)
{
    struct control_window window = {mode, first, last, every, col_clock_now() + ns};
    char path[COL_PATH_MAX + 16];
    control_path(path, sizeof path, segments);
    int fd = store_path_open(path, O_RDWR);
    if (fd < 0)
        return tacho_error_of_errno(errno);
    struct col_shared file = {.is_open = true, .fd = fd};
    uint64_t magic;
    int rc = col_shared_map(&file, sizeof(struct wire_control), NULL);
    if (rc == 0 && !col_shared_copy(&file, offsetof(struct wire_control, magic), &magic, 8))
        rc = TACHO_EIO;
    if (rc == 0 && magic != WIRE_CONTROL_MAGIC)
        rc = TACHO_EVERSION;
    if (rc == 0 &&
        !col_shared_access(&file, 0, &window, sizeof(struct wire_control), replace_window))
        rc = TACHO_EIO;
    col_shared_close(&file);
    return rc;
}

int col_control_mode(const char *segments, enum wire_capture *mode)
{
    char path[COL_PATH_MAX + 16];
    struct wire_control control;
    control_path(path, sizeof path, segments);
    int fd = store_path_open(path, O_RDONLY);
    if (fd < 0)
        return tacho_error_of_errno(errno);
    ssize_t bytes = read(fd, &control, sizeof control);
    close(fd);
    if (bytes != (ssize_t)sizeof control || control.magic != WIRE_CONTROL_MAGIC)
        return TACHO_EVERSION;
    *mode = (enum wire_capture)control.mode;
    return 0;
}

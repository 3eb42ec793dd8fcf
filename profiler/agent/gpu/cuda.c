/* SPDX-License-Identifier: Apache-2.0
 *
 * The doors to device work. The driver calls InitializeInjection out of cuInit where
 * CUDA_INJECTION64_PATH names this library; where it does not (the program cleared or replaced the
 * variable) NVTX and NCCL bring us here, and recording starts if CUDA is up already. CUDA is never
 * initialised by us: a program that has not done it yet may still want to fork.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/agent/gpu/gpu_counters.h"

#define AGENT_EXPORT __attribute__((visibility("default"), used))

static bool started_here_or_before; /* kept by children: CUDA of an ancestor is of no use to them */

/* "off" as one of the words of $TACHO_GPU. */
static bool asked_off(void)
{
    const char *text = getenv(WIRE_ENV_GPU);
    return text && !strcmp(text, "off");
}

static void at_exit(void)
{
    agent_cupti_end();
}

/* The buffers' file carries the name of the pool, so there must be one. */
static bool pool_exists(void)
{
    struct agent_quiet quiet;
    agent_quiet_begin(&quiet);
    agent_lock();
    bool ok = agent_pool_open();
    agent_unlock();
    agent_quiet_end(&quiet);
    return ok;
}

/* Version of the driver; 0: no driver. */
static int driver_version(void **library)
{
    int version = 0;
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*get)(int *) = cuda ? (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDriverGetVersion") : NULL;
    if (get && get(&version))
        version = 0;
    agent_cuda.driver_version = get;
    *library = cuda;
    return version;
}

/* Once a process. */
static void start(int driver)
{
    uint32_t none = 0;
    if (asked_off() || !agent_start() ||
        !atomic_compare_exchange_strong(&agent_process->cuda_once, &none, 1) ||
        started_here_or_before)
        return;
    started_here_or_before = true;
    int saved = errno;
    if (!pool_exists() || !agent_buffer_open(driver)) {
        agent_lose(WIRE_LOSS_NO_SPACE, 1);
        errno = saved;
        return;
    }
    atomic_store_explicit(&agent_process->cuda_live, 1, memory_order_release);
    if (agent_cupti_start())
        atexit(at_exit); /* after CUPTI's own, so it runs before them */
    errno = saved;
}

/* What CUDA_INJECTION64_PATH named before tacho set it. */
static void chain(void)
{
    static _Atomic uint32_t once;
    const char *path = getenv(WIRE_ENV_CHAIN);
    if (!path || !*path || atomic_exchange(&once, 1))
        return;
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    int (*init)(void) =
        library ? (int (*)(void))(uintptr_t)dlsym(library, "InitializeInjection") : NULL;
    if (init)
        init();
}

AGENT_EXPORT int InitializeInjection(void);
AGENT_EXPORT void tacho_device_profiler(int active);

/* Called by the driver inside cuInit. Always 1: a program must not fail because it is not recorded.
 */
int InitializeInjection(void)
{
    void *cuda = NULL;
    start(driver_version(&cuda));
    chain();
    return 1;
}

/* For the Python hook: torch.profiler takes CUPTI's records from now on (1), or has given them up
 * (0). */
void tacho_device_profiler(int active)
{
    agent_cupti_foreign(active != 0);
}

/* NVTX or NCCL have called the agent for the first time in an object. If CUDA is up, recording
 * starts. */
static void device_look(void)
{
    if (!agent_process || relaxed_load(&agent_process->cuda_once) || asked_off())
        return;
    int saved = errno, count = 0;
    void *cuda = NULL;
    int version = driver_version(&cuda);
    int (*devices)(int *) =
        cuda ? (int (*)(int *))(uintptr_t)dlsym(cuda, "cuDeviceGetCount") : NULL;
    /* CUDA_ERROR_NOT_INITIALIZED: the driver will come to us when it is initialised, or not at all
     */
    if (devices && devices(&count) == 0 && count > 0)
        start(version);
    errno = saved;
}

/* A tacho.step begins: the collector learns its index, a count or a capture window may open or
 * close. */
static void device_step(uint64_t index, bool paused)
{
    struct wire_gpu *gpu = agent_cuda.gpu;
    if (relaxed_load(&gpu->state) != WIRE_GPU_ON)
        return;
    relaxed_store(&gpu->step_time, agent_clock_monotonic());
    atomic_store_explicit(&gpu->step, index + 1, memory_order_release);
    gpu_range_step(index);
    if (gpu_range_busy())
        return;
    if (paused && agent_capture_may_pause())
        agent_cupti_pause(true);
    else
        agent_cupti_window((int64_t)(index & INT64_MAX));
}

static void device_resume(void)
{
    if (relaxed_load(&agent_cuda.gpu->state) == WIRE_GPU_ON && !gpu_range_busy())
        agent_cupti_pause(false);
}

/* A child may still see its parent's agent_watch_flag, so this asks whether the process is live. */
static void device_range(const struct agent_thread *thread, bool push, uint32_t domain,
                         uint32_t name)
{
    if (agent_cuda_live())
        gpu_range_cut(thread, push, domain, name);
}

__attribute__((constructor)) static void device_register(void)
{
    static const struct agent_device device = {
        .look = device_look, .step = device_step, .resume = device_resume, .range = device_range};
    agent_device = &device;
}

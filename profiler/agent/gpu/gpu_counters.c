/* SPDX-License-Identifier: Apache-2.0
 *
 * What sampling (gpu_pm.c) and counting (gpu_range.c) share: functions of the driver and of CUPTI,
 * the chip's name, times, and how a failure is reported to the collector.
 */
#include "profiler/agent/gpu/gpu_counters.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define END_WAIT_S 5

struct gpu_driver gpu_driver;
struct profiler_functions gpu_functions;
struct gpu_thread gpu_thread;

static struct {
    uint64_t pool, monotonic;
} clock_start; /* both clocks when counting was asked for */

void gpu_counters_fail(enum wire_counters which, enum wire_counters_stage stage, int error)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[which];
    relaxed_store(&counters->stage, stage);
    relaxed_store(&counters->error, (uint32_t)error);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_FAILED, memory_order_release);
}

int gpu_counters_chip(enum wire_counters which, int device, const char **chip)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[which];
    struct profiler_initialize begin = {.size = PROFILER_SIZE(profiler_initialize, reserved)};
    struct profiler_chip name = {.size = PROFILER_SIZE(profiler_chip, name),
                                 .device = (size_t)device};
    int rc = gpu_functions.ProfilerInitialize ? gpu_functions.ProfilerInitialize(&begin) : 0;
    if (rc || (rc = gpu_functions.DeviceGetChipName(&name)))
        return rc;
    strncpy(counters->chip, name.name, sizeof counters->chip - 1);
    *chip = name.name;
    return 0;
}

uint64_t gpu_counters_time(uint64_t cupti)
{
    uint64_t now_cupti = cupti, pool = agent_now(), monotonic = agent_clock_monotonic();
    if (agent_cuda.cupti.GetTimestamp)
        agent_cuda.cupti.GetTimestamp(&now_cupti);
    double ago = (double)(int64_t)(now_cupti - cupti);
    if (!(ago >= 0 &&
          ago < 60e9)) /* of another clock: when it was read is the best that is known */
        return pool;
    double a_ns =
        monotonic > clock_start.monotonic
            ? (double)(pool - clock_start.pool) / (double)(monotonic - clock_start.monotonic)
            : 1;
    return pool - (uint64_t)(ago * a_ns);
}

void gpu_counters_open(void)
{
    clock_start.pool = agent_now();
    clock_start.monotonic = agent_clock_monotonic();
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
#define SYMBOL(field, name) \
    gpu_driver.field = cuda ? (__typeof__(gpu_driver.field))(uintptr_t)dlsym(cuda, name) : NULL
    SYMBOL(count, "cuDeviceGetCount");
    SYMBOL(device, "cuDeviceGet");
    SYMBOL(primary, "cuDevicePrimaryCtxGetState");
    SYMBOL(current, "cuCtxGetCurrent");
    SYMBOL(current_device, "cuCtxGetDevice");
    SYMBOL(synchronize, "cuCtxSynchronize");
#undef SYMBOL
}

/* A thread that does not answer within the timeout is left to the end of the process. */
void agent_counters_end(void)
{
    struct timespec timeout = {.tv_sec = END_WAIT_S};
    if (!gpu_thread.started || atomic_exchange(&gpu_thread.stop, 1))
        return;
    syscall(SYS_futex, &gpu_thread.stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (!atomic_load_explicit(&gpu_thread.done, memory_order_acquire))
        syscall(SYS_futex, &gpu_thread.done, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
}

static void at_exit(void)
{
    if (agent_cuda_live())
        agent_counters_end();
}

/* Exit handlers run in reverse order: those that CUPTI's libraries registered at a first use run
 * before an earlier one of ours. So each first use registers ours again. */
void gpu_counters_used(void)
{
    atexit(at_exit);
}

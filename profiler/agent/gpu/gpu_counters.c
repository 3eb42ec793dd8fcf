/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/agent/gpu/gpu_counters.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 100000000

struct gpu_driver gpu_driver;
struct profiler_functions gpu_functions;

static struct {
    _Atomic uint32_t stop, done; /* futexes */
    bool started;
    uint64_t pool0, monotonic0; /* both clocks when the thread began */
} state;

static bool asked(enum wire_counters which)
{
    return atomic_load_explicit(&agent_cuda.gpu->counters[which].state, memory_order_relaxed) !=
           WIRE_COUNTERS_OFF;
}

void gpu_counters_fail(enum wire_counters which, enum wire_counters_stage stage, int error)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[which];
    atomic_store_explicit(&counters->stage, stage, memory_order_relaxed);
    atomic_store_explicit(&counters->error, (uint32_t)error, memory_order_relaxed);
    atomic_store_explicit(&counters->state, WIRE_COUNTERS_FAILED, memory_order_release);
}

int gpu_counters_chip(enum wire_counters which, int device, const char **chip)
{
    struct wire_gpu_counters *counters = &agent_cuda.gpu->counters[which];
    struct profiler_initialize begin = {.size = PROFILER_SIZE(profiler_initialize, reserved)};
    struct profiler_chip p = {.size = PROFILER_SIZE(profiler_chip, name), .device = (size_t)device};
    int rc = gpu_functions.ProfilerInitialize ? gpu_functions.ProfilerInitialize(&begin) : 0;
    if (rc || (rc = gpu_functions.DeviceGetChipName(&p)))
        return rc;
    strncpy(counters->chip, p.name, sizeof counters->chip - 1);
    *chip = p.name;
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
    double a_ns = monotonic > state.monotonic0
                      ? (double)(pool - state.pool0) / (double)(monotonic - state.monotonic0)
                      : 1;
    return pool - (uint64_t)(ago * a_ns);
}

static void find_driver(void)
{
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

/* Devices that the process has begun to use since the last look. A look never makes a context. */
static void look_for_devices(bool *seen)
{
    int n = 0;
    if (!gpu_driver.count || !gpu_driver.device || !gpu_driver.primary || gpu_driver.count(&n))
        return;
    for (int i = 0; i < n && i < GPU_DEVICES; i++) {
        int device, active = 0;
        unsigned flags;
        if (!seen[i] && gpu_driver.device(&device, i) == 0 &&
            gpu_driver.primary(device, &flags, &active) == 0 && active)
            seen[i] = gpu_pm_look(i) || true;
    }
}

static void *counters_main(void *arg)
{
    bool seen[GPU_DEVICES] = {false};
    (void)arg;
    prctl(PR_SET_NAME, "tacho-counters");
    state.pool0 = agent_now();
    state.monotonic0 = agent_clock_monotonic();
    while (!atomic_load_explicit(&state.stop, memory_order_acquire)) {
        struct timespec pause = {.tv_nsec = TICK_NS};
        syscall(SYS_futex, &state.stop, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
        if (asked(WIRE_COUNTERS_PM)) {
            look_for_devices(seen);
            gpu_pm_read();
        }
        if (asked(WIRE_COUNTERS_RANGE))
            gpu_range_read();
    }
    gpu_pm_stop();
    gpu_range_stop();
    atomic_store_explicit(&state.done, 1, memory_order_release);
    syscall(SYS_futex, &state.done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

static void begin(enum wire_counters which, const char *word)
{
    if (agent_cupti_option(word))
        atomic_store_explicit(&agent_cuda.gpu->counters[which].state, WIRE_COUNTERS_WAITING,
                              memory_order_relaxed);
}

void agent_counters_start(void)
{
    begin(WIRE_COUNTERS_PM, "pm");
    begin(WIRE_COUNTERS_RANGE, "range");
    if (!asked(WIRE_COUNTERS_PM) && !asked(WIRE_COUNTERS_RANGE))
        return;
    if (!gpu_host_functions(&gpu_functions, agent_cuda.cupti.library)) {
        for (int i = 0; i < WIRE_COUNTERS; i++)
            if (asked((enum wire_counters)i))
                gpu_counters_fail((enum wire_counters)i, WIRE_COUNTERS_STAGE_LIBRARY, 0);
        return;
    }
    find_driver();
    state.started = agent_cuda_thread(counters_main, 1u << 20);
}

void agent_counters_end(void)
{
    struct timespec second = {.tv_sec = 1};
    if (!state.started)
        return;
    atomic_store_explicit(&state.stop, 1, memory_order_release);
    syscall(SYS_futex, &state.stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (!atomic_load_explicit(&state.done, memory_order_acquire))
        syscall(SYS_futex, &state.done, FUTEX_WAIT_PRIVATE, 0, &second, NULL, 0);
}

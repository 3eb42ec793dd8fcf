/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of hardware counters: starts sampling on each device that the program begins to use,
 * and hands the values of gpu_pm.c and gpu_range.c over ten times a second.
 */
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler/agent/gpu/gpu_counters.h"

#define TICK_NS 100000000

static bool asked(enum wire_counters which)
{
    return relaxed_load(&agent_cuda.gpu->counters[which].state) != WIRE_COUNTERS_OFF;
}

/* Devices that the process has begun to use since the last look. A look never makes a context. */
static void look_for_devices(bool *seen)
{
    int devices = 0;
    if (!gpu_driver.count || !gpu_driver.device || !gpu_driver.primary ||
        gpu_driver.count(&devices))
        return;
    for (int i = 0; i < devices && i < GPU_DEVICES; i++) {
        int device, active = 0;
        unsigned flags;
        if (!seen[i] && gpu_driver.device(&device, i) == 0 &&
            gpu_driver.primary(device, &flags, &active) == 0 && active)
            seen[i] = gpu_pm_look(i) || true;
    }
}

/* Ten times a second until the process ends: new devices, samples, and the values of counted
 * steps. */
static void *counters_main(void *arg)
{
    bool seen[GPU_DEVICES] = {false};
    (void)arg;
    prctl(PR_SET_NAME, "tacho-counters");
    while (!atomic_load_explicit(&gpu_thread.stop, memory_order_acquire)) {
        struct timespec pause = {.tv_nsec = TICK_NS};
        syscall(SYS_futex, &gpu_thread.stop, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
        if (asked(WIRE_COUNTERS_PM)) {
            look_for_devices(seen);
            gpu_pm_read();
        }
        if (asked(WIRE_COUNTERS_RANGE))
            gpu_range_read();
    }
    gpu_pm_stop();
    gpu_range_stop();
    atomic_store_explicit(&gpu_thread.done, 1, memory_order_release);
    syscall(SYS_futex, &gpu_thread.done, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

/* A first use of CUPTI on the program's own thread: the process does not exit during it. */
static void warm_up(void)
{
    struct profiler_host_chips chips = {.size = PROFILER_SIZE(profiler_host_chips, names)};
    struct gpu_host host = {0};
    if (!gpu_functions.ProfilerHostGetSupportedChips ||
        gpu_functions.ProfilerHostGetSupportedChips(&chips) || !chips.count)
        return;
    gpu_host_open(&host, &gpu_functions, PROFILER_PM_SAMPLING, chips.names[chips.count - 1],
                  (struct gpu_image){0}, gpu_pm_metrics, 1, 1);
    gpu_host_close(&host);
    gpu_counters_used();
}

static void begin(enum wire_counters which, const char *word)
{
    if (agent_cupti_option(word))
        relaxed_store(&agent_cuda.gpu->counters[which].state, WIRE_COUNTERS_WAITING);
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
    gpu_counters_open();
    warm_up();
    gpu_thread.started = agent_background(counters_main, 1u << 20);
}

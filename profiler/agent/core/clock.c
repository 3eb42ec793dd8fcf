/* SPDX-License-Identifier: Apache-2.0
 *
 * Which clock the records carry. The counter of the processor is the cheapest, but only where it
 * runs at one rate on all cores and the kernel itself still trusts it; else CLOCK_MONOTONIC.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "profiler/agent/core/agent.h"

uint64_t agent_clock_monotonic(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* The kernel falls back to these clock sources when it found the counter to stop, drift or differ
 * between sockets. */
static bool kernel_distrusts_counter(void)
{
    char text[32] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    return bytes > 0 && (!strncmp(text, "hpet", 4) || !strncmp(text, "acpi_pm", 7) ||
                         !strncmp(text, "jiffies", 7));
}

/* A process may have forbidden itself to read the counter: then a read raises SIGSEGV. */
static bool counter_is_usable(void)
{
    int mode = PR_TSC_ENABLE;
    if (!ticks_steady())
        return false;
    if (prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_SIGSEGV)
        return false;
    return !kernel_distrusts_counter();
}

uint32_t agent_clock_choose(void)
{
    const char *forced = getenv(WIRE_ENV_CLOCK);
    if (forced && !strcmp(forced, "monotonic"))
        return WIRE_CLOCK_MONOTONIC;
    return counter_is_usable() ? WIRE_CLOCK_TSC : WIRE_CLOCK_MONOTONIC;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/data/clock.h"

double tui_clock_s(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

double tui_now_s(void)
{
    return tui_clock_s(CLOCK_MONOTONIC);
}

struct timespec tui_time_after(clockid_t id, int64_t ms)
{
    struct timespec time;
    clock_gettime(id, &time);
    time.tv_nsec += ms % 1000 * 1000000;
    time.tv_sec += ms / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

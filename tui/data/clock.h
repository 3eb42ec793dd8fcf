/* SPDX-License-Identifier: Apache-2.0
 *
 * What time it is, for the dashboard and for the thread that follows a run.
 */
#ifndef TUI_CLOCK_H
#define TUI_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The time of a clock, s. */
double tui_clock_s(clockid_t id);
/* Of CLOCK_MONOTONIC, which never steps back, s. */
double tui_now_s(void);
/* The time of a clock in so many milliseconds. */
struct timespec tui_time_after(clockid_t id, int64_t ms);

#endif

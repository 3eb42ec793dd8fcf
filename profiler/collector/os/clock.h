/* SPDX-License-Identifier: Apache-2.0
 *
 * The ticks of the pools (profiler/ticks.h), converted to CLOCK_MONOTONIC ns, piecewise linear
 * between anchors.
 *
 * An anchor is one moment read on three clocks back to back. The drain takes one after it has read
 * how far each segment is written, so a record always lies between two anchors (or a little before
 * the newest one): it is interpolated, not extrapolated. Between two neighbouring anchors ns = ns0
 * + (tsc - tsc0) * slope, slope as 32.32 fixed point. The rate of a steady counter is constant;
 * what the pieces follow is the slewing of CLOCK_MONOTONIC by NTP.
 */
#ifndef COL_CLOCK_H
#define COL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define COL_CLOCK_RING 2048

struct col_anchor {
    uint64_t tsc; /* 0 where there is no counter */
    int64_t monotonic, realtime;
};

struct col_clock {
    struct col_anchor ring[COL_CLOCK_RING]; /* oldest at `first`, `count` of them */
    unsigned first, count;
    uint64_t tsc0; /* the newest piece */
    int64_t ns0;
    uint64_t slope;
};

static inline int64_t col_time_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
int64_t col_clock_now(void);      /* CLOCK_MONOTONIC, ns */
int64_t col_clock_realtime(void); /* CLOCK_REALTIME, ns */
int64_t col_clock_thread(void);   /* CPU time of this thread, ns */
/* How long the machine has been suspended since it was started, ns: CLOCK_MONOTONIC leaves that
 * out. Two calls differ by less than a millisecond where it was not suspended between them. */
int64_t col_clock_suspended(void);
void col_sleep_ms(int64_t ms);
/* Does this CPU have a counter that ticks at one rate in all power states? */
bool col_clock_invariant(void);
/* What a recording says of its clock: "tsc", "cntvct", or why it is CLOCK_MONOTONIC. */
const char *col_clock_key(void);
/* What the processor calls its counter: "invariant TSC", "virtual counter" ... */
const char *col_clock_counter(void);

/* Reads the clocks back to back: the best of some tries. */
struct col_anchor col_clock_anchor(void);

void col_clock_init(struct col_clock *clock); /* without anchors */
/* Appends an anchor. One less than a millisecond younger than the last is ignored (its slope would
 * be mostly jitter). Anchors must come in order of time. Returns true when it was taken. */
bool col_clock_add(struct col_clock *clock, const struct col_anchor *anchor);
/* Converts; needs two anchors. Before the oldest and after the newest anchor the nearest piece is
 * extended. */
int64_t col_clock_ns(const struct col_clock *clock, uint64_t tsc);

#endif

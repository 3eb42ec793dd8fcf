/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to profiler/: the counter of the processor that ticks at one rate on all cores, as both
 * agent and collector read it, in the target and outside of it. It is the cheapest clock.
 *
 *   x86-64    the time stamp counter, where CPUID says that it is invariant (Intel SDM vol. 3B,
 *             "Invariant TSC")
 *   aarch64   the virtual counter CNTVCT_EL0, which has one rate and one value on all cores by
 *             architecture (Arm ARM, "The Generic Timer"); its rate is in CNTFRQ_EL0
 *   others    none: CLOCK_MONOTONIC is used
 *
 * None of the reads has a barrier: a core may read the counter a few instructions early, and the
 * error is below what one event costs.
 */
#ifndef TACHO_TICKS_H
#define TACHO_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

#include <cpuid.h>

#define TICKS_KEY  "tsc"           /* what a recording says of its clock */
#define TICKS_NAME "invariant TSC" /* for people */

static inline uint64_t ticks_read(void)
{
    return __builtin_ia32_rdtsc();
}

/* Does the counter tick at one rate in all power states? */
static inline bool ticks_steady(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8));
}

/* About one millisecond in ticks, for pacing only: CPUs say nothing reliable of the rate. */
static inline uint64_t ticks_ms(void)
{
    return 3000000;
}

#elif defined(__aarch64__)

#define TICKS_KEY  "cntvct"
#define TICKS_NAME "virtual counter"

static inline uint64_t ticks_read(void)
{
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

/* The rate in Hz, as the firmware has set it; 0 where it has not. */
static inline uint64_t ticks_rate(void)
{
    uint64_t rate;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate;
}

static inline bool ticks_steady(void)
{
    return ticks_rate() != 0;
}

static inline uint64_t ticks_ms(void)
{
    return ticks_rate() / 1000;
}

#else

#define TICKS_KEY  "none"
#define TICKS_NAME "counter of constant rate"

static inline uint64_t ticks_read(void)
{
    return 0;
}

static inline bool ticks_steady(void)
{
    return false;
}

static inline uint64_t ticks_ms(void)
{
    return 1000000;
}

#endif

#endif

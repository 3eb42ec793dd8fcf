/* SPDX-License-Identifier: Apache-2.0
 *
 * Offset and drift of one clock to another one, from collectives in which both took part and which
 * no rank leaves before all have come: they end everywhere at nearly one time, and for certain no
 * rank ends one before the last has begun it. Knows nothing of files: `tacho merge` (merge_clock.c)
 * and the analysis of any trace (analyzers/collectives/clocks.c) bring the points. docs/merge.md.
 */
#ifndef STORE_CLOCK_FIT_H
#define STORE_CLOCK_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One collective; ns. E is the earliest end and S the latest start of it by a clock; r: the
 * reference's, a: the other one. */
struct store_clock_point {
    int64_t at;        /* E_a */
    int64_t offset;    /* E_r - E_a */
    int64_t low, high; /* S_r - E_a, E_r - S_a: causality leaves nothing outside */
    int64_t least;     /* shortest participant of all ranks */
};

/* t of the reference = t + offset + drift * (t - pivot) */
struct store_clock_fit {
    int64_t offset, pivot;
    double
        drift; /* s/s; 0: none beyond four of its standard errors was seen, or it is beyond 0.1 % */
    double drift_error; /* s/s: what is left of it, seen or not; certain where `error` is `bound` */
    double error;     /* ns that a time in the span of the points may be off by: offset, and what is
                         left of drift */
    double bound;     /* ns: no event can be further off, or an end would come before a start; NAN:
                         contradicted by the points */
    double low, high; /* what causality leaves for the offset at the pivot; low > high: nothing */
    double violation; /* ns by which equal clocks (offset 0, no drift) contradict causality; 0: they
                         do not */
    int64_t matched;  /* collectives that the ends were taken of */
};

/* p gets sorted; n >= 1. 0 or TACHO_ENOMEM. */
int store_clock_fit(struct store_clock_point *point, size_t count, struct store_clock_fit *out);
int64_t store_clock_time(int64_t offset, double drift, int64_t pivot, int64_t time);

#endif

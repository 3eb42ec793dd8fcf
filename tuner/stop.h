/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room tuner/: whether a trial that is still running can be ended, because its
 * steps are already slower than those of the best trial so far, or because their mean is known well
 * enough.
 */
#ifndef TUNER_STOP_H
#define TUNER_STOP_H

#include <stdbool.h>
#include <stddef.h>

/* A trial is ended only if it is slower by more than this share: two runs of one setting differ,
 * and the interval below knows only how the steps of one run do. */
#define TUNER_STOP_MARGIN 0.05

/* The steps at the beginning that are left out: the cut that makes the standard error of the mean
 * of the rest smallest, in the first half (MSER; White 1997, "An effective truncation heuristic for
 * bias reduction in simulation output"). */
size_t tuner_stop_warm_up(const double *cost, size_t count);
/* The mean of the steps after the warm-up, and what it is at least, with the probability 1 - error
 * at all counts at once, however often one looks: an asymptotic confidence sequence (Waudby-Smith,
 * Arbour, Sinha, Kennedy & Ramdas 2021, theorem 2.2). Steps of a program are alike, not
 * independent: the margin covers that. -INFINITY where there are too few. */
void tuner_stop_bound(const double *cost, size_t count, double error, double *mean, double *low);
/* Is the trial with these costs of its steps (> 0, in their order) slower than `leader`, the cost
 * of a step of the best trial? */
bool tuner_stop_is_worse(const double *cost, size_t count, double leader, double error);
/* Is their mean known to such a share of itself (0.05: to 5 %)? */
bool tuner_stop_is_known(const double *cost, size_t count, double precision, double error);

#endif

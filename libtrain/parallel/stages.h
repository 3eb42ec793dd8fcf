/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: schedules of a pipeline: in which order a stage makes the forward and
 * backward passes of m micro-batches, p stages.
 *
 * gpipe: all forward passes, then all backward passes (Huang et al. 2019); m micro-batches are in
 *   flight.
 * 1f1b: stage s makes min(m, p - 1 - s) forward passes, then one forward and one backward pass in
 *   turn (Narayanan et al. 2019); min(m, p - s) are in flight.
 * Backward passes come in the order of micro-batches in both, so gradients are added in that order.
 * Where all stages take F and B for a pass, a step takes (m + p - 1)(F + B), of which p - 1 passes
 * are the bubble.
 */
#ifndef LT_STAGES_H
#define LT_STAGES_H

#include <stddef.h>

#define LT_SCHEDULE_OF_STAGES_MAP(X) X(GPIPE, "gpipe") X(ONE_F_ONE_B, "1f1b")
#define LT_ENUM_STAGES(id, name)     LT_STAGES_##id,
enum lt_stages { LT_SCHEDULE_OF_STAGES_MAP(LT_ENUM_STAGES) LT_STAGES_COUNT };
#undef LT_ENUM_STAGES

/* One pass of a stage over a micro-batch. */
struct lt_pass {
    int backward, micro;
};

/* Schedule called `name`, or -1. */
int lt_stages_find(const char *name);

/* The 2 micro passes of a stage, in its order. */
void lt_stages_passes(enum lt_stages kind, int stages, int stage, int micro, struct lt_pass *out);

/* The most micro-batches whose forward pass is made and whose backward pass is not, of these
 * passes. */
int lt_stages_in_flight(const struct lt_pass *pass, size_t passes);

/* When the last pass of a step ends, each stage making its passes as early as their inputs allow;
 * forward[s] and backward[s]: what a pass of stage s takes, messages nothing. A negative number:
 * out of memory. */
double lt_stages_makespan(enum lt_stages kind, int stages, int micro, const double *forward,
                          const double *backward);

#endif

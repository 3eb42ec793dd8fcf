/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts that fit, the fastest first. Part of the public header of planner/.
 */
#ifndef PLANNER_SEARCH_H
#define PLANNER_SEARCH_H

#include "planner/memory/memory.h"
#include "planner/time/step.h"

#define PLAN_BEST 10

struct plan_found {
    struct plan_layout layout;
    struct plan_time time;
    struct plan_memory memory;
};

struct plan_search {
    size_t tried, fitting;
    size_t best_count, front_count;
    struct plan_found best[PLAN_BEST];  /* by time, fastest first; differ in more than one member */
    struct plan_found front[PLAN_BEST]; /* no other is both faster and smaller */
    bool has_smallest;
    struct plan_found smallest; /* the least memory of all that were tried */
};

/* Tries every layout that agrees with the members of `of->layout` that are given (not 0) and keeps
 * those below `memory` bytes (0: the device's). TACHO_EUSAGE: no layout can run, with the reason.
 */
int plan_search_layouts(const struct plan_case *of, double memory, double loader,
                        struct plan_search *out, struct tacho_error *err);

/* What limits a plan: the largest part of its step that is not arithmetic, and what would change
 * it; static texts. */
struct plan_limit {
    enum plan_part part;
    double share;       /* of the step */
    const char *change; /* "a faster link between nodes" */
    double gain;        /* of throughput, if that part took half as long */
};
struct plan_limit plan_limit_of(const struct plan_time *time);

#endif

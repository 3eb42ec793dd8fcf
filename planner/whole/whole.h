/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole plan: a request, and everything that is said about it. Part of the public header of
 * planner/.
 */
#ifndef PLANNER_WHOLE_H
#define PLANNER_WHOLE_H

#include "planner/cost/cost.h"
#include "planner/search/search.h"

#define PLAN_DEVICES_MOST 12
#define PLAN_SCALES       5

/* A run that was measured, to calibrate with. */
struct plan_run {
    const char *name;    /* NULL: none */
    struct plan_case at; /* what ran */
    double seconds;      /* a step took */
    /* Of these, by kind, the mean of the ranks; all 0: not known. */
    struct plan_kinds kinds;
    /* Standard deviation of its steps over their mean, of a run on a processor: between two runs
     * the machine varies as much. */
    double variation;
};

struct plan_request {
    struct plan_case of;               /* members of the layout that are 0 are searched for */
    double memory;                     /* bytes that may be used; 0: the device's */
    double loader;                     /* samples per second; 0: no limit */
    double tokens;                     /* to train on; 0: what is compute-optimal for the model */
    double budget_hours, budget_money; /* 0: no limit */
    struct plan_rates rates;
    struct plan_failures failures; /* mtbf_s: of one device; 0: no failures */
    struct plan_run run;
    const char *devices[PLAN_DEVICES_MOST]; /* to compare with */
    size_t device_count;
};

/* The plan on another device, or on another number of them. */
struct plan_other {
    struct plan_machine machine;
    bool possible; /* false: nothing fits or runs */
    struct plan_found found;
    struct plan_cost cost;
    double efficiency; /* tokens per second and device over those of the plan */
};

struct plan_result {
    struct plan_request request;
    struct plan_parameters parameters;
    bool searched;              /* the layout was chosen */
    struct plan_search *search; /* NULL: the layout was given */
    struct plan_found found;
    double factor;        /* measured over predicted of the run; 1 without one */
    double run_predicted; /* seconds that the model predicts for the run */
    double scale;         /* of all times, after that of each kind (plan_case.speed) */
    struct plan_limit limit;
    struct plan_cost cost;
    bool within_budget;
    struct plan_other scales[PLAN_SCALES]; /* a quarter, half, as many, twice, four times */
    struct plan_other others[PLAN_DEVICES_MOST];
    size_t other_count;
    double optimal_tokens, optimal_parameters, optimal_budget_tokens; /* of the corrected law */
    double loss;
};

/* Makes the plan. Free with plan_result_free. TACHO_EUSAGE: no layout can run, or a device is
 * unknown; TACHO_ENOMEM. A plan that does not fit is a result, with found.memory.fit. */
int plan_make(const struct plan_request *request, struct plan_result *out, struct tacho_error *err);
void plan_result_free(struct plan_result *result);

#endif

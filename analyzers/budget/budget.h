/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: the budget of a step, on the thread that runs it (budget.c) or on its
 * device (budget_device.c).
 */
#ifndef ANALYZERS_BUDGET_H
#define ANALYZERS_BUDGET_H

#include "analyzers/steps/context.h"

/* What was recorded of the host of a lane on a device. */
struct an_budget_host {
    bool rows;   /* threads that drive the device have rows */
    bool loader; /* the step's thread has ranges of a loader */
};

/* Fills class_ns and cut_ns of the detailed steps of a lane on a device. 0 or TACHO_ENOMEM. */
int an_budget_device(struct an_context *context, const struct an_lane *lane,
                     struct an_budget_host *host);

/* Class of a range on a thread by what it is and by the class of the range around it: a range that
 * does not say what it is takes after the one around it. */
int an_class_of_role(enum an_role role, int around);

/* A piece of a step that belongs to one class. */
struct an_class_span {
    struct an_span span;
    enum an_class class;
};
struct an_class_spans {
    struct an_class_span *at;
    size_t count, room;
};

/* Pieces of a step on the thread that runs it, in order of time, the same that class_ns sums; for
 * detailed steps of lanes without a device. `out` starts empty or used, is filled anew and belongs
 * to the caller: free(out->at). 0 or TACHO_ENOMEM. */
int an_budget_spans(struct an_context *context, const struct an_step *step,
                    struct an_class_spans *out);

#endif

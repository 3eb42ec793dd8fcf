/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room reports/: a plan, and the planner checked against published runs, in
 * every format. Functions return 0, TACHO_ENOMEM or TACHO_EIO (the stream failed).
 */
#ifndef REPORTS_PLAN_WRITE_H
#define REPORTS_PLAN_WRITE_H

#include <stdio.h>

#include "planner/plan.h"
#include "reports/page/options.h"

/* Schema tacho-plan/1 (docs/planner.md). */
int rep_plan_json(const struct plan_result *result, FILE *out);
/* format: "text", "markdown" or "html". explain: each formula with its numbers. */
int rep_plan_write(const char *format, const struct plan_result *result, bool explain,
                   const struct rep_options *options, FILE *out);

/* The fitted constants: schema tacho-plan-constants/1. */
int rep_plan_constants_json(const struct plan_constants *constants, FILE *out);

/* The check: schema tacho-plan-check/1, and text. from_run: a row's step is the one scaled by the
 * runs of its source that are near it. */
int rep_plan_check_json(const struct plan_check *check, bool from_run, FILE *out);
int rep_plan_check_text(const struct plan_check *check, bool from_run,
                        const struct rep_options *options, FILE *out);

#endif

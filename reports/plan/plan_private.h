/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/plan/: words that several formats of a plan use.
 */
#ifndef REPORTS_PLAN_PRIVATE_H
#define REPORTS_PLAN_PRIVATE_H

#include "planner/plan.h"
#include "reports/page/page.h"

#define PLAN_GIB    1073741824.0
#define PLAN_LAYOUT 120

/* "dp 8 x tp 8 x pp 2 (2 chunks), micro-batch 1, ZeRO-1, recompute full". Fills and returns buf. */
const char *plan_layout_words(const struct plan_layout *layout, char buf[PLAN_LAYOUT]);
/* The same for tables: "dp8 tp8 pp2/2 mbs1 z1 full"; behind the slash chunks of a stage. */
const char *plan_layout_short(const struct plan_layout *layout, char buf[PLAN_LAYOUT]);
/* The same as options of the command. */
const char *plan_layout_options(const struct plan_layout *layout, char buf[PLAN_LAYOUT]);

/* Sections with each formula and its numbers. */
void plan_page_explain(struct page *page, const struct plan_result *result);

#endif

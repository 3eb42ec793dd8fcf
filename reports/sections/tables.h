/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables and phrases that a report prints and the dashboard shows in its own way (sorted, filtered,
 * beside a picture). Columns, units and names are the same in both.
 */
#ifndef REPORTS_TABLES_H
#define REPORTS_TABLES_H

#include "analyzers/result/result.h"
#include "reports/page/table.h"

/* Each fills *table; the title is in `title` or static. An empty table has count 0; the result has
 * the reason. */
void rep_table_ops(const struct an_result *result, struct rep_table *table,
                   char title[80]); /* rows: struct an_op */
void rep_table_attribution(const struct an_attribution *attribution, struct rep_table *table,
                           char title[80]); /* struct an_attribution_row */
void rep_table_roofline(const struct an_result *result,
                        struct rep_table *table); /* struct an_roofline_point */
void rep_table_path_ops(const struct an_critical_path *path,
                        struct rep_table *table); /* struct an_path_op */

/* What the i-th ceiling bounds in a picture of the roofline: "" for the arithmetic of its type,
 * " GEMM" for the rate that GEMMs reach, "DRAM", "L3" ... for bytes. Of ceilings with
 * the same label only the highest is drawn. NULL: the ceiling is not a roof, or is not drawn. */
const char *rep_ceiling_label(const struct an_result *result, size_t i);

/* A class of the budget as the reports of this run call it. */
const char *rep_class_name(const struct an_result *result, int class);

/* "+41 % [36, 45]", "≤ +12 % (ceiling)", "no gain claimed". Returns buf. */
const char *rep_gain_text(char *buf, size_t size, const struct an_gain *gain);
/* The gain of a finding; where it holds for a machine with and without other programs, it says so.
 * Returns buf. */
const char *rep_finding_gain(char *buf, size_t size, const struct an_finding *finding);
/* "1 and 3 together +41 % [36, 45]: gains do not add up". Returns buf. */
const char *rep_together_text(const struct an_result *result, char *buf, size_t size);
/* How many findings' edits were replayed together, those that repeat another one excluded. */
size_t rep_together_count(const struct an_result *result);

/* "overhead ≤ 0.3 %": what recording costs at most, in % of a step. NULL where that is not known;
 * else returns buf. */
const char *rep_overhead_text(const struct an_trust *trust, char *buf, size_t size);

/* Is there a caution that the verdict does not give itself? One about other programs repeats what a
 * verdict about them says. */
bool rep_shows_caution(const struct an_result *result);

/* A part of the mean step: milliseconds, per cent of it; `digits` is the table's own. */
struct rep_share_row {
    const char *label;
    double ms, pct;
    int digits;
    bool sum; /* of the other rows; its label says something else about the step, or is empty */
};
/* Writes rows that sum to the step, with a bar each and the step as the last row; `row` has room
 * for that one. */
void rep_shares_write(struct page *page, const char *title, struct rep_share_row *row, size_t count,
                      double whole_ms, const char *sum);
/* The mean step as the first screen shows it, the longest part first: stages where they are known
 * and agree with the classes of the budget, else these classes. `row` has room for REP_STEP_ROWS.
 * Returns the number of rows; 0: there is no budget. */
#define REP_STEP_ROWS 16
size_t rep_step_rows(const struct an_result *result, struct rep_share_row row[REP_STEP_ROWS],
                     double *step_ms);
/* The classes of the budget, which must not be absent. Classes without time are omitted, except the
 * two that a reader looks for. `row` has room for AN_CLASS_COUNT. Returns the number of rows. */
size_t rep_class_rows(const struct an_result *result, struct rep_share_row *row, double *step_ms);

/* Which modules have no ranges, and why; nothing where all have. */
void rep_modules_left_out(struct page *page, const struct an_modules *modules);

#endif

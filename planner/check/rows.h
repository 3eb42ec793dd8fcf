/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to planner/: a row of published runs as a case of the planner.
 */
#ifndef PLANNER_ROWS_H
#define PLANNER_ROWS_H

#include "planner/check/check.h"
#include "planner/check/table.h"

/* TACHO_EFORMAT: a column that the planner cannot do without is missing. */
int plan_rows_columns(const struct plan_table *table, const char *path, struct tacho_error *err);
/* Fills everything that the table says: model, layout, machine, what was measured. `reason` is set
 * where the row says too little for a prediction. */
void plan_rows_read(const struct plan_table *table, size_t row,
                    const struct plan_constants *constants, struct plan_row *out);

#endif

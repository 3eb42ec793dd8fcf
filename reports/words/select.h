/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to reports/: parts of a result that every format looks up.
 */
#ifndef REPORTS_SELECT_H
#define REPORTS_SELECT_H

#include "analyzers/result/result.h"

/* The name of the device a budget belongs to, "" when the run does not name it. */
const char *rep_device_name(const struct an_result *result, const struct an_device_budget *budget);
/* The table of device time by "op" (also for NULL), "module", "line" or "annotation". */
const struct an_attribution *rep_attribution(const struct an_result *result, const char *by);

#endif

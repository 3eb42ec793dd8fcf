/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON documents about one run. Functions return 0, TACHO_ENOMEM or TACHO_EIO (the stream
 * failed).
 */
#ifndef REPORTS_JSON_H
#define REPORTS_JSON_H

#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/page/options.h"

/* The whole report: schema tacho-report/1, docs/report-json.md. Options are never NULL. */
int rep_json_write(const struct an_result *result, const struct rep_options *options, FILE *out);

/* The predicted effect of changes to the dependency graph: schema tacho-advice/1, docs/advise.md.
 * For people the same is rep_text_section("advice"). */
int rep_advice_json(const struct an_result *result, FILE *out);

#endif

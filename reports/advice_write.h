/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room reports/: what changes of the dependency graph would do to the step,
 * for programs (docs/advise.md has the schema tacho-advice/1). For people:
 * rep_text_section("advice").
 */
#ifndef REPORTS_ADVICE_WRITE_H
#define REPORTS_ADVICE_WRITE_H

#include <stdio.h>

#include "analyzers/result/result.h"
#include "reports/report.h"

/* 0, TACHO_EIO (the stream failed) or TACHO_ENOMEM. */
int rep_advice_json(const struct an_result *result, FILE *out);

#endif

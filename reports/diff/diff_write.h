/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room reports/: a comparison of two runs (analyzers/diff/diff.h) for people
 * and for programs. docs/diff.md documents the schema tacho-diff/1.
 */
#ifndef REPORTS_DIFF_WRITE_H
#define REPORTS_DIFF_WRITE_H

#include <stdio.h>

#include "analyzers/diff/gate.h"
#include "reports/page/options.h"

/* `gate`: the limit of --fail-above and whether it is kept. 0, TACHO_EIO (the stream failed) or
 * TACHO_ENOMEM. */
int rep_diff_text(const struct an_diff *diff, const struct an_gate *gate,
                  const struct rep_options *options, FILE *out);
int rep_diff_json(const struct an_diff *diff, const struct an_gate *gate, FILE *out);

#endif

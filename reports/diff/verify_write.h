/* SPDX-License-Identifier: Apache-2.0
 *
 * Public header of the room reports/: what a change was predicted to gain, beside what pairs of
 * runs measured (analyzers/diff/pairs.h), for people and for programs (tacho-verify/1,
 * docs/verify.md).
 */
#ifndef REPORTS_VERIFY_WRITE_H
#define REPORTS_VERIFY_WRITE_H

#include <stdio.h>

#include "analyzers/diff/pairs.h"

struct rep_verify {
    const char *file;                   /* the recording */
    size_t number;                      /* of the finding, from 1 */
    const struct an_finding *finding;   /* NULL: the run has none */
    const char *change;                 /* as the user would type it */
    const char *before, *after;         /* the two commands */
    bool of_run;                        /* times include evaluation and checkpoints */
    const double *before_ms, *after_ms; /* of a step */
    size_t pairs;                       /* 0: not run yet */
    const char *kept;                   /* the folder with the runs; NULL: none */
};

/* To the stream, which the caller checks. The JSON: 0, TACHO_EIO or TACHO_ENOMEM. */
void rep_verify_text(const struct rep_verify *verify, FILE *out);
int rep_verify_json(const struct rep_verify *verify, FILE *out);

#endif

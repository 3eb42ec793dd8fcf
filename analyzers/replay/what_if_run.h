/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to analyzers/: what edits of the graph do to the step (docs/advise.md). The state is made
 * once, by the analyzer "replay", and kept in an_context.what_if.
 */
#ifndef ANALYZERS_WHAT_IF_RUN_H
#define ANALYZERS_WHAT_IF_RUN_H

#include "analyzers/base/stats.h"
#include "analyzers/replay/replay_error.h"
#include "analyzers/replay/replay_shares.h"
#include "analyzers/replay/sensitivity.h"
#include "analyzers/replay/what_if.h"

struct an_what_if_state {
    const struct an_replay *replay;
    struct an_rows rows;
    struct an_replay_error error;
    double pairs_error;           /* an_what_if_pairs_error of this run */
    double base_pct;              /* replayed steps / recorded ones - 1, of those that count */
    struct an_times base, edited; /* base: until all that is of the run as recorded is known, then
                                     they are `edited` */
    int64_t *own;                 /* of the edit at hand */
    double route_ratio;           /* replayed steps / recorded ones, of the loader as recorded on
                                     its route; 0: not replayed yet */
    struct an_shares *shares;     /* NULL: nothing is shared */
    struct an_core_use cores;
    double *base_ns, *edited_ns; /* ns of the steps that count: as recorded, edited */
    size_t steps;
    double median_ms;
    const char *refusal; /* why nothing is predicted; NULL */
};

/* Why the replay of this run can predict nothing, or NULL. */
const char *an_what_if_refusal(struct an_context *context, const struct an_what_if_state *state);
/* By how much segments of *length neighbouring steps of the run differ from all of it (1 = not at
 * all): 95 % of them lie in *x. 0 or TACHO_ENOMEM. */
int an_what_if_variation(const struct an_what_if_state *state, size_t *length,
                         struct an_interval *interval);
/* The share of a step by which the mean of seven pairs of runs may miss a gain, 90 % of the time,
 * if runs vary as parts of this one do. */
double an_what_if_pairs_error(const struct an_interval *variation);
/* Predicts the step under edits. Texts live in the result. 0 or TACHO_ENOMEM. */
int an_what_if_run(struct an_what_if_state *state, const struct an_edit *edit, size_t count,
                   struct an_what_if *out);
/* The same from text, for findings; `out->reason` and `out->unknown` are set where the text is not
 * a valid edit. */
int an_what_if_of(struct an_context *context, const char *text, struct an_what_if *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: parameters that are updated while the next forward pass runs (Peng et al.
 * 2019, ByteScheduler; Jayarajan et al. 2019, P3). The forward pass waits before each unit
 * (units.h) for the buckets that have the unit's gradients, whatever else is still on its way.
 *
 * This file knows which buckets a unit needs, and which pieces of the flat arrays it has; who waits
 * and who updates is the caller's.
 */
#ifndef LT_EARLY_H
#define LT_EARLY_H

#include "libtrain/parallel/buckets.h"
#include "libtrain/parallel/shard.h"

struct lt_early;

/* parameters are borrowed. TACHO_ENOMEM with words in *err; the caller frees, also after an error.
 */
int lt_early_create(struct lt_early **out, const struct lt_parameters *parameters,
                    struct tacho_error *err);
/* Accepts NULL. */
void lt_early_destroy(struct lt_early *early);

int lt_early_units(const struct lt_early *early);

/* All gradients of a step are in its closed buckets: from now on no unit is up to date. */
void lt_early_begin(struct lt_early *early, const struct lt_buckets *buckets);

/* What is to be updated before unit `unit` of lt_model_use is read, which counts as done with that:
 * its pieces, NULL where it is up to date. *turns: buckets that must be reduced before. */
const struct lt_piece *lt_early_take(struct lt_early *early, int unit, size_t *pieces,
                                     size_t *turns);

#endif

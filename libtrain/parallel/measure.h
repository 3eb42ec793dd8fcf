/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain/parallel/: what adapt.h chooses by is measured with a gradient of the run.
 */
#ifndef LT_MEASURE_H
#define LT_MEASURE_H

#include "libtrain/parallel/adapt.h"
#include "libtrain/parallel/compress.h"

/* Measures the link and each choice with a packed unit, which stays as it is, and fills adapt;
 * afterwards all ranks have made the same choice. What codecs keep must be all zero, and is so
 * afterwards. sum: of this rank's chunk, is overwritten. kind: how gradients are reduced as they
 * are. scratch: of all choices, and behind it floats of the largest unit. All ranks of the group
 * call it. */
void lt_measure_choices(struct lt_compress *compress, struct lt_adapt *adapt,
                        enum lt_all_reduce kind, int unit, const float *data, float *sum,
                        void *scratch, size_t scratch_bytes);

#endif

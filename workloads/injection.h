/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to workloads: --inject, a fault on purpose.
 */
#ifndef WORKLOADS_INJECTION_H
#define WORKLOADS_INJECTION_H

#include "libtrain/train/train.h"

/* "nan=STEP:LAYER:OPERATION", "inf=STEP:LAYER:OPERATION" (layers from 0; -1: an operation outside
 * of the layers) or "rate=STEP:FACTOR"; NULL: none. TACHO_EUSAGE with words in *err. */
int injection_parse(struct lt_injection *out, const char *text, struct tacho_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend: reference_typed.h, once for each element type.
 */
#include <math.h>
#include <string.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/typed.h"

#define REFERENCE_CHANNELS 64 /* of a head, summed at a time */

#define LT_TYPE fp32
#include "libtrain/ops/reference_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/reference_typed.h"

/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference backend, operations of ranks that have a part of the vocabulary:
 * reference_part_typed.h, once for each element type.
 */
#include <math.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/typed.h"

#define LT_TYPE fp32
#include "libtrain/ops/reference_part_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/reference_part_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/reference_part_typed.h"

/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend, operations of ranks that have a part of the vocabulary: cpu_part_typed.h, once
 * for each element type.
 */
#include <math.h>

#include "libtrain/ops/kernels.h"
#include "libtrain/ops/typed.h"
#include "libtrain/ops/vector.h"

#define COLUMNS 64 /* columns that one thread sums at a time */

#define LT_TYPE fp32
#include "libtrain/ops/cpu_part_typed.h"
#undef LT_TYPE
#define LT_TYPE bf16
#include "libtrain/ops/cpu_part_typed.h"
#undef LT_TYPE
#define LT_TYPE fp16
#include "libtrain/ops/cpu_part_typed.h"

/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: element types that activations and matrix products have. Parameters, their gradients and the optimizer's
 * state are fp32 in all of them.
 */
#ifndef LT_DTYPE_H
#define LT_DTYPE_H

#include <stddef.h>

#include "tacho_nvtx.h"

/* id, name, bytes, enum tacho_dtype */
#define LT_DTYPE_MAP(X) X(FP32, "fp32", 4, FP32) X(BF16, "bf16", 2, BF16)

#define LT_ENUM_DTYPE(id, name, bytes, code) LT_DTYPE_##id,
enum lt_dtype { LT_DTYPE_MAP(LT_ENUM_DTYPE) LT_DTYPE_COUNT };
#undef LT_ENUM_DTYPE

/* Type called `name`, or -1. */
int lt_dtype_find(const char *name);
const char *lt_dtype_name(enum lt_dtype dtype);
size_t lt_dtype_bytes(enum lt_dtype dtype);

#endif

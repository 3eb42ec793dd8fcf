/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to libtrain: element types that activations and GEMMs have. Parameters, their
 * gradients and the optimizer's state are fp32 in all of them.
 */
#ifndef LT_DTYPE_H
#define LT_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* id, name, bytes, enum tacho_dtype */
#define LT_DTYPE_MAP(X) X(FP32, "fp32", 4, FP32) X(BF16, "bf16", 2, BF16)

#define LT_ENUM_DTYPE(id, name, bytes, code) LT_DTYPE_##id,
enum lt_dtype { LT_DTYPE_MAP(LT_ENUM_DTYPE) LT_DTYPE_COUNT };
#undef LT_ENUM_DTYPE

/* Type called `name`, or -1. */
int lt_dtype_find(const char *name);
const char *lt_dtype_name(enum lt_dtype dtype);
size_t lt_dtype_bytes(enum lt_dtype dtype);

/* How an element lies in memory. */
typedef float lt_fp32;
typedef uint16_t lt_bf16;

/* The upper half of a float, rounded to nearest, ties to even; NaN stays NaN. */
static inline uint16_t lt_bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float lt_bf16_float(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif

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
#define LT_DTYPE_MAP(X) \
    X(FP32, "fp32", sizeof(lt_fp32), FP32) X(BF16, "bf16", 2, BF16) X(FP16, "fp16", 2, FP16)

#define LT_ENUM_DTYPE(id, name, bytes, code) LT_DTYPE_##id,
enum lt_dtype { LT_DTYPE_MAP(LT_ENUM_DTYPE) LT_DTYPE_COUNT };
#undef LT_ENUM_DTYPE
#define LT_DTYPE_EMULATED LT_DTYPE_FP16 /* types from here on are emulated: they have no peak */

/* Type called `name`, or -1. */
int lt_dtype_find(const char *name);
const char *lt_dtype_name(enum lt_dtype dtype);
size_t lt_dtype_bytes(enum lt_dtype dtype);

/* A float of 32 bits also where `float` is a double (double.h). */
#ifndef LT_DOUBLE
typedef float lt_single;
#endif

/* How an element lies in memory. */
typedef float lt_fp32;
typedef uint16_t lt_bf16;
typedef uint16_t lt_fp16; /* IEEE 754 binary16 */

static inline uint32_t lt_float_bits(float x)
{
    lt_single single = (lt_single)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

static inline float lt_float_of_bits(uint32_t bits)
{
    lt_single value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The upper half of a float, rounded to nearest, ties to even; NaN stays NaN. */
static inline uint16_t lt_bf16_round(float x)
{
    uint32_t bits = lt_float_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* One of the two values of bf16 around a float, the farther from 0 the more probable the nearer it
 * is; chance: 16 even random bits. NaN stays NaN. */
static inline uint16_t lt_bf16_chance(float x, uint32_t chance)
{
    uint32_t bits = lt_float_bits(x);
    return (uint16_t)((bits & 0x7f800000u) == 0x7f800000u ? lt_bf16_round(x)
                                                          : (bits + (chance & 0xffffu)) >> 16);
}

static inline float lt_bf16_float(uint16_t x)
{
    return lt_float_of_bits((uint32_t)x << 16);
}

/* Rounded to nearest, ties to even; what is larger than 65504 becomes infinity, what is smaller
 * than half of 2^-24 becomes 0; NaN stays NaN. Below 2^-14, adding 0.5 leaves the rounded value in
 * the low bits of the sum. */
static inline uint16_t lt_fp16_round(float x)
{
    uint32_t bits = lt_float_bits(x), sign = bits & 0x80000000u, size = bits ^ sign;
    uint32_t small = lt_float_bits(lt_float_of_bits(size) + 0.5f) - 0x3f000000u;
    uint32_t rounded = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    rounded = size < 0x38800000u ? small : rounded;
    rounded = size >= 0x47800000u ? special : rounded;
    return (uint16_t)(rounded | sign >> 16);
}

static inline float lt_fp16_float(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, size = (uint32_t)(x & 0x7fffu) << 13;
    float small = lt_float_of_bits(size + 0x38800000u) - lt_float_of_bits(0x38800000u);
    uint32_t normal = size + (size >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    uint32_t value = size < 0x00800000u ? lt_float_bits(small) : normal;
    return lt_float_of_bits(value | sign);
}

/* A float with the 10 bits of mantissa that TF32 keeps, rounded to nearest, ties to even; NaN stays
 * NaN. */
static inline float lt_tf32_round(float x)
{
    uint32_t bits = lt_float_bits(x);
    uint32_t rounded = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
    return lt_float_of_bits((bits & 0x7fffffffu) > 0x7f800000u ? bits : rounded);
}

/* In which type gradients travel between ranks: fp16 has no room for their sums. */
static inline enum lt_dtype lt_dtype_on_wire(enum lt_dtype dtype)
{
    return dtype == LT_DTYPE_BF16 ? LT_DTYPE_BF16 : LT_DTYPE_FP32;
}

/* Element i of an array of that type, as a float; and the element nearest to a float. For code that
 * learns the type when it runs. */
static inline float lt_element_get(const void *array, int64_t i, enum lt_dtype dtype)
{
    if (dtype == LT_DTYPE_FP32)
        return ((const lt_fp32 *)array)[i];
    uint16_t half = ((const uint16_t *)array)[i];
    return dtype == LT_DTYPE_BF16 ? lt_bf16_float(half) : lt_fp16_float(half);
}

static inline void lt_element_put(void *array, int64_t i, enum lt_dtype dtype, float value)
{
    if (dtype == LT_DTYPE_FP32)
        ((lt_fp32 *)array)[i] = value;
    else
        ((uint16_t *)array)[i] =
            dtype == LT_DTYPE_BF16 ? lt_bf16_round(value) : lt_fp16_round(value);
}

#endif

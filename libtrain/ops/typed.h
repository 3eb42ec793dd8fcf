/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the backends: how one text becomes a function for each element type. A template
 * (cpu_typed.h, reference_typed.h) is included once a type, with LT_TYPE set to fp32, bf16 or fp16.
 * In it
 *
 *     TYPED(name)   is name_fp32, name_bf16 or name_fp16,
 *     ELEMENT       the type in memory,
 *     GET(x)        the float that an element stands for,
 *     PUT(x)        the element nearest to a float,
 *     DTYPE         its enum lt_dtype,
 *     REAL          the type that PUT takes: float. (Tests include the reference's templates once
 *                   more, for doubles.)
 *
 * Arithmetic is in float (the reference: in double) for all types.
 */
#ifndef LT_TYPED_H
#define LT_TYPED_H

#include "libtrain/base/dtype.h"

#define LT_PASTE(a, b) a##_##b
#define LT_JOIN(a, b)  LT_PASTE(a, b)
#define TYPED(name)    LT_JOIN(name, LT_TYPE)
#define ELEMENT        TYPED(lt)
#define GET            TYPED(lt_get)
#define PUT            TYPED(lt_put)
#define REAL           TYPED(lt_real)
#define DTYPE          ((enum lt_dtype)TYPED(lt_dtype))

enum {
    lt_dtype_fp32 = LT_DTYPE_FP32,
    lt_dtype_bf16 = LT_DTYPE_BF16,
    lt_dtype_fp16 = LT_DTYPE_FP16
};

typedef float lt_real_fp32, lt_real_bf16, lt_real_fp16;

static inline float lt_get_fp32(lt_fp32 x)
{
    return x;
}

static inline lt_fp32 lt_put_fp32(float x)
{
    return x;
}

static inline float lt_get_bf16(lt_bf16 x)
{
    return lt_bf16_float(x);
}

static inline lt_bf16 lt_put_bf16(float x)
{
    return lt_bf16_round(x);
}

static inline float lt_get_fp16(lt_fp16 x)
{
    return lt_fp16_float(x);
}

static inline lt_fp16 lt_put_fp16(float x)
{
    return lt_fp16_round(x);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What `make double` puts before every file of the engine: each float is a double, so that sums
 * which are only divided otherwise among ranks agree to ten digits and more, and wrong ones do not.
 * Codecs, devices and predictions of memory are not for this build. The system's headers come
 * first: their own floats stay what they are.
 */
#ifndef LT_DOUBLE_H
#define LT_DOUBLE_H

#include <math.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float lt_single;

#define LT_DOUBLE 1
#define float double
#define sqrtf          sqrt
#define logf           log
#define cosf           cos
#define sinf           sin
#define hypotf         hypot
#define fabsf          fabs
#define copysignf      copysign
#define fmaxf          fmax
#define fminf          fmin
#define lrintf         lrint
#define __builtin_fmaf __builtin_fma

#endif

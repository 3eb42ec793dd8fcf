/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums in fixed point. A square m 2^e with m below 2^53 is added at the digits that its bits fall
 * into; carries wait until a sum is read or added to another one.
 */
#include "libtrain/base/exact.h"

#include <math.h>
#include <string.h>

#define LOWEST 725     /* biased exponent of the smallest square of a float, 2^-298 */
#define BLOCK  1048576 /* terms a thread adds at a time */

static void add_square(struct lt_exact *sum, float x)
{
    double square = (double)x * (double)x;
    uint64_t bits;
    memcpy(&bits, &square, sizeof bits);
    uint64_t exponent = bits >> 52, mantissa = (bits & 0xfffffffffffffull) | 1ull << 52;
    if (exponent < LOWEST) /* 0; where floats are doubles, what no float's square can be, too */
        return;
    if (exponent == 0x7ff) {
        sum->strange++;
        return;
    }
    uint64_t place = exponent - LOWEST;
    unsigned __int128 value = (unsigned __int128)mantissa << (place & 31);
    uint64_t *digit = sum->digit + (place >> 5);
    digit[0] += (uint32_t)value;
    digit[1] += (uint32_t)(value >> 32);
    digit[2] += (uint64_t)(value >> 64);
}

/* Leaves 32 bits in each digit. */
static void carry(struct lt_exact *sum)
{
    for (int i = 0; i + 1 < LT_EXACT_DIGITS; i++) {
        sum->digit[i + 1] += sum->digit[i] >> 32;
        sum->digit[i] &= 0xffffffffu;
    }
}

void lt_exact_add(struct lt_exact *sum, const struct lt_exact *term)
{
    struct lt_exact carried = *term;
    carry(&carried);
    carry(sum);
    for (int i = 0; i < LT_EXACT_DIGITS; i++)
        sum->digit[i] += carried.digit[i];
    sum->strange += term->strange;
}

void lt_exact_squares(struct lt_exact *sum, const float *x, size_t count)
{
    int64_t blocks = (int64_t)((count + BLOCK - 1) / BLOCK);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        struct lt_exact own = {0};
        size_t first = (size_t)block * BLOCK, end = first + BLOCK < count ? first + BLOCK : count;
        for (size_t i = first; i < end; i++)
            add_square(&own, x[i]);
#pragma omp critical(lt_exact)
        lt_exact_add(sum, &own);
    }
}

double lt_exact_value(const struct lt_exact *sum)
{
    struct lt_exact carried = *sum;
    double value = 0;
    carry(&carried);
    for (int i = LT_EXACT_DIGITS - 1; i >= 0; i--)
        value += ldexp((double)carried.digit[i], 32 * i - 350); /* 725 - 1023 - 52 */
    return sum->strange ? (double)NAN : value;
}

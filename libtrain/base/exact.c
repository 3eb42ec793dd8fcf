/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums in fixed point. A span of squares is taken apart digit by digit, from the highest one that
 * the span has: adding and subtracting a large number rounds each square to a multiple of the
 * digit's unit, and these multiples are summed without error, in vectors (Rump, Ogita and Oishi
 * 2008). A square m 2^e with m below 2^53 can also be added alone, at the digits that its bits fall
 * into. Carries wait until a sum is read or added to another one.
 */
#include "libtrain/base/exact.h"

#include <math.h>
#include <string.h>

#define LOWEST 725    /* biased exponent of the smallest square of a float, 2^-298 */
#define LEAST  (-350) /* exponent of the unit of digit 0: that square's last bit */
#define SPAN   1024   /* squares that are taken apart together */
#define BLOCK  65536  /* terms a thread adds at a time */

static void add_square(struct lt_exact *sum, float x)
{
    double square = (double)x * (double)x;
    uint64_t bits;
    memcpy(&bits, &square, sizeof bits);
    uint64_t exponent = bits >> 52, mantissa = (bits & 0xfffffffffffffull) | 1ull << 52;
    if (exponent < LOWEST) /* 0; where floats are doubles, what no float's square can be, too */
        return;
    uint64_t place = exponent - LOWEST;
    if (exponent == 0x7ff ||
        place / 32 + 2 >= LT_EXACT_DIGITS) { /* the latter: no float's square */
        sum->strange++;
        return;
    }
    unsigned __int128 value = (unsigned __int128)mantissa << (place & 31);
    uint64_t *digit = sum->digit + (place >> 5);
    digit[0] += (uint32_t)value;
    digit[1] += (uint32_t)(value >> 32);
    digit[2] += (uint64_t)(value >> 64);
}

/* The digit that a square's highest bit falls into; -1: lower than all. */
static int digit_of(double square)
{
    int exponent;
    frexp(square, &exponent);
    return exponent - 1 < LEAST ? -1 : (exponent - 1 - LEAST) / 32;
}

/* Rounds what is left of each term to multiples of unit and takes them away; their sum, in units.
 * *left: the largest rest. */
static int64_t take_digit(double *term, size_t count, double unit, double *left)
{
    double shift = 0x1.8p52 * unit, total = 0, largest = 0;
#pragma omp simd reduction(+ : total) reduction(max : largest)
    for (size_t i = 0; i < count; i++) {
        double part = (term[i] + shift) - shift;
        term[i] -= part;
        total += part;
        double rest = fabs(term[i]);
        largest = rest > largest ? rest : largest;
    }
    *left = largest;
    return (int64_t)(total / unit);
}

/* Adds x[i] x[i] for i < count, at most SPAN. */
static void add_span(struct lt_exact *sum, const float *x, size_t count)
{
    double term[SPAN], largest = 0, strange = 0;
    int64_t units[LT_EXACT_DIGITS];
#pragma omp simd reduction(max : largest) reduction(+ : strange)
    for (size_t i = 0; i < count; i++) {
        term[i] = (double)x[i] * (double)x[i];
        largest = term[i] > largest ? term[i] : largest;
        strange += term[i] * 0; /* not a number where a term is none */
    }
    int top = largest > 0 ? digit_of(largest) : -1, last = top + 1;
    if (isnan(strange) || top + 1 >= LT_EXACT_DIGITS) {
        for (size_t i = 0; i < count; i++)
            add_square(sum, x[i]);
        return;
    }
    while (last > 0 && largest > 0) {
        last--;
        units[last] = take_digit(term, count, ldexp(1, 32 * last + LEAST), &largest);
    }
    int64_t carried = 0; /* rounding makes lower digits negative, their sum is not */
    for (int i = last; i <= top; i++) {
        int64_t value = units[i] + carried;
        carried = value >> 32;
        sum->digit[i] += (uint64_t)value & 0xffffffffu;
    }
    sum->digit[top + 1] += (uint64_t)carried;
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
        for (size_t i = first; i < end; i += SPAN)
            add_span(&own, x + i, end - i < SPAN ? end - i : SPAN);
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
        value += ldexp((double)carried.digit[i], 32 * i + LEAST);
    return sum->strange ? (double)NAN : value;
}

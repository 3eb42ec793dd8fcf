/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzers/base/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "analyzers/base/arena.h"

#define MOST_DECIMALS 9
#define MOST          1e15 /* doubles are whole numbers from here on, and nobody counts their digits */

const char *an_number_print(char buf[AN_WORDS], double v, int digits)
{
    if (!isfinite(v) || fabs(v) >= MOST) {
        snprintf(buf, AN_WORDS, "%s",
                 isnan(v) ? "unknown"
                 : v < 0  ? "-(too large)"
                          : "(too large)");
        return buf;
    }
    int before = v != 0 ? (int)floor(log10(fabs(v))) : 0;
    int decimals = digits - 1 - before;
    decimals = decimals < 0 ? 0 : decimals > MOST_DECIMALS ? MOST_DECIMALS : decimals;
    int n = snprintf(buf, AN_WORDS, "%.*f", decimals, v);
    if (decimals) {
        while (buf[n - 1] == '0')
            buf[--n] = 0;
        if (buf[n - 1] == '.')
            buf[--n] = 0;
    }
    if (!strcmp(buf, "-0"))
        snprintf(buf, AN_WORDS, "0");
    return buf;
}

/* The unit in which people say so long a time, and how many of it are a millisecond. */
static const char *unit_of(double ms, int digits, double *scale)
{
    static const struct {
        const char *name;
        double ms;
    } unit[] = {{"ns", 1e-6}, {"µs", 1e-3}, {"ms", 1}, {"s", 1e3}};
    size_t k = 0;
    double edge =
        1000 -
        0.5 * pow(10, digits < 3
                          ? 0
                          : 3 - digits); /* what is rounded to 1000 is one of the next unit */
    while (k < 3 && fabs(ms) >= edge * unit[k].ms)
        k++;
    *scale = 1 / unit[k].ms;
    return unit[k].name;
}

const char *an_time_print(char buf[AN_WORDS], double ms, int digits)
{
    double scale;
    const char *unit = unit_of(ms, digits, &scale);
    an_number_print(buf, scale < 1e6 ? ms * scale : rint(ms * scale), digits);
    if (isfinite(ms)) {
        size_t n = strlen(buf);
        snprintf(buf + n, AN_WORDS - n, " %s", unit);
    }
    return buf;
}

const char *an_number_words(struct an_arena *arena, double v, int digits)
{
    char buf[AN_WORDS];
    return an_arena_text(arena, an_number_print(buf, v, digits));
}

const char *an_time_words(struct an_arena *arena, double ms, int digits)
{
    char buf[AN_WORDS];
    return an_arena_text(arena, an_time_print(buf, ms, digits));
}

const char *an_time_spread(struct an_arena *arena, double ms, double half)
{
    double scale;
    const char *unit = unit_of(ms, 3, &scale);
    char v[AN_WORDS], h[AN_WORDS];
    return an_arena_format(arena, "%s ± %s %s", an_number_print(v, ms * scale, 3),
                           an_number_print(h, half * scale, 2), unit);
}

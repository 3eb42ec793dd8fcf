/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with a fixed number of significant digits, without an exponent and without trailing
 * zeros, durations in the unit that fits them, and times of day.
 */
#include "analyzers/base/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyzers/base/arena.h"

#define MOST_DECIMALS 9
#define MOST          1e15 /* from here on all doubles are whole numbers */

const char *an_number_print(char text[AN_WORDS], double value, int digits)
{
    if (!isfinite(value) || fabs(value) >= MOST) {
        const char *large = value < 0 ? "-(too large)" : "(too large)";
        snprintf(text, AN_WORDS, "%s", isnan(value) ? "unknown" : large);
        return text;
    }
    int before = value != 0 ? (int)floor(log10(fabs(value))) : 0;
    int decimals = digits - 1 - before;
    decimals = decimals > MOST_DECIMALS ? MOST_DECIMALS : decimals;
    decimals = decimals < 0 ? 0 : decimals;
    int length = snprintf(text, AN_WORDS, "%.*f", decimals, value);
    if (decimals) {
        while (text[length - 1] == '0')
            text[--length] = 0;
        if (text[length - 1] == '.')
            text[--length] = 0;
    }
    if (!strcmp(text, "-0"))
        snprintf(text, AN_WORDS, "0");
    return text;
}

/* Returns the unit in which a duration is printed, and how many of it are a millisecond. A value
 * that rounding would print as 1000 gets the next larger unit. */
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

const char *an_time_print(char text[AN_WORDS], double ms, int digits)
{
    double scale;
    const char *unit = unit_of(ms, digits, &scale);
    an_number_print(text, scale < 1e6 ? ms * scale : rint(ms * scale), digits);
    if (isfinite(ms)) {
        size_t length = strlen(text);
        snprintf(text + length, AN_WORDS - length, " %s", unit);
    }
    return text;
}

const char *an_number_words(struct an_arena *arena, double value, int digits)
{
    char text[AN_WORDS];
    return an_arena_text(arena, an_number_print(text, value, digits));
}

const char *an_time_words(struct an_arena *arena, double ms, int digits)
{
    char text[AN_WORDS];
    return an_arena_text(arena, an_time_print(text, ms, digits));
}

const char *an_time_spread(struct an_arena *arena, double ms, double half)
{
    double scale;
    const char *unit = unit_of(ms, 3, &scale);
    char text[AN_WORDS], half_text[AN_WORDS];
    return an_arena_format(arena, "%s ± %s %s", an_number_print(text, ms * scale, 3),
                           an_number_print(half_text, half * scale, 2), unit);
}

const char *an_utc_print(char text[AN_WORDS], int64_t realtime_ns)
{
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm tm;
    size_t used = strftime(text, AN_WORDS, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    snprintf(text + used, AN_WORDS - used, ".%03dZ", (int)(realtime_ns / 1000000 % 1000));
    return text;
}

void an_words_add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

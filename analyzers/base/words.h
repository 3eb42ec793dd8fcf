/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in sentences of the report and the dashboard: with a given number of significant digits,
 * in a fitting unit, without an exponent and without trailing zeros. "12.3 ms", "1.2 s", "9.61 µs",
 * whole nanoseconds. Texts are UTF-8 (the micro sign). NAN is "unknown".
 */
#ifndef ANALYZERS_WORDS_H
#define ANALYZERS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#define AN_WORDS 32 /* bytes of a number in words */

struct an_arena;

/* Into buf, which is returned. digits: 1 to 9. */
const char *an_number_print(char text[AN_WORDS], double value, int digits);
const char *an_time_print(char text[AN_WORDS], double ms, int digits);

/* The same as texts of an arena. */
const char *an_number_words(struct an_arena *arena, double value, int digits);
const char *an_time_words(struct an_arena *arena, double ms, int digits);
/* "12.3 ± 0.41 ms": both in the unit of the first. */
const char *an_time_spread(struct an_arena *arena, double ms, double half);

/* "2026-11-26T09:32:05.120Z", of ns since 1970. Into text, which is returned. */
const char *an_utc_print(char text[AN_WORDS], int64_t realtime_ns);
/* Appends to a text in a buffer of `size` bytes; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) void an_words_add(char *text, size_t size, const char *format,
                                                        ...);

#endif

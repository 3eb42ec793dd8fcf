/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from other programs, made safe to show, and its width on a screen.
 *
 * The buffers are the caller's; results are always terminated and never cut inside a character.
 */
#ifndef REPORTS_ESCAPE_H
#define REPORTS_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes one character of UTF-8 at `text` (at most `length` bytes): its code point; *bytes is its
 * length. Invalid or overlong bytes, surrogates and what is past U+10FFFF give -1 with *bytes = 1.
 */
long rep_decode(const char *text, size_t length, size_t *bytes);

/* Encodes a code point as UTF-8 and returns its bytes, 1 to 4; `out` is not terminated. */
size_t rep_encode(char out[4], long code);

/* Columns that a code point takes on a terminal: 0 combining, 2 wide, else 1. */
int rep_char_width(long code);
/* Columns of a valid text. */
int rep_width(const char *text);

/* The first character of `text` (at most `length` bytes, above 0) as rep_clean shows it. *columns
 * is its width (0: a combining mark). Returns the bytes of `text` that it stands for. */
size_t rep_show(char cell[16], const char *text, size_t length, bool utf8, int *columns);

/* For people: control characters (C0, C1, DEL), line ends, direction marks and invalid bytes become
 * visible escapes (\n, \x1b, \u202e). utf8 = false: other characters become their nearest ASCII, or
 * '?'. At most `columns` columns; what is longer ends in an ellipsis. Returns the columns used. */
int rep_clean(char *out, size_t size, const char *text, int columns, bool utf8);

/* The same, but what is longer loses its beginning: the end of a path says more than its folders.
 */
int rep_clean_end(char *out, size_t size, const char *text, int columns, bool utf8);

#endif

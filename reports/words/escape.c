/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes text from other programs safe to show: decodes UTF-8, and replaces control characters,
 * marks that turn the direction of text, and invalid bytes by visible escapes.
 */
#include "reports/words/escape.h"

#include <stdio.h>
#include <string.h>

#include "tacho_utf8.h"

long rep_decode(const char *text, size_t length, size_t *bytes)
{
    const unsigned char *byte = (const unsigned char *)text;
    *bytes = 1;
    size_t want = tacho_utf8_sequence(byte, length);
    if (want < 2)
        return want ? byte[0] : -1;
    long code = byte[0] & (0xff >> (want + 1));
    for (size_t i = 1; i < want; i++)
        code = code << 6 | (byte[i] & 0x3f);
    *bytes = want;
    return code;
}

size_t rep_encode(char out[4], long code)
{
    static const long mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t bytes = 1u + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000);
    for (size_t i = bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(mark[bytes] | code);
    return bytes;
}

/* Ranges of Unicode that names can hold: EastAsianWidth W and F, then Mn, Me and format characters.
 */
static const struct {
    long from, to;
} wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xac00, 0xd7a3},
            {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
            {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}},
  zero[] = {{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},
            {0x064b, 0x065f}, {0x0e34, 0x0e3a}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
            {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};

int rep_char_width(long code)
{
    if (code < zero[0].from) /* the lowest of both lists: nearly every character of a report */
        return 1;
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
        if (code >= zero[i].from && code <= zero[i].to)
            return 0;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (code >= wide[i].from && code <= wide[i].to)
            return 2;
    return 1;
}

int rep_width(const char *text)
{
    int columns = 0;
    for (size_t left = strlen(text), bytes; left; text += bytes, left -= bytes) {
        long code = rep_decode(text, left, &bytes);
        columns += code < 0 ? 1 : rep_char_width(code);
    }
    return columns;
}

/* Is it a control character, a mark that turns the direction of text, or a separator of lines? */
static bool is_hostile(long code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff;
}

/* Writes the visible escape of a character that must not reach a terminal. */
static void show_hostile(char *cell, size_t size, long code)
{
    if (code == '\n')
        snprintf(cell, size, "\\n");
    else if (code == '\t')
        snprintf(cell, size, "\\t");
    else if (code < 0x100)
        snprintf(cell, size, "\\x%02x", (unsigned)code & 0xff);
    else
        snprintf(cell, size, "\\u%04x", (unsigned)code & 0xffffff);
}

/* ASCII for the characters that reports themselves use. */
static const char *ascii_of(long code)
{
    switch (code) {
    case 0xb7:
        return "|";
    case 0xb1:
        return "+-";
    case 0xb5:
    case 0x3bc:
        return "u";
    case 0xd7:
        return "x";
    case 0x2013:
    case 0x2014:
    case 0x2212:
        return "-";
    case 0x2018:
    case 0x2019:
        return "'";
    case 0x201c:
    case 0x201d:
        return "\"";
    case 0x2026:
        return "...";
    case 0x2190:
        return "<-";
    case 0x2192:
        return "->";
    case 0x2211:
        return "sum";
    case 0x2229:
        return "and";
    case 0x222a:
        return "union";
    case 0x2264:
        return "<=";
    case 0x2265:
        return ">=";
    default:
        return "?";
    }
}

size_t rep_show(char cell[16], const char *text, size_t length, bool utf8, int *columns)
{
    size_t bytes;
    long code = rep_decode(text, length, &bytes);
    if (code < 0) {
        snprintf(cell, 16, "\\x%02x", (unsigned char)*text);
    } else if (is_hostile(code)) {
        show_hostile(cell, 16, code);
    } else if (code < 0x80 || utf8) {
        memcpy(cell, text, bytes);
        cell[bytes] = 0;
        *columns = rep_char_width(code);
        return bytes;
    } else {
        snprintf(cell, 16, "%s", ascii_of(code));
    }
    *columns = (int)strlen(cell);
    return bytes;
}

/* While the text fits, remembers the last place at which an ellipsis would still fit, so that a
 * cut needs no second pass. */
int rep_clean(char *out, size_t size, const char *text, int columns, bool utf8)
{
    const char *more = utf8 ? "\xe2\x80\xa6" : "...";
    int more_columns = utf8 ? 1 : 3, used = 0, fits_columns = 0;
    size_t length = 0, fits = 0, left = strlen(text), bytes;
    char cell[16];
    if (!size)
        return 0;
    for (; left; text += bytes, left -= bytes) {
        int width;
        bytes = rep_show(cell, text, left, utf8, &width);
        size_t bytes_shown = strlen(cell);
        if (used + width > columns || length + bytes_shown + 4 >= size)
            break;
        memcpy(out + length, cell, bytes_shown);
        length += bytes_shown;
        used += width;
        if (used + more_columns <= columns) { /* an ellipsis still fits after it */
            fits = length;
            fits_columns = used;
        }
    }
    if (left && more_columns <= columns && fits + strlen(more) < size) {
        memcpy(out + fits, more, strlen(more));
        length = fits + strlen(more);
        used = fits_columns + more_columns;
    }
    out[length] = 0;
    return used;
}

int rep_clean_end(char *out, size_t size, const char *text, int columns, bool utf8)
{
    const char *more = utf8 ? "\xe2\x80\xa6" : "...";
    int more_columns = utf8 ? 1 : 3, width;
    size_t left = strlen(text), length = strlen(more), bytes;
    char cell[16];
    int used = 0;
    for (size_t at = 0; at < left; at += bytes) {
        bytes = rep_show(cell, text + at, left - at, utf8, &width);
        used += width;
    }
    if (used <= columns || columns < more_columns || size < length + 1)
        return rep_clean(out, size, text, columns, utf8);
    for (; left && used + more_columns > columns; text += bytes, left -= bytes) {
        bytes = rep_show(cell, text, left, utf8, &width);
        used -= width;
    }
    memcpy(out, more, length + 1);
    return more_columns + rep_clean(out + length, size - length, text, used, utf8);
}

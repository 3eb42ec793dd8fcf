/* SPDX-License-Identifier: Apache-2.0
 *
 * Three formats of one table.
 */
#include "profiler/collector/python/lines.h"

#define UNIT 2 /* bytes of an instruction */

/* Sums of damaged tables wrap instead of overflowing. */
static int32_t moved(int32_t line, int32_t by)
{
    return (int32_t)((uint32_t)line + (uint32_t)by);
}

/* Pairs: so many bytes on, so many lines on. */
static int32_t by_lnotab(const uint8_t *table, size_t bytes, int32_t first, int64_t at)
{
    int32_t line = first;
    int64_t address = 0;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        address += table[i];
        if (address > at)
            break;
        line = moved(line, (int8_t)table[i + 1]);
    }
    return line;
}

/* Pairs: the bytes of a range, and its line relative to that of the range before; -128: none. */
static int32_t by_linetable(const uint8_t *table, size_t bytes, int32_t first, int64_t at)
{
    int32_t line = first;
    int64_t end = 0;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        bool has_line = (int8_t)table[i + 1] != INT8_MIN;
        end += table[i];
        if (has_line)
            line = moved(line, (int8_t)table[i + 1]);
        if (at < end)
            return has_line ? line : first;
    }
    return first;
}

/* A number of 6 bits a byte, the lowest first; bit 6: more follow. The lowest bit of the number is
 * its sign. */
static int32_t signed_number(const uint8_t *table, size_t bytes, size_t i)
{
    uint32_t number = 0;
    for (unsigned shift = 0; i < bytes && shift < 30; shift += 6, i++) {
        number |= (uint32_t)(table[i] & 0x3f) << shift;
        if (!(table[i] & 0x40))
            break;
    }
    return number & 1 ? -(int32_t)(number >> 1) : (int32_t)(number >> 1);
}

/* Entries that begin with a byte whose bit 7 is set: bits 3 to 6 its kind, bits 0 to 2 how many
 * instructions it covers, less one. */
static int32_t by_locations(const uint8_t *table, size_t bytes, int32_t first, int64_t at)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };
    int32_t line = first;
    int64_t end = 0;
    for (size_t i = 0; i < bytes;) {
        unsigned kind = table[i] >> 3 & 15;
        end += UNIT * ((table[i] & 7) + 1);
        if (kind == NO_COLUMNS || kind == LONG)
            line = moved(line, signed_number(table, bytes, i + 1));
        else if (kind >= ONE_LINE && kind < NO_COLUMNS)
            line = moved(line, (int32_t)kind - ONE_LINE);
        if (at < end)
            return kind == NO_LINE ? first : line;
        for (i++; i < bytes && !(table[i] & 0x80);)
            i++;
    }
    return first;
}

int32_t col_python_line(enum col_python_lines format, const uint8_t *table, size_t bytes,
                        int32_t first, int64_t at)
{
    if (at < 0)
        return first;
    switch (format) {
    case COL_PYTHON_LNOTAB:
        return by_lnotab(table, bytes, first, at);
    case COL_PYTHON_LINETABLE:
        return by_linetable(table, bytes, first, at);
    case COL_PYTHON_LOCATIONS:
    default:
        return by_locations(table, bytes, first, at);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits the rows of comma-separated text.
 */
#include "store/import/input/csv.h"

#include <string.h>

#define HEAD_LOOKED 8192 /* of a file, for the end of its first line */

/* A cell without white space around it: a tab behind a number keeps spreadsheets from rounding it.
 */
static struct imp_cell trimmed(struct imp_cell cell)
{
    while (cell.bytes && strchr(" \t\r", cell.text[cell.bytes - 1]))
        cell.bytes--;
    while (cell.bytes && (*cell.text == ' ' || *cell.text == '\t')) {
        cell.text++;
        cell.bytes--;
    }
    return cell;
}

size_t imp_csv_first_line(const unsigned char *head, size_t bytes)
{
    const unsigned char *end =
        bytes ? memchr(head, '\n', bytes < HEAD_LOOKED ? bytes : HEAD_LOOKED) : NULL;
    return end ? (size_t)(end - head) : 0;
}

bool imp_csv_row(const char **at, const char *end, struct imp_cell *cell, size_t most,
                 size_t *count)
{
    const char *text = *at;
    *count = 0;
    if (text >= end)
        return false;
    for (bool more = true; more && text <= end;) {
        bool quoted = false;
        const char *start = text;
        while (text < end && (quoted || (*text != ',' && *text != '\n'))) {
            quoted ^= *text == '"';
            text++;
        }
        struct imp_cell one = trimmed((struct imp_cell){start, (size_t)(text - start)});
        while (one.bytes >= 2 && *one.text == '"' && one.text[one.bytes - 1] == '"')
            one = trimmed((struct imp_cell){one.text + 1, one.bytes - 2});
        if (*count < most)
            cell[(*count)++] = one;
        more = text < end && *text == ',';
        text++;
    }
    *at = text;
    return true;
}

bool imp_cell_is_one_of(struct imp_cell cell, const char *words)
{
    while (*words) {
        size_t bytes = strcspn(words, "|");
        if (cell.bytes == bytes && !memcmp(cell.text, words, bytes))
            return true;
        words += bytes + (words[bytes] == '|');
    }
    return false;
}

int imp_csv_column(const struct imp_cell *cell, size_t count, const char *words)
{
    for (size_t i = 0; i < count; i++)
        if (imp_cell_is_one_of(cell[i], words))
            return (int)i;
    return -1;
}

struct imp_cell imp_csv_at(const struct imp_cell *cell, size_t count, int place)
{
    return place >= 0 && (size_t)place < count ? cell[place] : (struct imp_cell){"", 0};
}

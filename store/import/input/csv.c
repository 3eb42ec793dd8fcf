/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits the rows of comma-separated text.
 */
#include "store/import/input/csv.h"

#include <string.h>

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

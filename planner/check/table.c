/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values: cells in quotes may hold commas, line ends and doubled quotes.
 */
#include "planner/check/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzers/base/arena.h"

#define TABLE_MOST ((size_t)64 << 20) /* bytes of a file */

/* The whole file with a zero byte behind it. */
static int read_file(const char *path, char **out, size_t *bytes, struct tacho_error *err)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t room = 0, used = 0;
    if (!in)
        return tacho_fail(err, tacho_error_of_errno(errno), "check the path", "%s: %s", path,
                          strerror(errno));
    int rc = 0;
    do {
        rc = an_grow(&text, &room, used + 65537, 1);
        if (!rc)
            used += fread(text + used, 1, 65536, in);
        if (used > TABLE_MOST)
            rc = TACHO_EFORMAT;
    } while (!rc && !feof(in) && !ferror(in));
    if (!rc && ferror(in))
        rc = TACHO_EIO;
    fclose(in);
    if (rc) {
        free(text);
        return tacho_fail(err, rc, rc == TACHO_EFORMAT ? "split it" : NULL, "%s: %s", path,
                          rc == TACHO_EFORMAT ? "larger than 64 MiB" : "could not be read");
    }
    text[used] = 0;
    *out = text;
    *bytes = used;
    return 0;
}

/* The cell at `from`, unquoted in place; returns the character that ended it in *stop and where the
 * next one begins. */
static char *next_cell(char *from, char *end, const char **cell, char *stop)
{
    char *to = from;
    bool quoted = *from == '"';
    *cell = from;
    from += quoted;
    while (from < end) {
        if (quoted && *from == '"') {
            quoted = from[1] == '"';
            from += quoted ? 1 : 0;
            if (!quoted) {
                from++;
                continue;
            }
        } else if (!quoted && (*from == ',' || *from == '\n')) {
            break;
        }
        *to++ = *from++;
    }
    *stop = from < end ? *from : '\n';
    if (to > *cell && to[-1] == '\r' && *stop == '\n')
        to--;
    *to = 0;
    return from < end ? from + 1 : end;
}

/* Splits the text into cells. Every row has as many as the first. */
static int split(struct plan_table *table, size_t bytes, const char *path, struct tacho_error *err)
{
    size_t room = 0, count = 0, in_row = 0, line = 1;
    for (char *at = table->text, *end = at + bytes; at < end;) {
        char stop;
        if (!in_row && *at == '\n') { /* an empty line */
            at++;
            continue;
        }
        int rc = an_grow(&table->cell, &room, count + 1, sizeof *table->cell);
        if (rc)
            return tacho_fail(err, rc, NULL, "%s: out of memory", path);
        at = next_cell(at, end, &table->cell[count++], &stop);
        in_row++;
        if (stop != '\n')
            continue;
        if (!table->columns)
            table->columns = in_row;
        if (in_row != table->columns)
            return tacho_fail(err, TACHO_EFORMAT, "every row has the cells of the first one",
                              "%s: row %zu has %zu cells, not %zu", path, line, in_row,
                              table->columns);
        in_row = 0;
        line++;
    }
    if (in_row || line < 2)
        return tacho_fail(err, TACHO_EFORMAT, "a first row with the names of columns is expected",
                          "%s: not a table of comma-separated values", path);
    table->rows = line - 2;
    return 0;
}

int plan_table_read(const char *path, struct plan_table *out, struct tacho_error *err)
{
    size_t bytes = 0;
    *out = (struct plan_table){0};
    int rc = read_file(path, &out->text, &bytes, err);
    if (!rc)
        rc = split(out, bytes, path, err);
    if (rc)
        plan_table_free(out);
    return rc;
}

void plan_table_free(struct plan_table *table)
{
    free(table->text);
    free(table->cell);
    *table = (struct plan_table){0};
}

long plan_table_column(const struct plan_table *table, const char *name)
{
    for (size_t i = 0; i < table->columns; i++)
        if (!strcmp(table->cell[i], name))
            return (long)i;
    return -1;
}

const char *plan_table_cell(const struct plan_table *table, size_t row, long column)
{
    return column < 0 ? "" : table->cell[(row + 1) * table->columns + (size_t)column];
}

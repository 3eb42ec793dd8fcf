/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of steps: what Lightning's CSVLogger and the exports of experiment trackers write. The
 * first line names the columns, and the cells of a row are quantities as those of a line are.
 * Commas or tabs separate them.
 */
#include <string.h>

#include "store/import/input/csv.h"
#include "store/import/logs/logs.h"

/* Makes the tabs of a line commas. */
static void separate(char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] == '\t')
            line[i] = ',';
}

bool log_table_begin(struct log_table *table, const char *line, size_t bytes)
{
    struct imp_cell cell[LOG_COLUMNS_MOST];
    const char *at = table->header;
    bool steps = false, others = false;
    size_t count = 0;
    table->count = 0;
    if (bytes > LOG_LINE_MOST)
        return false;
    memcpy(table->header, line, bytes);
    table->tabs = memchr(line, '\t', bytes) && !memchr(line, ',', bytes);
    if (table->tabs)
        separate(table->header, bytes);
    if (!imp_csv_row(&at, table->header + bytes, cell, LOG_COLUMNS_MOST, &count) || count < 2)
        return false;
    for (size_t i = 0; i < count; i++) {
        double scale;
        bool needs_unit;
        enum log_what what = log_what_of(cell[i].text, cell[i].bytes, &scale, &needs_unit);
        if (cell[i].bytes && strchr("+-.0123456789", *cell[i].text))
            return false;
        if (what == LOG_STEP || what == LOG_GLOBAL_STEP)
            steps = true;
        else if (what != LOG_NOTHING)
            others = true;
        table->column[i].at = (size_t)(cell[i].text - table->header);
        table->column[i].bytes = cell[i].bytes;
    }
    if (steps && others)
        table->count = count;
    return table->count > 0;
}

bool log_table_read(const struct log_table *table, char *line, size_t bytes,
                    struct log_values *values)
{
    struct imp_cell cell[LOG_COLUMNS_MOST];
    const char *at = line;
    size_t count = 0;
    if (table->count && table->tabs)
        separate(line, bytes);
    imp_csv_row(&at, line + bytes, cell, LOG_COLUMNS_MOST, &count);
    if (!table->count || count != table->count)
        return false;
    log_values_begin(values, line, bytes);
    for (size_t i = 0; i < count; i++)
        log_values_put(values, table->header + table->column[i].at, table->column[i].bytes,
                       cell[i].text, cell[i].bytes);
    return true;
}

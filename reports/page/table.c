/* SPDX-License-Identifier: Apache-2.0
 *
 * What the formats and the tables of the sections share: rows, cells, and the functions that print
 * the usual kinds of cells.
 */
#include "reports/page/table.h"
#include "reports/words/phrase.h"

#include <inttypes.h>

void rep_table_write(struct page *page, const struct rep_table *table)
{
    char note[300];
    if (!table->count)
        return;
    page->ops->table(page, table);
    if (!page->missing)
        return;
    snprintf(note, sizeof note, "of the recorded events only: %.200s", page->missing);
    page_text(page, 1, note);
}

/* What the table itself says comes before what the page says. */
size_t rep_table_most(const struct page *page, const struct rep_table *table)
{
    size_t most = table->most;
    if (!most)
        most = page->rows > 0 ? (size_t)page->rows : REP_ROWS;
    return table->count < most ? table->count : most;
}

const void *rep_table_row(const struct rep_table *table, size_t index)
{
    return (const char *)table->rows + index * table->size;
}

const char *rep_table_cell(const struct rep_table *table, size_t column, const void *row,
                           char cell[REP_CELL])
{
    cell[0] = 0;
    table->column[column].cell(cell, row);
    return cell;
}

/* ---- cells ----------------------------------------------------------------------------------- */

void rep_cell_integer(char cell[REP_CELL], int64_t number)
{
    snprintf(cell, REP_CELL, "%" PRId64, number);
}

void rep_cell_tenths(char cell[REP_CELL], double number)
{
    snprintf(cell, REP_CELL, "%.1f", number);
}

void rep_cell_text(char cell[REP_CELL], const char *text)
{
    snprintf(cell, REP_CELL, "%s", rep_or(text, ""));
}

void rep_cell_ns(char cell[REP_CELL], int64_t ns)
{
    page_time(cell, (double)ns);
}

void rep_cell_real_ms(char cell[REP_CELL], double ms)
{
    page_time(cell, ms * 1e6);
}

void rep_cell_count(char cell[REP_CELL], struct an_count count)
{
    if (count.valid)
        rep_cell_integer(cell, count.value);
}

void rep_cell_count_ns(char cell[REP_CELL], struct an_count ns)
{
    if (ns.valid)
        rep_cell_ns(cell, ns.value);
}

void rep_cell_ms(char cell[REP_CELL], struct an_value ms)
{
    if (ms.valid)
        rep_cell_real_ms(cell, ms.value);
}

void rep_cell_us(char cell[REP_CELL], struct an_value us)
{
    if (us.valid)
        page_time(cell, us.value * 1e3);
}

void rep_cell_pct(char cell[REP_CELL], struct an_value pct)
{
    if (pct.valid)
        rep_cell_tenths(cell, pct.value);
}

void rep_cell_bytes_per_s(char cell[REP_CELL], struct an_value rate)
{
    if (rate.valid)
        page_si(cell, rate.value, "B/s");
}

void rep_cell_rate(char cell[REP_CELL], struct an_value rate)
{
    if (rate.valid && rate.value > 0)
        page_si(cell, rate.value, "");
}

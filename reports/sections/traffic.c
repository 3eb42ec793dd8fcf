/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sends how much to whom: a matrix of ranks, and the links by what goes over them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/phrase.h"

#define MOST 16 /* rows and columns of the matrix */
#define NAME 48 /* bytes of two ranks' numbers */

/* A row of the matrix. Of more rows in the result neighbours are added up. */
struct row {
    const struct an_traffic *traffic;
    size_t row, each; /* of the result */
    double bytes[MOST], unit;
};

/* "3", or "8-15" where several ranks make a row. */
static void name_ranks(char name[NAME], const struct an_traffic *traffic, size_t row, size_t each)
{
    size_t after = row + each;
    int64_t first = traffic->rank[row], last = first;
    if (after < traffic->rows)
        last = traffic->rank[after] - 1;
    else if (traffic->ranks_a_row > 1 || each > 1)
        last = traffic->last_rank;
    if (last > first)
        snprintf(name, NAME, "%" PRId64 "-%" PRId64, first, last);
    else
        snprintf(name, NAME, "%" PRId64, first);
}

static void name_row(char name[REP_NAME], const void *item)
{
    const struct row *row = item;
    char ranks[NAME];
    name_ranks(ranks, row->traffic, row->row, row->each);
    snprintf(name, REP_NAME, "from %s", ranks);
}

/* Empty where nothing is sent. */
static void cell_to(char cell[REP_CELL], const void *item, size_t column)
{
    const struct row *row = item;
    if (row->bytes[column] > 0)
        page_number(cell, row->bytes[column] / row->unit);
}

#define COLUMNS(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define TO(column) \
    static void to_##column(char cell[REP_CELL], const void *row) \
    { \
        cell_to(cell, row, column); \
    }
COLUMNS(TO)
#undef TO

static void (*const cells[MOST])(char cell[REP_CELL], const void *row) = {
#define TO(column) to_##column,
    COLUMNS(TO)
#undef TO
};

/* The unit in which the largest number has at most four digits before the point. */
static double unit_of(double most, const char **name)
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double unit = 1;
    size_t i = 0;
    for (; most / unit >= 10000 && i + 1 < sizeof names / sizeof *names; i++)
        unit *= 1024;
    *name = names[i];
    return unit;
}

static void write_matrix(struct page *page, const struct an_traffic *traffic)
{
    struct row rows[MOST];
    struct rep_column column[MOST];
    char head[MOST][NAME + 4], title[160];
    const char *unit;
    size_t each = (traffic->rows + MOST - 1) / MOST, count = (traffic->rows + each - 1) / each;
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        char ranks[NAME];
        rows[i] = (struct row){.traffic = traffic, .row = i * each, .each = each};
        name_ranks(ranks, traffic, i * each, each);
        snprintf(head[i], sizeof head[i], "to %s", ranks);
        int width = (int)strlen(head[i]) + 1;
        column[i] = (struct rep_column){head[i], width > 6 ? width : 6, cells[i]};
    }
    for (size_t i = 0; i < traffic->link_count; i++) {
        const struct an_link *link = &traffic->link[i];
        double *bytes = &rows[link->from / each].bytes[link->to / each];
        *bytes += link->bytes;
        most = *bytes > most ? *bytes : most;
    }
    double scale = unit_of(most, &unit);
    for (size_t i = 0; i < count; i++)
        rows[i].unit = scale;
    snprintf(title, sizeof title, "Who sends to whom, %s a step", unit);
    const struct rep_table table = {.title = title,
                                    .name = name_row,
                                    .name_least = 12,
                                    .words = true,
                                    .column = column,
                                    .columns = count,
                                    .most = MOST,
                                    .rows = rows,
                                    .size = sizeof *rows,
                                    .count = count};
    rep_table_write(page, &table);
}

/* ---- links ---------------------------------------------------------------------------------------- */

struct link_row {
    const struct an_traffic *traffic;
    const struct an_link *link;
};

static int larger_first(const void *left, const void *right)
{
    double first = ((const struct link_row *)left)->link->bytes,
           second = ((const struct link_row *)right)->link->bytes;
    return (first < second) - (first > second);
}

static void name_link(char name[REP_NAME], const void *item)
{
    const struct link_row *row = item;
    char from[NAME], to[NAME];
    name_ranks(from, row->traffic, row->link->from, 1);
    name_ranks(to, row->traffic, row->link->to, 1);
    snprintf(name, REP_NAME, "rank %s to %s", from, to);
}

static void link_bytes(char cell[REP_CELL], const void *item)
{
    page_bytes(cell, ((const struct link_row *)item)->link->bytes);
}

static void link_messages(char cell[REP_CELL], const void *item)
{
    page_number(cell, ((const struct link_row *)item)->link->messages);
}

static void link_share(char cell[REP_CELL], const void *item)
{
    const struct link_row *row = item;
    if (row->traffic->bytes > 0)
        rep_cell_tenths(cell, 100 * row->link->bytes / row->traffic->bytes);
}

static void link_recorded(char cell[REP_CELL], const void *item)
{
    const struct link_row *row = item;
    if (row->link->bytes > 0)
        rep_cell_tenths(cell, 100 * row->link->recorded / row->link->bytes);
}

static const struct rep_column of_link[] = {{"bytes", 10, link_bytes},
                                            {"messages", 10, link_messages},
                                            {"%", 7, link_share},
                                            {"recorded %", 12, link_recorded}};

static void write_links(struct page *page, const struct an_traffic *traffic)
{
    struct link_row *rows = calloc(traffic->link_count, sizeof *rows);
    if (!rows)
        return;
    for (size_t i = 0; i < traffic->link_count; i++)
        rows[i] = (struct link_row){traffic, &traffic->link[i]};
    qsort(rows, traffic->link_count, sizeof *rows, larger_first);
    const struct rep_table table = {.title = "Links, largest first, a step",
                                    .name = name_link,
                                    .words = true,
                                    REP_COLUMNS(of_link),
                                    REP_ROWS_OF(rows, traffic->link_count)};
    rep_table_write(page, &table);
    free(rows);
}

void rep_section_traffic(struct page *page, const struct an_result *result)
{
    const struct an_traffic *traffic = &result->communication.traffic;
    char note[300];
    if (traffic->reason || !traffic->link_count)
        return;
    page_picture(page, PAGE_TRAFFIC, result);
    write_matrix(page, traffic);
    write_links(page, traffic);
    snprintf(note, sizeof note,
             "%s of %s a step are recorded sends; the rest is what rings would send of the "
             "collectives' bytes",
             BYTES_TEXT(traffic->recorded), BYTES_TEXT(traffic->bytes));
    page_text(page, 1, note);
    if (traffic->unplaced <= 0)
        return;
    snprintf(note, sizeof note,
             "%s a step are in calls whose peers are not known: not in the table",
             BYTES_TEXT(traffic->unplaced));
    page_text(page, 1, note);
}

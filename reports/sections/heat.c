/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank x step: a picture with its numbers, or where pages have no pictures a map of few cells.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/sections/sections.h"
#include "reports/words/compare.h"
#include "reports/words/phrase.h"

struct heat_row {
    const struct an_heat *heat;
    size_t at;
};

/* Mean of the steps of a rank whose value is known; NAN: of none. */
static double mean_of(const struct heat_row *heat_row, const double *cell)
{
    double sum = 0;
    size_t known = 0;
    for (size_t step = 0; step < heat_row->heat->steps; step++) {
        double ms = cell[heat_row->at * heat_row->heat->steps + step];
        sum += isfinite(ms) ? ms : 0;
        known += isfinite(ms) ? 1 : 0;
    }
    return known ? sum / (double)known : NAN;
}
static void mean_cell(char text[REP_CELL], const struct heat_row *heat_row, const double *cell)
{
    double ms = mean_of(heat_row, cell);
    if (isfinite(ms))
        page_time(text, ms * 1e6);
}
static void name_heat(char name[REP_NAME], const void *row)
{
    const struct heat_row *heat_row = row;
    if (heat_row->heat->ranks_a_row > 1)
        snprintf(name, REP_NAME, "ranks from %" PRId64, heat_row->heat->rank[heat_row->at]);
    else
        snprintf(name, REP_NAME, "rank %" PRId64, heat_row->heat->rank[heat_row->at]);
}
static void heat_step(char cell[REP_CELL], const void *row)
{
    mean_cell(cell, row, ((const struct heat_row *)row)->heat->step_ms);
}
static void heat_waiting(char cell[REP_CELL], const void *row)
{
    mean_cell(cell, row, ((const struct heat_row *)row)->heat->waiting_ms);
}
static void heat_transfer(char cell[REP_CELL], const void *row)
{
    mean_cell(cell, row, ((const struct heat_row *)row)->heat->transfer_ms);
}
/* The longest step of a rank. */
static void heat_worst(char cell[REP_CELL], const void *row)
{
    const struct heat_row *heat_row = row;
    double worst = 0;
    int64_t index = 0;
    for (size_t step = 0; step < heat_row->heat->steps; step++)
        if (heat_row->heat->step_ms[heat_row->at * heat_row->heat->steps + step] > worst) {
            worst = heat_row->heat->step_ms[heat_row->at * heat_row->heat->steps + step];
            index = heat_row->heat->index[step];
        }
    if (worst > 0)
        snprintf(cell, REP_CELL, "%s in step %" PRId64, TIME_TEXT(worst * 1e6), index);
}
/* The mean step without the mean wait for other ranks; NAN: one of them is not known. */
static double own_of(const struct heat_row *heat_row)
{
    return mean_of(heat_row, heat_row->heat->step_ms) -
           mean_of(heat_row, heat_row->heat->waiting_ms);
}
static void heat_own(char cell[REP_CELL], const void *row)
{
    double ms = own_of(row);
    if (isfinite(ms))
        page_time(cell, ms * 1e6);
}
/* Most own time first, or the longest steps where waiting is not known. */
static int slower_first(const void *left, const void *right)
{
    const struct heat_row *first = left, *second = right;
    double own = own_of(first), other = own_of(second);
    if (!isfinite(own) || !isfinite(other)) {
        own = mean_of(first, first->heat->step_ms);
        other = mean_of(second, second->heat->step_ms);
    }
    return 2 * REP_COMPARE(other, own) + REP_COMPARE(first->at, second->at);
}
static const struct rep_column of_heat[] = {{"own", 9, heat_own},
                                            {"step", 9, heat_step},
                                            {"waiting", 9, heat_waiting},
                                            {"transfer", 10, heat_transfer},
                                            {"longest", 20, heat_worst}};

/* The numbers of the picture: the ranks with their mean step. */
static void numbers(struct page *page, const struct an_heat *heat)
{
    struct heat_row *rows = calloc(heat->ranks, sizeof *rows);
    for (size_t i = 0; rows && i < heat->ranks; i++)
        rows[i] = (struct heat_row){heat, i};
    if (rows)
        qsort(rows, heat->ranks, sizeof *rows, slower_first);
    const struct rep_table table = {.title = "Ranks, slowest first, mean of a step",
                                    .name = name_heat,
                                    .words = true,
                                    REP_COLUMNS(of_heat),
                                    REP_ROWS_OF(rows, rows ? heat->ranks : 0)};
    rep_table_write(page, &table);
    free(rows);
}

/* ---- the map, where there are no pictures ---------------------------------------------------- */

#define MAP_COLUMNS 10 /* glyphs of three bytes fill a cell */
#define MAP_ROWS    9

struct map_row {
    const struct an_heat *heat;
    size_t first, end; /* rows of the heat map */
    double most;       /* of the whole map, ms */
    bool slow, utf8;
};

/* The longest waiting in a part of the map; NAN: not known. */
static double longest_wait(const struct map_row *row, size_t first_step, size_t end_step)
{
    double longest = NAN;
    for (size_t rank = row->first; rank < row->end; rank++)
        for (size_t step = first_step; step < end_step; step++)
            longest = fmax(longest, row->heat->waiting_ms[rank * row->heat->steps + step]);
    return longest;
}

static void name_map(char name[REP_NAME], const void *row)
{
    const struct map_row *map = row;
    int64_t first = map->heat->rank[map->first],
            last = map->heat->rank[map->end - 1] + map->heat->ranks_a_row - 1;
    if (last > first)
        snprintf(name, REP_NAME, "ranks %" PRId64 " to %" PRId64, first, last);
    else
        snprintf(name, REP_NAME, "rank %" PRId64 "%s", first, map->slow ? ", the slow one" : "");
}

/* A glyph for each tenth of the steps, darker where ranks wait longer. */
static void cell_map(char cell[REP_CELL], const void *row)
{
    static const char *const glyphs[2][6] = {{".", "-", "=", "*", "#", "?"},
                                             {"·", "░", "▒", "▓", "█", "?"}};
    const struct map_row *map = row;
    size_t steps = map->heat->steps, columns = steps < MAP_COLUMNS ? steps : MAP_COLUMNS;
    for (size_t i = 0, used = 0; i < columns; i++) {
        double ms = longest_wait(map, i * steps / columns, (i + 1) * steps / columns);
        size_t level = 5;
        if (isfinite(ms))
            level = map->most > 0 ? (size_t)(4 * ms / map->most + 0.5) : 0;
        used += (size_t)snprintf(cell + used, REP_CELL - used, "%s",
                                 glyphs[map->utf8][level < 5 ? level : 4 + !isfinite(ms)]);
    }
}

static const struct rep_column of_map[] = {{"waiting", 12, cell_map}};

/* The row of the map that is the rank for which the others wait; its end: none is. */
static size_t slow_row(const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    size_t row = 0;
    int64_t slow = an_straggler_rank(&result->ranks);
    while (row < heat->ranks && (heat->ranks_a_row > 1 || slow < 0 || heat->rank[row] != slow))
        row++;
    return row;
}

/* Where ranks wait for others, in few rows and columns. The slow rank, which waits for nobody, has
 * a row of its own: among others it would not be seen. */
static void map(struct page *page, const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    struct map_row rows[MAP_ROWS + 1], all = {heat, 0, heat->ranks, 0, false, page->utf8};
    char title[160];
    size_t slow = slow_row(result), count = 0,
           groups = heat->ranks < MAP_ROWS ? heat->ranks : MAP_ROWS;
    all.most = longest_wait(&all, 0, heat->steps);
    if (!isfinite(all.most))
        return;
    if (slow < heat->ranks)
        rows[count++] = (struct map_row){heat, slow, slow + 1, all.most, true, page->utf8};
    for (size_t i = 0; i < groups; i++) {
        struct map_row group = {.heat = heat,
                                .first = i * heat->ranks / groups,
                                .end = (i + 1) * heat->ranks / groups,
                                .most = all.most,
                                .utf8 = page->utf8};
        if (group.first != slow || group.end != slow + 1)
            rows[count++] = group;
    }
    snprintf(title, sizeof title,
             "Waiting for other ranks, steps %" PRId64 " to %" PRId64 ", at most %s",
             heat->index[0], heat->index[heat->steps - 1] + heat->steps_a_column - 1,
             TIME_TEXT(all.most * 1e6));
    const struct rep_table table = {.title = title,
                                    .name = name_map,
                                    .words = true,
                                    REP_COLUMNS(of_map),
                                    REP_ROWS_OF(rows, count),
                                    .most = MAP_ROWS + 1};
    rep_table_write(page, &table);
}

void rep_section_heat(struct page *page, const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    if (heat->reason || !heat->ranks || !heat->steps)
        return; /* one rank: nothing to compare */
    page_picture(page, PAGE_HEAT, result);
    if (!page->ops->picture)
        map(page, result);
    if (page->ops->picture || result->ranks.reason)
        numbers(page, heat); /* else the section of the ranks has their table */
}

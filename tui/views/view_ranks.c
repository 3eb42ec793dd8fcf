/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks: a heat map of rank x step (waiting for others, transfer, the step itself), and the tables
 * of communication.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "reports/words/compare.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

#define MODES 3
static const char *const titles[MODES] = {"waiting for other ranks", "transfer", "step"};

static const double *values_of(const struct an_heat *heat, int mode)
{
    const double *const values[MODES] = {heat->waiting_ms, heat->transfer_ms, heat->step_ms};
    return values[mode];
}

/* The largest of the values that fall into one cell of the picture; NAN: none is known. */
static double largest(const struct an_heat *heat, const double *values, size_t rank0, size_t rank1,
                      size_t step0, size_t step1)
{
    double most = NAN;
    for (size_t rank = rank0; rank < rank1; rank++)
        for (size_t step = step0; step < step1; step++)
            most = values[rank * heat->steps + step] > most || isnan(most)
                       ? values[rank * heat->steps + step]
                       : most;
    return most;
}

/* Finds the lowest and the highest known value. */
static void find_ends(const double *values, size_t count, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) {
            *low = fmin(*low, values[i]);
            *high = fmax(*high, values[i]);
        }
}

/* Labels a row of the map with its rank, or with the ranks that share it. */
static void label_row(struct tui_cells *cells, struct tui_rect area, int row,
                      const struct an_heat *heat, size_t first, size_t last)
{
    int64_t end = heat->rank[last] + heat->ranks_a_row - 1;
    if (end > heat->rank[first])
        tui_printf(cells, area, row, 0, TUI_NORMAL, "%" PRId64 "-%" PRId64, heat->rank[first], end);
    else
        tui_printf(cells, area, row, 0, TUI_NORMAL, "rank %" PRId64, heat->rank[first]);
}

/* Draws the steps that the map covers, and the scale of its colours. */
static void draw_scale(struct tui_cells *cells, struct tui_rect area, const struct an_heat *heat,
                       double low, double high, int columns)
{
    int column =
        tui_printf(cells, area, 0, 0, TUI_DIM, "step %" PRId64 " to %" PRId64, heat->index[0],
                   heat->index[heat->steps - 1] + heat->steps_a_column - 1);
    column += 3;
    column += tui_text(cells, area, 0, column, TUI_DIM, TIME_TEXT(low * 1e6)) + 1;
    for (int i = 0; i < 9; i++)
        tui_heat(cells, area, 0, column++, i / 8.0);
    column += 1 + tui_text(cells, area, 0, column + 1, TUI_DIM, TIME_TEXT(high * 1e6));
    if (heat->steps > (size_t)columns || heat->steps_a_column > 1) {
        const char *words = "a cell: the maximum of its steps";
        if (column + 3 + (int)strlen(words) > area.columns)
            words = "a cell: the maximum";
        if (column + 3 + (int)strlen(words) <= area.columns)
            column += 3 + tui_text(cells, area, 0, column + 3, TUI_DIM, words);
    }
    if (area.columns - column >= 14)
        tui_text(cells, area, 0, column + 3, TUI_DIM, "? unknown");
}

/* The row of the map that is the rank which the others wait for; -1: there is none, or it shares
 * its row with others. */
static int slow_row(const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    if (result->ranks.reason || !result->ranks.straggler.count || heat->ranks_a_row > 1)
        return -1;
    for (size_t i = 0; i < heat->ranks; i++)
        if (heat->rank[i] == result->ranks.straggler.rank)
            return (int)i;
    return -1;
}

/* A map that is being drawn. */
struct map {
    struct tui_cells *cells;
    struct tui_rect area;
    const struct an_heat *heat;
    const double *values;
    double floor, high;
    int label, columns, wide;
};

/* Draws a row of cells: of each the largest value of its ranks and steps. */
static void map_row(const struct map *map, int row, size_t first_rank, size_t end_rank)
{
    for (int x = 0; x < map->columns; x++) {
        size_t first = (size_t)x * map->heat->steps / (size_t)map->columns,
               end = ((size_t)x + 1) * map->heat->steps / (size_t)map->columns;
        double value = largest(map->heat, map->values, first_rank, end_rank, first, end);
        for (int i = 0; i < map->wide; i++)
            tui_heat(map->cells, map->area, row, map->label + x * map->wide + i,
                     map->high > map->floor ? (value - map->floor) / (map->high - map->floor)
                                            : value * 0);
    }
}

/* Draws the heat map of one quantity with its scale. Ranks and steps that share a cell are
 * merged into the largest of their values; the slow rank has a row of its own, the first one, where
 * it would share one: among others it would not be seen. */
static void draw_map(struct tui_cells *cells, struct tui_rect area, const struct an_result *result,
                     int mode)
{
    const struct an_heat *heat = &result->heat;
    struct map map = {cells, area, heat, values_of(heat, mode),
                      .label = area.columns < 40 ? 6 : 10};
    double low;
    int rows = area.rows - 2, slow = slow_row(result);
    map.columns = area.columns - map.label;
    if (!map.values || map.columns < 1)
        return;
    find_ends(map.values, heat->ranks * heat->steps, &low, &map.high);
    tui_printf(cells, area, 0, 0, TUI_TITLE, "Rank x step: %s", titles[mode]);
    if (area.columns >= 72)
        tui_text_right(cells, tui_right(area, 34), 0, TUI_KEY, "m waiting, transfer, step time");
    if (!(map.high >= low)) {
        tui_text(cells, area, 1, 1, TUI_DIM,
                 "unknown: the calls of all ranks must be in the file and their clocks must agree");
        return;
    }
    map.floor = mode == 2 ? low : 0; /* of steps the difference is what matters */
    rows = rows < (int)heat->ranks ? rows : (int)heat->ranks;
    map.columns = map.columns < (int)heat->steps ? map.columns : (int)heat->steps;
    map.wide = rep_clamp((area.columns - map.label) / (int)heat->steps, 1, 8); /* few steps */
    int top = slow >= 0 && rows < (int)heat->ranks && rows > 2;
    if (top) {
        tui_printf(cells, tui_left(area, map.label - 1), 1, 0, TUI_WARN, "%" PRId64 " slow",
                   heat->rank[slow]);
        map_row(&map, 1, (size_t)slow, (size_t)slow + 1);
    }
    for (int y = top; y < rows; y++) {
        size_t first = (size_t)(y - top) * heat->ranks / (size_t)(rows - top),
               end = ((size_t)(y - top) + 1) * heat->ranks / (size_t)(rows - top);
        label_row(cells, tui_left(area, map.label - 1), y + 1, heat, first, end - 1);
        map_row(&map, y + 1, first, end);
    }
    if (rows > 0)
        draw_scale(cells, tui_right(tui_lower(area, rows + 1), map.label), heat, map.floor,
                   map.high, map.columns);
}

/* Draws the map in the upper half, and the words and tables of the report below it. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_communication, rep_section_ranks,
                                        rep_section_communication_tables, NULL};
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    const struct an_heat *heat = &result->heat;
    int used;
    if (heat->reason || !heat->ranks || !heat->steps) {
        used = tui_absent(cells, area, 0, "No map of ranks", heat->reason) + 1;
    } else {
        int most = area.rows / 2 > 4 ? area.rows / 2 : area.rows;
        used = (int)heat->ranks + 2 < most ? (int)heat->ranks + 2 : most;
        draw_map(cells, tui_upper(area, used), result, tui_wrap(state->mode, MODES));
        used++;
    }
    struct tui_rect rest = tui_lower(area, used);
    if (result->communication.reason) {
        used = tui_absent(cells, rest, 0, "No communication", result->communication.reason) + 1;
        rest = tui_lower(rest, used);
    }
    tui_sections(cells, rest, result, words, state);
}

const struct tui_view tui_view_ranks = {
    .key = '5',
    .name = "ranks",
    .brief = "ranks",
    .help = "ranks that wait for others: heat map, collectives, skew",
    .keys = "m       waiting, transfer, step time\n",
    .texts = true,
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank x step as a map: how long steps were, and how long ranks waited and transferred in them; and
 * rank x rank: how many bytes they send each other. Darker (on a dark page lighter) is more; the
 * legend has the numbers of the levels.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "reports/html/html_private.h"
#include "reports/words/compare.h"

#define WIDTH        960
#define LEFT         120
#define TOP          8
#define PLOT         (WIDTH - LEFT - 10)
#define LEVELS       9
#define COLUMNS_MOST 80
#define ROW_MOST     22
#define HEIGHT_MOST  520

struct map {
    const struct an_heat *heat;
    const double *cell;
    size_t columns, each; /* shown; columns of the heat that make one */
    double low, high, row;
    int64_t slow; /* the rank that holds the others back; -1: none does */
    const char *columns_are;
    bool of_bytes; /* else of ms */
};

/* Mean of the cells that make a column; NAN: none is known. */
static double mean_value(const struct map *map, size_t rank, size_t column)
{
    double sum = 0;
    size_t known = 0;
    for (size_t step = column * map->each;
         step < (column + 1) * map->each && step < map->heat->steps; step++) {
        double ms = map->cell[rank * map->heat->steps + step];
        if (isfinite(ms)) {
            sum += ms;
            known++;
        }
    }
    return known ? sum / (double)known : NAN;
}

/* The colour of a value, 0 for the lowest; -1: the value is not known. */
static int level_of(const struct map *map, double ms)
{
    if (!isfinite(ms))
        return -1;
    if (!(map->high > map->low))
        return 0;
    return rep_clamp((int)((ms - map->low) / (map->high - map->low) * LEVELS), 0, LEVELS - 1);
}

/* Draws all cells of a level as strokes of a row's height, in units of cells. Neighbours in a row
 * become one stroke. */
static void draw_level(struct page *page, const struct map *map, int wanted)
{
    bool any = false;
    for (size_t rank = 0; rank < map->heat->ranks; rank++) {
        struct svg_pen pen = {0};
        for (size_t column = 0, end; column < map->columns; column = end) {
            end = column + 1;
            if (level_of(map, mean_value(map, rank, column)) != wanted)
                continue;
            while (end < map->columns && level_of(map, mean_value(map, rank, end)) == wanted)
                end++;
            fputs(any ? "" : "<path d=\"", page->out);
            svg_dash(page, &pen, (double)column, (double)rank, (double)(end - column));
            any = true;
        }
    }
    if (any)
        fprintf(page->out, "\"/>");
}

/* A value of the map, as text. */
static void value_text(char text[NUMBER_BYTES], const struct map *map, double value)
{
    if (map->of_bytes)
        page_bytes(text, value);
    else
        page_time(text, value * 1e6);
}

/* Every second level with the value in its middle. */
static void draw_legend(struct page *page, const struct map *map)
{
    fputs("<ul class=\"legend\">\n", page->out);
    for (int index = 0; index < LEVELS; index += 2) {
        char text[NUMBER_BYTES];
        value_text(text, map, map->low + (map->high - map->low) * (index + 0.5) / LEVELS);
        svg_key(page, 'h', index);
        fprintf(page->out, "%s</li>\n", text);
    }
    fputs("</ul>\n", page->out);
}

/* Is the rank that holds the others back in this row? */
static bool is_slow(const struct map *map, size_t row)
{
    int64_t first = map->heat->rank[row];
    return map->slow >= first &&
           (row + 1 < map->heat->ranks ? map->slow < map->heat->rank[row + 1]
                                       : map->slow < first + map->heat->ranks_a_row);
}

static double row_y(const struct map *map, size_t row)
{
    return TOP + map->row * ((double)row + 0.5) + 4;
}

/* The slow rank has its name and a frame whatever the others have. */
static void draw_slow(struct page *page, const struct map *map)
{
    for (size_t row = 0; row < map->heat->ranks; row++)
        if (is_slow(map, row)) {
            svg_rect(page, LEFT - 1, TOP + map->row * (double)row - 1, PLOT + 2, map->row + 2,
                     "slow", NULL);
            svg_text(page, LEFT - 6, row_y(map, row), SVG_END, "strong", "rank %" PRId64 " slowest",
                     map->slow);
        }
}

/* Ranks at the left and indexes of steps below, as many of each as fit without covering each
 * other. */
static void draw_labels(struct page *page, const struct map *map)
{
    size_t each = (size_t)ceil(14 / map->row), slow = map->heat->ranks + each;
    for (size_t row = 0; row < map->heat->ranks; row++)
        slow = is_slow(map, row) ? row : slow;
    for (size_t row = 0; row < map->heat->ranks; row += each)
        if (row + each <= slow || row >= slow + each)
            svg_text(page, LEFT - 6, row_y(map, row), SVG_END, "", "rank %" PRId64,
                     map->heat->rank[row]);
    draw_slow(page, map);
    size_t wide = (map->columns + 9) / 10;
    double below = TOP + map->row * (double)map->heat->ranks + 16;
    for (size_t column = 0; column < map->columns; column += wide)
        svg_text(page, LEFT + PLOT / (double)map->columns * ((double)column + 0.5), below,
                 SVG_MIDDLE, "", "%" PRId64, map->heat->index[column * map->each]);
    svg_text(page, LEFT - 6, below, SVG_END, "", "%s", map->columns_are);
}

static void draw_levels(struct page *page, const struct map *map)
{
    fprintf(page->out, "<g class=\"heat\" transform=\"translate(%d %.4g) scale(%.6g %.6g)\">\n",
            LEFT, TOP + map->row / 2, PLOT / (double)map->columns, map->row);
    for (int index = 0; index < LEVELS; index++) {
        fprintf(page->out, "<g class=\"h%d\">", index);
        draw_level(page, map, index);
        fputs("</g>\n", page->out);
    }
    fputs("</g>\n", page->out);
}

static void find_range(struct map *map)
{
    for (size_t rank = 0; rank < map->heat->ranks; rank++)
        for (size_t column = 0; column < map->columns; column++) {
            double ms = mean_value(map, rank, column);
            if (isfinite(ms)) {
                map->low = ms < map->low ? ms : map->low;
                map->high = ms > map->high ? ms : map->high;
            }
        }
}

/* Draws a map whose rows and columns are set, in a picture of bounded size. */
static void draw_map(struct page *page, struct map *map, const char *what, const char *caption)
{
    char low[NUMBER_BYTES], high[NUMBER_BYTES];
    const struct an_heat *heat = map->heat;
    map->each = (heat->steps + COLUMNS_MOST - 1) / COLUMNS_MOST;
    map->columns = (heat->steps + map->each - 1) / map->each;
    map->row = (double)HEIGHT_MOST / (double)heat->ranks < ROW_MOST
                   ? (double)HEIGHT_MOST / (double)heat->ranks
                   : ROW_MOST;
    map->low = INFINITY;
    map->high = -INFINITY;
    find_range(map);
    if (!(map->high > 0))
        return;
    value_text(low, map, map->low);
    value_text(high, map, map->high);
    svg_begin(page, "heat", caption, WIDTH, TOP + map->row * (double)heat->ranks + 24,
              "%s from %s to %s.", what, low, high);
    draw_levels(page, map);
    draw_labels(page, map);
    svg_end(page);
    draw_legend(page, map);
}

/* Draws one quantity of all ranks and steps. Steps are merged into at most COLUMNS_MOST columns
 * and the colours span the values that occur, so that any run gives a picture of bounded size. */
static void draw(struct page *page, const struct an_result *result, const double *cell,
                 const char *what)
{
    struct map map = {.heat = &result->heat, .cell = cell, .columns_are = "step"};
    char caption[120];
    map.slow = an_straggler_rank(&result->ranks);
    snprintf(caption, sizeof caption, "%s: one row per rank, one column per step", what);
    draw_map(page, &map, what, caption);
}

/* What a rank does of a step itself: the step without waiting for others. The ranks of a job take
 * their steps together, so this is what tells them apart. */
static double *own_times(const struct an_heat *heat)
{
    double *own = malloc(heat->ranks * heat->steps * sizeof *own);
    for (size_t i = 0; own && i < heat->ranks * heat->steps; i++)
        own[i] = heat->step_ms[i] - heat->waiting_ms[i];
    return own;
}

void html_heat(struct page *page, const struct an_result *result)
{
    const struct an_heat *heat = &result->heat;
    if (heat->reason || !heat->ranks || !heat->steps)
        return;
    double *own = own_times(heat);
    if (own)
        draw(page, result, own, "Own time, without waiting");
    free(own);
    draw(page, result, heat->step_ms, "Step time");
    draw(page, result, heat->waiting_ms, "Waiting for other ranks");
    draw(page, result, heat->transfer_ms, "Exposed transfer");
}

/* Rows send, columns receive. Where nothing is sent the cell is empty. */
void html_traffic(struct page *page, const struct an_traffic *traffic)
{
    size_t rows = traffic->rows;
    double *cell = malloc(rows * rows * sizeof *cell);
    const struct an_heat heat = {.ranks = rows,
                                 .steps = rows,
                                 .rank = traffic->rank,
                                 .index = traffic->rank,
                                 .ranks_a_row = traffic->ranks_a_row,
                                 .steps_a_column = traffic->ranks_a_row};
    struct map map = {
        .heat = &heat, .cell = cell, .slow = -1, .columns_are = "to rank", .of_bytes = true};
    for (size_t i = 0; cell && i < rows * rows; i++)
        cell[i] = NAN;
    for (size_t i = 0; cell && i < traffic->link_count; i++)
        cell[traffic->link[i].from * rows + traffic->link[i].to] = traffic->link[i].bytes;
    if (cell)
        draw_map(page, &map, "Bytes a step",
                 "Bytes a step: one row per rank that sends, one column per rank that receives");
    free(cell);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the report in cells. Rows are filtered, sorted and searched by name here; which
 * columns there are, and what they print, is the report's table.
 */
#include "tui/screen/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reports/words/compare.h"
#include "reports/words/phrase.h"
#include "tui/screen/draw.h"

#define NAME_LEAST 14
#define NAME_SHOWN 60

struct entry {
    const void *row;
    double key;
    size_t at; /* place of the row in the table */
};

/* Orders by key, largest first and NAN last; rows with the same key keep the order of the table. */
static int by_key(const void *left, const void *right)
{
    const struct entry *first = left, *second = right;
    int order = REP_COMPARE(second->key, first->key);
    if (isnan(first->key) || isnan(second->key))
        order = REP_COMPARE(isnan(first->key) != 0, isnan(second->key) != 0);
    return order ? order : REP_COMPARE(first->at, second->at);
}

/* The name of a row, in the buffer of the caller. */
static const char *name_of(const struct rep_table *table, const void *row, char name[REP_NAME])
{
    name[0] = 0;
    table->name(name, row);
    return name;
}

/* Names sort without regard to case; qsort_r has the table. */
static int by_name(const void *left, const void *right, void *table)
{
    const struct entry *first = left, *second = right;
    char first_name[REP_NAME], second_name[REP_NAME];
    int order = strcasecmp(name_of(table, first->row, first_name),
                           name_of(table, second->row, second_name));
    return order ? order : REP_COMPARE(first->at, second->at);
}

static const struct tui_order *order_of(const struct tui_list *list,
                                        const struct tui_view_state *state)
{
    return list->order_count ? &list->orders[tui_wrap(state->sort, list->order_count)] : NULL;
}

/* The rows that the filter lets through, in their order; the caller frees. */
static struct entry *filtered_rows(const struct tui_list *list, const struct tui_view_state *state,
                                   size_t *count)
{
    const struct rep_table *table = list->table;
    const struct tui_order *order = order_of(list, state);
    struct entry *entry = malloc((table->count ? table->count : 1) * sizeof *entry);
    char name[REP_NAME];
    *count = 0;
    for (size_t i = 0; entry && i < table->count; i++) {
        const void *row = rep_table_row(table, i);
        if (*state->filter && !tui_holds(name_of(table, row, name), state->filter))
            continue;
        entry[(*count)++] = (struct entry){row, order && order->key ? order->key(row) : 0, i};
    }
    if (!entry || !order)
        return entry;
    if (order->key)
        qsort(entry, *count, sizeof *entry, by_key);
    else
        qsort_r(entry, *count, sizeof *entry, by_name, (void *)(uintptr_t)table);
    for (size_t i = 0; state->reversed && i < *count / 2; i++) {
        struct entry swap = entry[i];
        entry[i] = entry[*count - 1 - i];
        entry[*count - 1 - i] = swap;
    }
    return entry;
}

/* The rows of a table in their order, for a search in their names. */
struct rows {
    const struct rep_table *table;
    const struct entry *entry;
};

static bool row_holds(const void *owner, int row, const char *words)
{
    char name[REP_NAME];
    const struct rows *rows = owner;
    return tui_holds(name_of(rows->table, rows->entry[row].row, name), words);
}

/* Moves the cursor to the next or previous row that holds the search words. */
static void seek_row(const struct tui_list *list, struct tui_view_state *state,
                     const struct entry *entry, size_t count)
{
    struct rows rows = {list->table, entry};
    tui_seek(state, (int)count, row_holds, &rows);
}

/* How many columns of the table fit, and what is left for the name. */
static size_t columns_of(const struct rep_table *table, int width, int *name)
{
    int least = table->name_least * (width < 100 ? width : 100) / 100;
    least = least < NAME_LEAST ? NAME_LEAST : least;
    int used = least;
    size_t shown = 0;
    while (shown < table->columns && used + table->column[shown].columns <= width)
        used += table->column[shown++].columns;
    *name = least + width - used;
    *name = *name < width ? *name : width;
    if (*name > NAME_SHOWN && shown)
        *name = NAME_SHOWN;
    return shown;
}

/* Draws title and heads of the columns, and marks the column that the rows are sorted by. */
static void draw_head(struct tui_cells *cells, struct tui_rect area, const struct tui_list *list,
                      const struct tui_view_state *state, size_t shown, int name)
{
    const struct tui_order *order = order_of(list, state);
    static const char *const marks[2][2] = {{"\xe2\x96\xbc", "\xe2\x96\xb2"}, {"v", "^"}};
    const char *mark = marks[cells->glyphs == TUI_ASCII][state->reversed];
    char text[120];
    snprintf(text, sizeof text, "%.80s%s", list->table->title,
             order && order->column < 0 ? mark : "");
    tui_text(cells, tui_left(area, name), 0, 0, TUI_TITLE, text);
    for (size_t index = 0, column = (size_t)name; index < shown;
         column += (size_t)list->table->column[index++].columns) {
        struct tui_rect cell = {area.row, area.column + (int)column, 1,
                                list->table->column[index].columns};
        snprintf(text, sizeof text, "%s%s", list->table->column[index].head,
                 order && order->column == (int)index ? mark : "");
        tui_text_right(cells, cell, 0, TUI_TITLE, text);
    }
}

/* Draws one row: its letter where the list has letters, its name, and the columns that fit. The
 * selected row is filled to the right edge. */
static void draw_row(struct tui_cells *cells, struct tui_rect area, const struct tui_list *list,
                     const struct entry *entry, size_t shown, int name_columns, bool selected)
{
    const struct rep_table *table = list->table;
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    char name[REP_NAME], cell[REP_CELL];
    int indent = 0;
    if (selected)
        tui_fill(cells, area, 0, TUI_SELECTED);
    if (list->letters) {
        uint32_t letter =
            entry->at < strlen(list->letters) ? (uint32_t)list->letters[entry->at] : ' ';
        tui_glyph(cells, area, 0, 0, style, letter);
        indent = 2;
    }
    tui_text(cells, tui_left(area, name_columns - 1), 0, indent, style,
             name_of(table, entry->row, name));
    for (size_t index = 0, column = (size_t)name_columns; index < shown;
         column += (size_t)table->column[index++].columns) {
        struct tui_rect place = {area.row, area.column + (int)column, 1,
                                 table->column[index].columns};
        tui_text_right(cells, place, 0, style, rep_table_cell(table, index, entry->row, cell));
    }
}

/* Draws which rows are visible, how many the filter hides, and how many hold the search words. */
static void draw_status(struct tui_cells *cells, struct tui_rect area, const struct tui_list *list,
                        const struct tui_view_state *state, const struct entry *entry, size_t count,
                        int shown)
{
    char name[REP_NAME];
    size_t hits = 0;
    for (size_t i = 0; *state->search && i < count; i++)
        hits += tui_holds(name_of(list->table, entry[i].row, name), state->search);
    char text[300];
    size_t used = (size_t)snprintf(text, sizeof text, "%d-%d of %zu", count ? state->top + 1 : 0,
                                   state->top + shown, count);
    if (count < list->table->count)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%zu hidden by \\%.64s)",
                                 list->table->count - count, state->filter);
    if (*state->search && used < sizeof text)
        snprintf(text + used, sizeof text - used, "  /%.64s: %zu %s", state->search, hits,
                 REP_PLURAL(hits, "row", "rows"));
    tui_text(cells, area, 0, 0, TUI_DIM, text);
}

/* The order is: filter and sort, then search, then limit the state to the rows that are left,
 * then draw. */
const void *tui_table_draw(struct tui_cells *cells, struct tui_rect area,
                           const struct tui_list *list, struct tui_view_state *state)
{
    size_t count = 0;
    struct entry *entry = filtered_rows(list, state, &count);
    const void *under = NULL;
    bool foot = area.rows >= 4 && ((int)count > area.rows - 1 || *state->filter || *state->search);
    int room = area.rows - 1 - foot, name;
    room = room < 0 ? 0 : room;
    seek_row(list, state, entry, entry ? count : 0);
    tui_state_clamp(state, entry ? (int)count : 0, room);
    state->page = room;
    if (entry && area.rows > 0 && area.columns > 0) {
        size_t shown = columns_of(list->table, area.columns, &name);
        int drawn = 0;
        draw_head(cells, area, list, state, shown, name);
        for (int i = state->top; i < (int)count && drawn < room; i++, drawn++)
            draw_row(cells, tui_upper(tui_lower(area, 1 + drawn), 1), list, &entry[i], shown, name,
                     i == state->cursor);
        if (foot)
            draw_status(cells, tui_lower(area, area.rows - 1), list, state, entry, count, drawn);
    }
    if (entry && state->cursor >= 0 && (size_t)state->cursor < count)
        under = entry[state->cursor].row;
    free(entry);
    return under;
}

int tui_table_details(struct tui_cells *cells, struct tui_rect area, const struct rep_table *table,
                      const void *row)
{
    char name[REP_NAME], cell[REP_CELL];
    int line = tui_paragraph(cells, tui_upper(area, area.rows > 4 ? area.rows - 2 : area.rows), 0,
                             0, TUI_BOLD, name_of(table, row, name));
    int column = 0;
    for (size_t index = 0; index < table->columns && line < area.rows; index++) {
        char text[2 * REP_CELL + 8];
        rep_table_cell(table, index, row, cell);
        snprintf(text, sizeof text, "%.30s %s", table->column[index].head, rep_or(cell, "n/a"));
        int width = tui_width(cells, text);
        if (column && column + width > area.columns) {
            column = 0;
            line++;
        }
        tui_text(cells, area, line, column, TUI_NORMAL, text);
        column += width + 3;
    }
    return line + (column > 0);
}

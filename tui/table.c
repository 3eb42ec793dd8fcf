/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tui/draw.h"

#define NAME_LEAST 14
#define NAME_SHOWN 60

struct entry {
    const void *row;
    double key;
    size_t at; /* where the row stands in the table */
};

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (isnan(x->key) || isnan(y->key))
        return isnan(x->key) != isnan(y->key) ? isnan(x->key) - isnan(y->key)
                                              : (x->at > y->at) - (x->at < y->at);
    if (x->key < y->key || x->key > y->key)
        return x->key < y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static const char *name_of(const struct rep_table *t, const void *row, char name[REP_NAME])
{
    name[0] = 0;
    t->name(name, row);
    return name;
}

/* Names sort without regard to case; qsort_r has the table. */
static int by_name(const void *a, const void *b, void *table)
{
    const struct entry *x = a, *y = b;
    char p[REP_NAME], q[REP_NAME];
    int order = strcasecmp(name_of(table, x->row, p), name_of(table, y->row, q));
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static const struct tui_order *order_of(const struct tui_list *list, const struct tui_view_state *s)
{
    long n = (long)list->order_count;
    return n ? &list->orders[((s->sort % n) + n) % n] : NULL;
}

/* The rows that the filter lets through, in their order; the caller frees. */
static struct entry *entries(const struct tui_list *list, const struct tui_view_state *s,
                             size_t *count)
{
    const struct rep_table *t = list->table;
    const struct tui_order *order = order_of(list, s);
    struct entry *e = malloc((t->count ? t->count : 1) * sizeof *e);
    char name[REP_NAME];
    *count = 0;
    for (size_t i = 0; e && i < t->count; i++) {
        const void *row = (const char *)t->rows + i * t->size;
        if (*s->filter && !tui_holds(name_of(t, row, name), s->filter))
            continue;
        e[(*count)++] = (struct entry){row, order && order->key ? order->key(row) : 0, i};
    }
    if (!e || !order)
        return e;
    if (order->key)
        qsort(e, *count, sizeof *e, by_key);
    else
        qsort_r(e, *count, sizeof *e, by_name, (void *)(uintptr_t)t);
    for (size_t i = 0; s->reversed && i < *count / 2; i++) {
        struct entry swap = e[i];
        e[i] = e[*count - 1 - i];
        e[*count - 1 - i] = swap;
    }
    return e;
}

/* Moves the cursor to the next or previous row that holds the search words. */
static void seek(const struct tui_list *list, struct tui_view_state *s, const struct entry *e,
                 size_t count)
{
    char name[REP_NAME];
    int way = s->seek;
    s->seek = 0;
    if (!way || !*s->search || !count)
        return;
    long n = (long)count, at = s->cursor < 0 ? 0 : s->cursor >= n ? n - 1 : s->cursor;
    for (long i = 1; i <= n; i++) {
        long k = (((at + way * i) % n) + n) % n;
        if (tui_holds(name_of(list->table, e[k].row, name), s->search)) {
            s->cursor = (int)k;
            return;
        }
    }
}

/* How many columns of the table fit, and what is left for the name. */
static size_t columns_of(const struct rep_table *t, int width, int *name)
{
    int least = t->name_least * (width < 100 ? width : 100) / 100,
        used = least = least < NAME_LEAST ? NAME_LEAST : least;
    size_t shown = 0;
    while (shown < t->columns && used + t->column[shown].columns <= width)
        used += t->column[shown++].columns;
    *name = least + width - used;
    *name = *name < width ? *name : width;
    if (*name > NAME_SHOWN && shown)
        *name = NAME_SHOWN;
    return shown;
}

static void head(struct tui_cells *c, struct tui_rect r, const struct tui_list *list,
                 const struct tui_view_state *s, size_t shown, int name)
{
    const struct tui_order *order = order_of(list, s);
    const char *down = c->glyphs == TUI_ASCII ? "v" : "\xe2\x96\xbc",
               *up = c->glyphs == TUI_ASCII ? "^" : "\xe2\x96\xb2";
    const char *mark = s->reversed ? up : down;
    char text[120];
    snprintf(text, sizeof text, "%.80s%s", list->table->title,
             order && order->column < 0 ? mark : "");
    tui_text(c, tui_left(r, name), 0, 0, TUI_TITLE, text);
    for (size_t k = 0, column = (size_t)name; k < shown;
         column += (size_t)list->table->column[k++].columns) {
        struct tui_rect cell = {r.row, r.column + (int)column, 1, list->table->column[k].columns};
        snprintf(text, sizeof text, "%s%s", list->table->column[k].head,
                 order && order->column == (int)k ? mark : "");
        tui_text_right(c, cell, 0, TUI_TITLE, text);
    }
}

static void draw_row(struct tui_cells *c, struct tui_rect r, const struct tui_list *list,
                     const struct entry *e, size_t shown, int name_columns, bool selected)
{
    const struct rep_table *t = list->table;
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    char name[REP_NAME], cell[REP_CELL];
    int indent = 0;
    for (int x = 0; selected && x < r.columns; x++)
        tui_glyph(c, r, 0, x, TUI_SELECTED, ' ');
    if (list->letters) {
        uint32_t letter = e->at < strlen(list->letters) ? (uint32_t)list->letters[e->at] : ' ';
        tui_glyph(c, r, 0, 0, style, letter);
        indent = 2;
    }
    tui_text(c, tui_left(r, name_columns - 1), 0, indent, style, name_of(t, e->row, name));
    for (size_t k = 0, column = (size_t)name_columns; k < shown;
         column += (size_t)t->column[k++].columns) {
        struct tui_rect at = {r.row, r.column + (int)column, 1, t->column[k].columns};
        cell[0] = 0;
        t->column[k].cell(cell, e->row);
        tui_text_right(c, at, 0, style, cell);
    }
}

static void status(struct tui_cells *c, struct tui_rect r, const struct tui_list *list,
                   const struct tui_view_state *s, const struct entry *e, size_t count, int shown)
{
    char name[REP_NAME];
    size_t hits = 0;
    for (size_t i = 0; *s->search && i < count; i++)
        hits += tui_holds(name_of(list->table, e[i].row, name), s->search);
    char text[300];
    size_t used = (size_t)snprintf(text, sizeof text, "%d-%d of %zu", count ? s->top + 1 : 0,
                                   s->top + shown, count);
    if (count < list->table->count)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%zu left out by \\%.64s)",
                                 list->table->count - count, s->filter);
    if (*s->search && used < sizeof text)
        snprintf(text + used, sizeof text - used, "  /%.64s: %zu %s", s->search, hits,
                 hits == 1 ? "row" : "rows");
    tui_text(c, r, 0, 0, TUI_DIM, text);
}

const void *tui_table_draw(struct tui_cells *c, struct tui_rect r, const struct tui_list *list,
                           struct tui_view_state *s)
{
    size_t count = 0;
    struct entry *e = entries(list, s, &count);
    const void *under = NULL;
    bool foot = r.rows >= 4 && ((int)count > r.rows - 1 || *s->filter || *s->search);
    int room = r.rows - 1 - foot, name;
    room = room < 0 ? 0 : room;
    seek(list, s, e, e ? count : 0);
    tui_state_clamp(s, e ? (int)count : 0, room);
    s->page = room;
    if (e && r.rows > 0 && r.columns > 0) {
        size_t shown = columns_of(list->table, r.columns, &name);
        int drawn = 0;
        head(c, r, list, s, shown, name);
        for (int i = s->top; i < (int)count && drawn < room; i++, drawn++)
            draw_row(c, tui_upper(tui_lower(r, 1 + drawn), 1), list, &e[i], shown, name,
                     i == s->cursor);
        if (foot)
            status(c, tui_lower(r, r.rows - 1), list, s, e, count, drawn);
    }
    if (e && s->cursor >= 0 && (size_t)s->cursor < count)
        under = e[s->cursor].row;
    free(e);
    return under;
}

int tui_table_details(struct tui_cells *c, struct tui_rect r, const struct rep_table *t,
                      const void *row)
{
    char name[REP_NAME], cell[REP_CELL];
    int at = tui_paragraph(c, tui_upper(r, r.rows > 4 ? r.rows - 2 : r.rows), 0, 0, TUI_BOLD,
                           name_of(t, row, name));
    int column = 0;
    for (size_t k = 0; k < t->columns && at < r.rows; k++) {
        char text[2 * REP_CELL + 8];
        cell[0] = 0;
        t->column[k].cell(cell, row);
        snprintf(text, sizeof text, "%.30s %s", t->column[k].head, *cell ? cell : "n/a");
        int w = tui_width(c, text);
        if (column && column + w > r.columns) {
            column = 0;
            at++;
        }
        tui_text(c, r, at, column, TUI_NORMAL, text);
        column += w + 3;
    }
    return at + (column > 0);
}

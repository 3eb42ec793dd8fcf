/* SPDX-License-Identifier: Apache-2.0
 *
 * What the time is spent in: ranges or kernels, the same as a tree, and device time by operator,
 * module, line, annotation.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "reports/words/compare.h"
#include "reports/words/phrase.h"
#include "tacho_hash.h"
#include "tui/screen/draw.h"
#include "tui/screen/table.h"
#include "tui/views/view_list.h"

enum { OPS, TREE, BY_FIRST, MODES = BY_FIRST + 4 };

/* ---- orders ---------------------------------------------------------------------------------- */

static double op_share(const void *row)
{
    const struct an_op *op = row;
    return op->share_pct.valid ? op->share_pct.value : (double)op->self_ns * 1e-12;
}
static double op_count(const void *row)
{
    return (double)((const struct an_op *)row)->count;
}
static double op_mean(const void *row)
{
    const struct an_op *op = row;
    return op->mean_us.valid ? op->mean_us.value : NAN;
}
static double op_total(const void *row)
{
    return (double)((const struct an_op *)row)->total_ns;
}
static double op_max(const void *row)
{
    const struct an_op *op = row;
    return op->max_ns.valid ? (double)op->max_ns.value : NAN;
}
static double op_flops(const void *row)
{
    const struct an_op *op = row;
    return op->flops_per_s.valid ? op->flops_per_s.value : NAN;
}
/* Columns as rep_table_ops has them, of ranges and of kernels. */
static const struct tui_order of_ranges[] = {{0, op_share}, {4, op_total}, {1, op_count},
                                             {2, op_mean},  {3, op_flops}, {8, op_max},
                                             {-1, NULL}};
static const struct tui_order of_kernels[] = {{0, op_share}, {1, op_total}, {2, op_count},
                                              {3, op_mean},  {6, op_max},   {-1, NULL}};

static double by_device(const void *row)
{
    return (double)((const struct an_attribution_row *)row)->device_ns;
}
static double by_host(const void *row)
{
    return (double)((const struct an_attribution_row *)row)->host_ns;
}
static double by_count(const void *row)
{
    return (double)((const struct an_attribution_row *)row)->count;
}
static const struct tui_order of_attribution[] = {
    {1, by_device}, {2, by_host}, {3, by_count}, {-1, NULL}};

/* ---- tree ------------------------------------------------------------------------------------ */

/* Rows of the tree as they are shown: parents before children, children by time. */
struct node {
    uint32_t row;
    int depth;
    uint64_t path; /* hash of the names from the root to it: the same in the next analysis */
    bool parent, folded;
};

/* Continues the hash of a path by one name. */
static uint64_t hash_of(uint64_t path, const char *name)
{
    return tacho_hash_number(tacho_hash_text(path, name), '/');
}

/* The place of a path among those that Enter changed; -1: it is not one of them. */
static int fold_of(const struct tui_view_state *state, uint64_t path)
{
    for (int i = 0; i < state->folds; i++)
        if (state->folded[i] == path)
            return i;
    return -1;
}

/* Folds a path that is open and opens one that is folded. */
static void fold(struct tui_view_state *state, uint64_t path)
{
    int i = fold_of(state, path);
    if (i >= 0)
        state->folded[i] = state->folded[--state->folds];
    else if (state->folds < TUI_FOLDS)
        state->folded[state->folds++] = path;
}

static int by_time(const void *left, const void *right, void *flame)
{
    const struct an_flame *tree = flame;
    const struct an_flame_row *first = &tree->row[*(const uint32_t *)left],
                              *second = &tree->row[*(const uint32_t *)right];
    int order = REP_COMPARE(second->total_ns, first->total_ns);
    return order ? order : REP_COMPARE(first, second);
}

/* The tree while it is laid out in rows. */
struct tree {
    const struct an_flame *flame;
    const uint32_t *first,
        *child; /* children of row i: child[first[i]] ... child[first[i + 1] - 1], by time */
    const struct tui_view_state *state;
    int most; /* levels */
};

/* Appends a range and everything below it that is not folded. Ranges below `most` levels are
 * folded, unless Enter changed that; Enter folds the others. Returns how many were appended. */
static size_t flatten(const struct tree *tree, uint32_t row, int depth, uint64_t path,
                      struct node *out)
{
    size_t count = 0;
    path = hash_of(path, tree->flame->row[row].name);
    bool parent = tree->first[row + 1] > tree->first[row],
         folded = parent && (depth + 1 >= tree->most) != (fold_of(tree->state, path) >= 0);
    out[count++] = (struct node){row, depth, path, parent, folded};
    for (uint32_t i = tree->first[row]; !folded && i < tree->first[row + 1]; i++)
        count += flatten(tree, tree->child[i], depth + 1, path, out + count);
    return count;
}

/* All rows that are unfolded, or their parents, and hold the filter; the caller frees. */
static struct node *nodes_of(const struct an_flame *flame, int most,
                             const struct tui_view_state *state, size_t *shown)
{
    size_t count = flame->row_count, all, kept = 0;
    uint32_t *first = calloc(count + 2, sizeof *first), *child = calloc(count + 1, sizeof *child);
    struct node *out = calloc(count + 1, sizeof *out);
    if (first && child && out) {
        for (size_t i = 1; i < count; i++)
            first[flame->row[i].parent + 2]++;
        for (size_t i = 2; i < count + 2; i++)
            first[i] += first[i - 1];
        for (size_t i = 1; i < count; i++)
            child[first[flame->row[i].parent + 1]++] = (uint32_t)i;
        for (size_t i = 0; i < count; i++)
            qsort_r(child + first[i], first[i + 1] - first[i], sizeof *child, by_time,
                    (void *)(uintptr_t)flame);
        all =
            flatten(&(struct tree){flame, first, child, state, most}, 0, 0, TACHO_HASH_BEGIN, out);
        for (size_t i = 0; i < all; i++)
            if (!*state->filter || tui_holds(flame->row[out[i].row].name, state->filter))
                out[kept++] = out[i];
    }
    *shown = kept;
    free(first);
    free(child);
    return out;
}

/* Draws one range of the tree: a sign that tells whether it is folded, its name, share, time,
 * count, and a bar where there is room. */
static void tree_row(struct tui_cells *cells, struct tui_rect area, int row,
                     const struct an_flame *flame, const struct node *node, bool selected)
{
    const struct an_flame_row *flame_row = &flame->row[node->row];
    const int numbers = 27, bar = area.columns >= 90 ? 16 : 0;
    enum tui_style style = selected ? TUI_SELECTED : TUI_NORMAL;
    double all = flame->row[0].total_ns > 0 ? (double)flame->row[0].total_ns : 1;
    if (selected)
        tui_fill(cells, area, row, style);
    int column = area.columns - numbers - bar;
    if (column < 10)
        column = area.columns - 8;
    static const uint32_t signs[2][2] = {{0x25be, 0x25b8}, {'-', '+'}};
    if (node->parent)
        tui_glyph(cells, tui_left(area, column - 1), row, 2 * node->depth,
                  selected ? style : TUI_DIM, signs[cells->glyphs == TUI_ASCII][node->folded]);
    tui_text(cells, tui_left(area, column - 1), row, 2 * node->depth + 2, style,
             rep_or(flame_row->name, "(unnamed)"));
    tui_printf(cells, area, row, column, style, "%5.1f %%",
               100 * (double)flame_row->total_ns / all);
    if (area.columns - column < numbers)
        return;
    tui_text_right(cells, tui_left(area, column + 17), row, style,
                   TIME_TEXT((double)flame_row->total_ns));
    tui_printf(cells, area, row, column + 18, style, "%8" PRId64, flame_row->count);
    if (bar)
        tui_bar(cells, area, row, column + 28, bar - 2, (double)flame_row->total_ns / all,
                selected ? TUI_SELECTED : TUI_SERIES);
}

/* Moves the cursor to the next row that holds the search words, past the end to the first. */
static void seek(const struct an_flame *flame, const struct node *node, int count,
                 struct tui_view_state *state)
{
    for (int i = 1; state->seek && *state->search && i <= count; i++) {
        int place = tui_wrap(state->cursor + state->seek * i, (size_t)count);
        if (tui_holds(flame->row[node[place].row].name, state->search)) {
            state->cursor = place;
            break;
        }
    }
    state->seek = 0;
}

/* Draws the ranges as a tree. The zoom sets how many levels are open; Enter folds or unfolds a
 * range, which is remembered by the hash of its path, so that it survives the next analysis. */
static void draw_tree(struct tui_cells *cells, struct tui_rect area, const struct an_result *result,
                      struct tui_view_state *state)
{
    const struct an_flame *flame = &result->flame;
    if (flame->reason || !flame->row_count) {
        tui_absent(cells, area, 0, "No tree of ranges",
                   rep_or(flame->reason, "no range was recorded"));
        return;
    }
    int levels = 3 + (int)lround(log2(fmax(state->zoom, 1)));
    int shown = rep_clamp(area.rows - 1, 0, area.rows);
    size_t kept;
    struct node *node = nodes_of(flame, levels, state, &kept);
    tui_state_clamp(state, node ? (int)kept : 0, shown);
    if (state->open && node && kept) {
        fold(state, node[state->cursor].path);
        free(node);
        node = nodes_of(flame, levels, state, &kept);
    }
    state->open = false;
    tui_printf(cells, area, 0, 0, TUI_TITLE, "%s, %d levels", rep_or(flame->source, "Ranges"),
               levels);
    tui_text_right(cells, tui_right(area, area.columns / 2), 0, TUI_KEY,
                   area.columns < 70 ? "Enter fold" : "Enter fold  + - levels  m next");
    if (node)
        seek(flame, node, (int)kept, state);
    tui_state_clamp(state, node ? (int)kept : 0, shown);
    state->page = shown;
    for (int i = state->top, row = 1; node && i < (int)kept && row < area.rows; i++, row++)
        tree_row(cells, area, row, flame, &node[i], i == state->cursor);
    free(node);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Draws a table and, after Enter or where there is room, all figures of the selected row below
 * it. */
static void draw_list(struct tui_cells *cells, struct tui_rect area, const struct tui_list *list,
                      struct tui_view_state *state)
{
    int details =
        (state->open && area.rows > 10) || area.rows > (int)list->table->count + 9 ? 6 : 0;
    const void *row = tui_table_draw(cells, tui_upper(area, area.rows - details), list, state);
    if (!row || !details)
        return;
    struct tui_rect low = tui_lower(area, area.rows - details);
    tui_rule(cells, low, 0);
    tui_table_details(cells, tui_lower(low, 1), list->table, row);
}

/* Draws device time by one of the kinds of attribution, or why it is not known. */
static void draw_attribution(struct tui_cells *cells, struct tui_rect area,
                             const struct an_result *result, int mode, struct tui_view_state *state)
{
    const struct an_attribution *attribution = &result->attribution[mode - BY_FIRST];
    struct rep_table table;
    char title[80], what[80];
    snprintf(what, sizeof what, "No GPU time by %.20s", rep_by_name(attribution->by));
    if (!result->gpu.reason && !attribution->reason && attribution->row_count) {
        rep_table_attribution(attribution, &table, title);
        struct tui_list list = {&table, of_attribution,
                                sizeof of_attribution / sizeof *of_attribution, NULL};
        draw_list(cells, area, &list, state);
        return;
    }
    tui_absent(cells, area, 0, what,
               result->gpu.reason
                   ? result->gpu.reason
                   : rep_or(attribution->reason, "no host range launched device work"));
}

/* Draws the picture that was chosen: the table of ranges or kernels, their tree, or device time
 * by operator, module, line or annotation. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    struct rep_table table;
    char title[80];
    if (!result)
        return;
    int mode = tui_wrap(state->mode, result->gpu.reason ? BY_FIRST : MODES);
    if (mode == TREE) {
        draw_tree(cells, area, result, state);
    } else if (mode >= BY_FIRST) {
        draw_attribution(cells, area, result, mode, state);
    } else if (!result->op_count) {
        tui_absent(cells, area, 0, "No ranges",
                   "none was recorded: mark the work of your program with NVTX ranges, or record "
                   "with `tacho run` what "
                   "its framework reports");
    } else {
        rep_table_ops(result, &table, title);
        struct tui_list list = {&table, of_ranges, sizeof of_ranges / sizeof *of_ranges, NULL};
        if (!result->gpu.reason) {
            list.orders = of_kernels;
            list.order_count = sizeof of_kernels / sizeof *of_kernels;
        }
        draw_list(cells, area, &list, state);
    }
}

/* Another picture begins with nothing open: Enter means something else there. */
static bool take(struct tui_view_state *state, int key)
{
    if (key == 'm')
        state->open = false;
    return false;
}

const struct tui_view tui_view_ops = {
    .key = '6',
    .name = "ops",
    .brief = "ops",
    .help = "ranges and kernels by time: sort, filter, search; tree",
    .keys = "s < > I sort by time, count, mean ...; reverse the order\n"
            "m       ranges or kernels; their tree; by operator, module, line, annotation\n"
            "+ -     levels of the tree\n"
            "Enter   all figures of the row under the cursor; in the tree: fold it\n",
    .searches = true,
    .draw = draw,
    .take = take};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what is held for what, now and over the run, the peak compared with the capacity of the
 * machine, and whether it grows.
 */
#include <math.h>
#include <stdlib.h>

#include "reports/sections/sections.h"
#include "tui/screen/draw.h"
#include "tui/views/memory_timeline.h"
#include "tui/views/view_list.h"

enum { CAPACITY, WORDS, TAGS, TIMELINE, CURVES, PANELS };

static const char *const curves[] = {"memory.total", "rss", "gpu_memory_used",
                                     "gpu_memory_allocated", "memory_available"};

/* What is tracked, what is resident and untracked, and what is free, as parts of the capacity: of
 * the machine, or of the device that has least left. */
static void draw_capacity(struct tui_cells *cells, struct tui_rect area,
                          const struct tui_model *model, struct tui_view_state *state)
{
    const struct an_memory *memory = &model->result->memory;
    (void)state;
    const char *device = memory->room_device;
    double all = (double)memory->capacity_bytes.value, left = (double)memory->room_bytes.value;
    double tracked = device ? all - left : an_count_or_0(memory->peak_bytes);
    double untracked = an_count_or_0(memory->uncounted_bytes);
    const struct tui_part part[] = {{tracked, TUI_CLASS + AN_CLASS_COMPUTE, 'P'},
                                    {untracked, TUI_CLASS + AN_CLASS_HOST, 'o'},
                                    {left, TUI_DIM, cells->glyphs == TUI_ASCII ? '.' : 0xb7}};
    char untracked_words[48] = "", where[32] = "";
    if (device)
        snprintf(where, sizeof where, " on %.20s", device);
    else
        snprintf(untracked_words, sizeof untracked_words, "   o untracked %s",
                 BYTES_TEXT(untracked));
    tui_stack(cells, area, 0, 0, area.columns, part, 3);
    if (area.columns < 70) {
        tui_printf(cells, area, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL,
                   "P %s   free %s of %s%s", BYTES_TEXT(tracked), BYTES_TEXT(left), BYTES_TEXT(all),
                   where);
        return;
    }
    tui_printf(cells, area, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL,
               "P tracked at most %s%s   free %s of %s%s", BYTES_TEXT(tracked), untracked_words,
               BYTES_TEXT(left), BYTES_TEXT(all), where);
}

/* A row for each category that the program tracks: what it holds now and at most, as numbers and
 * as one bar over the other. */
static void draw_tags(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_view_state *state)
{
    const struct an_memory *memory = &model->result->memory;
    (void)state;
    double most = 1;
    int label = area.columns < 60 ? 14 : 26;
    for (size_t i = 0; i < memory->tag_count; i++)
        most = fmax(most, (double)memory->tags[i].peak);
    tui_text(cells, area, 0, 0, TUI_TITLE, "By category: now, and at most");
    for (size_t i = 0; i < memory->tag_count && (int)i + 1 < area.rows; i++) {
        const struct an_memory_tag *tag = &memory->tags[i];
        char name[120];
        int row = (int)i + 1;
        const char *device = tag->device[0] == 'g' ? tag->device : "";
        snprintf(name, sizeof name, "%.60s%s%.30s", tag->name, *device ? " " : "", device);
        tui_text(cells, tui_left(area, label - 1), row, 1, TUI_NORMAL, name);
        tui_text_right(cells, tui_left(area, label + 10), row, TUI_NORMAL,
                       BYTES_TEXT((double)tag->current));
        tui_text_right(cells, tui_left(area, label + 21), row, TUI_DIM,
                       BYTES_TEXT((double)tag->peak));
        tui_bar(cells, area, row, label + 23, area.columns - label - 24, (double)tag->peak / most,
                TUI_DIM);
        tui_bar(cells, area, row, label + 23, area.columns - label - 24,
                (double)tag->current / most, TUI_CLASS + AN_CLASS_COMPUTE);
    }
}

#define OWNERS_MOST 8 /* of one curve: ranks, devices */

/* Draws the curves, of each counter the largest first, where `area` has rows. Returns how many
 * there are. */
static int each_curve(struct tui_cells *cells, struct tui_rect area, int row,
                      const struct tui_model *model)
{
    int drawn = 0;
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++) {
        size_t owners = 1;
        for (int owner = 0; owner < (int)owners && owner < OWNERS_MOST; owner++) {
            const struct tui_series *series =
                tui_lowest_series(model, curves[i], -1 - owner, &owners);
            struct tui_curve curve;
            if (!series || series->count < 2 || !tui_curve_of(model, series, &curve))
                continue;
            tui_curve_owner(model, series, &curve);
            tui_curve_row(cells, area, row + drawn++, &curve);
            free(curve.value);
        }
    }
    return drawn;
}

static void draw_curves(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, struct tui_view_state *state)
{
    (void)state;
    tui_text(cells, area, 0, 0, TUI_TITLE, "Over the run");
    each_curve(cells, area, 1, model);
}

static const tui_section words[] = {rep_section_memory, rep_section_allocator, NULL};

static void draw_words(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    if (model->result->memory.reason)
        tui_absent(cells, area, 0, "Memory by category", model->result->memory.reason);
    else
        tui_sections(cells, area, model->result, words, state);
}

/* Lays out the panels: capacity, words, memory by category, that over time, curves. A panel without
 * data has no rows. */
static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    const struct an_memory *memory = &result->memory;
    int curve_count = each_curve(cells, (struct tui_rect){0, 0, 0, 0}, 0, model);
    bool capacity = !memory->reason && memory->room_bytes.valid && memory->capacity_bytes.value > 0;
    struct tui_panel panel[PANELS] = {
        [CAPACITY] = {2, 3, 100, draw_capacity, {0}},
        [WORDS] = {2, 4, 80, draw_words, {0}},
        [TAGS] = {3, (int)memory->tag_count + 2, 70, draw_tags, {0}},
        [TIMELINE] = {5, 14, 65, tui_memory_timeline, {0}},
        [CURVES] = {2, curve_count + 1, 60, draw_curves, {0}},
    };
    if (!memory->reason)
        panel[WORDS].most = tui_sections_rows(cells, area.columns, result, words) + 1;
    if (!capacity)
        panel[CAPACITY].least = panel[CAPACITY].most = 0;
    if (memory->reason || !memory->tag_count)
        panel[TAGS].least = panel[TAGS].most = 0;
    if (!tui_memory_timeline_known(model))
        panel[TIMELINE].least = panel[TIMELINE].most = 0;
    if (!curve_count)
        panel[CURVES].least = panel[CURVES].most = 0;
    tui_panels_draw(cells, area, panel, PANELS, model, state);
}

const struct tui_view tui_view_memory = {
    .key = '7',
    .name = "memory",
    .brief = "mem",
    .help = "memory by category over the run; what is free; growth",
    .texts = true,
    .draw = draw};

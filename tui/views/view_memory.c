/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what is held for what, the peak beside what the machine has, whether it grows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/sections/sections.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

enum { CAPACITY, WORDS, TAGS, CURVES, PANELS };

static const char *const curves[] = {"memory.total", "rss", "gpu_memory_used",
                                     "gpu_memory_allocated", "memory_available"};

/* The counted peak and the resident peak as parts of the capacity. */
static void draw_capacity(struct tui_cells *cells, struct tui_rect area,
                          const struct tui_model *model, struct tui_view_state *state)
{
    const struct an_memory *memory = &model->result->memory;
    (void)state;
    double all = (double)memory->capacity_bytes.value,
           counted = memory->peak_bytes.valid ? (double)memory->peak_bytes.value : 0;
    double resident =
        memory->resident_peak_bytes.valid ? (double)memory->resident_peak_bytes.value : counted;
    const struct tui_part part[] = {
        {counted, TUI_CLASS + AN_CLASS_COMPUTE, 'P'},
        {fmax(0, resident - counted), TUI_CLASS + AN_CLASS_HOST, 'o'},
        {fmax(0, all - fmax(resident, counted)), TUI_DIM, cells->glyphs == TUI_ASCII ? '.' : 0xb7}};
    tui_stack(cells, area, 0, 0, area.columns, part, 3);
    double left = all - fmax(resident, counted);
    if (area.columns < 70) {
        tui_printf(cells, area, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL,
                   "P %s   free %s of %s", BYTES_TEXT(counted), BYTES_TEXT(fmax(0, left)),
                   BYTES_TEXT(all));
        return;
    }
    tui_printf(cells, area, 1, 0, left < all * 0.05 ? TUI_BAD : TUI_NORMAL,
               "P counted at most %s   o not counted %s   free %s of %s", BYTES_TEXT(counted),
               BYTES_TEXT(fmax(0, resident - counted)), BYTES_TEXT(fmax(0, left)), BYTES_TEXT(all));
}

static void draw_tags(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                      struct tui_view_state *state)
{
    const struct an_memory *memory = &model->result->memory;
    (void)state;
    double most = 1;
    int label = area.columns < 60 ? 14 : 26;
    for (size_t i = 0; i < memory->tag_count; i++)
        most = fmax(most, (double)memory->tags[i].peak);
    tui_text(cells, area, 0, 0, TUI_TITLE, "Held now, and at most");
    for (size_t i = 0; i < memory->tag_count && (int)i + 1 < area.rows; i++) {
        const struct an_memory_tag *memory_tag = &memory->tags[i];
        char name[120];
        int row = (int)i + 1;
        snprintf(name, sizeof name, "%.60s%s%.30s", memory_tag->name,
                 memory_tag->device[0] == 'g' ? " " : "",
                 memory_tag->device[0] == 'g' ? memory_tag->device : "");
        tui_text(cells, tui_left(area, label - 1), row, 1, TUI_NORMAL, name);
        tui_text_right(cells, tui_left(area, label + 10), row, TUI_NORMAL,
                       BYTES_TEXT((double)memory_tag->current));
        tui_text_right(cells, tui_left(area, label + 21), row, TUI_DIM,
                       BYTES_TEXT((double)memory_tag->peak));
        tui_bar(cells, area, row, label + 23, area.columns - label - 24,
                (double)memory_tag->peak / most, TUI_DIM);
        tui_bar(cells, area, row, label + 23, area.columns - label - 24,
                (double)memory_tag->current / most, TUI_CLASS + AN_CLASS_COMPUTE);
    }
}

#define OWNERS_MOST 8 /* of one curve: ranks, devices */

/* The curves of the table, of each the largest first; draws them where `r` has rows. Returns how
 * many there are. */
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

static const tui_section words[] = {rep_section_memory, NULL};

static void draw_words(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    if (model->result->memory.reason)
        tui_absent(cells, area, 0, "What the program holds", model->result->memory.reason);
    else
        tui_sections(cells, area, model->result, words, state);
}

static void draw(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                 struct tui_view_state *state)
{
    const struct an_result *result = tui_result(cells, area, model);
    if (!result)
        return;
    const struct an_memory *memory = &result->memory;
    int curve_count = each_curve(cells, (struct tui_rect){0, 0, 0, 0}, 0, model);
    bool capacity =
        !memory->reason && memory->capacity_bytes.valid && memory->capacity_bytes.value > 0;
    struct tui_panel panel[PANELS] = {
        [CAPACITY] = {capacity ? 2 : 0, capacity ? 3 : 0, 100, draw_capacity, {0}},
        [WORDS] = {2,
                   memory->reason ? 4 : tui_sections_rows(cells, area.columns, result, words) + 1,
                   80,
                   draw_words,
                   {0}},
        [TAGS] = {!memory->reason && memory->tag_count ? 3 : 0,
                  !memory->reason && memory->tag_count ? (int)memory->tag_count + 2 : 0,
                  70,
                  draw_tags,
                  {0}},
        [CURVES] = {curve_count ? 2 : 0, curve_count ? curve_count + 1 : 0, 60, draw_curves, {0}},
    };
    tui_panels_draw(cells, area, panel, PANELS, model, state);
}

const struct tui_view tui_view_memory = {
    .key = '7',
    .name = "memory",
    .brief = "mem",
    .help = "what memory is held for, how much is left, whether it grows",
    .draw = draw};

/* SPDX-License-Identifier: Apache-2.0
 *
 * Views that are pages of the report: accelerators, the predicted effect of changes, trust, and
 * the meaning of every number.
 */

#include "reports/sections/sections.h"
#include "tui/screen/draw.h"
#include "tui/views/view_list.h"

/* Draws the sections, or the reason why they are empty. */
static void draw_words(struct tui_cells *cells, struct tui_rect area,
                       const struct an_result *result, const tui_section *sections,
                       struct tui_view_state *state, const char *what, const char *reason)
{
    if (tui_sections_rows(cells, area.columns, result, sections) > 0)
        tui_sections(cells, area, result, sections, state);
    else
        tui_absent(cells, area, 0, what, reason);
}

/* Why the device does not compute, devices, and what the host asks of them. */
static void draw_devices(struct tui_cells *cells, struct tui_rect area,
                         const struct tui_model *model, struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_noncompute, rep_section_devices,
                                        rep_section_host_to_device, NULL};
    const struct an_result *result = tui_result(cells, area, model);
    if (result)
        draw_words(cells, area, result, words, state, "No device data", result->gpu.reason);
}

const struct tui_view tui_view_devices = {
    .key = 'd',
    .name = "devices",
    .brief = "dev",
    .help = "accelerators: non-compute time, launches, copies, precision",
    .texts = true,
    .draw = draw_devices};

/* The predicted effect of changes. */
static void draw_advice(struct tui_cells *cells, struct tui_rect area,
                        const struct tui_model *model, struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_advice, NULL};
    const struct an_result *result = tui_result(cells, area, model);
    if (result)
        draw_words(cells, area, result, words, state, "No replay", result->critical_path.reason);
}

const struct tui_view tui_view_advice = {
    .key = 'a',
    .name = "advice",
    .brief = "adv",
    .help = "what changes would gain: replay of the dependency graph",
    .texts = true,
    .draw = draw_advice};

static void definitions(struct page *page, const struct an_result *result)
{
    (void)result;
    rep_section_definitions(page);
}

/* Repeats what makes the figures of this run doubtful: on the first screen it may be cut. */
static void caution(struct page *page, const struct an_result *result)
{
    if (result->caution)
        page_text(page, 0, result->caution);
}

/* Trust, or after m the definitions. */
static void draw_trust(struct tui_cells *cells, struct tui_rect area, const struct tui_model *model,
                       struct tui_view_state *state)
{
    static const tui_section words[] = {rep_section_header, caution, rep_section_trust, NULL},
                             meanings[] = {definitions, NULL};
    const struct an_result *result = tui_result(cells, area, model);
    if (result)
        tui_sections(cells, area, result, state->mode % 2 ? meanings : words, state);
}

const struct tui_view tui_view_trust = {.key = 'T',
                                        .name = "trust",
                                        .brief = "trust",
                                        .help =
                                            "losses, overhead, missing counters and why, versions",
                                        .keys = "m       the definition of every number\n",
                                        .texts = true,
                                        .draw = draw_trust};

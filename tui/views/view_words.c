/* SPDX-License-Identifier: Apache-2.0
 *
 * Views that are pages of the report: what it says about accelerators, about changes, and why one
 * may believe it; the meaning of every number.
 */
#include <string.h>

#include "reports/text/text.h"
#include "tui/draw.h"
#include "tui/views/views.h"

/* The sections, or why there is nothing to say. */
static void draw_words(struct tui_cells *c, struct tui_rect r, const struct an_result *result,
                       const tui_section *sections, struct tui_view_state *s, const char *what,
                       const char *reason)
{
    if (tui_sections_rows(c, r.columns, result, sections) > 0)
        tui_sections(c, r, result, sections, s);
    else
        tui_absent(c, r, 0, what, reason);
}

static void draw_devices(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                         struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_absent, rep_text_devices, rep_text_host_to_device,
                                        NULL};
    const struct an_result *result = tui_result(c, r, m);
    if (result)
        draw_words(c, r, result, words, s, "No accelerator", result->gpu.reason);
}

const struct tui_view tui_view_devices = {
    .key = 'd',
    .name = "devices",
    .brief = "dev",
    .help = "accelerators: why they do not compute, launches, copies, precision",
    .draw = draw_devices};

static void draw_advice(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                        struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_advice, NULL};
    const struct an_result *result = tui_result(c, r, m);
    if (result)
        draw_words(c, r, result, words, s, "Nothing was replayed", result->critical_path.reason);
}

const struct tui_view tui_view_advice = {
    .key = 'a',
    .name = "advice",
    .brief = "adv",
    .help = "what changes would do: the dependency graph replayed with them",
    .draw = draw_advice};

static void definitions(struct page *p, const struct an_result *r)
{
    (void)r;
    rep_text_definitions(p);
}

/* What makes the run a bad witness: on the first screen it may be cut. */
static void caution(struct page *p, const struct an_result *r)
{
    if (r->caution)
        page_text(p, 0, r->caution);
}

static void draw_trust(struct tui_cells *c, struct tui_rect r, const struct tui_model *m,
                       struct tui_view_state *s)
{
    static const tui_section words[] = {rep_text_header, caution, rep_text_trust, NULL},
                             meanings[] = {definitions, NULL};
    const struct an_result *result = tui_result(c, r, m);
    if (result)
        tui_sections(c, r, result, s->mode % 2 ? meanings : words, s);
}

const struct tui_view tui_view_trust = {
    .key = 'T',
    .name = "trust",
    .brief = "trust",
    .help = "losses, overhead, missing counters and why, versions; what each number means",
    .keys = "m       the definition of every number\n",
    .draw = draw_trust};

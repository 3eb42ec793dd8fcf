/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sections and the order in which every format writes them.
 */
#include "reports/sections/sections.h"

#include <string.h>

#include "reports/page/lines.h"
#include "tacho_error.h"

const struct rep_section rep_sections[] = {
    {"findings", "What to change", rep_section_findings, REP_SHOWN},
    {"budget", "Where a step goes", rep_section_budget, REP_SHOWN},
    {"run", "The run in numbers", rep_section_throughput, REP_SHOWN},
    {NULL, NULL, rep_section_utilization, REP_SHOWN},
    {NULL, NULL, rep_section_phases, REP_SHOWN},
    {NULL, NULL, rep_section_loader, REP_SHOWN},
    {NULL, NULL, rep_section_communication, REP_SHOWN},
    {NULL, NULL, rep_section_series, REP_SHOWN},
    {NULL, NULL, rep_section_system, REP_SHOWN},
    {NULL, NULL, rep_section_hardware, REP_SHOWN},
    {NULL, NULL, rep_section_memory, REP_SHOWN},
    {"cards", "Findings", rep_section_cards, REP_SHOWN},
    {"loader", "Loader of each rank", rep_section_loader_ranks, REP_FOLDED},
    {"critical-path", "Critical path", rep_section_critical_path, REP_SHOWN},
    {"path-step", "Critical path through a step", rep_section_path_step, REP_DRAWN},
    {"advice", "What changes would do", rep_section_advice, REP_FOLDED},
    {"communication", "Communication", rep_section_communication_tables, REP_FOLDED},
    {"devices", "Devices", rep_section_devices, REP_FOLDED},
    {"absent", "Without compute", rep_section_noncompute, REP_SHOWN},
    {"host-to-device", "Between host and device", rep_section_host_to_device, REP_FOLDED},
    {"ops", "Ranges and kernels", rep_section_ops, REP_FOLDED},
    {"stacks", "CPU stacks", rep_section_stacks, REP_FOLDED},
    {"attribution", "What asked for device time", rep_section_attribution, REP_FOLDED},
    {"roofline", "Roofline", rep_section_roofline, REP_SHOWN},
    {"timeline", "Timeline", rep_section_timeline, REP_DRAWN},
    {"steps", "Every step", rep_section_steps, REP_DRAWN},
    {"flame", "Flame graph", rep_section_flame, REP_DRAWN},
    {"heat", "Ranks and steps", rep_section_heat, REP_DRAWN},
    {"compat", "As another tool says it", rep_section_compat, REP_FOLDED},
    {"trust", "Trust", rep_section_trust, REP_SHOWN},
    {NULL, NULL, NULL, REP_SHOWN},
};

static void write_row(struct page *page, const struct an_result *result,
                      const struct rep_section *section)
{
    if (section->id)
        page_section(page, section->id, section->title,
                     section->how == REP_FOLDED ||
                         (section->how == REP_DRAWN && !page->ops->picture));
    section->write(page, result);
}

void rep_sections_write(struct page *page, const struct an_result *result, bool definitions)
{
    bool skip = false;
    rep_section_header(page, result);
    page_blank(page);
    page_title(page, result->verdict);
    page_blank(page);
    if (result->caution) {
        page_text(page, 0, result->caution);
        page_blank(page);
    }
    for (const struct rep_section *section = rep_sections; section->write; section++) {
        skip = section->id ? section->how == REP_DRAWN && page->ops == &page_lines : skip;
        if (!skip)
            write_row(page, result, section);
    }
    if (definitions) {
        page_section(page, "definitions", "Definitions", true);
        rep_section_definitions(page);
    }
}

int rep_sections_write_one(struct page *page, const struct an_result *result, const char *id)
{
    const struct rep_section *section = rep_sections;
    while (section->write && (!section->id || strcmp(section->id, id) != 0))
        section++;
    if (!section->write)
        return TACHO_EUSAGE;
    do
        write_row(page, result, section++);
    while (section->write && !section->id);
    return 0;
}

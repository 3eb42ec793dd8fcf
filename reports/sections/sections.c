/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sections and the order in which every format writes them.
 */
#include "reports/sections/sections.h"

#include <string.h>

#include "reports/page/lines.h"
#include "tacho_error.h"

enum how {
    SHOWN,
    FOLDED, /* long: formats that fold do */
    DRAWN   /* a picture with its table: not on lines, unless asked for */
};

static const struct section {
    const char *id;    /* of the heading, unique; NULL: continues the section above */
    const char *title; /* the heading, in formats that have some */
    rep_section *write;
    enum how how;
} sections[] = {
    {"findings", "All findings", rep_section_findings, FOLDED},
    {"budget", "Where a step goes", rep_section_budget, SHOWN},
    {"timeline", "Timeline", rep_section_timeline, DRAWN},
    {"over-time", "Over time", rep_section_over_time, DRAWN},
    {"run", "The run in numbers", rep_section_throughput, SHOWN},
    {NULL, NULL, rep_section_utilization, SHOWN},
    {NULL, NULL, rep_section_phases, SHOWN},
    {NULL, NULL, rep_section_loader, SHOWN},
    {NULL, NULL, rep_section_communication, SHOWN},
    {NULL, NULL, rep_section_series, SHOWN},
    {NULL, NULL, rep_section_system, SHOWN},
    {NULL, NULL, rep_section_hardware, SHOWN},
    {NULL, NULL, rep_section_memory, SHOWN},
    {NULL, NULL, rep_section_allocator, SHOWN},
    {NULL, NULL, rep_section_flight, SHOWN},
    {"cards", "Findings", rep_section_cards, SHOWN},
    {"loader", "Loader of each rank", rep_section_loader_ranks, FOLDED},
    {"critical-path", "Critical path", rep_section_critical_path, SHOWN},
    {"path-step", "Critical path through a step", rep_section_path_step, DRAWN},
    {"advice", "What changes would do", rep_section_advice, FOLDED},
    {"communication", "Communication", rep_section_communication_tables, FOLDED},
    {"traffic", "Who sends to whom", rep_section_traffic, FOLDED},
    {"ranks", "Ranks", rep_section_ranks, FOLDED},
    {"heat", "Ranks and steps", rep_section_heat, DRAWN},
    {"devices", "Devices", rep_section_devices, FOLDED},
    {"absent", "Non-compute time", rep_section_noncompute, SHOWN},
    {"host-to-device", "Host and device", rep_section_host_to_device, FOLDED},
    {"ops", "Ranges and kernels", rep_section_ops, FOLDED},
    {"modules", "Modules", rep_section_modules, FOLDED},
    {"stacks", "CPU stacks", rep_section_stacks, FOLDED},
    {"python", "Python", rep_section_python, FOLDED},
    {"attribution", "GPU time by operator", rep_section_attribution, FOLDED},
    {"roofline", "Roofline", rep_section_roofline, SHOWN},
    {"dataflow", "Operators as a graph", rep_section_dataflow, FOLDED},
    {"steps", "Every step", rep_section_steps, DRAWN},
    {"flame", "Flame graph", rep_section_flame, DRAWN},
    {"compat", "Figures of other tools", rep_section_compat, FOLDED},
    {"trust", "Trust", rep_section_trust, SHOWN},
    {NULL, NULL, NULL, SHOWN},
};

/* The ids of a list with commas, one a call: its length, and *list behind it; 0 at the end. */
static size_t next_id(const char **list, const char **id)
{
    *id = *list + strspn(*list, ",");
    size_t length = strcspn(*id, ",");
    *list = *id + length;
    return length;
}

static bool listed(const char *list, const char *wanted)
{
    const char *id;
    for (size_t length; (length = next_id(&list, &id)) > 0;)
        if (length == strlen(wanted) && !strncmp(id, wanted, length))
            return true;
    return false;
}

static bool is_section(const char *id, size_t length)
{
    for (const struct section *section = sections; section->write; section++)
        if (section->id && strlen(section->id) == length && !strncmp(section->id, id, length))
            return true;
    return false;
}

const char *rep_sections_unknown(const char *list, size_t *length)
{
    const char *id;
    while ((*length = next_id(&list, &id)) > 0)
        if (!is_section(id, *length))
            return id;
    return NULL;
}

const char *rep_sections_id(size_t index)
{
    for (const struct section *section = sections; section->write; section++)
        if (section->id && !index--)
            return section->id;
    return NULL;
}

/* Pictures are not for lines, unless a list asks for them. */
static bool skipped(const struct page *page, const struct section *section)
{
    if (page->sections)
        return !listed(page->sections, section->id);
    return section->how == DRAWN && page->ops == &page_lines;
}

static void write_row(struct page *page, const struct an_result *result,
                      const struct section *section)
{
    if (section->id)
        page_section(page, section->id, section->title,
                     section->how == FOLDED || (section->how == DRAWN && !page->ops->picture));
    section->write(page, result);
}

/* What ran, the verdict, and what makes the run a bad witness. */
static void write_verdict(struct page *page, const struct an_result *result)
{
    page_blank(page);
    page_title(page, result->verdict);
    page_blank(page);
    if (result->caution) {
        page_text(page, 0, result->caution);
        page_blank(page);
    }
}

/* A row without an id continues the section above it, so it is skipped with it. */
static void write_sections(struct page *page, const struct an_result *result, bool definitions)
{
    bool skip = false;
    for (const struct section *section = sections; section->write; section++) {
        skip = section->id ? skipped(page, section) : skip;
        if (!skip)
            write_row(page, result, section);
    }
    if (page->ops == &page_lines && !page->sections) { /* the last thing on the screen */
        page_blank(page);
        page_title(page, result->verdict);
    }
    if (definitions && !page->sections) {
        page_section(page, "definitions", "Definitions", true);
        rep_section_definitions(page);
    }
}

/* Lines of a terminal have the first screen as a report of its own; other formats begin with it. */
void rep_sections_write(struct page *page, const struct an_result *result, bool definitions)
{
    page->missing = result->trust.missing;
    if (page->explain) {
        rep_section_header(page, result);
        rep_section_card(page, result, page->explain);
    } else if (page->ops == &page_lines || page->sections) {
        rep_section_header(page, result);
        write_verdict(page, result);
        write_sections(page, result, definitions);
    } else {
        rep_section_summary(page, result, REP_DETAIL_MOST);
        write_sections(page, result, definitions);
    }
}

int rep_sections_write_one(struct page *page, const struct an_result *result, const char *id)
{
    const struct section *section = sections;
    while (section->write && (!section->id || strcmp(section->id, id) != 0))
        section++;
    if (!section->write)
        return TACHO_EUSAGE;
    page->missing = result->trust.missing;
    do
        write_row(page, result, section++);
    while (section->write && !section->id);
    return 0;
}

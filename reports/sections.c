/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/sections.h"

#include "reports/text.h"

const struct rep_section rep_sections[] = {
    {"findings", "What to change", rep_text_findings},
    {"budget", "Where a step goes", rep_text_budget},
    {"run", "The run in numbers", rep_text_throughput},
    {NULL, NULL, rep_text_utilization},
    {NULL, NULL, rep_text_phases},
    {NULL, NULL, rep_text_loader},
    {NULL, NULL, rep_text_communication},
    {NULL, NULL, rep_text_series},
    {NULL, NULL, rep_text_system},
    {NULL, NULL, rep_text_hardware},
    {NULL, NULL, rep_text_memory},
    {"cards", "Findings", rep_text_cards},
    {"loader", "Loader of each rank", rep_text_loader_ranks},
    {"communication", "Communication", rep_text_communication_tables},
    {"devices", "Devices", rep_text_devices},
    {"host-to-device", "Between host and device", rep_text_host_to_device},
    {"ops", "Ranges and kernels", rep_text_ops},
    {"attribution", "What asked for device time", rep_text_attribution},
    {"roofline", "Roofline", rep_text_roofline},
    {"compat", "As another tool says it", rep_text_compat},
    {"trust", "Trust", rep_text_trust},
    {NULL, NULL, NULL},
};

void rep_sections_write(struct page *p, const struct an_result *r, bool definitions)
{
    rep_text_header(p, r);
    page_blank(p);
    page_head(p, r->verdict);
    page_blank(p);
    for (const struct rep_section *s = rep_sections; s->write; s++)
        s->write(p, r);
    if (definitions)
        rep_text_definitions(p);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what the program counts, its peak, what is left of the machine, and whether it grows.
 */
#include <inttypes.h>

#include "reports/sections/sections.h"

#define TAGS_MOST 8

static void count_item(struct page *page, const char *name, struct an_count bytes)
{
    char a[32];
    if (bytes.valid)
        page_item(page, "%s %s", name, page_bytes(a, (double)bytes.value));
}

static void growth_item(struct page *page, const char *what, const struct an_growth *growth)
{
    char a[32], b[32], c[32];
    if (growth->grows)
        page_item(page, "%s grows by %s a step [%s, %s], steps %" PRId64 "-%" PRId64, what,
                  page_bytes(a, growth->bytes_per_step.value), page_bytes(b, growth->low.value),
                  page_bytes(c, growth->high.value), growth->first_step, growth->last_step);
}

static void tags(struct page *page, const struct an_memory *memory)
{
    char a[32];
    page_label(page, "Held");
    for (size_t i = 0; i < memory->tag_count && i < TAGS_MOST; i++) {
        const struct an_memory_tag *memory_tag = &memory->tags[i];
        const char *device = memory_tag->device[0] == 'g' ? memory_tag->device : "";
        if (memory_tag->share_pct.valid)
            page_item(page, "%.40s%s%.20s %s (%.0f %%)", memory_tag->name, *device ? " " : "",
                      device, page_bytes(a, (double)memory_tag->current),
                      memory_tag->share_pct.value);
        else
            page_item(page, "%.40s%s%.20s at most %s", memory_tag->name, *device ? " " : "", device,
                      page_bytes(a, (double)memory_tag->peak));
    }
    if (memory->tag_count > TAGS_MOST)
        page_item(page, "%zu more", memory->tag_count - TAGS_MOST);
    page_end(page);
}

void rep_section_memory(struct page *page, const struct an_result *result)
{
    const struct an_memory *memory = &result->memory;
    char a[32];
    if (memory->reason)
        return;
    page_label(page, "Memory");
    count_item(page, "counted at most", memory->peak_bytes);
    if (memory->processes > 1 && memory->rank_peak_bytes.valid)
        page_item(page, "%" PRId64 " processes, the largest %s", memory->processes,
                  page_bytes(a, (double)memory->rank_peak_bytes.value));
    count_item(page, "not counted", memory->uncounted_bytes);
    if (memory->room_bytes.valid && memory->capacity_bytes.valid) {
        char b[32];
        page_item(page, "room for %s more of %s", page_bytes(a, (double)memory->room_bytes.value),
                  page_bytes(b, (double)memory->capacity_bytes.value));
    }
    growth_item(page, "what is counted", &memory->growth);
    growth_item(page, "the resident set", &memory->resident_growth);
    page_end(page);
    if (memory->tag_count)
        tags(page, memory);
}

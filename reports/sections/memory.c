/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what the program tracks, its peak, what is left of the machine, and whether it grows.
 */
#include <inttypes.h>
#include <stdio.h>

#include "reports/sections/sections.h"

#define TAGS_MOST 8

static void count_item(struct page *page, const char *name, struct an_count bytes)
{
    if (bytes.valid)
        page_item(page, "%s %s", name, BYTES_TEXT((double)bytes.value));
}

/* Worth an item only where growth is more than noise. */
static void growth_item(struct page *page, const char *what, const struct an_growth *growth)
{
    if (growth->grows)
        page_item(page, "%s grows by %s a step [%s, %s], steps %" PRId64 "-%" PRId64, what,
                  BYTES_TEXT(growth->bytes_per_step.value), BYTES_TEXT(growth->low.value),
                  BYTES_TEXT(growth->high.value), growth->first_step, growth->last_step);
}

/* Memory by category, the largest first; of categories whose present size is unknown the peak. */
static void tags(struct page *page, const struct an_memory *memory)
{
    page_label(page, "  by category");
    for (size_t i = 0; i < memory->tag_count && i < TAGS_MOST; i++) {
        const struct an_memory_tag *tag = &memory->tags[i];
        const char *device = tag->device[0] == 'g' ? tag->device : "";
        if (tag->share_pct.valid)
            page_item(page, "%.40s%s%.20s %s (%.0f %%)", tag->name, *device ? " " : "", device,
                      BYTES_TEXT((double)tag->current), tag->share_pct.value);
        else
            page_item(page, "%.40s%s%.20s at most %s", tag->name, *device ? " " : "", device,
                      BYTES_TEXT((double)tag->peak));
    }
    if (memory->tag_count > TAGS_MOST)
        page_item(page, "%zu more", memory->tag_count - TAGS_MOST);
    page_end(page);
}

void rep_section_memory(struct page *page, const struct an_result *result)
{
    const struct an_memory *memory = &result->memory;
    if (memory->reason)
        return;
    page_label(page, "Memory");
    count_item(page, "tracked, at most", memory->peak_bytes);
    if (memory->processes > 1 && memory->rank_peak_bytes.valid)
        page_item(page, "%" PRId64 " processes, the largest %s", memory->processes,
                  BYTES_TEXT((double)memory->rank_peak_bytes.value));
    count_item(page, "untracked", memory->uncounted_bytes);
    if (memory->room_bytes.valid && memory->capacity_bytes.valid) {
        char where[32] = "";
        if (memory->room_device)
            snprintf(where, sizeof where, " on %.20s", memory->room_device);
        page_item(page, "headroom %s of %s%s", BYTES_TEXT((double)memory->room_bytes.value),
                  BYTES_TEXT((double)memory->capacity_bytes.value), where);
    }
    growth_item(page, "tracked memory", &memory->growth);
    growth_item(page, "resident set", &memory->resident_growth);
    page_end(page);
    if (memory->tag_count)
        tags(page, memory);
}

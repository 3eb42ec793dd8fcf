/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: what the program counts, its peak, what is left of the machine, and whether it grows.
 */
#include <inttypes.h>

#include "reports/text/text.h"

#define TAGS_MOST 8

static void count_item(struct page *p, const char *name, struct an_count bytes)
{
    char a[32];
    if (bytes.valid)
        page_item(p, "%s %s", name, page_bytes(a, (double)bytes.value));
}

static void growth_item(struct page *p, const char *what, const struct an_growth *g)
{
    char a[32], b[32], c[32];
    if (g->grows)
        page_item(p, "%s grows by %s a step [%s, %s], steps %" PRId64 "-%" PRId64, what,
                  page_bytes(a, g->bytes_per_step.value), page_bytes(b, g->low.value),
                  page_bytes(c, g->high.value), g->first_step, g->last_step);
}

static void tags(struct page *p, const struct an_memory *m)
{
    char a[32];
    page_label(p, "Held");
    for (size_t i = 0; i < m->tag_count && i < TAGS_MOST; i++) {
        const struct an_memory_tag *t = &m->tags[i];
        const char *device = t->device[0] == 'g' ? t->device : "";
        if (t->share_pct.valid)
            page_item(p, "%.40s%s%.20s %s (%.0f %%)", t->name, *device ? " " : "", device,
                      page_bytes(a, (double)t->current), t->share_pct.value);
        else
            page_item(p, "%.40s%s%.20s at most %s", t->name, *device ? " " : "", device,
                      page_bytes(a, (double)t->peak));
    }
    if (m->tag_count > TAGS_MOST)
        page_item(p, "%zu more", m->tag_count - TAGS_MOST);
    page_end(p);
}

void rep_text_memory(struct page *p, const struct an_result *r)
{
    const struct an_memory *m = &r->memory;
    char a[32];
    if (m->reason)
        return;
    page_label(p, "Memory");
    count_item(p, "counted at most", m->peak_bytes);
    if (m->processes > 1 && m->rank_peak_bytes.valid)
        page_item(p, "%" PRId64 " processes, the largest %s", m->processes,
                  page_bytes(a, (double)m->rank_peak_bytes.value));
    count_item(p, "not counted", m->uncounted_bytes);
    if (m->room_bytes.valid && m->capacity_bytes.valid) {
        char b[32];
        page_item(p, "room for %s more of %s", page_bytes(a, (double)m->room_bytes.value),
                  page_bytes(b, (double)m->capacity_bytes.value));
    }
    growth_item(p, "what is counted", &m->growth);
    growth_item(p, "the resident set", &m->resident_growth);
    page_end(p);
    if (m->tag_count)
        tags(p, m);
}

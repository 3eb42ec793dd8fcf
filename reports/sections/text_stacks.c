/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the sampled call stacks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/table.h"
#include "reports/text/text.h"
#include "reports/words/kernel_name.h"

static void name(char b[REP_NAME], const void *row)
{
    rep_kernel_name(b, REP_NAME, ((const struct an_function *)row)->name);
}

static void self_share(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_function *)row)->self_pct.value);
}

static void total_share(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%.1f", ((const struct an_function *)row)->total_pct.value);
}

static void self_samples(char b[REP_CELL], const void *row)
{
    snprintf(b, REP_CELL, "%" PRId64, ((const struct an_function *)row)->self);
}

void rep_text_stacks(struct page *p, const struct an_result *r)
{
    static const struct rep_column columns[] = {{"self %", 8, self_share},
                                                {"with callees %", 16, total_share},
                                                {"samples", 9, self_samples}};
    const struct an_stack_samples *s = &r->stacks;
    char title[160], b[32];
    if (s->reason || !s->samples.valid)
        return;
    if (s->cpu_s.valid)
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples, %s)",
                 s->samples.value, page_time(b, s->cpu_s.value * 1e9));
    else
        snprintf(title, sizeof title, "Functions, by CPU time (%" PRId64 " samples)",
                 s->samples.value);
    struct rep_table t = {.title = title,
                          .name = name,
                          .column = columns,
                          .columns = sizeof columns / sizeof *columns,
                          .rows = s->function,
                          .size = sizeof *s->function,
                          .count = s->function_count};
    page_picture(p, PAGE_STACKS, r);
    rep_table_write(p, &t);
    if (s->kernel && *s->kernel && strncmp(s->kernel, "sampled", 7) != 0)
        page_text(p, 0, s->kernel);
}
